"""Judging what was observed: values against an oracle, bytes against a budget, growth over sizes.

Each function returns None when all is well, or a failing verdict. A judge strings them together with
`or`, its own tests for typical mistakes first, since those can name the cause.
"""

from collections.abc import Sequence

import numpy as np

from course_utils.checks.core import Measure, Verdict, failed
from course_utils.tracing import PEAK_TOLERANCE_BYTES

# Normwise: sums of some thousand terms in another order differ by about sqrt(terms) roundings.
RELATIVE_TOLERANCE = {"float64": 1e-10, "float32": 2e-4}


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """max |actual - expected| / max |expected|, in float64."""
    expected = np.asarray(expected, dtype=np.float64)
    largest = np.max(np.abs(expected), initial=0.0) or 1.0
    return float(
        np.max(np.abs(np.asarray(actual, dtype=np.float64) - expected), initial=0.0) / largest
    )


def close(actual, expected: np.ndarray, dtype: str = "float64", *, tolerance: float = 0.0) -> bool:
    """Whether `actual` is an array like `expected`, to this tolerance or that of this dtype."""
    return (
        _is_plain(actual)
        and np.shape(actual) == np.shape(expected)
        and np.asarray(actual).dtype.kind in "fiu"
        and relative_error(actual, expected) <= (tolerance or RELATIVE_TOLERANCE[dtype])
    )


def _told_apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see that they differ."""
    for digits in (6, 9, 12, 17):
        if f"{a:.{digits}g}" != f"{b:.{digits}g}":
            break
    return f"{a:.{digits}g}", f"{b:.{digits}g}"


def _is_plain(value) -> bool:
    """A NumPy array or number, and no subclass (masked, matrix) with rules of its own."""
    return type(value) is np.ndarray or isinstance(value, np.generic)


def _foreign_owner(array) -> object | None:
    """What owns an array's memory, where that is not NumPy: bytes, a map of a file, a tensor."""
    while isinstance(array, np.ndarray):
        array = array.base
    has_numpys_memory = array is None or hasattr(array, "__array_interface__")
    return None if has_numpys_memory or isinstance(array, np.generic) else array


def wrong_array(
    actual,
    expected: np.ndarray,
    what: str = "the result",
    dtype: str = "float64",
    *,
    tolerance: float = 0.0,
) -> Verdict | None:
    """Type, then shape, then dtype, then values: the first that is wrong. A tolerance of 0: that of the dtype."""
    if not _is_plain(actual):
        return failed(
            "wrong type", f"Expected {what} as a NumPy array, got {type(actual).__name__}."
        )
    if (owner := _foreign_owner(actual)) is not None:
        return failed(
            "memory out of sight",
            f"The numbers of {what} lie in the memory of a {type(owner).__name__}, which this check "
            "cannot count. Use NumPy's arrays, which it counts to the byte.",
        )
    if actual.shape != expected.shape:
        return failed(
            "wrong shape", f"Expected {what} of shape {expected.shape}, got {actual.shape}."
        )
    if actual.dtype != np.dtype(dtype):
        return failed(
            "wrong dtype", f"Expected {what} in {dtype}, as the input is, got {actual.dtype}."
        )
    if not np.isfinite(actual).all() and np.isfinite(expected).all():
        return failed(
            "not finite", f"Of {what}, {int((~np.isfinite(actual)).sum())} elements are inf or nan."
        )
    error = relative_error(actual, expected)
    if not error <= (tolerance or RELATIVE_TOLERANCE[dtype]):
        worst = np.unravel_index(np.argmax(np.abs(actual - expected)), expected.shape)
        at = "" if not worst else f" at index {tuple(map(int, worst))}"
        right, got = _told_apart(float(expected[worst]), float(actual[worst]))
        detour = ", about what a detour through float32 leaves" if 1e-9 < error < 1e-6 else ""
        return failed(
            "wrong values",
            f"In {what} the largest error is {error:.2g} of the largest value{detour}: expected "
            f"{right}{at}, got {got}.",
        )
    return None


def over_budget(name: str, measure: Measure, cause: str, diagnosis: str) -> Verdict | None:
    """A measure above its budget fails for `cause`; one below what is possible fails as such."""
    if measure.at_least is not None and measure.value < measure.at_least:
        return failed(
            "better than possible",
            f"{name} came out as {say(measure.value, measure.unit)}, but no answer can need less than "
            f"{say(measure.at_least, measure.unit)}: the memory was taken where this check does not see it.",
            **{name: measure},
        )
    if measure.at_most is not None and measure.value > measure.at_most:
        return failed(cause, diagnosis, **{name: measure})
    return None


def peak(peak_bytes: int, at_most_bytes: float, at_least_bytes: float = 0) -> Measure:
    """A peak as a measure: the budget gets tracemalloc's tolerance on top."""
    return Measure(peak_bytes, "bytes", at_most_bytes + PEAK_TOLERANCE_BYTES, at_least_bytes)


def left_behind(held_bytes: int, result_bytes: int) -> Verdict | None:
    """More alive after the return than the result: something was kept, and by whom is the question.

    Small change (64 KiB) is let pass: a cache of numbers is no sin, a history of arrays is.
    """
    held = Measure(held_bytes, "bytes", result_bytes + PEAK_TOLERANCE_BYTES)
    return over_budget(
        "held afterwards",
        held,
        "left something behind",
        f"After the return {say(held_bytes)} are still alive, and the result takes {say(result_bytes)}. "
        "What refers to the rest? A global list, an attribute or a default argument outlives a call.",
    )


def growth_exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The p of values ~ sizes**p: the slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1)), 1)[0])


def say(value: float, unit: str = "bytes") -> str:
    """A number as people read it: 8,000,000 bytes (8.00 MB)."""
    if unit != "bytes":
        return f"{value:.3g} {unit}".rstrip()
    if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to write it out
        return f"about 2**{value.bit_length()} bytes"
    text = f"{round(value):,} bytes"
    if 10**6 <= abs(value) < 10**12:
        return f"{text} ({value / 10**6:.2f} MB)"
    return text
