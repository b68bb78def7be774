"""Reference programs for the two-level memory: what lessons 06 and 07 ask their readers to write.

They stand beside the tests and not in course_utils, because they are answers.
"""

from collections.abc import Iterator

import numpy as np

from course_utils.hierarchy import SRAM, HBMArray, OnChip


def blocks(size: int, block: int) -> Iterator[slice]:
    return (slice(start, min(start + block, size)) for start in range(0, size, block))


def tiled_matmul(sram: SRAM, A, B, C, tile_m: int, tile_n: int, tile_k: int) -> None:
    """C = A B, a tile of C on chip at a time."""
    (m, k), n = A.shape, B.shape[1]
    for rows in blocks(m, tile_m):
        for columns in blocks(n, tile_n):
            c = sram.zeros((rows.stop - rows.start, columns.stop - columns.start), C.dtype)
            for inner in blocks(k, tile_k):
                a, b = sram.load(A[rows, inner]), sram.load(B[inner, columns])
                sram.accumulate(c, a, b)
                del a, b
            sram.store(C[rows, columns], c)
            del c


def standard_attention(
    sram: SRAM, Q, K, V, S, P, O, block_q: int, block_k: int, scale: float
) -> None:
    """Algorithm 0 (L12-46): scores, softmax and product, each through HBM."""
    n_queries, n_keys = S.shape
    for rows in blocks(n_queries, block_q):
        q = sram.load(Q[rows])
        for keys in blocks(n_keys, block_k):
            k = sram.load(K[keys])
            sram.store(S[rows, keys], scale * (q @ k.T))
        del q, k
    for row in blocks(n_queries, 1):
        s = sram.load(S[row])
        s -= s.max()
        np.exp(s, out=s)
        s /= s.sum()
        sram.store(P[row], s)
        del s
    for rows in blocks(n_queries, block_q):
        o = sram.zeros(O[rows].shape)
        for keys in blocks(n_keys, block_k):
            p, v = sram.load(P[rows, keys]), sram.load(V[keys])
            sram.accumulate(o, p, v)
            del p, v
        sram.store(O[rows], o)


def masked_scores(sram: SRAM, q, k, rows: slice, keys: slice, offset: int | None, scale) -> OnChip:
    """scale * q k^T; offset: a query sees the keys up to its own number plus this, or None: all."""
    s = sram.zeros((len(q), len(k)))
    sram.accumulate(s, q, k.T)
    s *= scale
    if offset is not None and keys.stop - 1 > rows.start + offset:
        query = sram.arange(rows.start, rows.stop)[:, None]
        key = sram.arange(keys.start, keys.stop)[None, :]
        s[key > query + offset] = -np.inf
    return s


def finite(row_max: OnChip) -> OnChip:
    """The maximum to subtract: 0 where nothing has been visible, since -inf - -inf is nan."""
    return np.where(row_max == -np.inf, 0.0, row_max)


def flash_keys_outside(
    sram: SRAM,
    Q: HBMArray,
    K: HBMArray,
    V: HBMArray,
    O: HBMArray,  # (n_queries, d), zeros
    row_sums: HBMArray,  # (n_queries,), zeros
    row_maxima: HBMArray,  # (n_queries,), -inf
    block_q: int,
    block_k: int,
    scale: float,
    causal: bool = False,
) -> None:
    """Algorithm 1 (E5-79, E5-80), with O normalized at every step, as printed."""
    offset = len(K) - len(Q) if causal else None
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        for rows in blocks(len(Q), block_q):
            if causal and rows.stop - 1 + offset < keys.start:
                continue
            q, o = sram.load(Q[rows]), sram.load(O[rows])
            old_sum, old_max = sram.load(row_sums[rows]), sram.load(row_maxima[rows])
            s = masked_scores(sram, q, k, rows, keys, offset, scale)
            new_max = np.maximum(old_max, s.max(axis=1))
            s -= finite(new_max)[:, None]
            p = np.exp(s, out=s)
            kept = old_sum * np.exp(old_max - finite(new_max))
            new_sum = kept + p.sum(axis=1)
            o *= kept[:, None]
            sram.accumulate(o, p, v)
            o /= np.where(new_sum == 0, 1.0, new_sum)[:, None]
            sram.store(O[rows], o)
            sram.store(row_sums[rows], new_sum)
            sram.store(row_maxima[rows], new_max)
            del q, o, s, p
        del k, v


def flash_queries_outside(
    sram: SRAM, Q, K, V, O, logsumexps, block_q: int, block_k: int, scale: float, causal=False
) -> None:
    """FlashAttention-2's order: a block of queries stays until its output is final."""
    offset = len(K) - len(Q) if causal else None
    for rows in blocks(len(Q), block_q):
        q, o = sram.load(Q[rows]), sram.zeros(O[rows].shape)
        row_sum, row_max = sram.zeros(len(q)), sram.full(len(q), -np.inf)
        for keys in blocks(len(K), block_k):
            if causal and rows.stop - 1 + offset < keys.start:
                break
            k, v = sram.load(K[keys]), sram.load(V[keys])
            s = masked_scores(sram, q, k, rows, keys, offset, scale)
            new_max = np.maximum(row_max, s.max(axis=1))
            s -= finite(new_max)[:, None]
            p = np.exp(s, out=s)
            kept = np.exp(row_max - finite(new_max))
            row_sum = kept * row_sum + p.sum(axis=1)
            row_max = new_max
            o *= kept[:, None]
            sram.accumulate(o, p, v)
            del k, v, s, p
        o /= np.where(row_sum == 0, 1.0, row_sum)[:, None]
        with np.errstate(divide="ignore"):
            sram.store(logsumexps[rows], row_max + np.log(row_sum))
        sram.store(O[rows], o)
        del q, o


def flash_backward(
    sram: SRAM,
    inputs: tuple[HBMArray, ...],  # Q, K, V
    outputs: tuple[HBMArray, ...],  # O, dO, logsumexps
    grads: tuple[HBMArray, ...],  # dQ (zeros), dK, dV
    D: HBMArray,  # (n_queries,)
    block_q: int,
    block_k: int,
    scale: float,
    causal: bool = False,
) -> None:
    """FlashAttention-2's backward pass: P again from the scores and the stored logsumexp."""
    (Q, K, V), (O, dO, logsumexps), (dQ, dK, dV) = inputs, outputs, grads
    offset = len(K) - len(Q) if causal else None
    for rows in blocks(len(Q), block_q):
        sram.store(D[rows], (sram.load(O[rows]) * sram.load(dO[rows])).sum(axis=1))
    for keys in blocks(len(K), block_k):
        k, v = sram.load(K[keys]), sram.load(V[keys])
        grad_k, grad_v = sram.zeros(k.shape), sram.zeros(v.shape)
        for rows in blocks(len(Q), block_q):
            if causal and rows.stop - 1 + offset < keys.start:
                continue
            q, grad_o = sram.load(Q[rows]), sram.load(dO[rows])
            logsumexp, d = sram.load(logsumexps[rows]), sram.load(D[rows])
            p = masked_scores(sram, q, k, rows, keys, offset, scale)
            p -= finite(logsumexp)[:, None]
            np.exp(p, out=p)
            sram.accumulate(grad_v, p.T, grad_o)
            grad_s = grad_o @ v.T
            grad_s -= d[:, None]
            grad_s *= p
            grad_s *= scale
            sram.accumulate(grad_k, grad_s.T, q)
            grad_q = sram.load(dQ[rows])
            sram.accumulate(grad_q, grad_s, k)
            sram.store(dQ[rows], grad_q)
            del q, grad_o, p, grad_s, grad_q
        sram.store(dK[keys], grad_k)
        sram.store(dV[keys], grad_v)
        del k, v, grad_k, grad_v
