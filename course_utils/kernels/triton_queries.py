"""FlashAttention's backward pass in Triton, first half: row_dot and dQ. A block of queries stays.

A pair of blocks adds to dQ of its queries and to dK, dV of its keys. Programs on a GPU run in no order,
so one that kept the keys would have to add to dQ in memory while others do: by atomic operations, whose
order, and so whose rounding, differs from run to run. Here each gradient is kept on chip by a kernel of
its own, dQ by this one and dK, dV by the other (`triton_keys`). That forms S and dP twice, seven products
for five, and is deterministic. Source: FlashAttention-2 (Dao 2023), Algorithm 2, cut in two.

This kernel looks like the forward pass, without a maximum to keep: P comes out normalized, from the
logsumexp. It also leaves row_dot, D in the formulas, for the other.
"""

from course_utils.kernels.schedule import block_and_head
from course_utils.kernels.tiles import head_of, load_tile, store_tile
from course_utils.kernels.triton_forward import LOG2_E
from course_utils.triton_here import tl, triton

__all__ = ["queries_kernel"]


@triton.jit(do_not_specialize=["batch", "heads", "together"])
def queries_kernel(
    Q, K, V, O, dO,  # noqa: E741
    logsumexp, row_dots, dQ,
    q_strides, k_strides, v_strides, o_strides, do_strides, dq_strides,
    batch, heads, n_queries, n_keys, together, scale,
    d: tl.constexpr, group: tl.constexpr, causal: tl.constexpr,
    ragged: tl.constexpr, precision: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, block_d: tl.constexpr,
):  # fmt: skip
    """dQ (B, H, n_queries, d) and row_dots (B, H, n_queries), one block of queries a program.

    Grid: (blocks of queries * B * H,). The constants are those of the forward kernel.
    """
    n_blocks = tl.cdiv(n_queries, block_q)
    block, head = block_and_head(n_blocks, batch * heads, together)
    block = n_blocks - 1 - block  # causal: the last queries see the most keys, and start first
    kv_head = head // group
    Q, O = head_of(Q, q_strides, head, heads), head_of(O, o_strides, head, heads)  # noqa: E741
    dO, dQ = head_of(dO, do_strides, head, heads), head_of(dQ, dq_strides, head, heads)
    K = head_of(K, k_strides, kv_head, heads // group)
    V = head_of(V, v_strides, kv_head, heads // group)
    logsumexp += head.to(tl.int64) * n_queries
    row_dots += head.to(tl.int64) * n_queries

    first_query = block * block_q
    query = first_query + tl.arange(0, block_q)
    do = load_tile(dO, do_strides, first_query, n_queries, d, block_q, block_d, True)
    o = load_tile(O, o_strides, first_query, n_queries, d, block_q, block_d, True)
    row_dot = tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1)  # (block_q,)
    tl.store(row_dots + query, row_dot, mask=query < n_queries)

    q = load_tile(Q, q_strides, first_query, n_queries, d, block_q, block_d, True)
    row_logsumexp = tl.load(logsumexp + query, mask=query < n_queries, other=0.0) * LOG2_E
    dq = tl.zeros((block_q, block_d), tl.float32)
    scale_log2 = scale * LOG2_E

    shift = n_keys - n_queries  # causal: query i sees the keys up to i + shift
    seen_by_all, seen_by_any = n_keys, n_keys
    if causal:
        seen_by_all = tl.minimum(n_keys, tl.maximum(0, first_query + shift + 1))
        seen_by_any = tl.minimum(n_keys, tl.maximum(0, first_query + shift + block_q))

    for first_key in tl.range(0, seen_by_any, block_k):
        k = load_tile(K, k_strides, first_key, n_keys, d, block_k, block_d, ragged)
        v = load_tile(V, v_strides, first_key, n_keys, d, block_k, block_d, ragged)
        s = tl.dot(q, k.T, input_precision=precision)  # (block_q, block_k)
        p = tl.exp2(s * scale_log2 - row_logsumexp[:, None])
        if causal or ragged:  # noqa: SIM102 (settled at compile time; the next is not)
            if first_key + block_k > seen_by_all:
                key = first_key + tl.arange(0, block_k)
                sees = (key < n_keys)[None, :]
                if causal:
                    sees = sees & (key[None, :] <= query[:, None] + shift)
                p = tl.where(sees, p, 0.0)
        minus_row_dot = tl.broadcast_to(-row_dot[:, None], (block_q, block_k))
        dp = tl.dot(do, v.T, minus_row_dot, input_precision=precision)  # less row_dot: its start
        ds = p * dp
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision=precision)  # (block_q, block_d)
    store_tile(dQ, dq_strides, first_query, n_queries, d, dq * scale, block_q, block_d)
