"""6.3: a tiled matrix product that fits the chip, for any shape, and what it moves.

Any scheme passes that moves no more than three square tiles do, and a tenth on top. None can go below the
lower bound, so a traffic below it was not counted, but avoided in some way that is no program for a chip.
"""

import math
import re

import numpy as np

from course_utils.attention import matmul_lower_bound_bytes, square_tile, tiled_matmul_traffic
from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, over_budget, say, wrong_array
from course_utils.checks.tiling.chip import (
    left_empty,
    meter_changed,
    observe_on_chip,
    out_of_sight_on_chip,
    overflow_of,
    own_array,
    refused_crossing,
    unseen,
)

_ALLOWED = 1.10  # times the closed form of three square tiles
_MADE = ("zeros", "empty", "full")  # how a tile of C begins


def _cases(seed: int) -> list[Case]:
    def one(m: int, n: int, k: int, capacity: int, name: str = "", **more) -> Case:
        shown = f"({m} x {k}) ({k} x {n}) on a chip of {capacity:,} bytes{name}"
        return Case(shown, {"shape": (m, n, k), "capacity": capacity, "seed": seed} | more)

    return [
        one(24, 24, 24, 1536),
        one(24, 16, 40, 1536),
        one(37, 29, 41, 1600, ", ragged"),
        one(1, 50, 30, 1536, ", a single row"),
        one(50, 1, 30, 1536, ", a single column"),
        one(40, 30, 1, 1536, ", nothing to sum"),
        one(5, 6, 7, 100_000, ", which holds everything"),
        one(4, 3, 5, 32, ", four numbers"),
        one(45, 50, 33, 3072, ", float32", dtype="float32"),
        one(330, 340, 350, 2_457_600, ", memory counted", memory=True),  # a tile: 819,200 bytes
    ]


def _inputs(case: Case) -> tuple[dict[str, np.ndarray], dict[str, tuple[int, int]]]:
    m, n, k = case.given["shape"]
    rng = np.random.default_rng([case.given["seed"], 63, m, n, k])
    dtype = case.given.get("dtype", "float64")
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    return {"A": a, "B": b}, {"C": (m, n)}


def _run(answer, case: Case) -> Observation:
    out_of_sight = ""
    if case.given.get("memory"):
        small = Case("", {"shape": (2, 3, 2), "seed": 0})
        out_of_sight = out_of_sight_on_chip(answer, *_inputs(small), 1000)
    seen = observe_on_chip(answer, *_inputs(case), case.given["capacity"])
    seen.out_of_sight = out_of_sight
    return seen


def _judge(case: Case, seen: Observation) -> Verdict:
    return (
        _overflow(case, seen)
        or refused_crossing(seen)
        or meter_changed(seen, case.given["capacity"])
        or _wrong_values(case, seen)
        or own_array(seen)
        or _judge_traffic(case, seen)
    )


def _overflow(case: Case, seen: Observation) -> Verdict | None:
    overflow = overflow_of(seen)
    if overflow is None:
        return None
    operation, told = overflow
    if not operation.startswith("loading") and operation not in _MADE:
        return failed(
            "a temporary too many",
            f"{told} The result of `{operation}` is an array of its own, and takes its place beside "
            "the tiles, if only for a moment. sram.accumulate adds a product without one.",
        )
    if case.given.get("dtype") == "float32" and _has_float64(told):
        return failed(
            "sums in float64",
            f"{told} A and B are in float32 here, and this tile of C in float64, which takes twice the "
            "room. sram.zeros(shape, dtype) takes the dtype.",
        )
    here = told.partition("On chip: ")[2]
    matrix = operation.removeprefix("loading ").partition("[")[0]
    sums = sum(here.count(name) for name in _MADE)
    if f"{matrix}[" in here or sums > operation.startswith("loading"):
        return failed(
            "old tiles still there",
            f"{told} A tile is on chip as long as a name refers to it, also while the next one comes "
            "in. `del` lets go of a name.",
        )
    return failed("tile too large", f"{told} The tiles are too large to be there together.")


def _has_float64(told: str) -> bool:
    """Whether an overflow's message names space that was made with 8 bytes a number."""
    made = "|".join(_MADE)
    spaces = re.findall(rf"(?:{made}) \(([^)]*)\) ([\d,]+)", told)
    asked = re.findall(rf"(?:{made}) needs ([\d,]+) bytes for \(([^)]*)\)", told)
    return any(
        8 * math.prod(int(size) for size in shape.split(",") if size.strip())
        == int(nbytes.strip(",").replace(",", ""))
        for shape, nbytes in [*spaces, *((shape, nbytes) for nbytes, shape in asked)]
    )


def _wrong_values(case: Case, seen: Observation) -> Verdict | None:
    inputs, value = _inputs(case)[0], seen.value["C"]
    a, b = inputs["A"].astype(np.float64), inputs["B"].astype(np.float64)
    if seen.more["read"]["C"] and np.isnan(value).all() and seen.more["written"]["C"]:
        return failed(
            "C was read",
            "What was stored to C is nan throughout. C was loaded before: it is empty space, which holds "
            "nan until a result is stored. A sum begins with sram.zeros.",
        )
    if wrong := left_empty(seen, "C"):
        return wrong
    wrong = wrong_array(value, a @ b, "C", str(value.dtype))
    if wrong is None or case.given.get("memory"):
        return wrong
    inner = a.shape[1]
    for cut in range(1, inner):
        if close(value, a[:, cut:] @ b[cut:], str(value.dtype)):
            return failed(
                "only the last piece",
                f"C holds the sum over k from {cut} to {inner} only. The pieces of k add up.",
            )
        if close(value, a[:, :cut] @ b[:cut], str(value.dtype)):
            return failed(
                "pieces of k missing",
                f"C holds the sum over k up to {cut} only, and k goes up to {inner}.",
            )
    return wrong


def _judge_traffic(case: Case, seen: Observation) -> Verdict:
    (m, n, k), capacity = case.given["shape"], case.given["capacity"]
    itemsize = seen.value["C"].itemsize
    tile = square_tile(capacity, itemsize)
    closed = tiled_matmul_traffic(m, n, k, tile, tile, itemsize)
    traffic = Measure(
        seen.more["bytes_read"] + seen.more["bytes_written"],
        "bytes",
        at_most=_ALLOWED * closed.bytes_moved,
        at_least=matmul_lower_bound_bytes(m, n, k, capacity, itemsize),
    )
    told = (
        f"{say(traffic.value)} crossed. Three tiles of {tile} x {tile} fit on this chip and would move "
        f"{say(closed.bytes_moved)}"
    )
    result_bytes = m * n * itemsize
    if seen.more["written"]["C"] > result_bytes:
        times = seen.more["written"]["C"] / result_bytes
        wrong = over_budget(
            "traffic",
            traffic,
            "stored too often",
            f"{told}. C was stored {times:.1f} times over: an element is final when all of k is summed, "
            "and can stay on chip until then.",
        )
    elif seen.more["read"]["C"]:
        times = seen.more["read"]["C"] / result_bytes
        wrong = over_budget(
            "traffic",
            traffic,
            "C was read",
            f"{told}; {_ALLOWED:.2f} times that is allowed. C was read {times:.1f} times over, and there "
            "is nothing in it: space for a tile of sums is made on chip, by sram.zeros.",
        )
    else:
        read = seen.more["read"]
        times_a, times_b = read["A"] / (m * k * itemsize), read["B"] / (k * n * itemsize)
        wrong = over_budget(
            "traffic",
            traffic,
            "too much traffic",
            f"{told}; {_ALLOWED:.2f} times that is allowed. A was read {times_a:.1f} times over and B "
            f"{times_b:.1f} times. The larger the tile of C, the fewer times. Of the chip's "
            f"{capacity:,} bytes {seen.peak_bytes:,} were in use at most.",
        )
    if wrong is None and case.given.get("memory"):
        wrong = unseen(seen)
    peak = Measure(seen.peak_bytes, "bytes", capacity)
    return wrong or passed(**{"traffic": traffic, "on chip at most": peak})


EXERCISE = Exercise(
    "6.3", "a tiled matrix product", 5, _cases, _run, _judge, returns_none=True
)  # fmt: skip
