"""6.1: what a matrix product costs, in operations and in bytes that must cross at least."""

import math

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.observe import observe


def _cases(seed: int) -> list[Case]:
    shapes = [
        (2, 3, 5, 8),
        (8192, 128, 8192, 2),
        (8192, 8192, 8192, 2),
        (1, 7, 4, 4),
        (6, 1, 1, 2),
        (4096 + seed % 7, 64, 512, 4),
    ]
    return [
        Case(f"({m:,} x {k:,}) ({k:,} x {n:,}), {itemsize} bytes a number", {"args": [m, n, k, itemsize]})
        for m, n, k, itemsize in shapes
    ]  # fmt: skip


def _run(answer, case: Case) -> Observation:
    return observe(answer, *case.given["args"])


def _judge(case: Case, seen: Observation) -> Verdict:
    m, n, k, itemsize = case.given["args"]
    flops, elements = 2 * m * n * k, m * k + k * n + m * n
    moved_bytes = elements * itemsize
    value = seen.value.tolist() if isinstance(seen.value, np.ndarray) else seen.value
    if _is_number(value) and math.isclose(value, flops / moved_bytes, rel_tol=1e-6):
        return failed(
            "the ratio alone", "This is the intensity. Return both numbers that it is made of."
        )
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(_is_number, value)):
        return failed(
            "wrong type",
            f"Expected a tuple of two numbers, (flops, moved_bytes), got {shown(seen.value)}.",
        )
    got_flops, got_bytes = value
    if (got_flops, got_bytes) == (flops, moved_bytes):
        return passed()
    if (got_bytes, got_flops) == (flops, moved_bytes):
        return failed("exchanged", "The operations come first, then the bytes.")
    if got_flops != flops:
        if got_flops == flops // 2:
            return failed(
                "multiplications only",
                f"Expected {flops:,} operations, got {_told(got_flops)}: with each multiplication goes "
                "an addition, and it counts as well.",
            )
        if got_flops == flops - m * n:
            return failed(
                "first addition left out",
                f"Expected {flops:,} operations, got {_told(got_flops)}: you let a sum begin with its "
                "first product. Here it begins with 0, and every product is added.",
            )
        return failed(
            "wrong operations", f"Expected {flops:,} operations, got {_told(got_flops)}. How many products "
            "go into one element of the result, and how many elements are there?",
        )  # fmt: skip
    return failed(*_wrong_bytes(got_bytes, m, n, k, itemsize))


def _wrong_bytes(got, m: int, n: int, k: int, itemsize: int) -> tuple[str, str]:
    elements = m * k + k * n + m * n
    told = f"Expected {elements * itemsize:,} bytes, got {_told(got)}: "
    if got == elements:
        return "elements for bytes", told + "that is how many numbers cross, not bytes."
    if got == 8 * elements * itemsize:
        return "bits for bytes", told + "those are bits."
    if got == (m * k + k * n) * itemsize:
        return "result not counted", told + "the result has to be written, too."
    if got == (elements + m * n) * itemsize:
        return "result counted twice", told + "the result is only written, and not read before."
    if got == 2 * elements * itemsize:
        return "both ways", told + "an input is only read and the result only written."
    if got in ((2 * m * n * k + m * n) * itemsize, 2 * m * n * k * itemsize):
        return (
            "a byte for every use",
            told
            + "that loads both factors of every single multiplication. Here each element crosses once.",
        )
    if got in (elements * 2, elements * 4, elements * 8):
        return "one itemsize only", told + "itemsize is not the same in every call."
    return "wrong bytes", told + "three matrices, each of which crosses once."


def shown(value, at_most: int = 60) -> str:
    """The beginning of a value, as text, whatever a student's object does when it is asked."""
    try:
        return str(value)[:at_most]
    except Exception:  # a number with too many digits, an object of the student's own
        return f"a value of type {type(value).__name__}"


def _told(number) -> str:
    return f"{float(number):,.15g}"


def _is_number(value) -> bool:
    try:
        return not isinstance(value, bool | str) and bool(value == float(value))
    except Exception:  # whatever a student's object may do
        return False


EXERCISE = Exercise("6.1", "what a product costs", 2, _cases, _run, _judge)
