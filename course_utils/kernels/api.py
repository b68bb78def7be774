"""`flash_attention`: one function, differentiable, whatever runs it.

The forward pass keeps its inputs, its output and one number a row; the backward pass forms the rest
again. Who computes is a choice of two pairs of functions with the same signatures, so that everything
above them (the contract, the checks, autograd) exists once. Triton is loaded when it is first needed.
"""

import importlib.util

import torch
from torch.autograd.function import once_differentiable

from course_utils.kernels.blockwise import blockwise_backward, blockwise_forward
from course_utils.kernels.validation import BACKENDS, checked_scale, checked_tensors

__all__ = ["flash_attention"]


def flash_attention(q, k, v, *, causal=False, scale=None, backend="auto") -> torch.Tensor:
    """softmax(scale * Q K^T) V, in memory that grows as N, and differentiable once.

    q: (B, H, N, D); k, v: (B, H_kv, N_k, D), where H_kv divides H: query head h uses head
    h // (H / H_kv) of k and v. bfloat16, float16, float32 or float64 (blockwise only), all alike; any
    strides; any N and N_k; D from 1 to 256. Returns (B, H, N, D) in q's dtype.

    causal: query i sees keys 0 to i + N_k - N, so that the last query sees every key (aligned at the
    bottom right). PyTorch's `is_causal=True` aligns at the top left: with N = N_k both are the same.
    A query that sees no key has output 0, and no gradient flows through it.
    scale: 1 / sqrt(D) if None; any finite number.
    backend: "triton" for the kernels of this package (Linux, a CUDA device of sm_80 or newer; on a CPU
    they run in Triton's interpreter, which is slow, and does float16 and float32 only); "blockwise" for
    the same in plain torch, anywhere; "auto" picks "triton" where the tensors are on such a device and
    not float64, else "blockwise".

    Memory, besides inputs and results: 4 bytes a query and head, forward (float64: 8), kept for the
    backward pass if there will be one, which takes as many again. Blockwise adds tiles of a fixed size,
    and dQ in float32. The same inputs give the same bits, forward and backward.
    Errors: ValueError for what does not fit, said in one line. A second derivative is not offered:
    torch raises RuntimeError. Source: Dao et al. 2022; Dao 2023 (FlashAttention-2).
    """
    checked_tensors(q, k, v)
    scale = checked_scale(scale, q.shape[-1])
    forward, backward = _passes(_chosen(backend, q), q, k)
    return _FlashAttention.apply(q, k, v, bool(causal), scale, forward, backward)


class _FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale, forward, backward):
        o, logsumexp = forward(q, k, v, causal, scale)
        ctx.save_for_backward(q, k, v, o, logsumexp)
        ctx.causal, ctx.scale, ctx.backward_pass = causal, scale, backward
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx, do):
        return *ctx.backward_pass(*ctx.saved_tensors, do, ctx.causal, ctx.scale), *[None] * 4


def _passes(backend: str, q, k):
    if backend == "blockwise" or q.shape[2] == 0 or k.shape[2] == 0:  # no kernel for no rows
        return blockwise_forward, blockwise_backward
    from course_utils.kernels.launch import triton_backward, triton_forward

    return triton_forward, triton_backward


def _chosen(backend: str, q) -> str:
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if backend == "auto":  # never the interpreter, which is for learning
        return "triton" if q.device.type == "cuda" and not _lacking(q) else "blockwise"
    if backend == "triton" and (lacking := _lacking(q)):
        raise ValueError(f'backend "triton" {lacking}; or use backend="blockwise"')
    return backend


def _lacking(q) -> str:
    """What the Triton kernels miss for tensors like q, on this machine: "" if nothing."""
    if q.dtype == torch.float64:
        return "has no float64: use float32"
    if importlib.util.find_spec("triton") is None:
        return "needs the package triton, which exists for Linux only: WSL gives Windows a Linux"
    if q.device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(q.device)
        return "" if major >= 8 else f"needs a GPU of sm_80 or newer, and this is sm_{major}{minor}"
    if q.device.type != "cpu":
        return f"runs on CUDA devices, and on a CPU in Triton's interpreter, not on {q.device.type}"
    from course_utils.triton_here import INTERPRETED

    if not INTERPRETED:
        return "runs on a CPU in its interpreter only: set TRITON_INTERPRET=1 before Python starts"
    if q.dtype == torch.bfloat16:
        return "is wrong for bfloat16 on a CPU, in its interpreter: use float16 or float32"
    return ""
