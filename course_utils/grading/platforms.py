"""How Moodle, Canvas and Gradescope name what students handed in.

    Moodle      Full Name_123456_assignsubmission_file_/02_requires_grad.ipynb   (or flat)
    Canvas      lastfirst_12345_67890_02_requires_grad.ipynb, lastfirst_LATE_12345_67890_...-1.ipynb
    Gradescope  assignment_9_export/submission_12345/..., and who that is in submission_metadata.yml

A student is known afterwards by name and number, `Full Name_123456`, so that a person can read the
grades and a roster can match the number. What a platform wrote stands first, and what a student chose
(a file's name, folders, an archive's content) after it: only the first part of a path names an owner.
"""

import re
from dataclasses import dataclass

MOODLE = re.compile(
    r"(?P<name>[^/]+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)_?/?(?P<file>.*)"
)
CANVAS = re.compile(
    r"(?P<name>[^_/]+)_(?P<late>LATE_)?(?P<number>\d+)_(?P<upload>\d+)_(?P<file>[^/]+)"
)
AGAIN = re.compile(r"-(\d+)(?=\.[^.]+$)")
GRADESCOPE = re.compile(r"submission_(\d+)")
LATE = "marked late by the platform"
METADATA = "submission_metadata.yml"


@dataclass(frozen=True)
class Named:
    """What a platform's name for a file tells: whose it is, their number there, and its turn among others."""

    platform: str  # "moodle", "canvas", "gradescope"
    student: str  # as `owner` says; "" in Gradescope, where a table beside it tells
    number: str  # of a person: Moodle's is of one assignment alone, Canvas's of the whole site
    turn: tuple[int, int] | None = None  # a later upload has a higher one; Moodle tells none


@dataclass(frozen=True)
class Owner:
    """Whose file it is, by its path in an export: the student, and what else the path tells."""

    student: str
    file_name: str
    attempt: int = 1
    handed_in: str = ""
    is_late: bool = False


def owner(path: str, submitters: dict[str, Owner] | None = None) -> Owner | None:
    """Whose file this is, if a platform's export names it so; None for any other path.

    path: in the export, below the folder that all of it may be in.
    """
    first, slash, rest = path.partition("/")
    if match := MOODLE.fullmatch(first):
        file = rest.rpartition("/")[2] or match["file"]
        return Owner(f"{match['name']}_{match['number']}", file)
    if slash and (match := GRADESCOPE.fullmatch(first)):
        known = (submitters or {}).get(match[1], Owner(match[1], ""))
        return Owner(known.student, rest.rpartition("/")[2], 1, known.handed_in)
    if not slash and (match := CANVAS.fullmatch(first)):
        again = AGAIN.search(match["file"])
        file = AGAIN.sub("", match["file"])
        return Owner(
            f"{match['name']}_{match['number']}",
            file,
            1 + int(again[1]) if again and int(again[1]) < 1000 else 1,
            is_late=bool(match["late"]),
        )
    return None


def named(origin: str) -> Named | None:
    """The same of a submission's origin, `folder/export.zip!member`; None where no platform named it.

    The outermost name counts: what is inside a student's own archive or folder, the student has named.
    """
    for segment in origin.replace("\\", "/").split("!"):
        parts = segment.split("/")
        for at, part in enumerate(parts):
            if match := MOODLE.fullmatch(part):
                return Named("moodle", f"{match['name']}_{match['number']}", match["number"])
            if at < len(parts) - 1 and (match := GRADESCOPE.fullmatch(part)):
                return Named("gradescope", "", "", (int(match[1][:18]), 0))
        if match := CANVAS.fullmatch(parts[-1]):
            found, number = owner(parts[-1]), match["number"]
            turn = int(match["upload"][:18]), found.attempt
            return Named("canvas", f"{match['name']}_{number}", number, turn)
    return None


def source(origin: str, student: str) -> Named | None:
    """The same, if it is by this name that the student is known: a file's own name proves nothing."""
    found = named(origin)
    return found if found and found.student in ("", student) else None


def gradescope_submitters(text: str) -> dict[str, Owner]:
    """Who each submission is from, by its number, from a Gradescope export's metadata.

    Its YAML is written by one program in one form; four of its keys are read, line by line. Of a
    group the first member stands for all.
    """
    found, number, key, person, when = {}, "", "", {}, ""
    for line in [*text.splitlines(), "submission_0:"]:
        if match := re.match(r"submission_(\d+):", line):
            if number:
                name = person.get("name", "")
                marked = person.get("sid") or person.get("email") or number
                found[number] = Owner(f"{name}_{marked}" if name else marked, "", 1, when)
            number, person, when, key = match[1], {}, "", ""
        elif match := re.match(r"  :?(\w+):\s*(.*)", line):
            key = match[1]
            when = unquoted(match[2]) if key == "created_at" else when
        elif key == "submitters" and (match := re.match(r"[\s-]+:?(name|sid|email):\s*(.*)", line)):
            person.setdefault(match[1], unquoted(match[2]))
    return found


def unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace("''", "'")
    return "" if value in ("null", "~") else value
