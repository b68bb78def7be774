"""Bytes that blocked algorithms move between HBM and the chip, each derived in its docstring.

All counts are exact, with blocks that need not divide the sizes: a loop over ragged blocks of an array
still passes over every row once. So most counts are (passes over an array) times (its elements), and a
number of passes is a number of blocks, rounded up. The simulated memory agrees to the byte.

Sizes are in elements, results in bytes; `itemsize` is the bytes of an element, 8 for float64.
"""

import math
from typing import NamedTuple

from course_utils.attention.masks import first_query_that_sees, keys_seen_by


class Traffic(NamedTuple):
    """Bytes across the boundary, as `hbm.bytes_read` and `hbm.bytes_written` count them."""

    bytes_read: int
    bytes_written: int

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written


# --- matrix products ------------------------------------------------------------------------------


def tiled_matmul_traffic(
    m: int, n: int, k: int, tile_m: int, tile_n: int, itemsize: int = 8
) -> Traffic:
    """C = A B, (m, n) = (m, k) (k, n), one tile of C on chip at a time (L12-48, GN-22).

    A tile of C, (tile_m, tile_n), stays while k is walked through, and is stored once: m n written. It
    takes its rows of A, (tile_m, k), and its columns of B, (k, tile_n). So A is read once for every
    column of tiles, B once for every row of tiles. In how many pieces k is walked through matters for
    the room on chip, and not for the traffic. tile_m = tile_n = 1 is the naive product: 2 m n k read.
    """
    read = _blocks(n, tile_n) * m * k + _blocks(m, tile_m) * k * n
    return Traffic(read * itemsize, m * n * itemsize)


def square_tile(capacity_bytes: int, itemsize: int = 8) -> int:
    """The largest t for which three tiles of t x t (of A, B and C) fit on chip: 3 t^2 elements."""
    return math.isqrt(capacity_bytes // (3 * itemsize))


def matmul_lower_bound_bytes(
    m: int, n: int, k: int, capacity_bytes: int, itemsize: int = 8
) -> float:
    """What no order of the m n k multiplications can go below, on a chip of this capacity.

    With room for M elements: 2 m n k / sqrt(M) - 2 M elements must cross (Smith, Lowery, Langou and van
    de Geijn 2019; Hong and Kung 1981 had the growth, Irony, Toledo and Tiskin 2004 a constant of
    1 / sqrt(8) in place of 2). And each input must be read once, each output written once.

    The idea: while M elements cross, at most 2 M of each matrix can take part, those that were there
    and those that cross; and x elements of A, y of B and z of C take part in no more than sqrt(x y z)
    multiplications (Loomis and Whitney 1949).
    """
    room = capacity_bytes / itemsize
    compulsory = m * k + k * n + m * n
    by_capacity = 2 * m * n * k / math.sqrt(room) - 2 * room if room else math.inf
    return max(compulsory, by_capacity) * itemsize


# --- attention ------------------------------------------------------------------------------------


def standard_attention_traffic(
    n_queries: int, n_keys: int, d: int, block_q: int, itemsize: int = 8
) -> Traffic:
    """Algorithm 0 (L12-46): S and P go to HBM and back, in three passes over blocks of queries.

    1. S = scale * Q K^T: each block of Q is loaded once and stays while all of K is loaded past it:
       n_queries d + T_q n_keys d read, with T_q = ceil(n_queries / block_q), n_queries n_keys written.
    2. P = softmax(S), whole rows: n_queries n_keys read, n_queries n_keys written.
    3. O = P V, each block of O on chip while P's rows and all of V pass: n_queries n_keys +
       T_q n_keys d read, n_queries d written.

    A causal mask is applied in pass 2 and saves nothing. Block sizes along the keys do not matter.
    """
    scores = n_queries * n_keys
    passes = _blocks(n_queries, block_q)
    read = n_queries * d + 2 * passes * n_keys * d + 2 * scores
    written = 2 * scores + n_queries * d
    return Traffic(read * itemsize, written * itemsize)


def keys_outside_traffic(
    n_queries: int,
    n_keys: int,
    d: int,
    block_q: int,
    block_k: int,
    *,
    causal: bool = False,
    itemsize: int = 8,
) -> Traffic:
    """Algorithm 1 (E5-79, E5-80): FlashAttention's forward pass with the loop over keys outside.

    Each block of K and V is loaded once: 2 n_keys d read. For each of the T_k = ceil(n_keys / block_k)
    blocks, all queries come by with their running state: Q and O (d each), sum and maximum (1 each)
    are read, O, sum and maximum are written. With nothing skipped:

        read 2 n_keys d + T_k n_queries (2 d + 2),        written T_k n_queries (d + 2).

    O = 0, sum = 0 and maximum = -inf are in HBM at the start, and that is not counted. Causal: a block
    of queries none of which sees the block of keys is skipped, so the queries come by from the block on
    in which one sees the first of these keys. The last query sees every key: all keys are loaded.
    """
    rows = _rows_past_keys(n_queries, n_keys, block_q, block_k, causal)
    read = 2 * n_keys * d + rows * (2 * d + 2)
    return Traffic(read * itemsize, rows * (d + 2) * itemsize)


def queries_outside_traffic(
    n_queries: int,
    n_keys: int,
    d: int,
    block_q: int,
    block_k: int,
    *,
    causal: bool = False,
    itemsize: int = 8,
) -> Traffic:
    """The other loop order (FlashAttention-2, Dao 2023): a block of queries stays, the keys come by.

    Sum, maximum and output of a block of queries stay on chip until they are final. So Q is read once,
    O and the logsumexp (one number a row, for the backward pass) are written once; K and V are read
    once for each of the T_q = ceil(n_queries / block_q) blocks of queries. With nothing skipped:

        read n_queries d + T_q 2 n_keys d,        written n_queries (d + 1).

    Causal: the blocks of keys that none of these queries sees are skipped, so the keys come by up to
    the block which holds the last key that the last of these queries sees.
    """
    keys_read = 0
    for first_row in range(0, n_queries, block_q):
        keys = n_keys
        if causal:
            last_row = min(first_row + block_q, n_queries) - 1
            seen = keys_seen_by(last_row, n_queries, n_keys)
            keys = min(_blocks(seen, block_k) * block_k, n_keys)
        keys_read += keys
    read = n_queries * d + 2 * keys_read * d
    return Traffic(read * itemsize, n_queries * (d + 1) * itemsize)


def backward_traffic(
    n_queries: int,
    n_keys: int,
    d: int,
    block_q: int,
    block_k: int,
    *,
    causal: bool = False,
    itemsize: int = 8,
) -> Traffic:
    """The backward pass by recomputation, keys outside (after FlashAttention-2, Dao 2023, Algorithm 2).

    First D = sum(dO * O), row by row: 2 n_queries d read, n_queries written. Then each block of K and V
    is loaded once, 2 n_keys d, and its dK and dV stay on chip until they are stored, 2 n_keys d written.
    The queries come by as in `keys_outside_traffic`, with Q, dO, dQ (d each), logsumexp and D (1 each),
    and take dQ back. With nothing skipped, and T_k blocks of keys:

        read 2 n_queries d + 2 n_keys d + T_k n_queries (3 d + 2),
        written n_queries + 2 n_keys d + T_k n_queries d.

    dQ = 0 is in HBM at the start, and that is not counted.
    """
    rows = _rows_past_keys(n_queries, n_keys, block_q, block_k, causal)
    read = 2 * n_queries * d + 2 * n_keys * d + rows * (3 * d + 2)
    written = n_queries + 2 * n_keys * d + rows * d
    return Traffic(read * itemsize, written * itemsize)


def _rows_past_keys(n_queries: int, n_keys: int, block_q: int, block_k: int, causal: bool) -> int:
    """How many rows of Q come by in all, with the loop over keys outside: n_queries a block, at most."""
    if not causal:
        return _blocks(n_keys, block_k) * n_queries
    rows = 0
    for first_key in range(0, n_keys, block_k):
        first_query = first_query_that_sees(first_key, n_queries, n_keys)
        rows += n_queries - first_query // block_q * block_q
    return rows


def _blocks(size: int, block: int) -> int:
    """How many blocks cover a size, the last one perhaps smaller."""
    return math.ceil(size / block)
