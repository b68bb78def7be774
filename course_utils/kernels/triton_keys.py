"""FlashAttention's backward pass in Triton, second half: dK and dV. A block of keys stays.

The queries come by, of every head that shares these keys, with their dO, logsumexp and row_dot (which
`triton_queries` left). All tiles are transposed, (block_k, block_q): then p and ds are the left factors of
their products, which the tensor cores take from registers, as o's p in the forward pass.
"""

from course_utils.kernels.schedule import block_and_head
from course_utils.kernels.tiles import head_of, load_tile, store_tile
from course_utils.kernels.triton_forward import LOG2_E
from course_utils.triton_here import tl, triton

__all__ = ["keys_kernel"]


@triton.jit(do_not_specialize=["batch", "heads", "together"])
def keys_kernel(
    Q, K, V, dO,
    logsumexp, row_dots, dK, dV,
    q_strides, k_strides, v_strides, do_strides, dk_strides, dv_strides,
    batch, heads, n_queries, n_keys, together, scale,
    d: tl.constexpr, group: tl.constexpr, causal: tl.constexpr,
    ragged: tl.constexpr, precision: tl.constexpr,
    block_q: tl.constexpr, block_k: tl.constexpr, block_d: tl.constexpr,
):  # fmt: skip
    """dK and dV (B, H / group, n_keys, d), one block of keys a program.

    Grid: (blocks of keys * B * H / group,). Keys beyond the last need no mask: they come as zeros, and
    what they add goes to rows of dK and dV that are not stored. ragged: whether the last block of
    queries is not full.
    """
    n_blocks, kv_heads = tl.cdiv(n_keys, block_k), heads // group
    block, kv_head = block_and_head(n_blocks, batch * kv_heads, together)  # causal: longest first
    K, V = head_of(K, k_strides, kv_head, kv_heads), head_of(V, v_strides, kv_head, kv_heads)
    dK, dV = head_of(dK, dk_strides, kv_head, kv_heads), head_of(dV, dv_strides, kv_head, kv_heads)

    first_key = block * block_k
    key = first_key + tl.arange(0, block_k)
    k = load_tile(K, k_strides, first_key, n_keys, d, block_k, block_d, True)
    v = load_tile(V, v_strides, first_key, n_keys, d, block_k, block_d, True)
    dk = tl.zeros((block_k, block_d), tl.float32)
    dv = tl.zeros((block_k, block_d), tl.float32)
    scale_log2 = scale * LOG2_E

    shift = n_keys - n_queries  # causal: key j is seen by the queries from j - shift on
    seen_by_any, seen_by_all = 0, 0
    if causal:
        seen_by_any = tl.maximum(0, first_key - shift) // block_q * block_q
        seen_by_all = first_key + block_k - 1 - shift

    for member in range(group):  # the heads that share these keys
        head = kv_head * group + member
        Q_head = head_of(Q, q_strides, head, heads)
        dO_head = head_of(dO, do_strides, head, heads)
        row = head.to(tl.int64) * n_queries
        for first_query in tl.range(seen_by_any, n_queries, block_q):
            query = first_query + tl.arange(0, block_q)
            q = load_tile(Q_head, q_strides, first_query, n_queries, d, block_q, block_d, ragged)
            do = load_tile(dO_head, do_strides, first_query, n_queries, d, block_q, block_d, ragged)
            if ragged:  # beyond the last query logsumexp = inf makes p = 0
                there = query < n_queries
                row_logsumexp = tl.load(logsumexp + row + query, mask=there, other=float("inf"))
                row_dot = tl.load(row_dots + row + query, mask=there, other=0.0)
            else:
                row_logsumexp = tl.load(logsumexp + row + query)
                row_dot = tl.load(row_dots + row + query)

            s = tl.dot(k, q.T, input_precision=precision)  # (block_k, block_q)
            p = tl.exp2(s * scale_log2 - row_logsumexp[None, :] * LOG2_E)
            if causal:  # noqa: SIM102 (settled at compile time; the next is not)
                if first_query < seen_by_all:
                    p = tl.where(key[:, None] <= query[None, :] + shift, p, 0.0)
            dv = tl.dot(p.to(do.dtype), do, dv, input_precision=precision)  # (block_k, block_d)
            minus_row_dot = tl.broadcast_to(-row_dot[None, :], (block_k, block_q))
            dp = tl.dot(
                v, do.T, minus_row_dot, input_precision=precision
            )  # less row_dot: its start
            ds = p * dp
            dk = tl.dot(ds.to(q.dtype), q, dk, input_precision=precision)
    store_tile(dK, dk_strides, first_key, n_keys, d, dk * scale, block_k, block_d)
    store_tile(dV, dv_strides, first_key, n_keys, d, dv, block_k, block_d)
