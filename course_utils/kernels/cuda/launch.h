// What a kernel's file offers to the outside: `launch`, and the struct that it takes.
//
// flash_tiles.cu and flash_tensor_cores.cu each define both functions; binding.cpp calls the first.
// Neither side sees more of the other: the kernels know nothing of torch, so nvcc alone can compile
// and check them, and the binding knows nothing of blocks and threads.
#pragma once

#include <cuda_runtime_api.h>

enum class Dtype { float32, float16, bfloat16 };

struct Attention {
    const void* Q;     // (heads, n_queries, d)
    const void* K;     // (heads, n_keys, d)
    const void* V;     // (heads, n_keys, d)
    void* O;           // (heads, n_queries, d)
    float* logsumexp;  // (heads, n_queries)
    Dtype dtype;       // of Q, K, V and O; all contiguous, at multiples of 16 bytes
    int heads;         // of all sequences of the batch together
    int n_queries, n_keys, d;
    float scale;
    bool causal;
};

// cudaErrorInvalidValue where the file has no kernel for this dtype and d.
cudaError_t launch(const Attention& attention, cudaStream_t stream);

// Shared memory of one thread block, in bytes, for a d of 64 or 128.
extern "C" int shared_bytes(Dtype dtype, int d);
