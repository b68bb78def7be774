"""What the attention kernels must leave, how far a rounding may carry it, and what may cross for it."""

from dataclasses import dataclass

import numpy as np

from course_utils.attention import causal_mask, dense_attention, dense_attention_backward
from course_utils.checks.core import Case
from course_utils.checks.flash_attention_gpu.attention_inputs import backward_inputs, inputs
from course_utils.checks.flash_attention_gpu.kernel_task import Moves, Wanted

UNIT = {
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}  # relative error of a rounding


@dataclass(frozen=True)
class Scores:
    """Float64 on the case's inputs. `slack`: how far the exponent of a probability may be off.

    A score is a sum of d products, rounded in float32. A program may multiply q by the scale before the product, in
    the type of q, so each product may be off by a rounding of that type.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    visible: np.ndarray | None
    s: np.ndarray
    p: np.ndarray
    o: np.ndarray
    logsumexp: np.ndarray
    slack: float


def scores(case: Case, causal: bool = False) -> Scores:
    q, k, v = (array.astype(np.float64) for array in inputs(case).values())
    scale, d = case.given["scale"], case.given["d"]
    o, logsumexp = dense_attention(q, k, v, scale=scale, causal=causal)
    visible = causal_mask(q.shape[1], k.shape[1]) if causal else None
    s = scale * q @ k.swapaxes(1, 2)
    if causal:
        s = np.where(visible, s, -np.inf)
    p = np.exp(s - np.where(np.isfinite(logsumexp), logsumexp, 0.0)[..., None])
    largest = abs(scale) * (np.abs(q) @ np.abs(k).swapaxes(1, 2)).max()
    slack = (UNIT[case.given["dtype"]] + UNIT["float32"] * (d + 8)) * largest
    return Scores(q, k, v, visible, s, p, o, logsumexp, slack)


def forward_wanted(case: Case, causal: bool = False) -> Wanted:
    """out and logsumexp. The largest error: of the exponents, of P rounded to the inputs' type, of the sums.

    Exponents that are off by no more than slack move o by no more than slack times sum(p |v - o|), twice for good
    measure; that sum is at most the spread of v under p, and at most what is not the largest p's.
    """
    at, unit = scores(case, causal), UNIT[case.given["dtype"]]
    sums = UNIT["float32"] * (at.k.shape[1] + 16)
    spread = np.sqrt(np.maximum(at.p @ at.v**2 - at.o**2, 0.0))
    others = (1 - at.p.max(axis=-1, keepdims=True)) * 2 * np.ptp(at.v, axis=1, keepdims=True)
    out_error = 2 * at.slack * np.minimum(spread, others) + (3 * unit + sums) * (
        at.p @ np.abs(at.v)
    )
    finite = at.logsumexp[np.isfinite(at.logsumexp)]
    sizes_of = np.abs(finite).max(initial=1.0) * 8 * UNIT["float32"]
    return {
        "out": (at.o, 1.5 * out_error.max()),
        "logsumexp": (at.logsumexp, 1.5 * (at.slack + 2 * unit + sums + sizes_of)),
    }


def backward_wanted(case: Case) -> Wanted:
    """dq, dk, dv; the largest error as in `forward_wanted`, and of dS rounded to the inputs' type."""
    at, scale = scores(case), case.given["scale"]
    grad_o = backward_inputs(case)["do"].astype(np.float64)
    dq, dk, dv = dense_attention_backward(at.q, at.k, at.v, grad_o, scale=scale)
    unit, terms = UNIT[case.given["dtype"]], sum(at.s.shape[1:]) + case.given["d"]
    one = 2 * at.slack + 5 * unit + 2 * UNIT["float32"] * terms
    row_dot = np.abs((grad_o * at.o).sum(axis=-1, keepdims=True))
    ds = at.p * (np.abs(grad_o) @ np.abs(at.v).swapaxes(1, 2) + row_dot)
    return {
        "dv": (dv, 1.5 * one * (at.p.swapaxes(1, 2) @ np.abs(grad_o)).max()),
        "dk": (dk, 1.5 * one * scale * (ds.swapaxes(1, 2) @ np.abs(at.q)).max()),
        "dq": (dq, 1.5 * one * scale * (ds @ np.abs(at.k)).max()),
    }


def exactly(nbytes: int, **more) -> Moves:
    return Moves((nbytes, nbytes), **more)


def stored(nbytes: int) -> Moves:
    """Stored once, never read."""
    return Moves(
        (0, 0), (nbytes, nbytes), "Sums stay on chip until they are final, and then are stored."
    )
