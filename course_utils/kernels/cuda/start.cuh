// From an `Attention` to a kernel's grid: one thread block for each block of queries of each head.
#pragma once

#include "launch.h"

template <typename Element>
using Kernel = void(const Element* Q, const Element* K, const Element* V, Element* O,
                    float* logsumexp, int n_queries, int n_keys, float scale, bool causal);

// Sram: what one block has in shared memory; it says how many queries a block has.
template <typename Sram, typename Element>
cudaError_t start(Kernel<Element>* kernel, int threads, const Attention& a, cudaStream_t stream) {
    const dim3 grid(a.heads, (a.n_queries + Sram::block_q - 1) / Sram::block_q);
    const cudaError_t error =  // more than 48 KiB must be asked for
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Sram));
    if (error != cudaSuccess) return error;
    kernel<<<grid, threads, sizeof(Sram), stream>>>(
        static_cast<const Element*>(a.Q), static_cast<const Element*>(a.K),
        static_cast<const Element*>(a.V), static_cast<Element*>(a.O), a.logsumexp, a.n_queries,
        a.n_keys, a.scale, a.causal);
    return cudaGetLastError();
}
