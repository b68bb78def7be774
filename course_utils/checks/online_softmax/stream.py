"""5.3: a softmax over any number of blocks, in memory that does not depend on how many there are."""

from collections.abc import Iterator

import numpy as np

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import left_behind, over_budget, peak, say, wrong_array
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory
from course_utils.checks.online_softmax.oracle import (
    named_mistake,
    parts_of,
    random,
    whole_rows,
    wrong_with_infinities,
)
from course_utils.checks.online_softmax.stream_mistakes import Blocks, mistakes

_NAMES = ("output", "logsumexp")
# A block: 256 KiB of scores and 256 KiB of values. The output: 512 KiB.
_ROWS, _WIDTH, _D, _COUNTS = 256, 128, 256, (4, 8, 16)
_BLOCK_BYTES, _OUTPUT_BYTES = (_ROWS * _WIDTH + _WIDTH * _D) * 8, _ROWS * _D * 8
_GROWTH_BYTES = 16 * 1024  # a block more may cost this: a list of maxima is no sin
INF = float("inf")


def _cases(seed: int) -> list[Case]:
    def one(name: str, widths: tuple, rows: int = 4, **more) -> Case:
        return Case(name, {"widths": widths, "rows": rows, "d": 3, "seed": seed} | more)

    return [
        one("one block", (5,)),
        one("two blocks, the larger scores in the second", (4, 4), lift=(0, 3)),
        one("two blocks, the larger scores in the first", (4, 4), lift=(3, 0)),
        one("five blocks, the last one smaller", (4, 4, 4, 4, 2), lift=(0, 3, -2, 6, 1)),
        one("six blocks of one column, a single row", (1,) * 6, rows=1, lift=(0, 4, 1, 5, 6, 2)),
        one("scores about 800", (3, 3, 3), lift=(800, 790, 805)),
        one("scores about -800", (3, 3, 3), lift=(-800, -790, -805)),
        one("rows far apart", (3, 3, 3), row_lift=(1000, -1000, 0, -20_000)),
        one("scores of up to 10,000 to either side", (3, 3, 3, 3), lift=(5e3, -1e4, 1e4, -1e4)),
        one("float32", (4, 4, 3), lift=(60, -40, 100), dtype="float32"),
        one("single scores masked", (4, 4, 2), holes=[(0, 0), (1, 5), (1, 6), (3, 9)]),
        one("the first block masked for two rows", (3, 3, 3), dark=[(0, 0), (0, 2)]),
        one("the same in float32", (3, 3, 3), dark=[(0, 0), (0, 2)], dtype="float32"),
        one("the first block masked, then scores about -800", (3, 3, 3), lift=(-800, -800, -795),
            dark=[(0, 0), (0, 2)]),
        one("later blocks masked for some rows", (3, 3, 3), dark=[(1, 0), (2, 0), (2, 3)]),
        one("a row masked in every block", (3, 3), dark=[(0, 1), (1, 1)]),
        Case(
            f"memory: {', '.join(map(str, _COUNTS))} blocks of {_ROWS} x {_WIDTH} scores",
            {"counts": _COUNTS, "seed": seed},
        ),
    ]  # fmt: skip


def _blocks(case: Case) -> Blocks:
    """[(scores (rows, c), values (c, d)), ...]. lift, row_lift: added to blocks, rows; dark: (block, row) of -inf."""
    given, dtype = case.given, case.given.get("dtype", "float64")
    widths, seed = given["widths"], given["seed"]
    lift = given.get("lift", (0,) * len(widths))
    scores = random(seed, 10, given["rows"], sum(widths))
    scores += np.reshape(given.get("row_lift", (0,) * given["rows"]), (-1, 1))
    for row, column in given.get("holes", ()):
        scores[row, column] = -INF
    blocks, start = [], 0
    for k, width in enumerate(widths):
        block = scores[:, start : start + width] + lift[k]
        for at, row in given.get("dark", ()):
            block[row] = -INF if at == k else block[row]
        values = random(seed, 20 + k, width, given["d"])
        blocks.append((block.astype(dtype), values.astype(dtype)))
        start += width
    return blocks


def _large_block(case: Case, k: int) -> tuple[np.ndarray, np.ndarray]:
    seed = case.given["seed"]
    return random(seed, 100 + k, _ROWS, _WIDTH), random(seed, 200 + k, _WIDTH, _D)


def _run(answer, case: Case) -> Observation:
    with np.errstate(all="ignore"):
        if "widths" in case.given:
            return _run_small(answer, case)
        return _run_memory(answer, case)


class _Once:
    """Blocks that can be gone through once and have no length, as those of a generator; notes a second try."""

    def __init__(self, blocks: Blocks):
        self._blocks, self._over, self.again = iter(blocks), False, False

    def __iter__(self):
        self.again = self.again or self._over
        return self

    def __next__(self):
        for block in self._blocks:
            return block
        self._over = True
        raise StopIteration


_Once.__name__ = "generator"  # what an error message calls it


def _run_small(answer, case: Case) -> Observation:
    given, untouched = _blocks(case), _blocks(case)
    blocks = _Once(given)
    seen = observe(answer, blocks)
    if seen.error is not None and blocks.again:
        seen = Observation(value=())  # it met no blocks the second time, and the judge says so
    seen.more["again"] = blocks.again
    seen.changed_input = not all(
        np.array_equal(a, b) for pair in zip(given, untouched) for a, b in zip(*pair)
    )
    return seen


def _run_memory(answer, case: Case) -> Observation:
    def stream(count: int) -> Iterator[tuple]:
        for k in range(count):
            yield _large_block(case, k)  # nobody else holds it

    small = Case("", {"widths": (2, 2), "rows": 2, "d": 2, "seed": 0})
    out_of_sight = find_out_of_sight(answer, iter(_blocks(small)))  # warms the answer up, too
    results, peaks, held = [], [], []
    for count in case.given["counts"]:
        seen = observe_memory(answer, stream(count))
        if seen.error is not None:
            return seen
        results.append(seen.value)
        peaks.append(seen.peak_bytes)
        held.append(seen.held_bytes)
    more = {"peaks": peaks, "held": held}
    return Observation(results, max(peaks), more=more, out_of_sight=out_of_sight)


def _judge(case: Case, seen: Observation) -> Verdict:
    if "widths" in case.given:
        wrong = _wrong_values(_blocks(case), seen.value, case.given.get("dtype", "float64"))
        if wrong and seen.more["again"]:
            return failed(
                "gone through twice",
                "Your code goes through the blocks a second time, and meets none: a generator gives each "
                "block once. All that a block has to say must be taken in when it comes.",
            )
        return wrong or passed()
    if _share_memory(seen.value):
        return failed(
            "same array each call",
            "The results of two calls lie in the same memory, so the second call overwrote the first "
            "one's result. A result needs an array of its own.",
        )
    for count, value in zip(case.given["counts"], seen.value):
        blocks = [_large_block(case, k) for k in range(count)]
        if wrong := _wrong_values(blocks, value, "float64"):
            return wrong
    return _judge_memory(case, seen)


def _share_memory(results: list) -> bool:
    arrays = [
        [part for part in result if isinstance(part, np.ndarray)]
        for result in results
        if isinstance(result, list | tuple)
    ]
    pairs = (
        (a, b) for k, first in enumerate(arrays) for a in first for b in sum(arrays[k + 1 :], [])
    )
    return any(np.may_share_memory(a, b) for a, b in pairs)


def _wrong_values(blocks: Blocks, value, dtype: str) -> Verdict | None:
    if wrong := parts_of(value, _NAMES):
        return wrong
    right = whole_rows(np.hstack([s for s, _ in blocks]), np.vstack([v for _, v in blocks]))
    expected, (output, logsumexp) = (right.output, right.logsumexp), value
    wrong = wrong_array(output, expected[0], "output", dtype)
    if not wrong:
        wrong = wrong_with_infinities(logsumexp, expected[1], "logsumexp", dtype)
    if wrong and wrong.cause in ("wrong values", "not finite", "nan", "wrong at infinity"):
        exact = [(s.astype(np.float64), v.astype(np.float64)) for s, v in blocks]
        return named_mistake((output, logsumexp), expected, mistakes(exact), dtype) or wrong
    return wrong


def _judge_memory(case: Case, seen: Observation) -> Verdict:
    counts, peaks = case.given["counts"], seen.more["peaks"]
    blocks_more = counts[-1] - counts[0]
    per_block = max(0.0, (peaks[-1] - peaks[0]) / blocks_more)
    growth = Measure(per_block, "bytes", _GROWTH_BYTES)
    least = _OUTPUT_BYTES + _BLOCK_BYTES
    wrong = over_budget(
        "peak per further block",
        growth,
        "grows with the blocks",
        f"With {counts[0]} blocks the peak was {say(peaks[0])}, with {counts[-1]} it was "
        f"{say(peaks[-1])}: {say(per_block)} more for each block, of {say(_BLOCK_BYTES)}. Something of "
        "every block is kept: the block itself, its exponentials, or its output.",
    )
    within = peak(max(peaks), 4 * _BLOCK_BYTES + 6 * _OUTPUT_BYTES, least)
    name = f"peak with {counts[-1]} blocks"
    wrong = wrong or over_budget(
        name,
        within,
        "too many temporaries",
        f"The peak is {say(max(peaks))}. It does not grow with the blocks, but it is more than four "
        f"blocks of {say(_BLOCK_BYTES)} and six arrays of the output's size. Which copies are made?",
    )
    for held_bytes in seen.more["held"]:
        wrong = wrong or left_behind(held_bytes, _OUTPUT_BYTES + _ROWS * 8)
    return wrong or passed(**{"peak per further block": growth, name: within})


EXERCISE = Exercise("5.3", "any number of blocks", 4, _cases, _run, _judge)
