// What the softmax does to rows of scores, where tensor cores leave them: in accumulators.
//
// A warp has 16 rows. A row is shared by four lanes, which are neighbours, and each lane has its
// part of two rows, eight apart: its `half` 0 and 1. Of an accumulator's four floats the first two
// belong to half 0, the others to half 1 (see tensor_cores.cuh).
#pragma once

#include "tensor_cores.cuh"

// Scores of keys that a row does not see become -inf. seen: how many each of the two rows sees.
template <int tiles>
__device__ void hide(float (&s)[tiles][4], int first_key, const int (&seen)[2]) {
    const int key = first_key + threadIdx.x % 4 * 2;  // this lane's first
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (key + 8 * tile + i % 2 >= seen[i / 2]) s[tile][i] = -INFINITY;
}

// The largest of row_max and the row's scores. All four lanes get it.
template <int tiles>
__device__ float max_of_row(const float (&s)[tiles][4], int half, float row_max) {
    float largest = row_max;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
        largest = fmaxf(largest, fmaxf(s[tile][2 * half], s[tile][2 * half + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    return fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
}

__device__ inline float sum_of_row(float part) {
    part += __shfl_xor_sync(~0u, part, 1);
    return part + __shfl_xor_sync(~0u, part, 2);
}

// s becomes p = 2^(s - base). Returns the sum of this lane's part of the row.
template <int tiles>
__device__ float exponentiate(float (&s)[tiles][4], int half, float base) {
    float sum = 0.0f;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
            s[tile][i] = fast_exp2(s[tile][i] - base);
            sum += s[tile][i];
        }
    return sum;
}

template <int tiles>
__device__ void rescale(float (&rows)[tiles][4], int half, float factor) {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
        rows[tile][2 * half] *= factor;
        rows[tile][2 * half + 1] *= factor;
    }
}

// This lane's part of a row to HBM, two neighbours at a time.
template <typename Element, int tiles>
__device__ void store_row(Element* row, const float (&o)[tiles][4], int half) {
    const int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
        *reinterpret_cast<unsigned*>(row + 8 * tile + column) =
            pack<Element>(o[tile][2 * half], o[tile][2 * half + 1]);
}
