"""5.5: attention one row at a time, in memory that grows with N and not with its square."""

import time

import numpy as np

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import (
    growth_exponent,
    left_behind,
    over_budget,
    peak,
    say,
    wrong_array,
)
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory
from course_utils.checks.online_softmax.oracle import named_mistake, random
from course_utils.checks.online_softmax.rows_mistakes import attention, mistakes

# (N, d) in float64 has 256 KiB at the smallest N.
_SIZES, _D = (512, 1000, 2000), 64
_ROWS_ALIVE, _MATRICES_ALIVE = 64, 6
_LARGEST_EXPONENT = 1.3
_ENOUGH_BYTES, _ENOUGH_SECONDS = 48 * 10**6, 40.0


def _cases(seed: int) -> list[Case]:
    def one(name: str, n: int, d: int, d_v: int, causal: bool = False, **more) -> Case:
        shown = f"N = {n}, {name}" + (", causal" if causal else "")
        given = {"n": n, "d": d, "d_v": d_v, "causal": causal, "scale": 1, "seed": seed}
        return Case(shown, given | more)

    def memory(causal: bool) -> Case:
        name = f"memory: N = {', '.join(f'{n:,}' for n in _SIZES)}{', causal' * causal}"
        return Case(name, {"sizes": _SIZES, "causal": causal, "scale": 0.1, "seed": seed})

    return [
        one("d = 4", 6, 4, 4),
        one("values of width 2", 7, 3, 2),
        one("a single token", 1, 3, 3),
        one("d = 1", 5, 1, 1),
        one("d = 4", 6, 4, 4, causal=True),
        one("values of width 2", 7, 3, 2, causal=True),
        one("a single token", 1, 3, 3, causal=True),
        one("scores beyond 1,000", 8, 4, 3, scale=30),
        one("scores beyond 1,000", 8, 4, 3, causal=True, scale=30),
        one("scores about -1,600", 8, 4, 3, lift=40),
        one("scores about -1,600", 8, 4, 3, causal=True, lift=40),
        one("scores about -160,000", 8, 4, 3, causal=True, lift=400),
        one("scores of up to 100,000 to either side", 8, 4, 3, causal=True, scale=300),
        one("no power of two", 67, 4, 3),
        one("no power of two", 67, 4, 3, causal=True),
        memory(causal=False),
        memory(causal=True),
    ]


def _inputs(case: Case, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    d, d_v, seed = case.given.get("d", _D), case.given.get("d_v", _D), case.given["seed"]
    scale, lift = case.given["scale"], case.given.get("lift", 0)
    q, k = (scale * random(seed, stream, n, d) for stream in (500, 501))
    if scale > 1 or lift:  # such that large scores are exact, in whatever order they are summed
        q, k = np.round(8 * q) / 8, np.round(8 * k) / 8
    if lift:
        q[:, 0], k[:, 0] = lift, -lift
    return q, k, random(seed, 502, n, d_v)


def _run(answer, case: Case) -> Observation:
    with np.errstate(all="ignore"):
        if "n" in case.given:
            return observe(answer, *_inputs(case, case.given["n"]), case.given["causal"])
        return _run_memory(answer, case)


def _run_memory(answer, case: Case) -> Observation:
    causal = case.given["causal"]
    out_of_sight = find_out_of_sight(answer, *_inputs(case, 3), causal)  # warms the answer up, too
    results, peaks, held, seconds = [], [], [], []
    for n in case.given["sizes"]:
        plain = len(peaks) > 1 and peaks[-1] > _ENOUGH_BYTES
        if plain or seconds and 4 * seconds[-1] > _ENOUGH_SECONDS:
            break  # a larger one would only strain this machine
        inputs = _inputs(case, n)
        start, worked = time.perf_counter(), time.process_time()
        seen = observe_memory(answer, *inputs, causal)
        if seen.error is not None or seen.changed_input:
            return seen
        results.append(seen.value)
        peaks.append(seen.peak_bytes)
        held.append(seen.held_bytes)
        # the lesser: others may hold the processors up, and threads of one's own count each
        seconds.append(min(time.perf_counter() - start, time.process_time() - worked))
    more = {"peaks": peaks, "held": held, "seconds": seconds}
    return Observation(results, max(peaks), more=more, out_of_sight=out_of_sight)


def _judge(case: Case, seen: Observation) -> Verdict:
    if "n" in case.given:
        inputs = _inputs(case, case.given["n"])
        return _wrong_values(inputs, case.given["causal"], seen.value) or passed()
    for n, value in zip(case.given["sizes"], seen.value):
        if wrong := _wrong_values(_inputs(case, n), case.given["causal"], value):
            return wrong
    return _judge_memory(case, seen)


def _wrong_values(inputs, causal: bool, value) -> Verdict | None:
    expected = attention(*inputs, 0 if causal else None)
    wrong = wrong_array(value, expected, "the output")
    if not wrong or wrong.cause not in ("wrong values", "not finite"):
        return wrong
    with np.errstate(all="ignore"):
        told = named_mistake((value,), (expected,), mistakes(*inputs, causal))
    return told or _left_out(value, expected) or wrong


def _left_out(value: np.ndarray, expected: np.ndarray) -> Verdict | None:
    """Whether the last rows are wrong, and all before them right."""
    n = len(expected)
    right = n
    while right > n // 2 and wrong_array(value[:right], expected[:right]) is not None:
        right -= 1
    if not n // 2 < right < n or n < 32 and value[right:].any():
        return None
    return failed(
        "last rows left out",
        f"The first {right:,} rows are right, the last {n - right:,} are not. If you take several rows at "
        f"a time: {n:,} need not be a multiple of how many.",
    )


def _judge_memory(case: Case, seen: Observation) -> Verdict:
    peaks, seconds = seen.more["peaks"], seen.more["seconds"]
    sizes = case.given["sizes"][: len(peaks)]
    slow = failed(
        "too slow",
        f"With N = {sizes[-1]:,} your code took {seconds[-1]:.0f} seconds, and twice as many tokens "
        "would take four times as long. A row of scores is one product: let NumPy take it.",
    )
    if len(peaks) < 2:
        return slow
    exponent = growth_exponent(sizes, peaks)
    growth = Measure(exponent, "", at_most=_LARGEST_EXPONENT)
    square = exponent > _LARGEST_EXPONENT
    story = f"From N = {sizes[0]:,} to {sizes[-1]:,} the peak went from {say(peaks[0])} to {say(peaks[-1])}"
    if exponent > 0.5:
        story += f": it grows as N to the power {exponent:.1f}" + ", which is fine" * (not square)
    for n, peak_bytes in zip(sizes, peaks):
        matrix_bytes = n * _D * 8
        allowed = _MATRICES_ALIVE * matrix_bytes + _ROWS_ALIVE * n * 8
        within = peak(peak_bytes, allowed, matrix_bytes)
        if square:
            table, mask = say(n * n * 8), say(n * n)
            cause, why = (
                "grows as the square",
                f". With N = {n:,} an N x N table takes {table}, even a mask of one byte an entry "
                f"{mask}: is one ever there, as a whole or as rows that are kept?",
            )
        else:
            cause, why = (
                "too many rows at once",
                f". But at N = {n:,} it is more than {_MATRICES_ALIVE} arrays of the output's size and "
                f"{_ROWS_ALIVE} rows of N numbers, {say(allowed)} in all. Are many rows taken at once (their "
                "exponentials and masks count, too), or are there more arrays of the output's size?",
            )
        if wrong := over_budget(f"peak at N = {n:,}", within, cause, story + why):
            wrong.measured["growth exponent"] = growth
            return wrong
    if square:
        return failed("grows as the square", story + ".", **{"growth exponent": growth})
    for n, held_bytes in zip(sizes, seen.more["held"]):
        if wrong := left_behind(held_bytes, n * _D * 8):
            return wrong
    if len(sizes) < len(case.given["sizes"]):
        return slow
    name = f"peak at N = {sizes[-1]:,}" + ", causal" * case.given["causal"]
    return passed(**{name: within, "growth exponent": growth})


EXERCISE = Exercise("5.5", "attention row by row", 3, _cases, _run, _judge)
