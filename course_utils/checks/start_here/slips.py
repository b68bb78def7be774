"""Slips in 0.1, told by the three arrays that they lead to: their form first, then their values."""

from itertools import permutations

import numpy as np

from course_utils.checks.core import Verdict, failed
from course_utils.checks.judging import close, relative_error, wrong_array

NAMES = ("dL/dw1", "dL/dw2", "dL/dw3")

# --- what came back -----------------------------------------------------------------------------


def not_three(value) -> Verdict | None:
    in_a_row = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim > 0)
    if in_a_row and len(value) == 3:
        return None
    got = f"{type(value).__name__} of length {len(value)}" if in_a_row else type(value).__name__
    return failed(
        "not three arrays",
        "Expected three arrays, the gradients of w1, w2 and w3 in this order "
        f"(`return g1, g2, g3`), got {got}.",
    )


def wrong_form(name: str, got, weight: np.ndarray) -> Verdict | None:
    """Type, shape and dtype of one gradient, the cause named where it can be."""
    is_array = isinstance(got, np.ndarray)
    if isinstance(got, int | float | np.number) or (is_array and got.ndim == 0):
        return failed(
            "summed",
            f"{name} came out as one number; expected an array of shape {weight.shape}, one number "
            "for each element of the weight. Only L sums; `@`, `np.dot` and `np.sum` sum as well.",
        )
    if is_array and got.shape == (weight.size, weight.size):
        return failed(
            "outer product",
            f"{name} came out with shape {got.shape} for a weight of shape {weight.shape}: every "
            "element meets every other. In L an element meets only those at its own place.",
        )
    if is_array and weight.dtype == np.float32 and got.dtype == np.float64:
        return failed(
            "upcast",
            f"The weights are float32, but {name} came out as float64: twice the bytes. An array "
            "made without a dtype does that, and so does `np.float64(2)`; a plain `2` does not.",
        )
    if is_array and got.shape == weight.shape and got.dtype == weight.dtype:
        return None
    return wrong_array(got, weight, name, weight.dtype.name)


# --- what the values tell -----------------------------------------------------------------------


def wrong_way(got: list, weights: list, expected: list, dtype: str) -> Verdict | None:
    """The typical slips, each by the values that it leads to; None if none explains them."""

    def like(a, b) -> bool:
        return close(a, b, dtype)

    wrong = [i for i in range(3) if not like(got[i], expected[i])]
    if not wrong:
        return None
    if all(map(like, got, weights)):
        return failed("the weights themselves", "Got the weights, not how L changes with them.")
    if like(got[2], weights[2]):
        return failed(
            "the notes' slip",
            "dL/dw3 came out as w3 itself, as in the transcript of the notes. Nudge w3 a little: by "
            "what is that nudge multiplied on its way to L?",
        )
    orders = set(permutations(range(3))) - {(1, 0, 2)}  # that one has a likelier cause
    if any(all(like(got[i], expected[j]) for i, j in enumerate(order)) for order in orders):
        return failed("order of results", "All three are right, but not in the order w1, w2, w3.")
    if (0 in wrong and like(got[0], expected[1])) or (1 in wrong and like(got[1], expected[0])):
        return failed(
            "own factor",
            "The gradients of w1 and w2 are exchanged, or one of them stands for both. In a "
            "product, the slope for one factor is the other factor.",
        )
    slips = (_slip(NAMES[i], got[i], weights, expected[i], like) for i in wrong)
    inexact = (_inexact(NAMES[i], got[i], expected[i], dtype) for i in wrong)
    return next(filter(None, slips), None) or next(filter(None, inexact), None)


def _slip(name: str, got: np.ndarray, weights: list, expected: np.ndarray, like) -> Verdict | None:
    """What went wrong in one gradient, if it is one of these."""
    w1, w2, w3 = weights
    if like(2 * got, expected):
        return failed("factor 2 missing", f"{name} is half of what is right: look between u and v.")
    if like(got, 2 * expected):
        return failed("factor 2 twice", f"{name} is twice what is right: a factor went in twice.")
    if like(got * got.size, expected):
        return failed(
            "mean for a sum",
            f"{name} is right but for a division by {got.size}. L is a sum over the elements.",
        )
    if like(got, w1 * w2 * w3) or like(got, 2 * w1 * w2 * w3):
        return failed(
            "three factors",
            f"{name} holds all three weights as factors; differentiating takes one away. Either it "
            "stayed, or an array was overwritten: `*=` changes it for every name that it has.",
        )
    if any(like(got, factor * w) for w in weights for factor in (1, 2)):
        return failed(
            "chain cut short",
            f"{name} holds a single weight, so it is one link of the chain: the slope of one step. "
            "Multiply the slopes of all steps from there to L.",
        )
    if got.ndim == 2 and got.shape[0] == got.shape[1]:
        products = [factor * (a @ b) for a, b in permutations(weights, 2) for factor in (1, 2)]
        if any(like(got, product) for product in products):
            return failed(
                "matrix product",
                f"{name} is a matrix product (`@`). L multiplies element by element (`*`).",
            )
    return None


def _inexact(name: str, got: np.ndarray, expected: np.ndarray, dtype: str) -> Verdict | None:
    error = relative_error(got, expected)
    if dtype != "float64" or not error < 1e-3:
        return None
    return failed(
        "a difference quotient",
        f"{name} is right to some digits only: the largest error is {error:.1g} of the largest "
        "value, where rounding leaves about 1e-16. A difference quotient does that, and so does a "
        "detour through float32. Use the chain rule.",
    )
