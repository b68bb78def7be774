"""What flash_attention refuses, each with one line that says what is wrong and what to do.

A kernel trusts its arguments: a wrong shape makes it read another tensor's memory. So every call is
checked once, here, before anything is allocated.
"""

import math
import numbers

import torch

__all__ = ["BACKENDS", "LARGEST_D", "checked_scale", "checked_tensors"]

BACKENDS = ("auto", "triton", "blockwise")
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
LARGEST_D = 256


def checked_tensors(q, k, v) -> None:
    """Raise ValueError unless q (B, H, N, D) and k, v (B, H_kv, N_k, D) fit together."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise ValueError(f"{name} must be a torch.Tensor, not {type(x).__name__}")
        if x.is_nested or x.layout != torch.strided:
            layout = "nested" if x.is_nested else x.layout
            raise ValueError(
                f"{name} must be a dense tensor, not {layout}: convert with .to_dense()"
            )
        if x.ndim != 4:
            raise ValueError(
                f"{name} must have four axes, (batch, heads, N, D), not {x.ndim}: "
                f"its shape is {tuple(x.shape)}"
            )
    _one_dtype_and_device(q, k, v)
    batch, heads, _, d = q.shape
    kv_heads = k.shape[1]
    if k.shape != v.shape:
        raise ValueError(
            f"k and v must have the same shape, not {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if k.shape[0] != batch:
        raise ValueError(f"q has a batch of {batch}, k and v one of {k.shape[0]}: make them equal")
    if k.shape[3] != d:
        raise ValueError(f"q's heads are {d} wide, those of k and v {k.shape[3]}: make D equal")
    if not 1 <= d <= LARGEST_D:
        raise ValueError(f"D must be 1 to {LARGEST_D}, not {d}: split wider heads")
    if min(batch, heads, kv_heads) == 0:
        raise ValueError(
            f"batch and heads must be at least 1: the shapes are {tuple(q.shape)}, {tuple(k.shape)}"
        )
    if heads % kv_heads:
        raise ValueError(
            f"q's {heads} heads can't share {kv_heads} heads of k and v evenly: the number of heads "
            "of k and v must divide that of q"
        )


def checked_scale(scale, d: int) -> float:
    """The scale as a float, 1 / sqrt(d) if None. Raises ValueError for what is no finite number."""
    if scale is None:
        return 1 / math.sqrt(d)
    is_number = isinstance(scale, numbers.Real) and not isinstance(scale, bool)
    try:
        value = float(scale) if is_number else math.nan
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"scale must be a finite number or None (1 / sqrt(D)), not {scale!r:.50}")
    return value


def _one_dtype_and_device(q, k, v) -> None:
    dtypes = [x.dtype for x in (q, k, v)]
    if len(set(dtypes)) > 1:
        raise ValueError(
            f"q, k and v must have one dtype, not {', '.join(map(str, dtypes))}: convert with .to(q.dtype)"
        )
    if q.dtype not in DTYPES:
        raise ValueError(
            f"q, k and v must be bfloat16, float16, float32 or float64, not {q.dtype}: convert with .to()"
        )
    devices = [x.device for x in (q, k, v)]
    if len(set(devices)) > 1:
        raise ValueError(
            f"q, k and v must be on one device, not {', '.join(map(str, devices))}: move with "
            ".to(q.device)"
        )
