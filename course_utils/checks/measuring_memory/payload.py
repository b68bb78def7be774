"""1.1: the payload of an array that is never made."""

import math
import operator

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import over_budget, peak, say
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory

_HEADER_BYTES = 256  # more than any ndarray's own object takes


def _cases(seed: int) -> list[Case]:
    rng = np.random.default_rng([seed, 11])

    def some(low: int, high: int, dimensions: int) -> tuple[int, ...]:
        return tuple(
            int(size) for size in rng.choice(np.arange(low, high), dimensions, replace=False)
        )

    def one(shape: tuple, dtype: str, how: str = "name", what: str = "") -> Case:
        name = f"{what + ': ' if what else ''}shape {shape}, {dtype}"
        return Case(
            name, {"shape": shape, "dtype": dtype, "how": how, "measured": "no array" in what}
        )

    return [
        one(some(20, 90, 2), "float64"),
        one(some(20, 90, 2), "float32", "dtype"),
        one(some(3, 20, 3), "int8", "type"),
        one(some(2, 9, 4), "complex128", "dtype"),
        one(some(100, 900, 1), "bool"),
        one((), "float64", what="one number"),
        one((*some(3, 20, 1), 0, *some(3, 20, 1)), "int32", what="no numbers"),
        one(some(2000, 3000, 2), "float64", what="no array may be made"),
        # 2**64 divides neither, so that what is left after an overflow is neither 0 nor right
        one(
            tuple(10**7 + 2 * k + 1 for k in some(0, 1000, 3)),
            "float32",
            what="larger than any memory",
        ),
        one(
            tuple(3 * 10**9 + 2 * k + 1 for k in some(0, 1000, 2)),
            "float16",
            "dtype",
            "larger than any memory",
        ),
    ]


def _arguments(case: Case) -> tuple:
    dtype = np.dtype(case.given["dtype"])
    return case.given["shape"], {"name": dtype.name, "dtype": dtype, "type": dtype.type}[
        case.given["how"]
    ]


def _run(answer, case: Case) -> Observation:
    if not case.given["measured"]:
        return observe(answer, *_arguments(case))
    out_of_sight = find_out_of_sight(answer, (2, 3), "float32")
    seen = observe_memory(answer, *_arguments(case))
    seen.out_of_sight = out_of_sight
    return seen


def whole_number(value: object) -> int | None:
    """An int or one of NumPy's integers as an int; None for anything else, floats and bools too."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def not_whole(value: object) -> Verdict:
    """The verdict on a number of bytes that is no whole number."""
    if isinstance(value, float | np.floating):
        return failed(
            "a float",
            f"Bytes come whole: expected an int, got the {type(value).__name__} {value!r}. "
            "Above 2**53 a float cannot even hold every whole number.",
        )
    return failed("wrong type", f"Expected the bytes as an int, got {type(value).__name__}.")


def _judge(case: Case, seen: Observation) -> Verdict:
    shape, dtype = case.given["shape"], np.dtype(case.given["dtype"])
    expected, actual = math.prod(shape) * dtype.itemsize, whole_number(seen.value)
    if actual is None:
        return not_whole(seen.value)
    if actual != expected:
        cause, why = _likely_cause(actual, expected, shape, dtype)
        return failed(cause, f"Expected {say(expected)}, got {say(actual)}. {why}".rstrip())
    if seen.peak_bytes is None:
        return passed()
    taken = peak(seen.peak_bytes, 0)
    why = (
        f"The number is right, but on the way your code took {say(seen.peak_bytes)}: it made the "
        "array, to ask it. The next shapes fit into no machine."
    )
    wrong = over_budget("memory taken", taken, "made the array", why)
    return wrong or passed(**{"memory taken": taken})


def _likely_cause(actual: int, expected: int, shape: tuple, dtype: np.dtype) -> tuple[str, str]:
    count, itemsize = math.prod(shape), dtype.itemsize
    if actual == 8 * expected:
        return "bits for bytes", "That is eight times too many: are these bits?"
    if shape == () and actual == 0:
        return "one number for none", "An array of shape () has no axes, and holds one number."
    if expected > 2**53 and abs(actual - expected) < expected * 1e-12:
        return "rounded", (
            "That is right in its first digits only: a float holds 53 bits, and rounds the rest."
        )
    if 0 < actual - expected <= _HEADER_BYTES and count > _HEADER_BYTES:
        return "header counted", (
            f"These are {actual - expected} bytes too many, the size of the Python object around "
            "the numbers. It is no payload."
        )
    if actual == count:
        return "elements for bytes", (
            f"That is how many numbers there are. Here each takes {itemsize} bytes."
        )
    if actual in (4 * count, 8 * count):
        return "one size for every dtype", (
            f"That would be {actual // count} bytes a number. How many does one of {dtype} take?"
        )
    if len(shape) > 1:
        if actual == shape[0] ** len(shape) * itemsize:
            return "square only", (
                "That takes every axis to be as long as the first. This array is not square."
            )
        if actual == sum(shape) * itemsize:
            return "axes added", (
                "The lengths of the axes were added up. A 2 x 3 matrix holds six numbers."
            )
        if actual in (shape[0] * itemsize, shape[-1] * itemsize, shape[0] * shape[1] * itemsize):
            return "some axes only", f"Not all of the {len(shape)} axes were counted."
    if expected >= 2**63 and (expected - actual) % 2**32 == 0:
        return "integer overflow", (
            "The product was right and then went round: a NumPy integer holds 64 bits, and drops "
            "what does not fit. Python's own integers hold any number."
        )
    return "wrong bytes", ""


EXERCISE = Exercise("1.1", "payload of any shape and dtype", 2, _cases, _run, _judge)
