"""Brings newer lessons into work/: python course.py update [NOTEBOOK ...].

A student's copy knows the version that it was made from. Where the course's is another, a new copy
is made, with the student's answers, predictions and own cells; the old one stays in work/old. What
a student wrote is never lost, and a copy that cannot be read is not touched.
"""

import argparse
import sys
import time
from pathlib import Path

from course_utils.authoring import files
from course_utils.authoring.carry import Carried, carry
from course_utils.errors import CourseError

UNREADABLE = 2


def main(argv: list[str], root: Path = files.ROOT) -> int:
    """Bring changed lessons into work/. Exit status: 2 where a copy could not be read.

    Raises CourseError for a name that means no lesson.
    """
    parser = argparse.ArgumentParser(
        "course.py update", description="Bring newer lessons into work/."
    )
    parser.add_argument("lessons", nargs="*", metavar="NOTEBOOK", help="as 01; all by default")
    names = parser.parse_args(argv).lessons
    copies = files.lesson_stems(root / "work", ".ipynb")
    lessons = files.lesson_stems(root / "notebooks", ".ipynb")
    if not copies:
        print("nothing to update: python course.py lab makes your copies")
        return 0
    status, unchanged = 0, 0
    for stem in files.choose(names, copies):
        if stem not in lessons:
            print(f"work/{stem}.ipynb: left as it is: the course has no such lesson now")
            continue
        try:
            report = update_one(stem, root)
        except CourseError as error:
            print(error, file=sys.stderr)
            status = UNREADABLE
            continue
        unchanged += report is None
        if report:
            print(report)
    if unchanged:
        print(f"{unchanged} of your copies {'is' if unchanged == 1 else 'are'} up to date")
    return status


def update_one(stem: str, root: Path) -> str | None:
    """Update one copy and say what came along; None where it is up to date."""
    path, name = root / "work" / f"{stem}.ipynb", f"work/{stem}.ipynb"
    before = read_bytes(path, name)
    old = read_notebook(before, name)
    source = f"notebooks/{stem}.ipynb"
    new = read_notebook(read_bytes(root / source, source), source)
    version = new["metadata"]["course"]["version"] if "course" in new["metadata"] else None
    course = old["metadata"].get("course")
    if isinstance(course, dict) and course.get("version") == version:
        return None
    carried = carry(old, new)
    check(carried.notebook, name)
    content = files.notebook_bytes(carried.notebook)
    backup = free_path(path, time.strftime("%Y%m%d-%H%M%S"))
    files.write_whole({backup: before})
    files.write_whole({path: content})
    return f"{name}: updated; {told(carried)}. The old copy: work/old/{backup.name}"


def told(carried: Carried) -> str:
    """What came along, in words."""
    answers = counted(carried.answers, "answer")
    if carried.predictions:
        answers += f" and {counted(carried.predictions, 'prediction')}"
    kept = f", kept {counted(carried.kept, 'cell')} of yours" if carried.kept else ""
    return f"carried {answers}{kept}; outputs come back when you run it"


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def free_path(path: Path, stamp: str) -> Path:
    """Where the old copy goes: work/old/NN_topic.STAMP.ipynb, or with -2, -3 if that is taken."""
    candidate, count = path.parent / "old" / f"{path.stem}.{stamp}.ipynb", 1
    while candidate.exists():
        count += 1
        candidate = candidate.with_name(f"{path.stem}.{stamp}-{count}.ipynb")
    return candidate


def read_bytes(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CourseError(f"{name}: cannot be read: {error.strerror}; left as it is") from None


def read_notebook(content: bytes, name: str) -> dict:
    """A notebook in the format of today. Raises CourseError when these bytes are none."""
    import nbformat

    try:
        notebook = nbformat.convert(nbformat.reader.reads(content.decode("utf-8-sig")), 4)
        for cell in notebook["cells"]:
            dict(cell["metadata"])
            if cell["cell_type"] not in ("code", "markdown", "raw"):
                raise TypeError(f"a cell of type {cell['cell_type']}")
            if not isinstance(cell["source"], str):
                raise TypeError("a cell without text")
        dict(notebook["metadata"])
    except Exception as error:  # nbformat raises many kinds on what is no notebook
        reason = " ".join(str(error).split())[:100]
        raise CourseError(f"{name}: not a notebook ({reason}); left as it is") from None
    return notebook


def check(notebook: dict, name: str) -> None:
    """Raises CourseError where a merged copy is not valid: better none than a broken one."""
    import nbformat

    try:
        nbformat.validate(nbformat.from_dict(notebook))
    except nbformat.ValidationError as error:
        reason = " ".join(str(error).split())[:100]
        raise CourseError(f"{name}: cannot be merged ({reason}); left as it is") from None
