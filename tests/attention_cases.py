"""What the tests of flash_attention share: problems, their float64 solution, and unwritten memory that shows."""

import math
from contextlib import contextmanager

import torch

from course_utils.kernels import flash_attention


def problem(
    n_queries, n_keys, d, *, dtype, batch=2, heads=2, group=1, device="cpu", seed=0
) -> list[torch.Tensor]:
    """q, k, v and do, random: (batch, heads, N, d), with heads / group heads of k and v."""
    generator = torch.Generator(device).manual_seed(seed)
    shapes = [(heads, n_queries), (heads // group, n_keys), (heads // group, n_keys)]
    shapes.append((heads, n_queries))
    return [
        torch.randn(batch, h, n, d, device=device, generator=generator).to(dtype) for h, n in shapes
    ]


def oracle(q, k, v, do, *, causal=False, scale=None) -> list[torch.Tensor]:
    """O, dQ, dK, dV by the formula, all scores at once, in float64. Rows that see nothing give 0."""
    leaves = [x.detach().double().requires_grad_() for x in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    q64, k64, v64 = leaves[0], *(x.repeat_interleave(group, 1) for x in leaves[1:])
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    s = scale * (q64 @ k64.mT)
    if causal:
        n_queries, n_keys = s.shape[-2:]
        sees = torch.ones(n_queries, n_keys, dtype=torch.bool, device=q.device)
        sees = sees.tril(n_keys - n_queries)
        s = s.masked_fill(~sees, -torch.inf)
        s = s.masked_fill(~sees.any(-1, keepdim=True), 0)  # any finite row: no nan, and then ...
        p = s.softmax(-1) * sees.any(-1, keepdim=True)  # ... nothing of it is left
    else:
        p = s.softmax(-1)
    o = p @ v64
    return [o.detach(), *torch.autograd.grad(o, leaves, do.double())]


def attend(q, k, v, do, **options) -> list[torch.Tensor]:
    """O, dQ, dK, dV by flash_attention."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    o = flash_attention(*leaves, **options)
    return [o.detach(), *torch.autograd.grad(o, leaves, do)]


def errors(actual, expected) -> list[float]:
    """Relative errors by norm. Where nothing but 0 is right, the norm itself."""
    found = []
    for ours, exact in zip(actual, expected, strict=True):
        assert ours.shape == exact.shape
        size = exact.norm().item()
        found.append((ours.double() - exact).norm().item() / (size or 1))
    return found


@contextmanager
def poisoned():
    """torch.empty gives nan: whoever leaves a number unwritten is found out."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
