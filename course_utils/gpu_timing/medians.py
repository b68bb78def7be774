"""Medians of many runs, of programs that take turns.

A GPU that has just worked hard runs at a lower clock rate than one that has rested. So programs that are to
be compared run in turns within one measurement, in an order that rotates, and the median is taken: a mean
would count every interruption. A ratio without its spread is not a result, so each comes with one.
"""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from course_utils.gpu_timing.clocks import GpuClock


class Job(NamedTuple):
    """What is timed, and what must be made for it each time but is not timed.

    `run` gets what `prepare` returns. A backward pass is prepared by its forward pass.
    """

    run: Callable
    prepare: Callable[[], object] | None = None


@dataclass(frozen=True)
class Timing:
    """Seconds of one program over several runs: the median, and where the middle four fifths lie."""

    seconds: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, times: list[float]) -> "Timing":
        low, high = _tenths(times)
        return cls(statistics.median(times), low, high, len(times))


@dataclass(frozen=True)
class Ratio:
    """How many times as fast ours is as theirs: above 1, ours is faster. Taken in pairs, a round each."""

    ratio: float
    low: float
    high: float
    ours: Timing
    theirs: Timing


def median_seconds(
    function: Callable[[], object], *, repeat: int = 25, warm_up: int = 3, clock=None
) -> float:
    """The median seconds of `function()`, after some runs that don't count. clock: a GpuClock."""
    clock = clock or GpuClock()
    for _ in range(warm_up):
        function()
    return statistics.median(clock.measure(function).wait() for _ in range(repeat))


def compare(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    rounds: int = 25,
    warm_up: int = 3,
    clock=None,
) -> Ratio:
    """Time both in turns, ours first in one round and theirs in the next."""
    clock = clock or GpuClock()
    for _ in range(warm_up):
        ours(), theirs()
    times = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            times[which].append(clock.measure((ours, theirs)[which]).wait())
    return ratio_of(*times)


def ratio_of(ours: list[float], theirs: list[float]) -> Ratio:
    """The ratio of two lists of seconds, whose n-th elements were measured in the same round.

    No seconds at all are infinitely fast: whoever takes a ratio for a result refuses that one (`ceilings`).
    """
    pairs = zip(ours, theirs, strict=True)
    ratios = [their / our if our > 0 else math.inf for our, their in pairs]
    return Ratio(statistics.median(ratios), *_tenths(ratios), Timing.of(ours), Timing.of(theirs))


def interleaved(
    jobs: Mapping[str, Job],
    *,
    seconds_each: float = 0.25,
    least: int = 5,
    most: int = 50,
    clock=None,
    failures: dict[str, Exception] | None = None,
) -> dict[str, list[float]]:
    """Seconds of every job, run after run, all in turns.

    A job runs as often as fits into `seconds_each`, between `least` and `most` times (three, if one run
    takes longer than that), and a slow one takes part in some rounds only. A job that raises is dropped,
    with its error in `failures`; without that dictionary the error is raised.
    """
    clock = clock or GpuClock()
    times, repeats = {}, {}
    for name, job in jobs.items():
        estimates = [_seconds(_started(clock, job), name, failures) for _ in range(2)]
        if None not in estimates:  # the first one was to warm up
            times[name] = []
            fewest = least if estimates[1] < seconds_each else 3
            repeats[name] = min(max(int(seconds_each / max(estimates[1], 1e-9)), fewest), most)
    rounds = max(repeats.values(), default=0)
    for number in range(rounds):
        waits = {}
        for name in _rotated(list(times), number):
            takes_part = (number + 1) * repeats[name] // rounds > number * repeats[name] // rounds
            if takes_part:  # none is waited for before all have begun
                waits[name] = _started(clock, jobs[name])
        for name, wait in waits.items():
            seconds = _seconds(wait, name, failures)
            if seconds is None:
                del times[name]
            else:
                times[name].append(seconds)
    return times


def _started(clock, job: Job) -> Callable[[], float]:
    """Start one run of a job: what waits for its seconds, or raises what the run raised."""
    try:
        inputs = () if job.prepare is None else (job.prepare(),)
        return clock.measure(job.run, *inputs).wait
    except Exception as error:
        return partial(_raise, error)


def _raise(error: Exception) -> float:
    raise error


def _seconds(wait: Callable[[], float], name: str, failures: dict | None) -> float | None:
    """The seconds of a run that was started; None if it raised, with the error in `failures`."""
    try:
        return wait()
    except Exception as error:
        if failures is None:
            raise
        failures[name] = error
        return None


def _rotated(names: list[str], by: int) -> list[str]:
    by %= len(names) or 1
    return names[by:] + names[:by]


def _tenths(values: list[float]) -> tuple[float, float]:
    """What a tenth of the values lies below, and what a tenth lies above."""
    ordered = sorted(values)
    cut = len(ordered) // 10
    return ordered[cut], ordered[-1 - cut]
