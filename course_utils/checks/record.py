"""What was passed and what was predicted, in one small local file that git ignores.

It lies in the student's own folder, `work/`. Deleting it loses nothing else, and every check that is run
again writes it anew. COURSE_STATE names another folder: tests and builds use it, so as not to touch the
student's.
"""

import json
import os
import tempfile
from contextlib import suppress
from html import escape
from pathlib import Path

from course_utils.checks import all_exercises
from course_utils.checks.core import Status, Verdict
from course_utils.locks import held

_FILE_NAME = ".progress.json"
_WAIT_SECONDS = 5  # for another notebook's entry: a check never hangs
_memory: dict = {}  # the record, where no file can be written


def record_file() -> Path:
    """Where the record lies: in COURSE_STATE, else in the course's work/, else (installed) right here."""
    root = Path(__file__).parents[2]
    default = root / "work" if (root / "course.py").exists() else Path.cwd()
    return Path(os.environ.get("COURSE_STATE") or default) / _FILE_NAME


def load() -> dict:
    """{"exercises": {id: status}, "predictions": {id: {"number": ..., "unit": ...}}}."""
    record = {"exercises": {}, "predictions": {}}
    try:
        if os.environ.get("NBGRADER_EXECUTION"):
            raise OSError
        stored = json.loads(record_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = _memory  # missing, unreadable or damaged: begin again
    for part, entries in record.items():
        if isinstance(stored, dict) and isinstance(stored.get(part), dict):
            entries.update(stored[part])
    return record


def store(part: str, key: str, value) -> None:
    """Note one entry, one notebook at a time. The file is replaced whole: a crash leaves the old one."""
    path = record_file()
    if os.environ.get("NBGRADER_EXECUTION"):  # a grader's record would mix its students
        _memory.update(_with(part, key, value))
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with held(path.with_name(f"{_FILE_NAME}.lock"), _WAIT_SECONDS):
        record = _with(part, key, value)
        try:
            _write(path, record)
            _memory.clear()
        except OSError:  # a read-only course folder: the record lives as long as the kernel
            _memory.update(record)


def _with(part: str, key: str, value) -> dict:
    record = load()
    record[part][key] = value
    return record


def _write(path: Path, record: dict) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_FILE_NAME, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, sort_keys=True)
        os.replace(name, path)
    except BaseException:  # Windows: the file is open elsewhere
        with suppress(OSError):
            os.unlink(name)
        raise


def record_verdict(verdict: Verdict) -> None:
    """Note a verdict, if it is better than what there is: trying on after a pass costs nothing."""
    if not verdict.exercise:
        return
    before = load()["exercises"].get(verdict.exercise)
    untouched = verdict.status is Status.NOT_ATTEMPTED and before is not None
    if before != Status.PASSED and not untouched:
        store("exercises", verdict.exercise, str(verdict.status))


class Progress:
    """The state of every exercise, as a table."""

    def __init__(self):
        states = load()["exercises"]
        self.rows = [
            (exercise, states.get(exercise.id, str(Status.NOT_ATTEMPTED)))
            for exercise in all_exercises()
        ]

    @property
    def points(self) -> int:
        """Points earned so far."""
        return sum(exercise.points for exercise, state in self.rows if state == Status.PASSED)

    @property
    def max_points(self) -> int:
        return sum(exercise.points for exercise, _ in self.rows)

    def __str__(self) -> str:
        width = max(len(exercise.title) for exercise, _ in self.rows)
        lines = [
            f"{exercise.id:<5} {exercise.title:<{width}}  {self._earned(exercise, state):>7}  {state}"
            for exercise, state in self.rows
        ]
        return "\n".join(
            [*lines, f"{'':<5} {'total':<{width}}  {self.points:>3} / {self.max_points}"]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from course_utils.checks.show import COLOURS, MARKS

        def row(cells, tag="td"):
            return (
                "<tr>"
                + "".join(f'<{tag} style="text-align: left">{cell}</{tag}>' for cell in cells)
                + "</tr>"
            )

        body = "".join(
            row(
                (
                    exercise.id,
                    escape(exercise.title),
                    self._earned(exercise, state),
                    f'<span style="color: {COLOURS[Status(state)]}">{MARKS[Status(state)]} {state}</span>',
                )
            )
            for exercise, state in self.rows
        )
        head = row(("exercise", "", "points", "state"), "th")
        total = row(
            (
                "",
                "<strong>total</strong>",
                f"<strong>{self.points} / {self.max_points}</strong>",
                "",
            )
        )
        return f"<table><thead>{head}</thead><tbody>{body}{total}</tbody></table>"

    @staticmethod
    def _earned(exercise, state: str) -> str:
        return f"{exercise.points if state == Status.PASSED else 0} / {exercise.points}"


def progress() -> Progress:
    """Points and state of every exercise, from the local record."""
    return Progress()
