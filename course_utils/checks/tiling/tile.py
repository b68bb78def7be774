"""6.2: the largest square tile of which three fit."""

import math

import numpy as np

from course_utils.attention import square_tile
from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.observe import observe
from course_utils.checks.tiling.cost import shown


def _cases(seed: int) -> list[Case]:
    pairs = [
        (1536, 8),  # 3 * 8 * 8 * 8: exactly
        (1535, 8),
        (24_576, 8),
        (25_000, 8),
        (3072, 4),
        (192 * 1024, 2),
        (40 * 1024 * 1024 + seed % 1000, 2),
        (24, 8),
        (95, 8),
        (23, 8),
    ]
    return [
        Case(f"{capacity:,} bytes on chip, {size} a number", {"args": [capacity, size]})
        for capacity, size in pairs
    ]


def _run(answer, case: Case) -> Observation:
    return observe(answer, *case.given["args"])


def _judge(case: Case, seen: Observation) -> Verdict:
    capacity_bytes, itemsize = case.given["args"]
    tile, got = square_tile(capacity_bytes, itemsize), seen.value
    if isinstance(got, bool) or not isinstance(got, int | np.integer):
        return failed(
            "wrong type",
            f"Expected an int, the side t of a tile, got {type(got).__name__} {shown(got, 40)}.",
        )
    got = int(got)
    if got == tile:
        return passed()
    if got < 0:
        return failed("negative", "A tile can't have fewer than 0 rows.")
    if got > capacity_bytes:
        return failed("does not fit", "More rows than the chip has bytes: such tiles do not fit.")
    is_exact = 3 * tile**2 * itemsize == capacity_bytes  # so it can't be the rounding
    needs = (
        f"Three tiles of {got} x {got} take {3 * got**2 * itemsize:,} bytes of {capacity_bytes:,}"
    )
    if got > tile:
        if tile == 0:
            cause, why = "none fits", "where not even three numbers fit, the answer is 0."
        elif got == math.isqrt(capacity_bytes // itemsize):
            cause, why = "one tile only", "that is the largest tile that fits alone."
        elif got == math.isqrt(capacity_bytes // 3):
            cause, why = "elements for bytes", f"a number takes {itemsize} bytes."
        elif got == capacity_bytes // (3 * itemsize):
            cause, why = "area for side", "so many numbers a tile may have, and t is its side."
        elif is_exact and got == math.isqrt(capacity_bytes // (2 * itemsize)):
            cause, why = "two tiles only", "two of them would fit, but C has one as well."
        elif got == tile + 1:
            cause, why = "one too large", "what does not fit has to be rounded down."
        else:
            cause, why = "does not fit", "they do not fit."
        return failed(cause, f"{needs}: {why}")
    if got == tile - 1:
        cause, why = "one too small", "one row and column more would fit, too."
    elif got > 0 and got & (got - 1) == 0 and 2 * got > tile:
        cause, why = "powers of two only", "a tile may have any size."
    elif got in (math.isqrt(capacity_bytes // (3 * 8)), math.isqrt(capacity_bytes // (3 * 4))):
        cause, why = "one itemsize only", "itemsize is not the same in every call."
    elif got == math.isqrt(capacity_bytes // (4 * itemsize)):
        cause, why = "four tiles", "there are only three: of A, of B and of C."
    elif got == math.isqrt(capacity_bytes // (3 * 8 * itemsize)):
        cause, why = "bits for bytes", "the capacity is in bytes, and so is itemsize."
    elif got * got <= capacity_bytes // (9 * itemsize) and got >= 1:
        cause, why = "a third of the side", "it is the area, t times t, that three of them share."
    else:
        cause, why = "too small", "a larger one fits."
    return failed(cause, f"{needs}: {why}")


EXERCISE = Exercise("6.2", "the tile for a given chip", 2, _cases, _run, _judge)
