"""What each cell of a lesson is for, and what its exercise headings say.

    ### Exercise 1.1 - payload of any array - 2 points, easy, 5 min, optional

The rules and the two notebooks need the same facts; they are found here, once.
"""

import re
from dataclasses import dataclass

from course_utils.authoring import syntax
from course_utils.authoring.source import Cell, Lesson

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
MARKER = re.compile(r"#+\s*(BEGIN|END)\s+SOLUTION", re.IGNORECASE)
HEADING = re.compile(r"#{1,6}\s+Exercise\b\s*(.*)")
WELL_FORMED = re.compile(
    r"### Exercise (\d+\.\d+) - (\S.*) - (\d+) points?, (easy|medium|hard), (\d+) min(, optional)?"
)
FENCE = re.compile(r" {0,3}(```+|~~~+)")
FORM = "write `### Exercise 1.1 - title - 2 points, easy, 5 min`"


@dataclass(frozen=True)
class Exercise:
    """An exercise heading; what it does not say, or says in another form, is None."""

    id: str
    line: int
    title: str | None = None
    points: int | None = None
    difficulty: str | None = None
    minutes: int | None = None
    optional: bool = False


@dataclass(frozen=True)
class Part:
    """A cell and its role: answer, check, predict, written, or None.

    `id` is 1.1, or 1.a to predict, or 1.w for an answer in words.
    """

    cell: Cell
    role: str | None = None
    id: str | None = None
    exercise: Exercise | None = None


@dataclass
class Outline:
    parts: list[Part]
    exercises: list[Exercise]
    problems: list[tuple[int, str]]


def outline(lesson: Lesson) -> Outline:
    """Give every cell its role. An exercise reaches from its heading to its check."""
    found = Outline([], [], [])
    current = None
    for cell in lesson.cells:
        if cell.kind == "markdown":
            for line, text in headings(cell):
                exercise, problem = parse_heading(text, line)
                found.problems += [(line, problem)] if problem else []
                if exercise:
                    found.exercises.append(exercise)
                    current = exercise
        part = part_of(cell, current, found.exercises)
        found.parts.append(part)
        if part.role == "check":
            current = None
    return found


def part_of(cell: Cell, current: Exercise | None, exercises: list[Exercise]) -> Part:
    if "written" in cell.metadata:
        return Part(cell, "written", str(cell.metadata["written"]))
    if cell.kind == "code" and any(MARKER.search(line) for line in cell.text.split("\n")):
        return Part(cell, "answer", current.id if current else None, current)
    for role in ("check", "predict"):
        for call in syntax.calls(cell.tree, role) if cell.tree else ():
            name = syntax.literal_id(call)
            heading = next((e for e in exercises if e.id == name), None)
            return Part(cell, role, name, heading)
    return Part(cell)


def headings(cell: Cell) -> list[tuple[int, str]]:
    """The exercise headings of a text cell with their lines, but not what stands in a fence."""
    found, fence = [], None
    for offset, text in enumerate(cell.text.split("\n")):
        mark = FENCE.match(text)
        if fence:
            closes = mark and mark.group(1).startswith(fence) and not text.strip(" `~")
            fence = None if closes else fence
        elif mark:
            fence = mark.group(1)
        elif HEADING.match(text):
            found.append((cell.line + offset, text.rstrip()))
    return found


def parse_heading(text: str, line: int) -> tuple[Exercise | None, str | None]:
    """An exercise from its heading, or as much of it as can be told and what is wrong."""
    match = WELL_FORMED.fullmatch(text)
    if match:
        name, title, points, difficulty, minutes, optional = match.groups()
        whole = Exercise(name, line, title, int(points), difficulty, int(minutes), bool(optional))
        return whole, None
    rest = HEADING.match(text).group(1)
    name = re.match(r"\d+\.\d+\b", rest)
    if not name:
        return None, f"exercise heading without an id like 1.1: {FORM}"
    tail = rest.rsplit(" - ", 1)[-1]
    wanted = {
        "points": r"\b\d+ points?\b",
        "difficulty": r"\b(easy|medium|hard)\b",
        "minutes": r"\b\d+ min\b",
    }
    missing = [what for what, pattern in wanted.items() if not re.search(pattern, tail)]
    fault = f"has no {' and no '.join(missing)}" if missing else "is malformed"
    return Exercise(name.group(), line), f"the heading of exercise {name.group()} {fault}: {FORM}"
