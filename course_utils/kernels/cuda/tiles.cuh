// Tiles of Q, K and V in shared memory, and the products of which they are the operands.
#pragma once

#include "tensor_cores.cuh"

// (rows, D) elements of 2 bytes, in chunks of 16: what one copy brings, and one row of ldmatrix.
//
// ldmatrix reads eight chunks at a time, one below the other. In a plain layout they are D * 2
// bytes apart, a multiple of 128, so all eight lie in the same four of the 32 banks, and are read
// one after the other. Hence the swizzle: chunk c of row r is stored at place c ^ (r % 8) of its
// row. Then the eight lie in different banks; and so do eight neighbours in a row, when written.
template <typename Element, int rows, int D>
struct Tile {
    Element elements[rows * D];

    __device__ Element* at(int row, int column) {  // column: a multiple of 8
        return elements + row * D + ((column / 8) ^ (row % 8)) * 8;
    }
};

// Starts to load a tile. Rows that the matrix in HBM does not have become zeros: what else lies
// there could be nan, and a p of 0 times nan is nan.
template <int threads, typename Element, int rows, int D>
__device__ void load_tile(Tile<Element, rows, D>& tile, const Element* source, int rows_there) {
    constexpr int chunks = D / 8;  // of a row; neighbouring threads copy neighbouring ones
#pragma unroll
    for (int i = threadIdx.x; i < rows * chunks; i += threads) {
        const int row = i / chunks, column = i % chunks * 8;
        const bool is_there = row < rows_there;
        start_copy(tile.at(row, column), source + (is_there ? row * D + column : 0), is_there);
    }
}

// q: the left operand of (16, D), as D / 16 pieces of (16, 16). The four matrices of a piece: upper
// left, lower left, upper right, lower right.
template <typename Element, int rows, int D>
__device__ void load_queries(unsigned (&q)[D / 16][4], Tile<Element, rows, D>& tile, int row) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < D; i += 16)
        load_matrices(q[i / 16], tile.at(row + lane % 16, i + lane / 16 * 8));
}

// s += q k^T: (16, D) times (D, block_k). mma wants columns of the right operand, K^T: rows of K.
template <typename Element, int block_k, int D>
__device__ void multiply_scores(float (&s)[block_k / 8][4], const unsigned (&q)[D / 16][4],
                                Tile<Element, block_k, D>& k_tile) {
    const int lane = threadIdx.x % 32;
    const int row = lane % 8 + lane / 16 * 8, column = lane / 8 % 2 * 8;
#pragma unroll
    for (int i = 0; i < D; i += 16)
#pragma unroll
        for (int key = 0; key < block_k; key += 16) {
            unsigned k[4];  // 0 and 1: the first 8 keys; 2 and 3: the other 8
            load_matrices(k, k_tile.at(key + row, i + column));
            mma<Element>(s[key / 8], q[i / 16], k[0], k[1]);
            mma<Element>(s[key / 8 + 1], q[i / 16], k[2], k[3]);
        }
}

// o += p v: (16, block_k) times (block_k, D). P never leaves the registers: what a lane has of two
// accumulators of S, side by side, is what it must have of a left operand of (16, 16).
template <typename Element, int block_k, int D>
__device__ void multiply_values(float (&o)[D / 8][4], const float (&p)[block_k / 8][4],
                                Tile<Element, block_k, D>& v_tile) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int key = 0; key < block_k; key += 16) {
        unsigned piece[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float(&accumulator)[4] = p[key / 8 + i / 2];
            piece[i] = pack<Element>(accumulator[i % 2 * 2], accumulator[i % 2 * 2 + 1]);
        }
#pragma unroll
        for (int column = 0; column < D; column += 16) {
            unsigned v[4];  // 0 and 1: the first 8 columns of V; 2 and 3: the other 8
            load_matrices_transposed(v, v_tile.at(key + lane % 16, column + lane / 16 * 8));
            mma<Element>(o[column / 8], piece, v[0], v[1]);
            mma<Element>(o[column / 8 + 1], piece, v[2], v[3]);
        }
    }
}
