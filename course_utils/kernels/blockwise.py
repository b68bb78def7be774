"""Lesson 07's programs in torch: any device, any dtype, no kernel to compile, forward and backward.

All heads go through the loops at once, block by block of queries and keys. What is alive besides the
inputs and the results is one tile of scores and one row of statistics, whatever N is. The arithmetic is
float32 for 16-bit inputs, else the inputs' own. Each sum has one order, so the same inputs give the same
bits. Where the hardware has nothing better this is what `flash_attention` runs; beside the Triton kernels
it is what they must agree with. Under torch.autocast it is the same: nothing is turned into 16 bits here.
"""

import functools
from collections.abc import Callable, Iterator

import torch

from course_utils.attention.masks import keys_seen_by

__all__ = ["blockwise_backward", "blockwise_forward"]

BLOCK = 256  # of queries and of keys


def _without_autocast(attention_pass: Callable) -> Callable:
    """The pass with its own types, whatever the caller has torch choose."""

    @functools.wraps(attention_pass)
    def exact(q, *others, **options):
        if not torch.amp.is_autocast_available(q.device.type):
            return attention_pass(q, *others, **options)
        with torch.autocast(q.device.type, enabled=False):
            return attention_pass(q, *others, **options)

    return exact


@_without_autocast
def blockwise_forward(q, k, v, causal: bool, scale: float, block_q=BLOCK, block_k=BLOCK):
    """O, shaped as q (B, H, N, D), and logsumexp (B, H, N) in float32, or float64 for float64."""
    n_queries, n_keys = q.shape[2], k.shape[2]
    o = torch.empty_like(q)
    logsumexp = torch.empty(q.shape[:3], dtype=_working(q), device=q.device)
    for rows in _blocks(n_queries, block_q):
        q_rows = _grouped(q[:, :, rows], k)  # (B, H_kv, group, block_q, D)
        o_rows = torch.zeros_like(q_rows)
        row_sum = q_rows.new_zeros(q_rows.shape[:-1])  # (B, H_kv, group, block_q)
        row_max = torch.full_like(row_sum, -torch.inf)
        for keys in _blocks(_seen(rows, n_queries, n_keys, causal), block_k):
            s = scale * (q_rows @ _shared(k, keys).mT)  # (B, H_kv, group, block_q, block_k)
            if causal:
                s.masked_fill_(_hidden(rows, keys, n_queries, n_keys, q.device), -torch.inf)
            new_max = torch.maximum(row_max, s.amax(-1))
            base = new_max.masked_fill(new_max == -torch.inf, 0)  # nothing seen yet: p = exp(-inf)
            p = s.sub_(base[..., None]).exp_()
            alpha = torch.exp(row_max - base)
            row_sum = alpha * row_sum + p.sum(-1)
            o_rows = alpha[..., None] * o_rows + p @ _shared(v, keys)
            row_max = new_max
        o_rows /= row_sum.masked_fill(row_sum == 0, 1)[..., None]  # a row that saw nothing: 0
        o[:, :, rows] = o_rows.flatten(1, 2)
        logsumexp[:, :, rows] = (row_max + row_sum.log()).flatten(1, 2)
    return o, logsumexp


@_without_autocast
def blockwise_backward(
    q, k, v, o, logsumexp, do, causal: bool, scale: float, block_q=BLOCK, block_k=BLOCK
):
    """dQ, dK, dV, shaped and typed as q, k, v, for a loss whose derivative for O is `do`.

    A block of keys stays and the queries come by. dQ is summed up over the blocks of keys, so it is
    kept in the working type until the end: for 16-bit inputs that is 4 bytes a number more.
    """
    n_queries, n_keys = q.shape[2], k.shape[2]
    dq = torch.zeros_like(q, dtype=_working(q))
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    row_dot = torch.empty_like(logsumexp)  # (B, H, N), D in the formulas
    for rows in _blocks(n_queries, block_q):
        row_dot[:, :, rows] = (do[:, :, rows].to(dq) * o[:, :, rows].to(dq)).sum(-1)
    for keys in _blocks(n_keys, block_k):
        k_rows, v_rows = _shared(k, keys), _shared(v, keys)  # (B, H_kv, 1, block_k, D)
        dk_rows, dv_rows = torch.zeros_like(k_rows), torch.zeros_like(v_rows)
        for rows in _blocks(n_queries, block_q):
            if keys.start >= _seen(rows, n_queries, n_keys, causal):
                continue
            q_rows, do_rows = _grouped(q[:, :, rows], k), _grouped(do[:, :, rows], k)
            p = scale * (q_rows @ k_rows.mT)  # (B, H_kv, group, block_q, block_k), s so far
            p.sub_(_grouped(logsumexp[:, :, rows, None], k)).exp_()
            if causal:
                p.masked_fill_(_hidden(rows, keys, n_queries, n_keys, q.device), 0)
            dv_rows += (p.mT @ do_rows).sum(2, keepdim=True)  # over the heads that share v
            ds = do_rows @ v_rows.mT  # dp so far
            ds.sub_(_grouped(row_dot[:, :, rows, None], k)).mul_(p).mul_(scale)
            dk_rows += (ds.mT @ q_rows).sum(2, keepdim=True)
            dq[:, :, rows] += (ds @ k_rows).flatten(1, 2)
        dk[:, :, keys], dv[:, :, keys] = dk_rows.squeeze(2), dv_rows.squeeze(2)
    return dq.to(q.dtype), dk, dv


def _blocks(size: int, block: int) -> Iterator[slice]:
    return (slice(i, min(i + block, size)) for i in range(0, size, block))


def _working(x) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _grouped(x, k):
    """A block of all heads (B, H, rows, D), the heads that share keys together, in the working type."""
    return x.to(_working(x)).unflatten(1, (k.shape[1], -1))  # (B, H_kv, group, rows, D)


def _shared(x, keys: slice):
    """A block of keys or values, (B, H_kv, 1, block_k, D): one for all heads of a group."""
    return x[:, :, None, keys].to(_working(x))


def _seen(rows: slice, n_queries: int, n_keys: int, causal: bool) -> int:
    """How many keys any of these queries sees."""
    return keys_seen_by(rows.stop - 1, n_queries, n_keys) if causal else n_keys


def _hidden(rows: slice, keys: slice, n_queries: int, n_keys: int, device):
    """True where a query may not see a key, (block_q, block_k)."""
    query = torch.arange(rows.start, rows.stop, device=device)[:, None]
    key = torch.arange(keys.start, keys.stop, device=device)
    return key > query + n_keys - n_queries
