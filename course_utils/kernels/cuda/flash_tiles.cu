// FlashAttention's forward pass: tiles in shared memory, ordinary arithmetic in float32.
//
// Lesson 07's flash_queries_outside, as one thread block runs it: block_q queries stay on chip, and
// the keys and values come by in tiles of block_k. New is only who does what. The block has 256
// threads, 16 x 16: sixteen of them, half a warp, share a few queries, and each has every 16th
// column of what belongs to these: scores first, then output. What concerns a whole row they ask
// each other.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "masks.cuh"
#include "start.cuh"

constexpr int threads = 256;

template <int D>
struct SRAM {  // what the block has in shared memory
    static constexpr int block_q = 4096 / D, block_k = 32;
    // A row has one number more than is used. With rows D apart, the numbers that 16 threads read
    // at once, of 16 keys, would lie in one bank of the memory, and be read one after the other.
    float q[block_q][D + 1];
    float k[block_k][D + 1];
    float v[block_k][D];
    float p[block_q][block_k + 1];
};

// Rows of a matrix in HBM, as float32. Rows that it does not have become zeros.
template <int D, int rows, int columns, typename Element>
__device__ void load(float (&tile)[rows][columns], const Element* source, int rows_there) {
    for (int i = threadIdx.x; i < rows * D; i += threads)
        tile[i / D][i % D] = i / D < rows_there ? float(source[i]) : 0.0f;
}

// Over the 16 threads that share a row. After four exchanges each of them has the result.
__device__ float max_of_row(float x) {
    for (int away = 8; away > 0; away /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, away));
    return x;
}

__device__ float sum_of_row(float x) {
    for (int away = 8; away > 0; away /= 2) x += __shfl_xor_sync(~0u, x, away);
    return x;
}

// Q, O: (heads, n_queries, D); K, V: (heads, n_keys, D); logsumexp: (heads, n_queries); all in HBM.
// 4 blocks may share a multiprocessor and its registers: while one waits for a load, others work.
template <typename Element, int D>
__global__ void __launch_bounds__(threads, 4)
flash_tiles(const Element* Q, const Element* K, const Element* V, Element* O, float* logsumexp,
            int n_queries, int n_keys, float scale, bool causal) {
    constexpr int block_q = SRAM<D>::block_q, block_k = SRAM<D>::block_k;
    constexpr int rows = block_q / 16, keys = block_k / 16, columns = D / 16;  // of one thread
    extern __shared__ char shared[];
    SRAM<D>& sram = *reinterpret_cast<SRAM<D>*>(shared);

    const size_t head = blockIdx.x;
    const int block = gridDim.y - 1 - blockIdx.y;  // causal: the last has most to do, starts first
    const int first_query = block * block_q;
    const int last_query = min(first_query + block_q, n_queries) - 1;
    const int row = threadIdx.x / 16 * rows;  // this thread's first
    const int column = threadIdx.x % 16;      // this thread's first; the others are 16 apart
    Q += (head * n_queries + first_query) * D;
    O += (head * n_queries + first_query) * D;
    K += head * n_keys * D;
    V += head * n_keys * D;
    logsumexp += head * n_queries + first_query;

    load<D>(sram.q, Q, n_queries - first_query);
    float o[rows][columns] = {}, row_sum[rows] = {}, row_max[rows];
    for (int r = 0; r < rows; ++r) row_max[r] = -INFINITY;

    // Blocks of keys that none of these queries sees are not loaded.
    const int keys_needed = keys_seen_by(last_query, n_queries, n_keys, causal);
    for (int first_key = 0; first_key < keys_needed; first_key += block_k) {
        __syncthreads();  // every thread has done with the tiles before
        load<D>(sram.k, K + size_t(first_key) * D, n_keys - first_key);
        load<D>(sram.v, V + size_t(first_key) * D, n_keys - first_key);
        __syncthreads();  // the tiles are there

        float s[rows][keys] = {};  // s = q k^T, this thread's part of (block_q, block_k)
        for (int i = 0; i < D; ++i)
            for (int r = 0; r < rows; ++r)
                for (int c = 0; c < keys; ++c)
                    s[r][c] += sram.q[row + r][i] * sram.k[column + 16 * c][i];

        for (int r = 0; r < rows; ++r) {
            const int seen = keys_seen_by(first_query + row + r, n_queries, n_keys, causal);
            float new_max = row_max[r];
            for (int c = 0; c < keys; ++c) {
                s[r][c] = first_key + column + 16 * c < seen ? scale * s[r][c] : -INFINITY;
                new_max = fmaxf(new_max, s[r][c]);
            }
            new_max = max_of_row(new_max);
            const float base = new_max == -INFINITY ? 0.0f : new_max;  // -inf - -inf would be nan
            const float alpha = expf(row_max[r] - base);
            float sum = 0.0f;
            for (int c = 0; c < keys; ++c) {
                const float p = expf(s[r][c] - base);
                sram.p[row + r][column + 16 * c] = p;
                sum += p;
            }
            row_sum[r] = alpha * row_sum[r] + sum_of_row(sum);
            for (int c = 0; c < columns; ++c) o[r][c] *= alpha;
            row_max[r] = new_max;
        }
        __syncwarp();  // a row of p is read by the half warp that wrote it, and by nobody else

        for (int j = 0; j < block_k; ++j)  // o += p v
            for (int r = 0; r < rows; ++r)
                for (int c = 0; c < columns; ++c)
                    o[r][c] += sram.p[row + r][j] * sram.v[j][column + 16 * c];
    }

    for (int r = 0; r < rows && first_query + row + r < n_queries; ++r) {
        const float divisor = row_sum[r] == 0.0f ? 1.0f : row_sum[r];  // saw nothing: output 0
        for (int c = 0; c < columns; ++c)
            O[(row + r) * D + column + 16 * c] = Element(o[r][c] / divisor);
        if (column == 0) logsumexp[row + r] = row_max[r] + logf(divisor);
    }
}

template <typename Element, int D>
cudaError_t launch_for(const Attention& a, cudaStream_t stream) {
    return start<SRAM<D>>(flash_tiles<Element, D>, threads, a, stream);
}

cudaError_t launch(const Attention& a, cudaStream_t stream) {
    if (a.d != 64 && a.d != 128) return cudaErrorInvalidValue;
    const bool wide = a.d == 128;
    if (a.dtype == Dtype::float32)
        return wide ? launch_for<float, 128>(a, stream) : launch_for<float, 64>(a, stream);
    if (a.dtype == Dtype::float16)
        return wide ? launch_for<__half, 128>(a, stream) : launch_for<__half, 64>(a, stream);
    return wide ? launch_for<__nv_bfloat16, 128>(a, stream)
                : launch_for<__nv_bfloat16, 64>(a, stream);
}

int shared_bytes(Dtype, int d) { return d == 64 ? sizeof(SRAM<64>) : sizeof(SRAM<128>); }
