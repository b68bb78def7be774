"""The closed forms against programs on the two-level memory: equal to the byte, ragged blocks included."""

import numpy as np
import pytest

from course_utils.attention import (
    Traffic,
    backward_traffic,
    keys_outside_traffic,
    matmul_lower_bound_bytes,
    queries_outside_traffic,
    square_tile,
    standard_attention_traffic,
    tiled_matmul_traffic,
)
from course_utils.hierarchy import HBM, SRAM
from tests.attention_on_chip import (
    flash_backward,
    flash_keys_outside,
    flash_queries_outside,
    standard_attention,
    tiled_matmul,
)

ROOM = 10**6


def draw(seed: int, highs: tuple[int, ...]) -> tuple[int, ...]:
    rng = np.random.default_rng(seed)
    return tuple(int(rng.integers(1, high + 1)) for high in highs)


def attention_inputs(hbm, n_queries, n_keys, d, dtype):
    return (hbm.full((n, d), 0.5, dtype) for n in (n_queries, n_keys, n_keys))


EDGES = [(1, 1, 1, 1, 1), (1, 40, 3, 4, 7), (40, 1, 3, 7, 4), (32, 32, 8, 8, 16), (9, 9, 2, 50, 50)]
ATTENTION_SHAPES = EDGES + [draw(seed, (40, 40, 6, 12, 12)) for seed in range(30)]
MATMUL_SHAPES = [(1,) * 6, (24, 32, 16, 8, 8, 8), (7, 5, 3, 10, 10, 10)] + [
    draw(seed, (40, 40, 40, 12, 12, 12)) for seed in range(30)
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", MATMUL_SHAPES, ids=str)
def test_tiled_matmul(shape, dtype):
    m, n, k, tile_m, tile_n, tile_k = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    hbm = HBM()
    A, B, C = hbm.array(a), hbm.array(b), hbm.empty((m, n), dtype)
    with SRAM(ROOM, hbm) as sram:
        tiled_matmul(sram, A, B, C, tile_m, tile_n, tile_k)
    np.testing.assert_allclose(C.numpy(), a @ b, rtol=1e-3, atol=1e-4)
    expected = tiled_matmul_traffic(m, n, k, tile_m, tile_n, a.itemsize)
    assert (hbm.bytes_read, hbm.bytes_written) == expected


@pytest.mark.parametrize("shape", ATTENTION_SHAPES, ids=str)
def test_standard_attention(shape):
    n_queries, n_keys, d, block_q, block_k = shape
    hbm = HBM()
    Q, K, V = attention_inputs(hbm, n_queries, n_keys, d, np.float64)
    S, P = hbm.empty((n_queries, n_keys)), hbm.empty((n_queries, n_keys))
    with SRAM(ROOM, hbm) as sram:
        O = hbm.empty(Q.shape)
        standard_attention(sram, Q, K, V, S, P, O, block_q, block_k, 1.0)
    expected = standard_attention_traffic(n_queries, n_keys, d, block_q)
    assert (hbm.bytes_read, hbm.bytes_written) == expected


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", ATTENTION_SHAPES, ids=str)
def test_keys_outside(shape, causal):
    n_queries, n_keys, d, block_q, block_k = shape
    hbm = HBM()
    Q, K, V = attention_inputs(hbm, n_queries, n_keys, d, np.float64)
    O, row_sums, row_maxima = hbm.zeros(Q.shape), hbm.zeros(n_queries), hbm.full(n_queries, -np.inf)
    with SRAM(ROOM, hbm) as sram:
        flash_keys_outside(
            sram, Q, K, V, O, row_sums, row_maxima, block_q, block_k, 1.0, causal
        )  # fmt: skip
    expected = keys_outside_traffic(*shape, causal=causal)
    assert (hbm.bytes_read, hbm.bytes_written) == expected


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", ATTENTION_SHAPES, ids=str)
def test_queries_outside(shape, causal):
    n_queries, n_keys, d, block_q, block_k = shape
    hbm = HBM()
    Q, K, V = attention_inputs(hbm, n_queries, n_keys, d, np.float64)
    O, logsumexps = hbm.empty(Q.shape), hbm.empty(n_queries)
    with SRAM(ROOM, hbm) as sram:
        flash_queries_outside(sram, Q, K, V, O, logsumexps, block_q, block_k, 1.0, causal)
    expected = queries_outside_traffic(*shape, causal=causal)
    assert (hbm.bytes_read, hbm.bytes_written) == expected


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", ATTENTION_SHAPES, ids=str)
def test_backward(shape, causal):
    n_queries, n_keys, d, block_q, block_k = shape
    hbm = HBM()
    Q, K, V = inputs = tuple(attention_inputs(hbm, n_queries, n_keys, d, np.float64))
    outputs = hbm.zeros(Q.shape), hbm.zeros(Q.shape), hbm.zeros(n_queries)
    grads = hbm.zeros(Q.shape), hbm.empty(K.shape), hbm.empty(V.shape)
    with SRAM(ROOM, hbm) as sram:
        D = hbm.empty(n_queries)
        flash_backward(sram, inputs, outputs, grads, D, block_q, block_k, 1.0, causal)
    expected = backward_traffic(*shape, causal=causal)
    assert (hbm.bytes_read, hbm.bytes_written) == expected


# --- formulas by hand -----------------------------------------------------------------------------


def test_naive_matmul_reads_two_elements_for_every_multiplication():
    assert tiled_matmul_traffic(10, 20, 30, 1, 1, 4) == Traffic(2 * 10 * 20 * 30 * 4, 10 * 20 * 4)


def test_sharing_a_tile_of_t_saves_all_but_one_read_in_t():  # GN-22
    naive, tiled = (tiled_matmul_traffic(64, 64, 64, t, t).bytes_read for t in (1, 8))
    assert naive == 8 * tiled


def test_three_square_tiles_fit_and_larger_ones_do_not():
    for capacity_bytes in (24, 1000, 4096, 99_999):
        tile = square_tile(capacity_bytes)
        assert 3 * tile**2 * 8 <= capacity_bytes < 3 * (tile + 1) ** 2 * 8


@pytest.mark.parametrize("seed", range(30))
def test_no_tiling_that_fits_goes_below_the_lower_bound(seed):
    m, n, k, tile_m, tile_n = draw(seed, (300, 300, 300, 60, 60))
    needed_bytes = 8 * (tile_m * tile_n + tile_m + tile_n)  # with k walked through one by one
    moved_bytes = tiled_matmul_traffic(m, n, k, tile_m, tile_n).bytes_moved
    assert moved_bytes >= matmul_lower_bound_bytes(m, n, k, needed_bytes)


def test_the_lower_bound_is_near_for_a_large_product():
    n, capacity_bytes = 4096, 8 * (128 * 128 + 2 * 128)
    moved_bytes = tiled_matmul_traffic(n, n, n, 128, 128).bytes_moved
    assert moved_bytes < 1.05 * matmul_lower_bound_bytes(n, n, n, capacity_bytes)


def test_everything_must_cross_once_however_large_the_chip():
    assert matmul_lower_bound_bytes(3, 4, 5, 10**9) == 8 * (15 + 20 + 12)


def test_keys_outside_without_a_mask_is_the_formula():
    n, d, block_q, block_k = 1000, 64, 30, 130
    passes = 8
    read = 2 * n * d + passes * n * (2 * d + 2)
    expected = Traffic(read * 2, passes * n * (d + 2) * 2)
    assert keys_outside_traffic(n, n, d, block_q, block_k, itemsize=2) == expected


def test_a_causal_mask_saves_about_half_and_never_costs():
    n, d = 1024, 64
    for count in (keys_outside_traffic, queries_outside_traffic):
        whole, causal = (
            count(n, n, d, 16, 16, causal=causal).bytes_moved for causal in (False, True)
        )
        assert 0.5 < causal / whole < 0.55


def test_moved_is_read_and_written():
    assert Traffic(3, 4).bytes_moved == 7
