"""FlashAttention's forward pass in Triton: lesson 07's loop with the queries outside, as one kernel.

One program takes one block of queries of one head, and lets the keys come by. Its q, its running o and
the two numbers a row stay on chip; K and V are loaded, O and logsumexp are stored. What is new against
the NumPy program:

- only a block at an edge pays for a mask: on the causal diagonal, and at the end of the keys;
- powers of two, since the hardware has exp2 and not exp: s is scaled by scale * log2(e), in the same
  instruction that subtracts the maximum. The stored logsumexp is in natural units again;
- p is rounded to the type of v, for the tensor cores. Sums stay in float32.
"""

from course_utils.kernels.schedule import block_and_head
from course_utils.kernels.tiles import head_of, load_tile, store_tile
from course_utils.triton_here import tl, triton

__all__ = ["LN_2", "LOG2_E", "forward_kernel"]

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit(do_not_specialize=["batch", "heads", "together"])
def forward_kernel(
    Q, K, V, O,  # noqa: E741
    logsumexp,
    q_strides, k_strides, v_strides, o_strides,
    batch, heads, n_queries, n_keys, together, scale,
    d: tl.constexpr, group: tl.constexpr, causal: tl.constexpr, sign: tl.constexpr,
    ragged: tl.constexpr, empty_rows: tl.constexpr, precision: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, block_d: tl.constexpr,
):  # fmt: skip
    """O (B, H, n_queries, d) and logsumexp (B, H, n_queries), one block of queries a program.

    Grid: (blocks of queries * B * H,). K and V have H / group heads. block_d is d, rounded up to a power
    of two. ragged: whether the last block of keys is not full. empty_rows: whether a query may see
    no key at all. sign: 1, or -1 for a negative scale (`scale` is its magnitude), or 0: then q is 0.
    """
    n_blocks = tl.cdiv(n_queries, block_q)
    block, head = block_and_head(n_blocks, batch * heads, together)
    block = n_blocks - 1 - block  # causal: the last queries see the most keys, and start first
    kv_head = head // group
    Q, O = head_of(Q, q_strides, head, heads), head_of(O, o_strides, head, heads)  # noqa: E741
    K = head_of(K, k_strides, kv_head, heads // group)
    V = head_of(V, v_strides, kv_head, heads // group)
    logsumexp += head.to(tl.int64) * n_queries

    first_query = block * block_q
    query = first_query + tl.arange(0, block_q)
    q = load_tile(Q, q_strides, first_query, n_queries, d, block_q, block_d, True)
    if sign != 1:
        q = (q * sign).to(q.dtype)
    o = tl.zeros((block_q, block_d), tl.float32)
    row_sum = tl.zeros((block_q,), tl.float32)
    row_max = tl.full((block_q,), -float("inf"), tl.float32)  # in powers of two
    scale_log2 = scale * LOG2_E

    shift = n_keys - n_queries  # causal: query i sees the keys up to i + shift
    seen_by_all, seen_by_any = n_keys, n_keys
    if causal:
        seen_by_all = tl.minimum(n_keys, tl.maximum(0, first_query + shift + 1))
        seen_by_any = tl.minimum(n_keys, tl.maximum(0, first_query + shift + block_q))

    for first_key in tl.range(0, seen_by_any, block_k):
        k = load_tile(K, k_strides, first_key, n_keys, d, block_k, block_d, ragged)
        s = tl.dot(q, k.T, input_precision=precision)  # (block_q, block_k), not yet scaled
        if causal or ragged:  # noqa: SIM102 (settled at compile time; the next is not)
            if first_key + block_k > seen_by_all:
                key = first_key + tl.arange(0, block_k)
                sees = (key < n_keys)[None, :]
                if causal:
                    sees = sees & (key[None, :] <= query[:, None] + shift)
                s = tl.where(sees, s, -float("inf"))

        new_max = tl.maximum(row_max, tl.max(s, axis=1) * scale_log2)
        base = new_max
        if empty_rows:  # -inf - (-inf) is no number: a row that has seen nothing keeps p = 0
            base = tl.where(new_max == -float("inf"), 0.0, new_max)
        p = tl.exp2(s * scale_log2 - base[:, None])
        alpha = tl.exp2(row_max - base)
        row_sum = alpha * row_sum + tl.sum(p, axis=1)
        o = o * alpha[:, None]

        v = load_tile(V, v_strides, first_key, n_keys, d, block_k, block_d, ragged)
        o = tl.dot(p.to(v.dtype), v, o, input_precision=precision)  # (block_q, block_d)
        row_max = new_max

    if empty_rows:
        row_sum = tl.where(row_sum == 0.0, 1.0, row_sum)  # o is 0, logsumexp -inf
    store_tile(O, o_strides, first_query, n_queries, d, o / row_sum[:, None], block_q, block_d)
    row_logsumexp = (row_max + tl.log2(row_sum)) * LN_2
    tl.store(logsumexp + query, row_logsumexp, mask=query < n_queries)
