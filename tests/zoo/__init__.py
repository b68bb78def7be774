"""Hostile and broken submissions, most of them to lesson 02: what each tries, its honest score, its row's status.

loops     do not end                    bombs     take more than there is
ends      end the process               forgeries claim what is not so
meters    have memory out of sight      snoops    look and reach outside
broken    can hardly be read            archives  ZIP files
markup    names and text that are programs elsewhere
traffic   forge what crosses on a chip, or what a kernel moves (lessons 06 and 08)

A beast is built from the solved notebook. `points` are what it is worth to an honest grader, by exercise;
the others are worth full marks, whatever the beast does to its neighbours.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module

from tests.grading_helpers import answer_cell, as_bytes, solved

RUNNING = ("loops", "bombs", "ends", "forgeries", "meters", "snoops", "traffic")
KINDS = (*RUNNING, "broken", "archives", "markup")
FULL = {"2.1": 2.0, "2.2": 4.0, "2.3": 3.0, "2.4": 4.0}


@dataclass(frozen=True)
class Beast:
    """points: of the exercises that are not worth full marks; None: nothing in it can be graded.

    status: of its row. endings: what the attacked exercises' status must be. flagged: a person looks.
    whispers: the hidden cases' seed gets into what the grader knows; its page must not have it.
    """

    name: str
    kind: str
    build: Callable[[], bytes]
    points: dict[str, float] | None
    status: str = "graded"
    endings: dict[str, str] = field(default_factory=dict)
    flagged: bool = False
    file_name: str = "02_requires_grad.ipynb"
    student: str = ""
    lesson: str = "02"
    whispers: bool = False

    def __str__(self) -> str:
        return f"{self.kind}-{self.name}"


BEASTS: list[Beast] = []


def beast(points: dict[str, float] | None, status: str = "graded", **more) -> Callable:
    """Collect a function that builds a submission's bytes."""

    def collect(build: Callable[[], bytes]) -> Callable[[], bytes]:
        kind = build.__module__.rpartition(".")[2]
        BEASTS.append(Beast(build.__name__, kind, build, points, status, **more))
        return build

    return collect


def attack(exercise: str, source: str, status: str = "graded", **more) -> None:
    """A beast whose answer to one exercise is this source; `name` and its points come with `more`."""
    points = {exercise: more.pop("worth", 0.0)}
    ending = more.pop("ending", "")
    endings = {exercise: ending} if ending else {}
    lesson = f"{int(exercise.partition('.')[0]):02}"

    def build() -> bytes:
        notebook = solved(lesson)
        answer_cell(notebook, exercise)["source"] = source
        return as_bytes(notebook)

    kind = more.pop("kind")
    name = more.pop("name")
    BEASTS.append(Beast(name, kind, build, points, status, endings, lesson=lesson, **more))


for _kind in KINDS:
    import_module(f"tests.zoo.{_kind}")
