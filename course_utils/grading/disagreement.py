"""What was counted beside an answer, held against what the driver saw of its process from outside.

A process takes what is counted, and a little more: an allocator's pages, NumPy's buffers, a trace's own tables.
With the right answers of the tests that little was 3.7 MB at most, where an answer's call alone is looked at.
What takes more than that, and by it more than its budget, has memory that its meters did not see.
"""

from collections.abc import Iterable
from typing import Any

from course_utils.checks.core import Exercise, Observation, Verdict, failed
from course_utils.grading.outside import is_metered
from course_utils.grading.records import Run

SLACK_BYTES = 6 * 10**6
BEFORE_BYTES = 64 * 10**6  # what cells, inputs and a warm-up leave; seen: up to 25 MB
LIBRARIES_BYTES = (
    300 * 10**6
)  # and a library, once it is imported; seen: 225 MB (torch and matplotlib)

_OUT_OF_SIGHT = "meters disagree"


def disagreement(
    exercise: Exercise, run: Run, verdicts: Iterable[Verdict], loads_libraries: bool = False
) -> tuple[Verdict | None, list[str]]:
    """(a verdict that replaces a pass, or None; flags). `verdicts`: of the observations, in order.

    loads_libraries: the answer's cells import some that are large.
    """
    if not is_metered(exercise.run):
        return None, []
    found: Verdict | None = None
    flags: list[str] = []
    for seen, outside, verdict in zip(run.observations, run.outside, verdicts):
        if seen.peak_bytes is None or outside is None:
            continue
        failure, flag = _case(
            seen, outside, verdict, BEFORE_BYTES + loads_libraries * LIBRARIES_BYTES
        )
        flags += [flag] if flag else []
        found = found or failure
    return found, flags[:6]


def _case(seen: Observation, outside: dict[str, Any], verdict: Verdict, before_most: int) -> tuple:
    """(failure or None, flag or "") of one metered case."""
    if not outside:
        told = "a peak was reported that nobody outside saw being measured"
        return failed(_OUT_OF_SIGHT, f"{told[0].upper()}{told[1:]}."), f"{_OUT_OF_SIGHT}: {told}"
    if outside.get("processes"):
        told = "it started a process while its memory was counted"
        return failed("memory out of sight", f"{told[0].upper()}{told[1:]}."), told
    excess_bytes = outside.get("excess_bytes", 0)
    before_bytes = outside.get("before_bytes", 0)
    if excess_bytes > max(seen.peak_bytes, 0) + SLACK_BYTES:
        flag = (
            f"{_OUT_OF_SIGHT}: {seen.peak_bytes:,} bytes counted, while the call took "
            f"{excess_bytes:,.0f} of its process"
        )
        most = [each.at_most for each in verdict.measured.values() if each.value == seen.peak_bytes]
        if any(at_most is not None and excess_bytes > at_most + SLACK_BYTES for at_most in most):
            return failed(
                _OUT_OF_SIGHT,
                f"{seen.peak_bytes:,} bytes were counted in the call, and its process took "
                f"{excess_bytes:,.0f}, more than the budget with all that an interpreter needs: some of its "
                "memory is out of the meters' sight.",
            ), flag
        return None, flag
    if outside.get("threads"):
        return None, "left a thread running that goes on when memory is no longer counted"
    if before_bytes > before_most:
        return None, f"takes {before_bytes:,.0f} bytes before the call that is counted"
    return None, ""
