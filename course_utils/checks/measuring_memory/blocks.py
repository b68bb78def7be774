"""1.4: statistics of all pairwise distances, in memory that grows with n, not with its square."""

import time

import numpy as np

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import (
    close,
    growth_exponent,
    left_behind,
    over_budget,
    peak,
    say,
    wrong_array,
)
from course_utils.checks.measuring_memory.distances import mistakes, statistics
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory

# A block of distances is 256 KiB and more.
_SIZES, _DIMENSIONS, _BLOCK_ROWS = (1024, 2048, 4096), 3, 32
# Differences and squares of this block and of the last one, and room for smaller arrays.
_BLOCK_ARRAYS = 5
_LARGEST_EXPONENT = 1.5
# No larger size is tried after this peak, or where it is likely to take this long.
_ENOUGH_BYTES, _ENOUGH_SECONDS = 64 * 10**6, 20.0
# |a|^2 - 2ab + |b|^2, an honest way, loses half the digits of a small distance. Among many points
# that is drowned in the mean; what is left to see then is a detour through float32.
_TOLERANCE, _TOLERANCE_OF_MANY, _MANY = 1e-6, 1e-9, 1000


def _cases(seed: int) -> list[Case]:
    def one(n: int, d: int, block_rows: int, what: str) -> Case:
        name = f"{n} points in {d} dimension{'s' * (d > 1)}, block_rows = {block_rows}: {what}"
        return Case(name, {"n": n, "d": d, "block_rows": block_rows, "seed": seed})

    sizes = ", ".join(f"{n:,}" for n in _SIZES)
    growing = {"sizes": _SIZES, "d": _DIMENSIONS, "block_rows": _BLOCK_ROWS, "seed": seed}
    return [
        one(12, 2, 4, "whole blocks"),
        one(11, 3, 4, "a last block that is smaller"),
        one(9, 1, 2, "a single coordinate"),
        one(6, 2, 1, "blocks of one row"),
        one(5, 4, 8, "a block larger than n"),
        one(1, 2, 3, "a single point"),
        Case(f"memory: {sizes} points, block_rows = {_BLOCK_ROWS}", growing),
    ]


def _points(case: Case, n: int) -> np.ndarray:
    rng = np.random.default_rng([case.given["seed"], 14, n, case.given["d"]])
    return rng.standard_normal((n, case.given["d"]))  # (n, d)


def _run(answer, case: Case) -> Observation:
    block_rows = case.given["block_rows"]
    if "n" in case.given:
        return observe(answer, _points(case, case.given["n"]), block_rows)
    out_of_sight = find_out_of_sight(answer, _points(case, 5), 2)  # warms the answer up, too
    results, peaks, held, seconds = [], [], [], []
    for n in case.given["sizes"]:
        plain = len(peaks) > 1 and peaks[-1] > _ENOUGH_BYTES
        if plain or seconds and 4 * seconds[-1] > _ENOUGH_SECONDS:
            break  # a larger one would only strain this machine
        points, start = _points(case, n), time.perf_counter()
        seen = observe_memory(answer, points, block_rows)
        if seen.error is not None:
            return seen
        results.append(seen.value)
        peaks.append(seen.peak_bytes)
        held.append(seen.held_bytes)
        seconds.append(time.perf_counter() - start)
    more = {"peaks": peaks, "held": held, "seconds": seconds}
    return Observation(results, peaks[-1], more=more, out_of_sight=out_of_sight)


def _judge(case: Case, seen: Observation) -> Verdict:
    if "n" in case.given:
        points = _points(case, case.given["n"])
        return _wrong_values(points, case.given["block_rows"], seen.value) or passed()
    for n, result in zip(case.given["sizes"], seen.value, strict=False):
        wrong = _wrong_pair(result, statistics(_points(case, n)))
        if wrong:
            return wrong
    return _judge_memory(case, seen)


def _wrong_pair(value, expected) -> Verdict | None:
    """Whether this is (mean, largest), in any kind of sequence."""
    sequence = isinstance(value, list | tuple) or isinstance(value, np.ndarray) and value.ndim > 0
    single = float | int | np.generic
    if not sequence or len(value) != 2 or any(isinstance(part, single) for part in value):
        got = type(value).__name__
        if isinstance(value, np.ndarray):
            got = f"an array of shape {value.shape}"
        elif sequence:
            got = f"a {got} of {', '.join(type(part).__name__ for part in value[:3]) or 'nothing'}"
        expectation = "Expected two arrays of n numbers, (mean, largest)"
        return failed("wrong type", f"{expectation}, got {got}.")
    for name, actual, wanted in zip(("mean", "largest"), value, expected, strict=True):
        floats = isinstance(actual, np.ndarray) and actual.dtype.kind == "f"
        if floats and np.isnan(actual).any():
            return failed(
                "root of a negative",
                f"{int(np.isnan(actual).sum())} of {name} are nan. A squared distance is never "
                "negative, but rounding may leave one that should be 0 a little below.",
            )
        tolerance = _TOLERANCE_OF_MANY if len(wanted) >= _MANY else _TOLERANCE
        wrong = wrong_array(actual, wanted, what=name, tolerance=tolerance)
        if wrong:
            return wrong
    return None


def _wrong_values(points: np.ndarray, block_rows: int, value) -> Verdict | None:
    expected = statistics(points)
    wrong = _wrong_pair(value, expected)
    if not wrong or wrong.cause not in ("wrong values", "wrong shape"):
        return wrong
    n, (mean, largest), (right_mean, right_largest) = len(points), value, expected
    whole = n - n % block_rows
    first_are_right = _same(np.ravel(mean)[:whole], right_mean[:whole])
    if 0 < whole < n and first_are_right and not _same(mean, right_mean):
        return failed(
            "last rows left out",
            f"The first {whole} of {n} rows are right, the rest is not: block_rows does not divide "
            "n, and what is left over makes a smaller block of its own.",
        )
    for cause, why, twin_mean, twin_largest in mistakes(points, block_rows):
        mean_fits = _same(mean, twin_mean) or _same(mean, right_mean)
        if mean_fits and (_same(largest, twin_largest) or _same(largest, right_largest)):
            return failed(cause, why)
    return wrong


def _same(actual, expected: np.ndarray) -> bool:
    return close(actual, expected, tolerance=_TOLERANCE)


def _judge_memory(case: Case, seen: Observation) -> Verdict:
    d, block_rows, peaks = case.given["d"], case.given["block_rows"], seen.more["peaks"]
    sizes, seconds = case.given["sizes"][: len(peaks)], seen.more["seconds"]
    slow = failed(
        "too slow",
        f"With {sizes[-1]:,} points your code took {seconds[-1]:.0f} seconds, and twice as many "
        "would take four times as long. Let NumPy take a block of pairs at a time, not Python "
        "each pair.",
    )
    if len(peaks) < 2:
        return slow
    exponent = growth_exponent(sizes, peaks)
    square = exponent > _LARGEST_EXPONENT
    growth = {"growth exponent": Measure(exponent, "", at_most=_LARGEST_EXPONENT)}
    story = (
        f"From n = {sizes[0]:,} to {sizes[-1]:,} the peak went from {say(peaks[0])} to "
        f"{say(peaks[-1])}: it grows as n to the power {exponent:.1f}"
    )
    for n, peak_bytes in zip(sizes, peaks, strict=True):
        within = peak(peak_bytes, (_BLOCK_ARRAYS * block_rows * d + 8) * n * 8, 2 * n * 8)
        if square:
            cause, table = (
                "grows as the square",
                f"an n x n table of distances takes {say(n * n * 8)}",
            )
            why = f". With n = {n:,} {table}: is it ever there as a whole, if only in pieces kept?"
        else:
            cause = "blocks too large"
            why = (
                ", which is fine, but it is too high at every n. How many rows has your block, "
                f"where block_rows = {block_rows}?"
            )
        wrong = over_budget(f"peak at n = {n:,}", within, cause, story + why)
        if wrong:
            wrong.measured.update(growth if wrong.cause == "grows as the square" else {})
            return wrong
    if square:
        return failed("grows as the square", story + ".", **growth)
    for n, held_bytes in zip(sizes, seen.more["held"], strict=True):
        if wrong := left_behind(held_bytes, 2 * n * 8):
            return wrong
    if len(sizes) < len(case.given["sizes"]):
        return slow
    return passed(**{f"peak at n = {sizes[-1]:,}": within}, **growth)


EXERCISE = Exercise("1.4", "row statistics of all pairwise distances", 4, _cases, _run, _judge)
