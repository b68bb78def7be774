"""Finds the answers in whatever notebook a student handed in.

Editors strip metadata, students cut, copy, rename and reorder. An answer is found by what is left:
the metadata of its cell, the cell's id, or the name that it defines. What else it needs is gathered
by support; checks, predictions and demonstrations stay behind.
"""

import ast
import re
from collections import Counter
from dataclasses import dataclass

from course_utils.authoring import syntax
from course_utils.authoring.ids import text_hash
from course_utils.authoring.student import YOUR_WORDS
from course_utils.grading.cells import PlainCell, Unreadable, read_cells, role_of
from course_utils.grading.lessons import Asked, Lesson
from course_utils.grading.records import Answer, Reading
from course_utils.grading.statements import CodeCell, Statement, code_cell
from course_utils.grading.support import support_for

OTHER_NAME = "its cell defines"
OTHER_LESSON = r"named (\d\d.*?), but by its content it is (\w+)"


class WrongNotebook(Exception):
    """A notebook, but of no lesson, or of another one than was asked for."""


@dataclass
class Opened:
    """A submission's cells, and what is known of each: its role, whether it is still a stub."""

    lesson: Lesson
    cells: list[PlainCell]
    code: list[CodeCell]
    roles: list[tuple[str, str, str] | None]
    notes: list[str]

    def is_stub(self, at: int) -> bool:
        return text_hash(self.cells[at].text) in self.lesson.stubs or only_raises(self.by_index(at))

    def by_index(self, at: int) -> CodeCell | None:
        return next((each for each in self.code if each.index == at), None)


def read_submission(
    content: bytes, lessons: dict[str, Lesson], file_name: str = "", wanted: str | None = None
) -> Reading:
    """The answers in a notebook's bytes. Raises Unreadable or WrongNotebook, with the reason."""
    cells, metadata, notes = read_cells(content)
    code = [code_cell(at, cell) for at, cell in enumerate(cells) if cell.kind == "code"]
    name = notebook_name(cells, code, metadata, file_name, lessons)
    if name is None:
        raise WrongNotebook("no answer of this course in it")
    if wanted and name != wanted:
        raise WrongNotebook(f"this is {name}")
    number = re.match(r"\d\d", file_name)
    if number and number.group() != name[:2]:
        notes.append(f"named {file_name[:80]}, but by its content it is {name}")
    opened = Opened(lessons[name], cells, code, [role_of(cell) for cell in cells], notes)
    notes += {note for each in code for note in each.notes}
    answers = [find_answer(asked, opened) for asked in opened.lesson.exercises.values()]
    found = tuple(answer for answer in answers if answer is not None)
    return Reading(name, found, written_answers(opened), tuple(dict.fromkeys(notes)))


def notebook_name(
    cells: list[PlainCell],
    code: list[CodeCell],
    metadata: dict,
    file_name: str,
    lessons: dict[str, Lesson],
) -> str | None:
    """Which lesson this is: by what is in it; its own word and the file's name decide a draw."""
    hashes = {text_hash(cell.text) for cell in cells}
    roles = {role[1] for cell in cells if (role := role_of(cell))}
    made = frozenset().union(*(each.makes for each in code)) if code else frozenset()
    texts = [cell.text for cell, each in zip(code_only(cells), code) if each.tree is None]
    course = metadata.get("course")
    said = str(course.get("lesson")) if isinstance(course, dict) else ""
    scores = Counter()
    for name, lesson in lessons.items():
        names = {asked.name for asked in lesson.exercises.values()}
        broken = sum(any(defines(text, each) for text in texts) for each in names)
        content = 3 * len(names & made) + 3 * broken + 3 * len(roles & set(lesson.exercises))
        content += len(hashes & lesson.given)
        if content:
            scores[name] = 4 * content + 2 * (said == name[:2]) + (file_name[:2] == name[:2])
    return scores.most_common(1)[0][0] if scores else None


def code_only(cells: list[PlainCell]) -> list[PlainCell]:
    return [cell for cell in cells if cell.kind == "code"]


def defines(text: str, name: str) -> bool:
    """Does code that does not parse seem to define this name?"""
    return re.search(rf"^(async\s+def|def|class)\s+{re.escape(name)}\b", text, re.M) is not None


def find_answer(asked: Asked, opened: Opened) -> Answer | None:
    """The answer to one exercise, or None where no cell seems to be it."""
    marked = [
        (cell.index, opened.roles[cell.index][2])
        for cell in opened.code
        if (opened.roles[cell.index] or ("", ""))[:2] == ("answer", asked.id)
    ]
    ways = dict(marked)
    name = asked.name
    defining = [cell.index for cell in opened.code if name in cell.makes]
    if not any(name in cell.makes and not opened.is_stub(cell.index) for cell in opened.code):
        renamed = name_in_check(asked, opened)
        others = [cell.index for cell in opened.code if renamed and renamed in cell.makes]
        if others:
            name, defining = renamed, others
            opened.notes.append(f"{asked.id}: the check takes {renamed[:40]}, not {asked.name}")
    if not defining:
        defining = [
            cell.index
            for cell in opened.code
            if cell.tree is None and defines(opened.cells[cell.index].text, name)
        ]
    candidates = defining or [index for index, _ in marked]
    if not defining:
        makes = sorted({each for at, _ in marked for each in opened.by_index(at).makes})
        told = ", ".join(each[:40] for each in makes[:3])
        opened.notes += (
            [f"{asked.id}: {OTHER_NAME} {told}; {asked.name} was asked for"] if makes else []
        )
    if not candidates:
        return None
    written = [index for index in candidates if not opened.is_stub(index)]
    if not written and (broken := [at for at, _ in marked if opened.by_index(at).tree is None]):
        written = broken
    place = (written or candidates)[-1]
    if len(written) > 1:
        opened.notes.append(f"{asked.id}: {len(written)} cells define {name[:40]}; the last counts")
    cell = opened.by_index(place)
    source, own = own_source(cell, name, opened)
    limit = check_place(asked.id, place, opened)
    try:
        support = support_for(own, opened.code, opened.lesson.code, limit) if own else ()
    except RecursionError:
        support = ()
        opened.notes.append(f"{asked.id}: what it needs leads too far to follow")
    return Answer(asked.id, name, source, ways.get(place, "name"), support)


def name_in_check(asked: Asked, opened: Opened) -> str | None:
    """The name that the student's own check of this exercise takes: they may have renamed it."""
    for cell in opened.code:
        for call in syntax.calls(cell.tree, "check") if cell.tree else ():
            second = call.args[1] if len(call.args) == 2 else None
            if syntax.literal_id(call) == asked.id and isinstance(second, ast.Name):
                return second.id if second.id != asked.name else None
    return None


def own_source(cell: CodeCell, name: str, opened: Opened) -> tuple[str, tuple[Statement, ...]]:
    """The answer's cell as it will run: whole, but for what only shows, such as prints.

    Of a cell into which a whole notebook was merged, only what makes the name: the rest is found
    as for any other cell.
    """
    if cell.tree is None:
        return cell.text, ()
    answers = {asked.name for asked in opened.lesson.exercises.values()}
    if len(answers & cell.makes) > 1 or name not in cell.makes:
        own = tuple(each for each in cell.statements if name in each.makes | each.changes)
        if own:
            return "\n".join(each.source for each in own), own
    shown = {each.order for each in cell.statements if each.shows}
    hidden = [node for at, node in enumerate(cell.tree.body) if at in shown]
    kept = tuple(each for each in cell.statements if not each.shows)
    return blanked(cell.text, hidden), kept


def blanked(text: str, hidden: list[ast.stmt]) -> str:
    """The text with statements replaced by `pass` and empty lines, so that no line moves."""
    lines = [line.encode() for line in text.split("\n")]
    for node in reversed(hidden):
        first, last = node.lineno - 1, node.end_lineno - 1
        tail = lines[last][node.end_col_offset :]
        lines[first] = lines[first][: node.col_offset] + b"pass"
        lines[first + 1 : last + 1] = [b""] * (last - first)
        lines[last] += tail
    return b"\n".join(lines).decode()


def check_place(exercise: str, answer: int, opened: Opened) -> int:
    """Where the answer is called: at its check below it, else before the next answer, else the end."""
    for at in range(answer + 1, len(opened.cells)):
        role = opened.roles[at]
        if role and role[0] == "check" and role[1] == exercise:
            return at
        cell = opened.by_index(at)
        calls = syntax.calls(cell.tree, "check") if cell and cell.tree else ()
        if any(syntax.literal_id(call) == exercise for call in calls):
            return at
        if role and role[0] == "answer" and role[1] != exercise:
            return at
    return len(opened.cells)


def only_raises(cell: CodeCell | None) -> bool:
    """Is this cell a function that does nothing but `raise NotImplementedError`?"""
    functions = (
        [n for n in cell.tree.body if isinstance(n, syntax.FUNCTIONS)] if cell and cell.tree else []
    )
    return len(functions) == 1 and all(
        syntax.raises_not_implemented(node)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or isinstance(node, ast.Pass)
        for node in functions[0].body
    )


def written_answers(opened: Opened) -> dict[str, str]:
    """Written answers to the lesson's questions; a placeholder that still stands there is none."""
    found = {}
    for cell, role in zip(opened.cells, opened.roles):
        given = text_hash(cell.text) in opened.lesson.given or cell.text.strip() == YOUR_WORDS
        asked = role is not None and role[0] == "written" and role[1] in opened.lesson.written
        if asked and cell.text.strip() and not given:
            found[role[1]] = cell.text.strip()
    return found


__all__ = ["Unreadable", "WrongNotebook", "read_submission"]
