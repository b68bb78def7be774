"""4.1: the price of a set of checkpoints, by a formula. The simulator is the oracle."""

from collections.abc import Iterator
from fractions import Fraction
from numbers import Integral, Real

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import say
from course_utils.checks.observe import observe
from course_utils.checks.optimal_rematerialization.brackets import price_of
from course_utils.remat.model import Chain

_FIRST = {"times": [3, 5, 2, 7, 4, 6, 8, 9, 1], "sizes": [9, 41, 63, 22, 75, 57, 34, 28, 17, 13]}


def _cases(seed: int) -> list[Case]:
    rng = np.random.default_rng([seed, 41])

    def some(stages: int, checkpoints: list[int], name: str, largest: int = 90) -> Case:
        given = {
            "times": rng.integers(1, 10, stages).tolist(),
            "sizes": rng.integers(1, largest, stages + 1).tolist(),
            "checkpoints": checkpoints,
        }
        return Case(f"{name}: {stages} stages, checkpoints {checkpoints}", given)

    drawn = sorted(rng.choice(np.arange(1, 12), 4, replace=False).tolist())
    rising = {"times": [1, 2, 1, 3, 2], "sizes": [5, 1, 2, 6, 3, 90], "checkpoints": [3]}
    falling = {"times": [2, 1, 3, 1, 2, 2], "sizes": [4, 80, 70, 6, 5, 4, 3], "checkpoints": [4, 5]}
    return [
        Case("nine stages, checkpoints [2, 5, 7]", {**_FIRST, "checkpoints": [2, 5, 7]}),
        Case("one stage, a large input", {"times": [2], "sizes": [9, 1], "checkpoints": []}),
        Case("the last value is the largest, checkpoints [3]", rising),
        Case("the first values are the largest, checkpoints [4, 5]", falling),
        some(6, [], "no checkpoints"),
        some(6, [1, 2, 3, 4, 5], "all of them"),
        some(1, [], "one stage"),
        some(12, drawn, "drawn"),
        some(12, [1, 11], "at the ends"),
        some(40, list(range(6, 40, 6)), "bytes", largest=2**40),
    ]


def _run(answer, case: Case) -> Observation:
    given = case.given
    return observe(answer, list(given["times"]), list(given["sizes"]), list(given["checkpoints"]))


def _segments(case: Case) -> list[tuple[int, int]]:
    """(a, b) for each segment: z_a is there, z_b is its last value."""
    ends = [0, *case.given["checkpoints"], len(case.given["times"])]
    return list(zip(ends, ends[1:]))


def _expected(case: Case) -> tuple[int, int]:
    *closed, last = [list(range(a + 1, b + 1)) for a, b in _segments(case)]
    chain = Chain(case.given["times"], case.given["sizes"])
    price = price_of(chain, [*closed, *last])
    return price.peak_bytes, price.recomputed_time


def _wrong_peaks(case: Case) -> Iterator[tuple[int, str, str]]:
    """What usual mistakes make of the peak: the number, the cause, the sentence."""
    z, segments = case.given["sizes"], _segments(case)
    checkpoints = case.given["checkpoints"]
    everything = sum(z[c] for c in checkpoints)

    def steps(gradients=lambda t: z[t] + z[t - 1], kept=None, all_steps=True) -> int:
        peaks = []
        for a, b in segments:
            held = sum(z[c] for c in checkpoints if c <= a) if kept is None else kept
            for t in range(a + 1, b + 1) if all_steps else [b]:
                peaks.append(held + sum(z[a + 1 : t]) + gradients(t))
        return max(peaks)

    start, end = segments[-1]
    loss = everything + sum(z[start + 1 : end + 1]) + z[end]
    right = max(steps(), loss)
    yield (
        right + z[0],
        "input counted",
        "z_0 was counted. It is there before, and stays: only g_0 counts.",
    )
    yield (
        max(steps(gradients=lambda t: 0), loss - z[end]),
        "gradients forgotten",
        "Only activations were counted. Each step backward has two gradients beside them.",
    )
    yield (
        max(steps(gradients=lambda t: z[t] + (z[t - 1] if t > 1 else 0)), loss),
        "g_0 forgotten",
        "z_0 costs nothing, but its gradient does: the last step backward makes g_0.",
    )
    for gradients in (lambda t: z[t], lambda t: z[t - 1]):
        yield (
            max(steps(gradients=gradients), loss),
            "one gradient of two",
            "A step backward reads one gradient and makes another: both are alive.",
        )
    yield (
        max(steps(kept=everything), loss),
        "checkpoints kept too long",
        "A checkpoint is dropped when its step backward is done. Back in an early segment, "
        "those of later ones are gone.",
    )
    yield (
        steps(),
        "loss forgotten",
        "At the loss every value of the last segment and g_T are alive together. Here that is the most.",
    )
    yield (
        max(steps(all_steps=False), loss),
        "first step of a segment only",
        "The most need not be alive where a segment's way back begins: values dropped on the way may "
        "be smaller than the gradients that come. Look at every step.",
    )
    longest = max(sum(z[a + 1 : b]) for a, b in segments)
    for beside in (0, z[-1]):
        yield (
            everything + longest + beside,
            "equal stages only",
            "That is all checkpoints and the largest segment: right where all values are alike, and "
            "without gradients. Which checkpoints are still there in that segment?",
        )


def _wrong_times(case: Case) -> Iterator[tuple[int, str, str]]:
    f, segments = case.given["times"], _segments(case)
    ends = sum(f[b - 1] for _, b in segments[:-1])
    right = sum(sum(f[a : b - 1]) for a, b in segments[:-1])
    a, b = segments[-1]
    if len(segments) > 1:
        yield (
            right + ends,
            "checkpoint computed again",
            "Each segment was computed again up to its last value. But that value is a checkpoint: it "
            "was kept, and by then is done with.",
        )
    for more, beside in ((sum(f[a : b - 1]), 0), (sum(f[a:b]), 0), (sum(f[a:b]), ends)):
        yield (
            right + more + beside,
            "last segment computed again",
            "The last segment was computed again. It stays open: its values are there when the way "
            "back begins.",
        )
    yield (
        sum(sum(f[a + 1 : b]) for a, b in segments[:-1]),
        "time off by one",
        "The times are shifted by one: forward_times[0] is that of stage 1, which makes z_1.",
    )


def _judge(case: Case, seen: Observation) -> Verdict:
    try:
        if not isinstance(seen.value, list | tuple | np.ndarray):
            raise TypeError
        peak, time = seen.value
    except Exception:  # unpacking may be the student's own
        return failed("wrong type", "Expected two numbers, (peak_bytes, recomputed_time).")
    numbers = []
    for name, number in (("peak_bytes", peak), ("recomputed_time", time)):
        numbers.append(_exact(number))
        if numbers[-1] is None:
            return failed(
                "wrong type", f"Expected {name} as a number, got {type(number).__name__}."
            )
    peak, time = numbers
    right_peak, right_time = _expected(case)
    if peak == right_peak and time == right_time:
        return passed()
    if (peak, time) == (right_time, right_peak):
        return failed("swapped", "The two are swapped: first the peak, then the time.")
    if peak != right_peak:
        told = f"Expected a peak of {say(right_peak)}, got {_plain(peak)}."
        for number, cause, why in _wrong_peaks(case):
            if peak == number:
                return failed(cause, f"{told} {why}")
        if isinstance(peak, float) and abs(peak - right_peak) < 1e-3 * right_peak:
            return failed(
                "rounded",
                f"{told} Bytes are whole numbers: Python's own add up exactly, a short float does not.",
            )
        return failed(
            "wrong peak", f"{told} Is every value counted once in the step where it is alive?"
        )
    told = f"The peak is right. Expected a recomputed time of {right_time}, got {_plain(time)}."
    for number, cause, why in _wrong_times(case):
        if time == number:
            return failed(cause, f"{told} {why}")
    return failed(
        "wrong time", f"{told} Only steps forward count, and only those done a second time."
    )


def _exact(number: object) -> int | float | Fraction | None:
    """A number as one of Python's own, with its value unchanged; None where it is no real number."""
    if isinstance(number, np.ndarray) and number.ndim == 0:
        number = number[()]
    if isinstance(number, bool | np.bool_ | np.timedelta64) or not isinstance(number, Real):
        return None
    if type(number) is Fraction:
        return number
    try:
        return int(number) if isinstance(number, Integral) else float(number)
    except Exception:  # a number class of the student's own
        return None


def _plain(number: object) -> str:
    try:
        return f"{number:,}" if len(str(number)) < 40 else f"{number:.4g}"
    except (TypeError, ValueError, OverflowError):
        return type(number).__name__


EXERCISE = Exercise("4.1", "the price of checkpoints", 3, _cases, _run, _judge)
