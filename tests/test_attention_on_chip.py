"""The reference programs on the two-level memory: values against the oracle, room, and time."""

import time

import numpy as np
import pytest

from course_utils.attention import (
    dense_attention,
    dense_attention_backward,
    forward_error_bound,
)
from course_utils.hierarchy import (
    HBM,
    SRAM,
    UNSEEN_TOLERANCE_BYTES,
    SRAMOverflow,
    run_metered,
)
from tests.attention_on_chip import (
    flash_backward,
    flash_keys_outside,
    flash_queries_outside,
    standard_attention,
)

KIB = 1024
SHAPES = [  # n_queries, n_keys, d, block_q, block_k
    (64, 64, 16, 16, 16),
    (67, 67, 16, 16, 20),
    (1, 1, 8, 4, 4),
    (1, 50, 8, 4, 16),
    (50, 1, 8, 16, 4),
    (33, 47, 1, 8, 10),
    (47, 33, 5, 10, 8),
    (29, 29, 4, 64, 64),
    (20, 20, 3, 1, 1),
]


def problem(n_queries, n_keys, d, size=1.0, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(n_queries, d), (n_keys, d), (n_keys, d)]
    return [size * rng.standard_normal(shape) for shape in shapes[:2]] + [
        rng.standard_normal(shapes[2])
    ]


def run_keys_outside(hbm, sram, q, k, v, block_q, block_k, causal):
    Q, K, V = hbm.array(q, "Q"), hbm.array(k, "K"), hbm.array(v, "V")
    O, row_sums = hbm.zeros(q.shape, name="O"), hbm.zeros(len(q))
    row_maxima = hbm.full(len(q), -np.inf)
    arrays = (Q, K, V, O, row_sums, row_maxima)
    with sram:
        flash_keys_outside(sram, *arrays, block_q, block_k, q.shape[1] ** -0.5, causal)
    with np.errstate(divide="ignore"):
        return O.numpy(), row_maxima.numpy() + np.log(row_sums.numpy())


def run_queries_outside(hbm, sram, q, k, v, block_q, block_k, causal):
    Q, K, V = hbm.array(q, "Q"), hbm.array(k, "K"), hbm.array(v, "V")
    O, logsumexps = hbm.empty(q.shape, name="O"), hbm.empty(len(q))
    with sram:
        scale = q.shape[1] ** -0.5
        flash_queries_outside(sram, Q, K, V, O, logsumexps, block_q, block_k, scale, causal)
    return O.numpy(), logsumexps.numpy()


def normwise(actual, expected):
    return np.max(np.abs(actual - expected)) / np.max(np.abs(expected))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("run", [run_keys_outside, run_queries_outside])
def test_flash_forward_equals_the_oracle(run, shape, causal):
    n_queries, n_keys, d, block_q, block_k = shape
    q, k, v = problem(n_queries, n_keys, d)
    hbm = HBM()
    with np.errstate(all="raise", divide="ignore", under="ignore"):
        o, logsumexp = run(hbm, SRAM(10**6, hbm), q, k, v, block_q, block_k, causal)
    expected_o, expected_logsumexp = dense_attention(q, k, v, causal=causal)
    assert normwise(o, expected_o) < 1e-12
    visible = np.isfinite(expected_logsumexp)
    assert np.array_equal(np.isfinite(logsumexp), visible)
    assert np.allclose(logsumexp[visible], expected_logsumexp[visible], rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_flash_backward_equals_the_oracle(shape, causal):
    n_queries, n_keys, d, block_q, block_k = shape
    q, k, v = problem(n_queries, n_keys, d)
    grad_o = np.random.default_rng(1).standard_normal(q.shape)
    hbm = HBM()
    o, logsumexp = dense_attention(q, k, v, causal=causal)
    inputs = tuple(map(hbm.array, (q, k, v)))
    grads = hbm.zeros(q.shape), hbm.empty(k.shape), hbm.empty(v.shape)
    outputs = tuple(map(hbm.array, (o, grad_o, logsumexp)))
    with SRAM(10**6, hbm) as sram:
        D = hbm.empty(n_queries)
        flash_backward(sram, inputs, outputs, grads, D, block_q, block_k, d**-0.5, causal)
    expected = dense_attention_backward(q, k, v, grad_o, causal=causal)
    largest = max(np.abs(grad).max() for grad in expected)  # one key alone: dQ and dK are zero
    for actual, wanted in zip(grads, expected):
        assert np.abs(actual.numpy() - wanted).max() < 1e-12 * largest


@pytest.mark.parametrize("run", [run_keys_outside, run_queries_outside])
def test_scores_of_ten_thousand_stay_finite_and_within_the_bound(run):
    q, k, v = problem(40, 40, 8, size=100.0)
    assert np.abs(q @ k.T / 8**0.5).max() > 1e4
    hbm = HBM()
    o, _ = run(hbm, SRAM(10**6, hbm), q, k, v, 8, 8, True)
    error = np.abs(o - dense_attention(q, k, v, causal=True)[0]).max()
    assert error <= 2 * forward_error_bound(q, k, v)


def test_standard_attention_equals_the_oracle():
    q, k, v = problem(37, 53, 8)
    hbm = HBM()
    Q, K, V = map(hbm.array, (q, k, v))
    S, P, O = hbm.empty((37, 53)), hbm.empty((37, 53)), hbm.empty((37, 8))
    with SRAM(10 * KIB, hbm) as sram:
        standard_attention(sram, Q, K, V, S, P, O, 8, 16, 8**-0.5)
    assert normwise(O.numpy(), dense_attention(q, k, v)[0]) < 1e-12


@pytest.mark.parametrize("run", [run_keys_outside, run_queries_outside])
@pytest.mark.parametrize("causal", [False, True])
def test_two_thousand_rows_fit_in_128_kib_and_take_under_three_seconds(run, causal):
    q, k, v = problem(2048, 2048, 64)
    hbm = HBM()
    sram = SRAM(128 * KIB, hbm)
    start = time.process_time()
    o, _ = run(hbm, sram, q, k, v, 48, 48, causal)
    assert time.process_time() - start < 3.0
    assert sram.peak_bytes <= 128 * KIB
    assert normwise(o, dense_attention(q, k, v, causal=causal)[0]) < 1e-12


def test_what_is_on_chip_does_not_grow_with_the_sequence():
    peaks = []
    for n in (128, 256, 512):
        hbm = HBM()
        sram = SRAM(10**6, hbm)
        run_queries_outside(hbm, sram, *problem(n, n, 16), 32, 32, False)
        peaks.append(sram.peak_bytes)
    assert peaks[0] == peaks[1] == peaks[2]


def test_forming_all_scores_on_chip_overflows_and_says_where():
    q, k, v = problem(512, 512, 16)
    hbm = HBM()
    Q, K = hbm.array(q, "Q"), hbm.array(k, "K")
    with SRAM(256 * KIB, hbm) as sram:
        queries, keys = sram.load(Q), sram.load(K)
        with pytest.raises(SRAMOverflow, match=r"^matmul needs 2,097,152 bytes for \(512, 512\)"):
            queries @ keys.T


def test_an_honest_program_leaves_nothing_unseen():
    q, k, v = problem(512, 512, 64)
    hbm = HBM()
    Q, K, V = map(hbm.array, (q, k, v))
    O, logsumexps = hbm.empty(q.shape), hbm.empty(len(q))
    run = run_metered(
        SRAM(400 * KIB, hbm),
        lambda sram: flash_queries_outside(sram, Q, K, V, O, logsumexps, 64, 64, 0.125),
    )
    assert run.peak_bytes <= 400 * KIB
    assert run.unseen_bytes <= UNSEEN_TOLERANCE_BYTES
