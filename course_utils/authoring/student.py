"""The two notebooks of a lesson: the student's, and the solution before it is executed.

They share ids and metadata, so that a student's answer and the solution's are the same cell.
Nothing in the student's depends on the machine or the moment: the same source gives the same
bytes.
"""

import copy
import hashlib
import json

from course_utils.authoring import syntax
from course_utils.authoring.ids import role_id, text_hash, unique
from course_utils.authoring.outline import BEGIN, END, Outline, Part
from course_utils.authoring.source import Lesson, with_magics

YOUR_CODE = "# YOUR CODE HERE"
YOUR_WORDS = "*Write your answer here.*"
NBGRADER_SCHEMA = 3
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}


def stub(text: str) -> str:
    """An answer cell without its answers: each gives way to a place for the student's."""
    lines, inside = [], False
    for line in text.split("\n"):
        if line.strip() == BEGIN:
            indent = line[: line.index("#")]
            lines += [f"{indent}{YOUR_CODE}", f"{indent}raise NotImplementedError"]
            inside = True
        elif line.strip() == END:
            inside = False
        elif not inside:
            lines.append(line)
    return "\n".join(lines)


def without_prediction(text: str) -> str:
    """A prediction cell with `...` in the number's place; text that does not parse, as it is."""
    try:
        call = syntax.calls(syntax.parse(text), "predict")[0]
        return syntax.replace_node(text, call.args[1], "...")
    except (SyntaxError, IndexError):
        return text


def student_text(part: Part) -> str:
    """A cell's text as the student gets it, magics still commented (so that it parses)."""
    if part.role == "answer":
        return stub(part.cell.text)
    if part.role == "predict":
        return without_prediction(part.cell.text)
    return YOUR_WORDS if part.role == "written" else part.cell.text


def notebooks(lesson: Lesson, plan: Outline) -> tuple[dict, dict]:
    """(the student's notebook, the solution without outputs), in notebook format 4.5."""
    taken, given, solved = set(), [], []
    for part in plan.parts:
        cell = part.cell
        text = student_text(part)
        full, text = (with_magics(t) if cell.kind == "code" else t for t in (cell.text, text))
        named = part.role and part.id
        name = unique(role_id(part.role, part.id) if named else text_hash(text), taken)
        metadata = copy.deepcopy({k: v for k, v in cell.metadata.items() if k != "written"})
        metadata |= cell_metadata(part, name, text) if named else {}
        given.append(notebook_cell(cell.kind, name, text, metadata))
        solved.append(notebook_cell(cell.kind, name, full, copy.deepcopy(metadata)))
    content = json.dumps([given, NOTEBOOK_METADATA], sort_keys=True, ensure_ascii=False)
    version = hashlib.sha256(content.encode()).hexdigest()[:12]
    course = {"lesson": lesson.number, "version": version}
    return notebook(given, course), notebook(solved, course)


def notebook(cells: list[dict], course: dict) -> dict:
    metadata = copy.deepcopy(NOTEBOOK_METADATA) | {"course": dict(course)}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def notebook_cell(kind: str, name: str, text: str, metadata: dict) -> dict:
    cell = {"cell_type": kind, "id": name, "metadata": metadata, "source": text}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def cell_metadata(part: Part, name: str, text: str) -> dict:
    """`course` for our own tools, `nbgrader` for an nbgrader course.

    `course.text` is the hash of the text as given: `update` tells by it what a student changed.
    """
    course = {"role": part.role, "exercise": part.id, "text": text_hash(text)}
    if name != role_id(part.role, part.id):  # a second answer cell of one exercise
        course["part"] = int(name.rpartition("-")[2])
    if part.role == "predict":
        return {"course": course}
    grading = {
        "grade": part.role in ("check", "written"),
        "grade_id": name,
        "locked": part.role == "check",
        "schema_version": NBGRADER_SCHEMA,
        "solution": part.role in ("answer", "written"),
        "task": False,
    }
    if part.role == "written":  # nbgrader: graded by hand
        grading["points"] = 0
    heading = part.exercise
    if part.role == "check" and heading:
        grading["points"] = heading.points
        course |= {
            "difficulty": heading.difficulty,
            "minutes": heading.minutes,
            "optional": heading.optional,
            "points": heading.points,
            "title": heading.title,
        }
    return {"course": course, "nbgrader": grading}
