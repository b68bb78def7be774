"""How a stored notebook differs from what its source gives: in one line that names the cell.

The student's notebook is compared byte by byte. The solution is compared apart from what running
it adds: outputs, execution counts, and the fingerprint of what it was executed from.
"""

from collections.abc import Iterator
from pathlib import Path

from course_utils.authoring.files import notebook_bytes, stored_notebook
from course_utils.authoring.fingerprint import changed

REBUILD = "run python course.py build"


def student_drift(path: Path, expected: dict) -> str | None:
    """What a student's notebook says that its source does not; None when they agree."""
    if not path.is_file():
        return f"is missing: {REBUILD}"
    if path.read_bytes() == notebook_bytes(expected):
        return None
    try:
        stored = stored_notebook(path)
    except ValueError as error:
        return f"cannot be read ({error}): {REBUILD}"
    where = next(
        differences(stored, expected, outputs=True), "the file is formatted in another way"
    )
    return f"{where}: {REBUILD}"


def solution_drift(path: Path, expected: dict, now: dict[str, str]) -> list[str]:
    """What is wrong with a stored solution; `now` is the fingerprint of the files as they are."""
    if not path.is_file():
        return [f"is missing: {REBUILD}"]
    try:
        stored = stored_notebook(path)
        course = dict(stored["metadata"].get("course", {}))
        then = dict(course.pop("executed_from", {}))
    except (ValueError, TypeError) as error:
        return [f"cannot be read ({error}): {REBUILD}"]
    stored["metadata"]["course"] = course
    found = [f"{where}: {REBUILD}" for where in differences(stored, expected)][:1]
    if not found and (stale := changed(then, now)):
        found = [f"executed before {', '.join(stale)} changed: {REBUILD}"]
    return found + [f"{fault}: {REBUILD}" for fault in not_executed(stored)]


def differences(stored: dict, expected: dict, outputs: bool = False) -> Iterator[str]:
    """Each difference between two notebooks: which cell, and in what."""
    ours = {cell["id"]: cell for cell in expected["cells"]}
    theirs = [cell.get("id") for cell in stored["cells"]]
    for name, cell in zip(theirs, stored["cells"], strict=True):
        if name not in ours:
            first = cell["source"].strip().split("\n")[0][:50]
            yield f"cell {name} ({first!r}) is not in its source"
            continue
        parts = {"cell_type": "type", "source": "text", "metadata": "metadata"}
        if outputs and cell["cell_type"] == "code":
            parts |= {"outputs": "outputs", "execution_count": "execution count"}
        for key, word in parts.items():
            if cell.get(key) != ours[name].get(key):
                yield f"the {word} of cell {name} is not its source's"
    yield from (f"cell {name} is missing" for name in ours if name not in theirs)
    if theirs != list(ours):
        yield "the cells are in another order than in its source"
    if stored["metadata"] != expected["metadata"]:
        yield "the notebook's metadata are not its source's"
    if any(stored.get(key) != expected[key] for key in ("nbformat", "nbformat_minor")):
        yield "the notebook's format number is another"


def not_executed(stored: dict) -> Iterator[str]:
    """Cells that were not run, or that failed when they were."""
    for cell in stored["cells"]:
        if cell["cell_type"] != "code":
            continue
        if not cell.get("execution_count"):
            yield f"cell {cell.get('id')} was not executed"
        if any(output.get("output_type") == "error" for output in cell["outputs"]):
            yield f"cell {cell.get('id')} holds an error"
