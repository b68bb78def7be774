"""0.1: reverse mode by hand, on arrays.

L = sum(2 (w1 w2) w3), elementwise, with u = w1 w2 and v = 2 u: the lecture's example GN-01. Each of
its gradients is a product of two arrays, so of a wrong one it can nearly always be told what it is.
"""

import math

import numpy as np

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import left_behind, over_budget, wrong_array
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory
from course_utils.checks.start_here.slips import NAMES, not_three, wrong_form, wrong_way

BUDGET_ARRAYS = 7  # the three results, and four more
TOLERANCE_ARRAYS = 0.1  # of 1 MiB: more than what Python's own objects take


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
    weights = w1, w2, w3 = inputs(case)
    expected = [2 * w2 * w3, 2 * w1 * w3, 2 * w1 * w2]
    dtype = case.given["dtype"]
    return (
        not_three(seen.value)
        or next(filter(None, map(wrong_form, NAMES, seen.value, weights)), None)
        or wrong_way(list(seen.value), weights, expected, dtype)
        or next(filter(None, map(wrong_array, seen.value, expected, NAMES, [dtype] * 3)), None)
        or _held(case, seen)
        or _too_much(case, seen)
        or passed(**_peak(case, seen))
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


def _held(case: Case, seen: Observation) -> Verdict | None:
    """Held afterwards: the three results, no less and no more."""
    result_bytes = 3 * _array_bytes(case)
    if "measure" not in case.given or seen.held_bytes >= result_bytes:
        return left_behind(seen.held_bytes, result_bytes) if "measure" in case.given else None
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


EXERCISE = Exercise("0.1", "reverse mode by hand", 2, cases, run, judge)
