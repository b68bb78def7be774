"""What a check is: three pure parts, and the verdict they lead to.

`cases` makes the inputs, `run` calls the answer and observes, `judge` decides. `run` is the only one that
meets the student's code and `judge` never does, so a grader can keep them apart: inputs go into a
sandbox, observations come out, and judgement happens where the answer cannot reach it.
"""

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from course_utils.checks import UnknownExercise, find_exercise
from course_utils.tracing import many_traces

NOTEBOOK_SEED = 577  # the notebook's cases; a grader draws others


class Status(StrEnum):
    """What a check can say."""

    NOT_ATTEMPTED = "not attempted"
    PASSED = "passed"
    FAILED = "failed"
    NOT_VERIFIABLE = "not verifiable here"


@dataclass(frozen=True)
class Case:
    """One trial: a name for people, and small plain data from which both sides make the inputs."""

    name: str
    given: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Error:
    """An exception of the answer's. `line` is the answer's own line that led to it, as text."""

    kind: str
    message: str
    line: str = ""


@dataclass
class Observation:
    """What an answer did in one case. Plain data: arrays, numbers, text.

    value: what it returned (or what it left in its inputs, where it works in place).
    peak_bytes: the most that it had alive at once, beyond its inputs. None where it was not measured.
    held_bytes: what was still alive after it returned, its result included. Exact.
    more: further observations, by name, where an exercise needs them.
    changed_input: it wrote into an input that it should only read.
    out_of_sight: a library whose memory NumPy does not count (torch, mmap), if it went there.
    unavailable: what this machine lacks to try it, and where it can be tried. "" where it was tried.
    """

    value: Any = None
    peak_bytes: int | None = None
    held_bytes: int | None = None
    more: dict[str, Any] = field(default_factory=dict)
    error: Error | None = None
    changed_input: bool = False
    out_of_sight: str = ""
    unavailable: str = ""


@dataclass(frozen=True)
class Measure:
    """A measured number beside what was allowed. `at_least` is what no honest answer can be below."""

    value: float
    unit: str = "bytes"
    at_most: float | None = None
    at_least: float | None = None


@dataclass
class Verdict:
    """The outcome of a check. `cause` is a short name of what went wrong, for tests and reports.

    The diagnosis of one that passed says how far it was verified, where this machine can't verify all.
    """

    status: Status
    diagnosis: str = ""
    measured: dict[str, Measure] = field(default_factory=dict)
    cause: str = ""
    exercise: str = ""
    title: str = ""
    case: str = ""
    _shown: bool = field(default=False, repr=False, compare=False)

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED

    def __str__(self) -> str:
        from course_utils.checks.show import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from course_utils.checks.show import as_html

        return as_html(self)

    def _ipython_display_(self) -> None:
        from course_utils.checks.show import show

        if not self._shown:  # `check` has shown it already when it ends a cell
            show(self)
        self._shown = False


def passed(**measured: Measure) -> Verdict:
    """The verdict of a case that is right."""
    return Verdict(Status.PASSED, measured=measured)


def failed(cause: str, diagnosis: str, **measured: Measure) -> Verdict:
    """The verdict of a case that is wrong: a cause in a word or two, and a sentence that teaches."""
    return Verdict(Status.FAILED, diagnosis, measured, cause)


@dataclass(frozen=True)
class Exercise:
    """An exercise's check. `judge` may trust that the answer returned without error."""

    id: str
    title: str
    points: int
    cases: Callable[[int], list[Case]]
    run: Callable[[Callable, Case], Observation]
    judge: Callable[[Case, Observation], Verdict]
    returns_none: bool = False  # it works in place: returning nothing is right
    optional: bool = False
    gpu_only: bool = False  # can be verified on a GPU and nowhere else

    @property
    def module(self) -> str:
        return self.judge.__module__


def check(exercise_id: str, answer: Callable) -> Verdict:
    """Try an answer: shows and returns a Verdict. Records it for `progress`.

    It never raises, except where COURSE_STRICT or NBGRADER_EXECUTION is set in the environment: there
    anything but "passed" is an AssertionError. (With COURSE_STRICT, an exercise for a GPU alone may be
    "not verifiable here".)
    """
    try:
        exercise = find_exercise(exercise_id)
    except UnknownExercise as unknown:
        return _conclude(failed("unknown exercise", f"{unknown}."))
    with many_traces():
        verdict = judge_answer(exercise, answer, NOTEBOOK_SEED)
    gc.collect()  # a check leaves no graph of its own behind
    verdict.exercise, verdict.title = exercise.id, exercise.title
    return _conclude(verdict, exercise.gpu_only)


def _conclude(verdict: Verdict, gpu_only: bool = False) -> Verdict:
    from course_utils.checks.record import record_verdict
    from course_utils.checks.show import show

    show(verdict)
    verdict._shown = True
    record_verdict(verdict)
    excused = gpu_only and verdict.status is Status.NOT_VERIFIABLE  # from the course's own tests
    strict = os.environ.get("COURSE_STRICT") and not excused
    if (strict or os.environ.get("NBGRADER_EXECUTION")) and not verdict.passed:
        raise AssertionError(str(verdict))
    return verdict


def judge_answer(exercise: Exercise, answer: Callable, seed: int) -> Verdict:
    """Every case in turn; the first that is not passed is the verdict."""
    if not callable(answer) and not callable(getattr(answer, "fn", None)):  # .fn: a kernel's
        return failed(
            "not a function",
            f"check takes your function itself, but got {_short(answer)}. "
            f'Write check("{exercise.id}", name), without calling it.',
        )
    measured: dict[str, Measure] = {}
    told: list[str] = []
    cases = exercise.cases(seed)
    for case in cases:
        verdict = judge_observation(exercise, case, exercise.run(answer, case))
        verdict.case = case.name
        if not verdict.passed:
            return verdict
        measured.update(verdict.measured)
        told += [verdict.diagnosis] if verdict.diagnosis else []
    again = judge_observation(exercise, cases[0], exercise.run(answer, cases[0]))
    if not again.passed:
        return failed(
            "right only once",
            "The same call was right the first time and wrong when it was repeated: something is kept "
            f"from one call to the next. The second time: {again.diagnosis}",
        )
    return Verdict(Status.PASSED, " ".join(dict.fromkeys(told)), measured)


def judge_observation(exercise: Exercise, case: Case, seen: Observation) -> Verdict:
    """What holds for every exercise comes first, then the exercise's own judge."""
    error = seen.error
    if error is not None:
        if error.kind == "NotImplementedError" and not error.message:  # the stub's own
            return Verdict(Status.NOT_ATTEMPTED, "The stub is still there: write your answer, run its cell, "
                           "then run this one again.")  # fmt: skip
        where = f" at `{error.line}`" if error.line else ""
        message = f": {error.message}" if error.message else ""
        return failed("raised an error", f"Your code raised {error.kind}{where}{message}")
    if seen.unavailable:
        return Verdict(Status.NOT_VERIFIABLE, seen.unavailable)
    if seen.out_of_sight:
        return failed(
            "memory out of sight",
            f"Your code goes to {seen.out_of_sight}: out of this check's sight, or into its works. "
            "Use NumPy's arrays and what the exercise names, which it counts to the byte.",
        )
    if seen.changed_input:
        return failed(
            "changed its input",
            "Your code changed what it was given: an array's numbers, or a list. Whoever called it "
            "still needs that as it was.",
        )
    if seen.value is None and not exercise.returns_none:
        return failed("returned nothing", "Your code returned None. Is a `return` missing?")
    return exercise.judge(case, seen)


def _short(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
