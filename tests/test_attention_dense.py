"""The oracle against oracles of its own: plain Python, PyTorch, differences, and higher precision."""

import math

import numpy as np
import pytest
import torch

from course_utils.attention import (
    causal_mask,
    dense_attention,
    dense_attention_backward,
    first_query_that_sees,
    forward_error_bound,
    keys_seen_by,
)

SHAPES = [(5, 5, 4, 4), (3, 7, 4, 2), (7, 3, 4, 4), (1, 1, 1, 1), (1, 6, 1, 3), (6, 1, 2, 2)]


def problem(n_queries, n_keys, d, d_v, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(n_queries, d), (n_keys, d), (n_keys, d_v), (n_queries, d_v)]
    return [rng.standard_normal(shape) for shape in shapes]


def in_plain_python(q, k, v, scale, visible):
    """The definition, number by number, with exact sums."""
    o, logsumexp = np.zeros((len(q), v.shape[1])), np.full(len(q), -np.inf)
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if visible[i][j]]
        weights = [math.exp(scale * math.fsum(q[i] * k[j])) for j in seen]
        if seen:
            total = math.fsum(weights)
            logsumexp[i] = math.log(total)
            o[i] = [
                math.fsum(w * v[j, c] for w, j in zip(weights, seen)) / total
                for c in range(v.shape[1])
            ]
    return o, logsumexp


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forward_is_the_definition(shape, causal):
    q, k, v, _ = problem(*shape)
    visible = causal_mask(*shape[:2]) if causal else np.ones(shape[:2], bool)
    expected = in_plain_python(q, k, v, 0.3, visible)
    for actual, wanted in zip(dense_attention(q, k, v, scale=0.3, causal=causal), expected):
        np.testing.assert_allclose(actual, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("causal", [False, True])
def test_forward_and_backward_agree_with_pytorch(causal):
    q, k, v, grad_output = problem(6, 9, 4, 4)
    tensors = [torch.tensor(x[None, None], requires_grad=True) for x in (q, k, v)]
    mask = torch.tensor(causal_mask(6, 9)) if causal else None
    output = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask)
    output.backward(torch.tensor(grad_output[None, None]))
    o, _ = dense_attention(q, k, v, causal=causal)
    grads = dense_attention_backward(q, k, v, grad_output, causal=causal)
    np.testing.assert_allclose(o, output.detach()[0, 0], rtol=1e-12, atol=1e-13)
    for grad, tensor in zip(grads, tensors):
        np.testing.assert_allclose(grad, tensor.grad[0, 0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backward_agrees_with_differences(shape, causal):
    *inputs, grad_output = problem(*shape)
    options = {"scale": 0.7, "causal": causal}
    grads = dense_attention_backward(*inputs, grad_output, **options)

    def loss():
        return np.sum(grad_output * dense_attention(*inputs, **options)[0])

    step = 1e-6
    for x, grad in zip(inputs, grads):
        assert grad.shape == x.shape
        for index in np.ndindex(*x.shape):
            value = x[index]
            x[index] = value + step
            above = loss()
            x[index] = value - step
            difference = (above - loss()) / (2 * step)
            x[index] = value
            assert abs(difference - grad[index]) < 1e-8


def test_a_row_that_sees_nothing_is_zero_with_logsumexp_minus_infinity():
    q, k, v, grad_output = problem(5, 3, 4, 4)
    with np.errstate(invalid="raise"):
        o, logsumexp = dense_attention(q, k, v, causal=True)
        grad_q, grad_k, grad_v = dense_attention_backward(q, k, v, grad_output, causal=True)
        _, grad_k_of_rest, _ = dense_attention_backward(q[2:], k, v, grad_output[2:], causal=True)
    assert not o[:2].any() and np.all(logsumexp[:2] == -np.inf)
    assert np.isfinite(logsumexp[2:]).all() and not grad_q[:2].any()
    np.testing.assert_allclose(grad_k, grad_k_of_rest, rtol=1e-13)
    assert np.isfinite(grad_v).all()


def test_no_keys_at_all():
    o, logsumexp = dense_attention(np.ones((2, 3)), np.ones((0, 3)), np.ones((0, 4)))
    assert np.array_equal(o, np.zeros((2, 4))) and np.all(logsumexp == -np.inf)


def test_a_mask_hides_and_joins_the_causal_one():
    q, k, v, _ = problem(4, 4, 2, 2)
    mask = np.random.default_rng(1).random((4, 4)) < 0.6
    both, _ = dense_attention(q, k, v, causal=True, mask=mask)
    joined, _ = dense_attention(q, k, v, mask=mask & causal_mask(4, 4))
    assert np.array_equal(both, joined)
    assert not np.array_equal(both, dense_attention(q, k, v, mask=mask)[0])


def test_leading_axes_are_separate_problems():
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 3, 5, 4))
    o, logsumexp = dense_attention(q, k, v, causal=True)
    alone, logsumexp_alone = dense_attention(q[1, 2], k[1, 2], v[1, 2], causal=True)
    np.testing.assert_allclose(o[1, 2], alone, rtol=1e-13)
    np.testing.assert_allclose(logsumexp[1, 2], logsumexp_alone, rtol=1e-13)


def test_float32_inputs_are_computed_in_float64():
    q, k, v, _ = (x.astype(np.float32) for x in problem(4, 4, 2, 2))
    o, logsumexp = dense_attention(q, k, v)
    assert o.dtype == logsumexp.dtype == np.float64
    assert np.array_equal(o, dense_attention(*(x.astype(np.float64) for x in (q, k, v)))[0])


@pytest.mark.parametrize("size", [1.0, 10.0, 100.0, 1000.0])
def test_error_bound_holds_and_is_not_idle(size):
    q, k, v, _ = problem(30, 30, 8, 8)
    q, k = size * q, size * k
    exact_q, exact_k, exact_v = (x.astype(np.longdouble) for x in (q, k, v))
    scale = 8**-0.5
    s = np.longdouble(scale) * (exact_q @ exact_k.T)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    exact = (p / p.sum(axis=1, keepdims=True)) @ exact_v
    o, _ = dense_attention(q, k, v, scale=scale)
    error, bound = float(np.abs(o - exact).max()), forward_error_bound(q, k, v, scale=scale)
    assert np.isfinite(o).all() and error <= bound
    assert bound <= 1e-13 * max(size**2, 1) * 100


@pytest.mark.parametrize(
    "shapes", [((2, 3), (4, 2), (4, 2)), ((2, 3), (4, 3), (5, 3)), ((3,), (4, 3), (4, 3))]
)
def test_shapes_that_do_not_fit_are_told(shapes):
    with pytest.raises(ValueError, match="attention takes q"):
        dense_attention(*(np.ones(shape) for shape in shapes))


@pytest.mark.parametrize("n_queries, n_keys", [(4, 4), (2, 5), (5, 2), (1, 1), (1, 6), (6, 1)])
def test_what_a_query_sees_is_told_three_times_alike(n_queries, n_keys):
    mask = causal_mask(n_queries, n_keys)
    assert mask[-1].all()  # aligned at the bottom right
    for query in range(n_queries):
        seen = keys_seen_by(query, n_queries, n_keys)
        assert mask[query].sum() == seen and mask[query, :seen].all()
    for key in range(n_keys):
        first = first_query_that_sees(key, n_queries, n_keys)
        assert mask[first:, key].all() and not mask[:first, key].any()


def test_square_masks_are_the_lower_triangle():
    assert np.array_equal(causal_mask(4, 4), np.tri(4, dtype=bool))
