"""The plain data that the parts of the grader hand to each other.

Reading, running, judging and writing are separate, so that a bad submission stops none of them, and so that
a job can be done on another machine. What passes between them is here: names, text and numbers only.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RowStatus(StrEnum):
    """How a submission went, as a whole. Every submission ends in a row with one of these."""

    GRADED = "graded"  # all of it ran; see the exercises
    PARTLY = "partly"  # some exercise hit a limit or a crash; the others count
    UNREADABLE = "unreadable"  # no notebook could be read: the reason is in the row's note
    WRONG_NOTEBOOK = "wrong notebook"
    MISSING = "missing"  # on the roster, nothing handed in
    GRADER_ERROR = "grader error"  # our fault, to be looked at; never a student's zero in silence


class Ending(StrEnum):
    """How the run of one exercise's answer ended in the sandbox."""

    COMPLETE = "complete"
    NOT_FOUND = "answer not found"
    TOO_SLOW = "too slow"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    TOO_MUCH_OUTPUT = "too much output"
    BROKEN = "could not be read"  # what came out is not an observation


@dataclass(frozen=True)
class Submission:
    """A file that a student handed in: where it came from, and its bytes (None if unreadable)."""

    student: str
    file_name: str
    content: bytes | None
    origin: str = ""  # a path, or archive!member, for people
    handed_in: str = ""  # ISO time, where the source says so
    attempt: int = 1
    problem: str = ""  # why content is None
    mark: str = ""  # what the platform says of it: "marked late by the platform"


@dataclass(frozen=True)
class Answer:
    """The source of one exercise's answer, and how it was found: metadata, cell id or name."""

    exercise: str
    name: str
    source: str
    found_by: str
    support: tuple[str, ...] = ()  # sources of the cells that it needs, in order


@dataclass(frozen=True)
class Reading:
    """What was found in one submission's notebook."""

    notebook: str  # "02_requires_grad"
    answers: tuple[Answer, ...]
    written: dict[str, str] = field(default_factory=dict)  # written answers, by their id
    notes: tuple[str, ...] = ()  # "saved without metadata: found by name"


@dataclass(frozen=True)
class Job:
    """One sandbox's work, as plain data: answers, and cases for each."""

    submission: str  # "student/02_requires_grad"
    answers: tuple[Answer, ...]
    cases: dict[str, list]  # exercise id -> [Case, ...]


@dataclass
class Run:
    """What came out of the sandbox for one exercise: an observation a case, not yet judged."""

    exercise: str
    ending: Ending
    observations: list[Any] = field(default_factory=list)  # checks.core.Observation, decoded
    detail: str = ""
    seconds: float = 0.0
    peak_bytes: int | None = None  # the sandbox's own figure, which an answer can't reach
    flags: tuple[str, ...] = ()  # tampering, for a person to look at
    outside: list[dict | None] = field(
        default_factory=list
    )  # of each observation: what the driver saw of its call; {}: no call, None: cannot be seen


@dataclass
class ExerciseResult:
    """One exercise of one submission, judged."""

    exercise: str
    title: str
    points: float
    max_points: float
    status: str  # checks.core.Status, or an Ending
    cause: str = ""
    diagnosis: str = ""
    measured: dict[str, dict] = field(
        default_factory=dict
    )  # name -> value, unit, at_most, at_least
    flags: tuple[str, ...] = ()
    optional: bool = False
    seconds: float = 0.0  # of the run in the sandbox, for what stands out in a report
    sandbox_peak_bytes: int | None = None  # the sandbox's own figure


@dataclass
class Graded:
    """A submission's row, with all that feedback and reports are made from."""

    student: str
    notebook: str
    status: RowStatus
    results: dict[str, ExerciseResult] = field(default_factory=dict)
    seed: int = 0
    checks_version: str = ""
    note: str = ""
    origin: str = ""
    content_hash: str = ""  # of the submission: a resumed run grades what changed
    sources: dict[str, str] = field(default_factory=dict)  # exercise -> the answer's own source
    written: dict[str, str] = field(default_factory=dict)
    handed_in: str = ""  # ISO time, where known: a policy counts late days by it
    attempt: int = 1
