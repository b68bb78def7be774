"""From tensors to kernels: strides, constants and a grid. What runs on the device is in the kernels.

Everything here is about one call: which constants it compiles the kernel with, how many programs it
starts, and what memory it takes, which is the output and one float32 a row, forward, and the gradients and
one float32 a row, backward.
"""

from contextlib import nullcontext

import torch

from course_utils.kernels.blocks import Blocks, blocks_for
from course_utils.kernels.schedule import heads_together
from course_utils.kernels.triton_forward import forward_kernel
from course_utils.kernels.triton_keys import keys_kernel
from course_utils.kernels.triton_queries import queries_kernel
from course_utils.triton_here import triton

__all__ = ["choose_blocks", "triton_backward", "triton_forward"]


def triton_forward(q, k, v, causal: bool, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """O, shaped as q (B, H, N, D), and logsumexp (B, H, N) in float32."""
    batch, heads, n_queries = q.shape[:3]
    n_keys = k.shape[2]
    blocks, constants = _choices("forward", q, k)
    o = torch.empty_like(q)
    logsumexp = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    sign = (scale > 0) - (scale < 0)
    with _on(q.device):
        forward_kernel[(triton.cdiv(n_queries, blocks.block_q) * batch * heads,)](
            q, k, v, o, logsumexp,
            q.stride(), k.stride(), v.stride(), o.stride(),
            batch, heads, n_queries, n_keys, heads_together(k, batch * heads, causal),
            abs(scale) if sign else 1.0,
            causal=causal,
            sign=sign,
            ragged=n_keys % blocks.block_k != 0,
            empty_rows=causal and n_queries > n_keys,
            **constants,
        )  # fmt: skip
    return o, logsumexp


def triton_backward(q, k, v, o, logsumexp, do, causal: bool, scale: float):
    """dQ, dK, dV, shaped and typed as q, k, v, for a loss whose derivative for O is `do`."""
    batch, heads, n_queries = q.shape[:3]
    kv_heads, n_keys = k.shape[1:3]
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    row_dots = torch.empty_like(logsumexp)  # (B, H, N)
    with _on(q.device):
        blocks, constants = _choices("queries", q, k)
        queries_kernel[(triton.cdiv(n_queries, blocks.block_q) * batch * heads,)](
            q, k, v, o, do, logsumexp, row_dots, dq,
            q.stride(), k.stride(), v.stride(), o.stride(), do.stride(), dq.stride(),
            batch, heads, n_queries, n_keys, heads_together(k, batch * heads, causal), scale,
            causal=causal,
            ragged=n_keys % blocks.block_k != 0,
            **constants,
        )  # fmt: skip
        blocks, constants = _choices("keys", q, k)
        keys_kernel[(triton.cdiv(n_keys, blocks.block_k) * batch * kv_heads,)](
            q, k, v, do, logsumexp, row_dots, dk, dv,
            q.stride(), k.stride(), v.stride(), do.stride(), dk.stride(), dv.stride(),
            batch, heads, n_queries, n_keys, heads_together(q, batch * kv_heads, causal), scale,
            causal=causal,
            ragged=n_queries % blocks.block_q != 0,
            **constants,
        )  # fmt: skip
    return dq, dk, dv


def _choices(kernel: str, q, k):
    """The blocks, and what is constant at compile time whatever the kernel."""
    d = q.shape[-1]
    blocks = choose_blocks(kernel, d, q.element_size(), k.shape[2], q.device)
    constants = blocks._asdict() | {
        "d": d,
        "block_d": rounded_up(d),
        "group": q.shape[1] // k.shape[1],
        # how tensor cores treat float32: as three products of 19 bits, nearly exact (16 bits: no choice)
        "precision": "tf32x3" if q.dtype == torch.float32 else "tf32",
    }
    return blocks, constants


def choose_blocks(kernel: str, d: int, itemsize: int, n_keys: int, device) -> Blocks:
    """The blocks of "forward", "queries" or "keys" on this device, for numbers of itemsize bytes."""
    return blocks_for(kernel, rounded_up(d), itemsize, n_keys, **_device_has(device))


def rounded_up(d: int) -> int:
    """D as a power of two, 16 at least: so deep is a tensor core's product."""
    return max(16, triton.next_power_of_2(d))


def _device_has(device) -> dict:
    """The shared memory that one block may have, and wgmma. The interpreter plays an sm_90."""
    if device.type != "cuda":
        return {"hopper": True, "limit_bytes": 227 * 1024}
    properties = torch.cuda.get_device_properties(device)
    limit_bytes = properties.shared_memory_per_block_optin
    return {"hopper": properties.major in (9, 10), "limit_bytes": limit_bytes}


def _on(device):
    """Triton launches on the current device."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
