"""What a run came to, kept beside its tables: so a later run can say which figures are others now, and why.

The ledger has what the checks said of every attempt. What was made of it, with which points, lateness and
points by hand, stands in figures.json: a line for each student and lesson.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from course_utils.authoring.files import write_whole
from course_utils.errors import CourseError
from course_utils.grading.finals import Final, total_share
from course_utils.grading.policy import Policy
from course_utils.grading.records import Graded
from course_utils.grading.rows import core_points, has_points

FILE = "figures.json"
Key = tuple[str, str]  # student, notebook


@dataclass(frozen=True)
class Figure:
    """One student's lesson: the row that counts, in short, and what it came to."""

    student: str
    notebook: str
    status: str
    points: float | None  # as in final.csv; None: no figure
    exercises: dict[str, list[float]] = field(
        default_factory=dict
    )  # points, most, optional (0 or 1)
    said: dict[str, str] = field(default_factory=dict)  # of an exercise: its status and cause
    note: str = ""
    content_hash: str = ""
    checks_version: str = ""
    seed: int = 0
    by_hand: float = 0.0
    handed_in: str = ""
    days_late: int = 0
    share: float = 1.0
    why: str = ""


def figure(row: Graded, final: Final | None = None, by_hand: float = 0.0) -> Figure:
    """Of a row, and of what was made of it; without that, of what the checks gave."""
    exercises = {
        name: [each.points, each.max_points, float(each.optional)]
        for name, each in row.results.items()
    }
    said = {name: f"{each.status} {each.cause}".strip() for name, each in row.results.items()}
    points = core_points(row) + by_hand if has_points(row) else None
    of_final = {}
    if final is not None:
        points = final.points
        of_final = {"days_late": final.days_late, "share": final.share, "why": final.why}
    return Figure(
        row.student, row.notebook, str(row.status), points, exercises, said, row.note,
        row.content_hash, row.checks_version, row.seed, by_hand, row.handed_in, **of_final,
    )  # fmt: skip


def figures(
    rows: Iterable[Graded], finals: Iterable[Final] = (), by_hand: dict[Key, float] | None = None
) -> dict[Key, Figure]:
    """Of every row."""
    of = {(final.student, final.notebook): final for final in finals}
    given = by_hand or {}
    keys = {(row.student, row.notebook): row for row in rows}
    return {key: figure(row, of.get(key), given.get(key, 0.0)) for key, row in keys.items()}


def percents(finals: list[Final], policy: Policy) -> dict[str, float | None]:
    """Each student's total, in percent, as in final.csv."""
    found = {}
    for student in sorted({final.student for final in finals}):
        share = total_share([final for final in finals if final.student == student], policy)
        found[student] = None if share is None else round(100 * share, 2)
    return found


def write_figures(
    path: Path, found: dict[Key, Figure], totals: dict[str, float | None] | None = None
) -> None:
    """figures.json, whole or not at all. `totals`: percents. Raises CourseError."""
    content = {"figures": [asdict(found[key]) for key in sorted(found)], "percents": totals or {}}
    write_whole({path: (json.dumps(content, indent=1) + "\n").encode("utf-8", "replace")})


def read_figures(path: Path) -> tuple[dict[Key, Figure], dict[str, float | None]] | None:
    """What `write_figures` wrote; None where there is no such file. Raises CourseError."""
    try:
        content = json.loads(path.read_text("utf-8"))
        found = [Figure(**each) for each in content["figures"]]
        return {(each.student, each.notebook): each for each in found}, dict(content["percents"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise CourseError(f"{path}: holds no figures of a run; move it away") from None
