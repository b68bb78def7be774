// The door between torch and a kernel: tensors become pointers and sizes, and nothing else happens.
// cuda_cpp.py has checked shapes, dtypes and devices before.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

#include "launch.h"

static Dtype dtype_of(const at::Tensor& tensor) {
    if (tensor.scalar_type() == at::kFloat) return Dtype::float32;
    return tensor.scalar_type() == at::kHalf ? Dtype::float16 : Dtype::bfloat16;
}

// q, out: (B, H, n_queries, d); k, v: (B, H, n_keys, d); logsumexp: (B, H, n_queries), float32.
// All contiguous; out and logsumexp are written.
static void forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::Tensor& out,
                    at::Tensor& logsumexp, double scale, bool causal) {
    const c10::cuda::CUDAGuard on_the_device_of(q.device());
    Attention attention = {};
    attention.Q = q.data_ptr();
    attention.K = k.data_ptr();
    attention.V = v.data_ptr();
    attention.O = out.data_ptr();
    attention.logsumexp = logsumexp.data_ptr<float>();
    attention.dtype = dtype_of(q);
    attention.heads = q.size(0) * q.size(1);
    attention.n_queries = q.size(2);
    attention.n_keys = k.size(2);
    attention.d = q.size(3);
    attention.scale = scale;
    attention.causal = causal;
    C10_CUDA_CHECK(launch(attention, c10::cuda::getCurrentCUDAStream()));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("forward", &forward, pybind11::call_guard<pybind11::gil_scoped_release>());
}
