"""One submission, from bytes to a row. The function that every core, here or on a cluster, runs.

What goes in and what comes out is plain data. Whatever goes wrong on the way becomes the row's status:
a student's broken file "unreadable", our own failure "grader error", never a zero in silence.
"""

import functools
import hashlib
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.grading.cells import Unreadable
from course_utils.grading.lessons import Lesson, lessons
from course_utils.grading.newer_python import add_flags
from course_utils.grading.reading import WrongNotebook, read_submission
from course_utils.grading.records import (
    Ending,
    ExerciseResult,
    Graded,
    Reading,
    RowStatus,
    Submission,
)
from course_utils.grading.version import checks_version

READING_SECONDS = 60
SLOW = {"8": 90.0}  # kernels, interpreted and compiled: 13 s seen for one exercise on a busy laptop
CUT_SHORT = set(Ending) - {Ending.COMPLETE, Ending.NOT_FOUND}
LONGEST_NOTE = 500


class ReadingTooLong(BaseException):
    """No Exception: what a parser stumbles over is caught in many places."""


@dataclass(frozen=True)
class Settings:
    """What holds for a whole batch."""

    seed: int
    wanted: str | None = None  # a notebook's full name; None: whichever it is
    inside_container: bool = False


def grade_one(submission: Submission, settings: Settings) -> Graded:
    """The row of one submission. Raises CourseError where nothing can be graded here."""
    row = empty_row(submission, settings)
    if submission.content is None:
        return close(row, RowStatus.UNREADABLE, submission.problem)
    try:
        with reading_limit():
            known = lessons()
            reading = read_submission(
                submission.content, known, submission.file_name, settings.wanted
            )
        row.notebook = reading.notebook
        row = graded(row, reading, known[reading.notebook], settings)
        add_flags(submission.content, row.results, row.sources)
        return row
    except ReadingTooLong:
        return close(row, RowStatus.UNREADABLE, f"it takes longer than {READING_SECONDS} s to read")
    except Unreadable as problem:
        return close(row, RowStatus.UNREADABLE, str(problem))
    except WrongNotebook as problem:
        return close(row, RowStatus.WRONG_NOTEBOOK, str(problem))
    except CourseError:  # no sandbox here, no lessons here: that ends the whole run
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return close(row, RowStatus.GRADER_ERROR, told)


def graded(row: Graded, reading: Reading, lesson: Lesson, settings: Settings) -> Graded:
    """Run a reading's answers in the sandbox, and judge what came out."""
    from course_utils.grading.jobs import make_job
    from course_utils.grading.judging import judge_runs

    results = {}
    if reading.answers:
        job = make_job(f"{row.student}/{reading.notebook}", reading, settings.seed)
        runs = run_in_sandbox(job, settings.inside_container)
        with reading_limit():  # it reads the answers' text as well
            results = judge_runs(job, runs)
    row.results = {
        name: results.get(name) or not_found(asked) for name, asked in lesson.exercises.items()
    }
    row.checks_version = checks_version(reading.notebook)
    row.sources = {answer.exercise: answer.source for answer in reading.answers}
    row.written = dict(reading.written)
    cut_short = any(result.status in CUT_SHORT for result in row.results.values())
    notes = [row.note, *reading.notes]
    return close(
        row, RowStatus.PARTLY if cut_short else RowStatus.GRADED, "; ".join(filter(None, notes))
    )


def run_in_sandbox(job, inside_container: bool) -> list:
    from course_utils.grading.sandbox.limits import Limits
    from course_utils.grading.sandbox.run import run_job

    lesson = job.answers[0].exercise.partition(".")[0]
    limits = Limits(**{"exercise_seconds": SLOW[lesson]} if lesson in SLOW else {})
    return run_job(job, limits, _given.get("sandbox") or sandbox_here(inside_container))


_given: dict = {}  # the sandbox that this process was told to use


def use_sandbox(sandbox) -> None:
    """Use this one, which another process found: to look for it takes a second."""
    _given["sandbox"] = sandbox


@functools.cache
def sandbox_here(inside_container: bool):
    """This machine's sandbox, looked for once. Raises CourseError where there is none."""
    from course_utils.grading.sandbox.choose import choose_sandbox

    return choose_sandbox(inside_container)


def not_found(asked) -> ExerciseResult:
    """The result of an exercise that has no answer in the notebook."""
    points, status = float(asked.points), str(Ending.NOT_FOUND)
    return ExerciseResult(asked.id, asked.title, 0.0, points, status, optional=asked.optional)


def empty_row(submission: Submission, settings: Settings) -> Graded:
    """A row that says so far only whose it is, and which notebook it seems to be."""
    content = submission.content
    notebook = settings.wanted or notebook_by_name(submission.file_name)
    return Graded(
        submission.student,
        notebook,
        RowStatus.GRADER_ERROR,
        seed=settings.seed,
        checks_version=checks_version(notebook),
        origin=submission.origin,
        content_hash="" if content is None else hashlib.sha256(content).hexdigest(),
        handed_in=submission.handed_in,
        attempt=submission.attempt,
        note=submission.mark,
    )


def notebook_by_name(file_name: str) -> str:
    """The lesson that a file's name means; "" where it means none."""
    stem = file_name.partition(".")[0]
    return next((name for name in lessons() if stem in (name, name[:2])), "")


def close(row: Graded, status: RowStatus, note: str) -> Graded:
    if row.note and row.note not in note:  # what the platform said of it
        note = f"{row.note}; {note}"
    row.status, row.note = status, note[:LONGEST_NOTE].encode("utf-8", "replace").decode()
    return row


@contextmanager
def reading_limit() -> Iterator[None]:
    """Stops reading after a minute, and ends this very process where that does not help.

    Python's parser cannot be interrupted: after as much time of the processor's and half as much again
    the process goes, and the batch gives that submission a row. Where there is no such alarm (Windows,
    a cluster's thread), there is none.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_) -> None:
        raise ReadingTooLong

    before = signal.signal(signal.SIGALRM, stop), signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, 1.5 * READING_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, READING_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGPROF, before[1])
