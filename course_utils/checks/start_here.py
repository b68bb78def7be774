"""The check of lesson 00: one warm-up, reverse mode by hand on arrays.

L = sum(2 (w1 w2) w3), elementwise, with u = w1 w2 and v = 2 u: the lecture's example GN-01. Each of
its gradients is a product of two arrays, so of a wrong one it can nearly always be told what it is.
"""

import math
from itertools import permutations

import numpy as np

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, left_behind, over_budget, relative_error, wrong_array
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory

BUDGET_ARRAYS = 7  # the three results, and four more
TOLERANCE_ARRAYS = 0.1  # of 1 MiB: more than what Python's own objects take
NAMES = ("dL/dw1", "dL/dw2", "dL/dw3")


def cases(seed: int) -> list[Case]:
    def case(name: str, *shape: int, dtype: str = "float64", **more) -> Case:
        return Case(name, {"shape": shape, "dtype": dtype, "seed": seed} | more)

    return [
        case("square matrices", 4, 4),
        case("vectors", 5),
        case("float32", 3, 4, dtype="float32"),
        case("three dimensions", 2, 3, 2),
        case("elements between a millionth and a million", 6, 5, decades=6),
        # small enough that a matrix of 2,048 rows and columns, 32 MiB, harms no laptop
        case("memory, 2,048 elements", 2048, measure="growth"),
        case("memory, 512 x 256 elements of 8 bytes", 512, 256, measure="budget"),
    ]


def inputs(case: Case) -> list[np.ndarray]:
    """w1, w2, w3 of a case."""
    given = case.given
    rng = np.random.default_rng(given["seed"])

    def weights() -> np.ndarray:
        shape, decades = given["shape"], given.get("decades", 0)
        numbers = rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 2.0, shape)
        return (numbers * 10.0 ** rng.integers(-decades, decades + 1, shape)).astype(given["dtype"])

    return [weights() for _ in range(3)]


def run(answer, case: Case) -> Observation:
    weights = inputs(case)
    if case.given.get("measure") == "budget":
        return observe_memory(answer, *weights)
    seen = observe(answer, *weights)
    if seen.error is None and "measure" in case.given:  # what a first call keeps is there by now
        return observe_memory(answer, *weights)
    if seen.error is None:
        seen.out_of_sight = find_out_of_sight(answer, *weights)
    return seen


def judge(case: Case, seen: Observation) -> Verdict:
    weights = inputs(case)
    w1, w2, w3 = weights
    expected = [2 * w2 * w3, 2 * w1 * w3, 2 * w1 * w2]
    dtype = case.given["dtype"]
    return (
        _not_three(seen.value)
        or next(filter(None, map(_wrong_form, NAMES, seen.value, weights)), None)
        or _wrong_way(list(seen.value), weights, expected, dtype)
        or next(filter(None, map(wrong_array, seen.value, expected, NAMES, [dtype] * 3)), None)
        or _kept_between_calls(case, seen)
        or _too_much(case, seen)
        or ("measure" in case.given and left_behind(seen.held_bytes, 3 * _array_bytes(case)))
        or passed(**_peak(case, seen))
    )


# --- what came back -----------------------------------------------------------------------------


def _not_three(value) -> Verdict | None:
    in_a_row = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim > 0)
    if in_a_row and len(value) == 3:
        return None
    got = f"{type(value).__name__} of length {len(value)}" if in_a_row else type(value).__name__
    return failed(
        "not three arrays",
        "Expected three arrays, the gradients of w1, w2 and w3 in this order "
        f"(`return g1, g2, g3`), got {got}.",
    )


def _wrong_form(name: str, got, weight: np.ndarray) -> Verdict | None:
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


def _wrong_way(got: list, weights: list, expected: list, dtype: str) -> Verdict | None:
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


# --- what it took -------------------------------------------------------------------------------


def _array_bytes(case: Case) -> int:
    return 8 * math.prod(case.given["shape"])


def _peak(case: Case, seen: Observation) -> dict[str, Measure]:
    """The peak as a student thinks of it: in arrays of this case's size."""
    if case.given.get("measure") != "budget":
        return {}
    arrays = seen.peak_bytes / _array_bytes(case)
    return {"peak": Measure(arrays, "arrays", BUDGET_ARRAYS + TOLERANCE_ARRAYS, at_least=3)}


def _kept_between_calls(case: Case, seen: Observation) -> Verdict | None:
    if "measure" not in case.given or seen.held_bytes >= 3 * _array_bytes(case):
        return None
    return failed(
        "kept between calls",
        "Called once more, your code returned three arrays but made only "
        f"{seen.held_bytes / _array_bytes(case):.3g} that stay. It writes its results over those "
        "of an earlier call, which the caller may still need.",
    )


def _too_much(case: Case, seen: Observation) -> Verdict | None:
    kind, array_bytes = case.given.get("measure"), _array_bytes(case)
    if kind == "growth":
        rows = case.given["shape"][0]
        return over_budget(
            "peak",
            Measure(seen.peak_bytes, "bytes", rows * array_bytes / 4, at_least=3 * array_bytes),
            "a matrix",
            f"For {rows:,} elements the peak was {seen.peak_bytes:,} bytes; {BUDGET_ARRAYS} arrays "
            f"take {BUDGET_ARRAYS * array_bytes:,}. Something has a row and a column for each element, such as a "
            "diagonal matrix: its memory grows with the square of the size.",
        )
    if kind == "budget":
        peak = _peak(case, seen)["peak"]
        return over_budget(
            "peak",
            peak,
            "a history",
            f"At worst {peak.value:.3g} arrays were alive at once, three of them the answer; the "
            f"budget is {BUDGET_ARRAYS}. A name keeps its array alive until it gets another value, "
            "is deleted, or the function returns. Which of yours does no later line read?",
        )
    return None


EXERCISES = {"0.1": Exercise("0.1", "reverse mode by hand", 2, cases, run, judge)}
