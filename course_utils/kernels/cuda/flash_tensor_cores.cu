// FlashAttention's forward pass on tensor cores: flash_tiles.cu, with both products done by mma.
//
// The steps and their order are the same. New since flash_tiles.cu:
//   - a warp works for 16 queries of its own, and its parts of q, s, p and o stay in registers;
//   - the next tiles of K and V are under way while these are worked on: two of each, in turn;
//   - scores are in base 2: 2^x is one instruction, and e^x = 2^(x log2 e);
//   - row_sum is the sum of this lane's part of the row; the parts are added once, at the end.
// tensor_cores.cuh has the instructions, tiles.cuh the products, rows.cuh the steps of the softmax.
#include "masks.cuh"
#include "rows.cuh"
#include "start.cuh"
#include "tiles.cuh"

template <typename Element, int D>
struct SRAM {  // what a thread block has in shared memory
    static constexpr int block_q = 64, block_k = 64;
    static constexpr int threads = block_q / 16 * 32;
    Tile<Element, block_q, D> q;
    Tile<Element, block_k, D> k[2], v[2];
};

// Q, O: (heads, n_queries, D); K, V: (heads, n_keys, D); logsumexp: (heads, n_queries); all in HBM.
// At least 2 blocks share a multiprocessor: one multiplies while the other is at its softmax.
template <typename Element, int D>
__global__ void __launch_bounds__(SRAM<Element, D>::threads, 2)
flash_tensor_cores(const Element* Q, const Element* K, const Element* V, Element* O,
                   float* logsumexp, int n_queries, int n_keys, float scale, bool causal) {
    using Sram = SRAM<Element, D>;
    constexpr int block_q = Sram::block_q, block_k = Sram::block_k, threads = Sram::threads;
    constexpr float log2_e = 1.44269504f;
    extern __shared__ __align__(128) char shared[];
    Sram& sram = *reinterpret_cast<Sram*>(shared);

    const size_t head = blockIdx.x;
    const int block = gridDim.y - 1 - blockIdx.y;  // causal: the last has most to do, starts first
    const int first_query = block * block_q;
    const int last_query = min(first_query + block_q, n_queries) - 1;
    const int warp_row = threadIdx.x / 32 * 16;       // the warp's first row in the block
    const int row = warp_row + threadIdx.x % 32 / 4;  // this lane's first; its other is 8 below
    Q += (head * n_queries + first_query) * D;
    O += (head * n_queries + first_query) * D;
    K += head * n_keys * D;
    V += head * n_keys * D;
    logsumexp += head * n_queries + first_query;

    load_tile<threads>(sram.q, Q, n_queries - first_query);
    load_tile<threads>(sram.k[0], K, n_keys);
    load_tile<threads>(sram.v[0], V, n_keys);
    wait_for_copies();
    __syncthreads();
    unsigned q[D / 16][4];
    load_queries(q, sram.q, warp_row);
    float o[D / 8][4] = {}, row_sum[2] = {}, row_max[2] = {-INFINITY, -INFINITY};

    // How many keys this lane's two rows see; and how many every row of the warp sees at least.
    const int seen[2] = {keys_seen_by(first_query + row, n_queries, n_keys, causal),
                         keys_seen_by(first_query + row + 8, n_queries, n_keys, causal)};
    const int seen_by_all = keys_seen_by(first_query + warp_row, n_queries, n_keys, causal);
    // Blocks of keys that none of these queries sees are not loaded.
    const int keys_needed = keys_seen_by(last_query, n_queries, n_keys, causal);
    int now = 0;  // which of the two tiles
    for (int first_key = 0; first_key < keys_needed; first_key += block_k, now ^= 1) {
        wait_for_copies();
        __syncthreads();  // these tiles are there, and every warp has done with the ones before
        const int next_key = first_key + block_k;
        if (next_key < keys_needed) {
            load_tile<threads>(sram.k[now ^ 1], K + size_t(next_key) * D, n_keys - next_key);
            load_tile<threads>(sram.v[now ^ 1], V + size_t(next_key) * D, n_keys - next_key);
        }

        float s[block_k / 8][4] = {};
        multiply_scores(s, q, sram.k[now]);  // s = q k^T
        for (int half = 0; half < 2; ++half) rescale(s, half, scale * log2_e);
        if (next_key > seen_by_all) hide(s, first_key, seen);  // only at the edge of what is seen

        for (int half = 0; half < 2; ++half) {
            const float new_max = max_of_row(s, half, row_max[half]);
            const float base = new_max == -INFINITY ? 0.0f : new_max;  // -inf - -inf would be nan
            const float alpha = fast_exp2(row_max[half] - base);
            row_sum[half] = alpha * row_sum[half] + exponentiate(s, half, base);  // s is p now
            rescale(o, half, alpha);
            row_max[half] = new_max;
        }
        multiply_values(o, s, sram.v[now]);  // o += p v
    }

    for (int half = 0; half < 2; ++half) {
        const float sum = sum_of_row(row_sum[half]);
        const float divisor = sum == 0.0f ? 1.0f : sum;  // a row that saw nothing is 0
        rescale(o, half, 1.0f / divisor);
        if (first_query + row + 8 * half < n_queries) {
            store_row(O + (row + 8 * half) * D, o, half);
            if (threadIdx.x % 4 == 0)
                logsumexp[row + 8 * half] = (row_max[half] + log2f(divisor)) / log2_e;
        }
    }
}

template <typename Element, int D>
cudaError_t launch_for(const Attention& a, cudaStream_t stream) {
    using Sram = SRAM<Element, D>;
    return start<Sram>(flash_tensor_cores<Element, D>, Sram::threads, a, stream);
}

cudaError_t launch(const Attention& a, cudaStream_t stream) {
    if ((a.d != 64 && a.d != 128) || a.dtype == Dtype::float32) return cudaErrorInvalidValue;
    const bool wide = a.d == 128;
    if (a.dtype == Dtype::float16)
        return wide ? launch_for<__half, 128>(a, stream) : launch_for<__half, 64>(a, stream);
    return wide ? launch_for<__nv_bfloat16, 128>(a, stream)
                : launch_for<__nv_bfloat16, 64>(a, stream);
}

int shared_bytes(Dtype, int d) {
    return d == 64 ? sizeof(SRAM<__half, 64>) : sizeof(SRAM<__half, 128>);
}
