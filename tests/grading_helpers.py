"""Submissions for tests of the grader: a lesson's notebooks, and what students and editors do to them."""

import copy
import io
import json
import zipfile
from functools import cache
from pathlib import Path

from course_utils.grading.records import Answer

ROOT = Path(__file__).parents[1]


@cache
def stored(folder: str, lesson: str) -> str:
    (path,) = (ROOT / folder).glob(f"{lesson}_*.ipynb")
    return path.read_text("utf-8")


def handed_out(lesson: str = "02") -> dict:
    """The student's notebook, untouched."""
    return json.loads(stored("notebooks", lesson))


def solved(lesson: str = "02") -> dict:
    """The student's notebook with every answer right, and no outputs."""
    notebook = handed_out(lesson)
    answers = {c["id"]: c["source"] for c in json.loads(stored("solutions", lesson))["cells"]}
    for cell in notebook["cells"]:
        if cell["id"].startswith("answer-"):
            cell["source"] = copy.deepcopy(answers[cell["id"]])
    return notebook


def as_bytes(notebook: dict) -> bytes:
    return json.dumps(notebook).encode()


def text(cell: dict) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def answer_cell(notebook: dict, exercise: str) -> dict:
    name = f"answer-{exercise.replace('.', '-')}"
    return next(cell for cell in notebook["cells"] if cell.get("id") == name)


def with_answer(exercise: str, source: str, lesson: str = "02") -> dict:
    """Solved, but for one answer."""
    notebook = solved(lesson)
    answer_cell(notebook, exercise)["source"] = source
    return notebook


def code(source: str, **more) -> dict:
    """A cell that a student added."""
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    return cell | {"source": source} | more


def stripped(notebook: dict) -> dict:
    """Without metadata and ids, as some editors leave it."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    return {"cells": notebook["cells"], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}


def colab(notebook: dict) -> dict:
    """As Colab saves it: ids in the metadata, ours gone, sources as lists."""
    for cell in notebook["cells"]:
        cell["metadata"] = {"id": cell.pop("id")}
        cell["source"] = text(cell).splitlines(keepends=True)
    metadata = {"colab": {"provenance": []}, "kernelspec": {"name": "python3"}}
    return {"cells": notebook["cells"], "metadata": metadata, "nbformat": 4, "nbformat_minor": 0}


def values(answer: Answer, *names: str) -> list:
    """What the names are after an answer's support and its source have run."""
    space: dict = {}
    for source in (*answer.support, answer.source):
        exec(source, space)
    return [space[name] for name in names or (answer.name,)]


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()
