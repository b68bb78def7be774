"""Attention in float64 on the device where its inputs are, in pieces that fit.

What a fast kernel is compared with must be right to more digits than the kernel has. The whole square of
scores would not fit in float64, so the queries are taken some at a time: nothing else is clever here.
"""

import torch


@torch.enable_grad()
def reference_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    grad_output: torch.Tensor | None = None,
    *,
    causal: bool = False,
    chunk: int = 1024,
) -> tuple[torch.Tensor, ...]:
    """O, in float64; with `grad_output` (O, dQ, dK, dV).

    q: (..., n_queries, d); k, v: (..., n_keys, d). Scale 1 / sqrt(d); causal is aligned at the bottom
    right. A query that sees no key gives nan: there is none where n_queries <= n_keys.
    """
    q, k, v = (x.detach().double() for x in (q, k, v))
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    first_query = torch.arange(n_keys, device=q.device) + n_queries - n_keys  # that sees the key
    outputs, dq, dk, dv = [], [], torch.zeros_like(k), torch.zeros_like(v)
    for start in range(0, q.shape[-2], chunk):
        rows = slice(start, start + chunk)
        inputs = [
            x.requires_grad_(grad_output is not None) for x in (q[..., rows, :].clone(), k, v)
        ]
        s = inputs[0] @ inputs[1].mT * q.shape[-1] ** -0.5  # (..., chunk, n_keys)
        if causal:
            row = torch.arange(start, start + s.shape[-2], device=q.device)[:, None]
            s = s.masked_fill(first_query > row, float("-inf"))
        o = torch.softmax(s, dim=-1) @ inputs[2]  # (..., chunk, d)
        outputs.append(o.detach())
        if grad_output is not None:
            pieces = torch.autograd.grad(o, inputs, grad_output[..., rows, :].double())
            dq.append(pieces[0])
            dk += pieces[1]
            dv += pieces[2]
    output = torch.cat(outputs, dim=-2)
    return (output,) if grad_output is None else (output, torch.cat(dq, dim=-2), dk, dv)


def relative_error(x: torch.Tensor, exact: torch.Tensor) -> float:
    """The norm of x - exact over the norm of exact, in float64. nan or inf if x has such."""
    exact = exact.detach().double()
    return float((x.detach().double() - exact).norm() / exact.norm())
