"""Observations judged, where no student's code runs: by each exercise's own judge, as in the notebook.

The judge trusts what `run` observed, and here `run` shared a process with the answer. So whatever a judge
stumbles over is no observation that `run` can have made, and fails. What was computed is compared with an
oracle that no answer has seen, and cannot be forged. What was counted could be; it is held against what
the sandbox saw from outside.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from course_utils.checks.core import (
    Exercise,
    Observation,
    Status,
    Verdict,
    failed,
    judge_observation,
)
from course_utils.grading.alive import KEPT
from course_utils.grading.around import AROUND, around_flags, counts_traffic
from course_utils.grading.disagreement import disagreement
from course_utils.grading.hints import loads_libraries, oracle_flags, source_flags
from course_utils.grading.jobs import exercises_of
from course_utils.grading.outside import is_metered
from course_utils.grading.records import Ending, ExerciseResult, Job, Run
from course_utils.grading.tampering import PATCHED

# What a process takes beside the arrays that are metered: the interpreter's own, trace tables, inputs,
# encoded results. Seen with the solutions: up to 60 MB.
UNMETERED_BYTES = 100 * 10**6  # above it, a person looks
IMPOSSIBLE_BYTES = 500 * 10**6  # above it, no pass: importing a large library takes less
_LONGEST = 4000
NO_FILES = "where memory is counted, an answer cannot write files: that would be memory, too"
_NO_FILES = re.compile(r"File too large|requested and \d+ written")

_SAID = {
    Ending.NOT_FOUND: "No answer was found under this exercise's name.",
    Ending.TOO_SLOW: "The answer was stopped: it took longer than an exercise may take.",
    Ending.OUT_OF_MEMORY: "The answer was stopped: it took more memory than a submission may take.",
    Ending.CRASHED: "The answer ended its process",
    Ending.TOO_MUCH_OUTPUT: "The answer returned more than can be looked at.",
    Ending.BROKEN: "What the answer left behind could not be read as an observation.",
}


def judge_runs(job: Job, runs: Iterable[Run]) -> dict[str, ExerciseResult]:
    """A result for every exercise of the job's notebook, by id. Never raises for what an answer did."""
    by_id = {run.exercise: run for run in runs}
    answers = {answer.exercise: answer for answer in job.answers}
    results = {}
    for exercise_id, cases in job.cases.items():
        exercise = exercises_of(exercise_id.partition(".")[0])[exercise_id]
        run = by_id.get(exercise_id) or Run(exercise_id, Ending.NOT_FOUND)
        answer = answers.get(exercise_id)
        sources = [*answer.support, answer.source] if answer is not None else []
        named = [*source_flags(sources), *oracle_flags(exercise_id, sources)]
        if counts_traffic(exercise.run):
            named += around_flags(sources)
        result = _judged(exercise, cases, run, [*run.flags, *named], loads_libraries(sources))
        if answer is not None:
            result.flags = (*result.flags, *run.flags, *named)
        results[exercise_id] = result
    return results


def _judged(
    exercise: Exercise, cases: list, run: Run, signs: list[str], libraries: bool
) -> ExerciseResult:
    verdict, flags = _verdict(exercise, cases, run, libraries)
    if verdict.status is Status.PASSED:
        verdict = _not_counted(signs) or verdict
    passed = verdict.status is Status.PASSED
    complete = len(run.observations) > len(cases) and run.ending is Ending.COMPLETE
    if passed and not complete:
        ending = Ending.BROKEN if run.ending is Ending.COMPLETE else run.ending
        return _result(exercise, run, str(ending), str(ending), _said(ending, run), {}, flags, 0)
    points = exercise.points if passed else 0
    measured = {name: asdict(measure) for name, measure in verdict.measured.items()}
    said = str(verdict.status), verdict.cause, verdict.diagnosis
    return _result(exercise, run, *said, measured, flags, points)


def _result(
    exercise: Exercise,
    run: Run,
    status: str,
    cause: str,
    diagnosis: str,
    measured: dict[str, dict],
    flags: list[str],
    points: float,
) -> ExerciseResult:
    return ExerciseResult(
        exercise=exercise.id,
        title=exercise.title,
        points=float(points),
        max_points=float(exercise.points),
        status=status,
        cause=cause,
        diagnosis=diagnosis[:_LONGEST],
        measured=measured,
        flags=tuple(flags),
        optional=exercise.optional,
        seconds=run.seconds,
        sandbox_peak_bytes=run.peak_bytes,
    )


def _verdict(
    exercise: Exercise, cases: list, run: Run, libraries: bool
) -> tuple[Verdict, list[str]]:
    """As `judge_answer`, on observations that were made elsewhere: the first that is not passed decides."""
    measured: dict[str, Any] = {}
    metered_bytes: int | None = None  # None: this exercise does not count memory
    told: dict[str, None] = {}
    verdicts: list[Verdict] = []
    for number, seen in enumerate(run.observations[: len(cases) + 1]):
        case = cases[number] if number < len(cases) else cases[0]
        verdict, flags = _safely(exercise, case, _with_reason(exercise, seen))
        verdict.case = case.name
        if verdict.status is not Status.PASSED:
            if number == len(cases):
                verdict = failed(
                    "right only once",
                    "The same call was right the first time and wrong when it was repeated: something is "
                    f"kept from one call to the next. The second time: {verdict.diagnosis}",
                )
            if kept := [flag for flag in run.flags if flag.startswith(KEPT)]:
                verdict.diagnosis += f" (Your code {kept[-1]}.)"
            return verdict, flags
        measured.update(verdict.measured)
        verdicts.append(verdict)
        if seen.peak_bytes is not None:
            metered_bytes = max(metered_bytes or 0, seen.peak_bytes)
        told |= {verdict.diagnosis: None} if verdict.diagnosis else {}
    failure, flags = disagreement(exercise, run, verdicts, libraries)
    if failure is not None:
        return failure, flags
    taken_bytes = run.peak_bytes or 0
    if metered_bytes is None or taken_bytes <= 2 * metered_bytes + UNMETERED_BYTES:
        return Verdict(Status.PASSED, " ".join(told), measured), flags
    flag = (
        f"meters disagree: {metered_bytes:,} bytes counted at most, while its process took "
        f"{taken_bytes:,} more than before"
    )
    if taken_bytes > 4 * metered_bytes + IMPOSSIBLE_BYTES:
        verdict = failed(
            "memory out of sight",
            f"{metered_bytes:,} bytes were counted, and the answer's process took {taken_bytes:,}: far more "
            "than an interpreter needs beside what is counted.",
        )
        return verdict, [*flags, flag]
    return Verdict(Status.PASSED, " ".join(told), measured), [*flags, flag]


def _not_counted(signs: list[str]) -> Verdict | None:
    """What takes a pass away, although values and counts were right."""
    if patched := [flag.removeprefix(PATCHED) for flag in signs if flag.startswith(PATCHED)]:
        return failed(
            "meters exchanged",
            "After the run, functions that the check counts with were others than before: "
            f"{', '.join(patched[:3])}. Its numbers say nothing.",
        )
    if around := [flag.removeprefix(AROUND) for flag in signs if flag.startswith(AROUND)]:
        return failed(
            "meters reached around",
            f"Your code takes ways to values that it does not name ({', '.join(around[:3])}), and what goes "
            "there is not counted. Write every name out; numbers cross by sram.load and sram.store.",
        )
    return None


def _with_reason(exercise: Exercise, seen: Observation) -> Observation:
    """The sandbox's own refusals, in words that say whose they are."""
    error = seen.error
    if error is None or error.kind != "OSError" or not is_metered(exercise.run):
        return seen
    if not _NO_FILES.search(error.message):
        return seen
    return replace(seen, error=replace(error, message=NO_FILES))


def _safely(exercise: Exercise, case: Any, seen: Observation) -> tuple[Verdict, list[str]]:
    """The judge's verdict, and a flag where it stumbled."""
    try:
        return judge_observation(exercise, case, seen), []
    except Exception as problem:  # not even MemoryError may cost the batch
        told = f"{type(problem).__name__}: {str(problem)[:200]}"
        verdict = failed(
            "could not be judged", "What was observed is nothing that this check can observe."
        )
        return verdict, [f"the judge stumbled over what was observed: {told}"]


def _said(ending: Ending, run: Run) -> str:
    if ending is Ending.CRASHED and run.detail:
        return f"{_SAID[ending]} ({run.detail})."
    said = _SAID[ending].rstrip(".") + "."
    return (
        f"{said} Before that: {run.detail}" if run.detail and ending is Ending.NOT_FOUND else said
    )
