"""Attention by the formula, all scores at once, in float64: what every cleverer version must equal.

With scores S = scale * Q K^T (hidden ones are -inf):

    P = softmax(S) row by row        logsumexp_i = log(sum_j exp(S_ij))        O = P V

A row in which every key is hidden has no softmax: the sum of nothing. Its output is defined here as
zero, its logsumexp as -inf (the logarithm of that empty sum), and no gradient flows through it. The bare
formula would give nan; FlashAttention's kernels give zero as well.
"""

import numpy as np

from course_utils.attention.masks import causal_mask

UNIT_ROUNDOFF = 2.0**-53  # float64: the relative error of one operation is at most this


def dense_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The output and each row's logsumexp, in float64.

    q: (..., n_queries, d); k: (..., n_keys, d); v: (..., n_keys, d_v). Any leading axes broadcast.
    scale: 1 / sqrt(d) if not given. causal: aligned at the bottom right, see `masks`.
    mask: booleans that broadcast to (..., n_queries, n_keys), True where a query sees a key.
    Returns O (..., n_queries, d_v) and logsumexp (..., n_queries). Source: L12-44, with its scale.
    """
    q, k, v = _as_float64(q, k, v)
    p, logsumexp = _probabilities(q, k, _scale(q, scale), _visible(q, k, causal, mask))
    return p @ v, logsumexp


def dense_attention_backward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    grad_output: np.ndarray,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dQ, dK, dV for a loss whose derivative for O is `grad_output`, in float64. Shapes as q, k, v.

    From O = P V:                dV = P^T dO,  dP = dO V^T.
    From P = softmax(S), a row:  dS = P * (dP - sum(P * dP)), and that sum is D = sum(dO * O).
    From S = scale * Q K^T:      dQ = scale * dS K,  dK = scale * dS^T Q.
    No axes but the last two may broadcast. Source: FlashAttention (Dao et al. 2022), appendix B.
    """
    q, k, v, grad_output = _as_float64(q, k, v, grad_output)
    scale = _scale(q, scale)
    p, _ = _probabilities(q, k, scale, _visible(q, k, causal, mask))
    grad_v = _transposed(p) @ grad_output
    grad_p = grad_output @ _transposed(v)
    output_dot_grad = (grad_output * (p @ v)).sum(-1, keepdims=True)  # (..., n_queries, 1)
    grad_s = p * (grad_p - output_dot_grad)
    return scale * (grad_s @ k), scale * (_transposed(grad_s) @ q), grad_v


def forward_error_bound(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, scale: float | None = None
) -> float:
    """How far an output computed in float64, in one go or by blocks, may be from the exact one.

    A score is a sum of d products, then scaled. It is wrong by at most about (d + 1) u a, where u is the
    unit roundoff and a the largest scale * sum |q| |k|. Subtracting a maximum adds 2 u a; so do all
    corrections of a running maximum together, since it only rises, from -a to a at most. exp turns an
    absolute error of its argument into a relative one of its value. The numerator and the denominator
    of the softmax both have it, and each sums n terms, which adds n u; a block adds at most 6 u more
    for its rescaling, and there are at most n blocks:

        |error of O| <= 2 ((d + 6) a + 8 (n + 1)) u max|V|        to first order in u.

    So scores of 10,000 cost four digits more than scores of 1, in any algorithm. Twice this bounds the
    difference of two computed outputs: a tolerance for large scores, where a fixed one says nothing.
    """
    q, k, v = _as_float64(q, k, v)
    largest_score = _scale(q, scale) * np.max(np.abs(q) @ _transposed(np.abs(k)), initial=0.0)
    steps = (q.shape[-1] + 6) * largest_score + 8 * (k.shape[-2] + 1)
    return float(2 * steps * UNIT_ROUNDOFF * np.max(np.abs(v), initial=0.0))


def _probabilities(q, k, scale: float, visible) -> tuple[np.ndarray, np.ndarray]:
    s = scale * (q @ _transposed(k))  # (..., n_queries, n_keys)
    if visible is not None:
        s = np.where(visible, s, -np.inf)
    row_max = s.max(-1, keepdims=True, initial=-np.inf)
    row_max = np.where(row_max == -np.inf, 0.0, row_max)  # nothing visible: exp(-inf - 0) = 0
    p = np.exp(s - row_max)
    row_sum = p.sum(-1, keepdims=True)
    sees_something = row_sum > 0
    p /= np.where(sees_something, row_sum, 1.0)
    with np.errstate(divide="ignore"):  # log(0) = -inf is meant
        return p, (row_max + np.log(row_sum))[..., 0]


def _visible(q, k, causal: bool, mask) -> np.ndarray | None:
    if not causal:
        return mask
    triangle = causal_mask(q.shape[-2], k.shape[-2])
    return triangle if mask is None else triangle & mask


def _scale(q, scale: float | None) -> float:
    return 1 / np.sqrt(q.shape[-1]) if scale is None else scale


def _as_float64(*arrays) -> list[np.ndarray]:
    arrays = [np.asarray(array, dtype=np.float64) for array in arrays]
    q, k, v = arrays[:3]
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            "attention takes q (..., n_queries, d), k (..., n_keys, d) and v (..., n_keys, d_v); got "
            f"{q.shape}, {k.shape}, {v.shape}"
        )
    return arrays


def _transposed(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)
