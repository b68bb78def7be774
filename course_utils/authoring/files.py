"""Where lessons are, and writing them whole or not at all.

A notebook is written beside its place and moved there in one step: whoever interrupts a build, or
fills the disk, finds the old notebook as it was.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from course_utils.errors import CourseError

ROOT = Path(__file__).resolve().parents[2]
LESSON = re.compile(r"\d\d_\w+")


def lesson_stems(folder: Path, suffix: str) -> list[str]:
    """The lessons that have a file of this kind in a folder: NN_topic, sorted."""
    return sorted(p.stem for p in folder.glob(f"*{suffix}") if LESSON.fullmatch(p.stem))


def choose(names: Iterable[str], stems: list[str]) -> list[str]:
    """The lessons that names mean: 01, 01_measuring_memory, or a path to one. No name: all of them.

    Raises CourseError for a name that means none.
    """
    chosen = []
    for name in names:
        bare = re.split(r"[/\\]", name)[-1].removesuffix(".ipynb").removesuffix(".py")
        meant = [s for s in stems if s == bare or s.split("_")[0] == bare]
        if not meant:
            raise CourseError(f"no lesson {name!r}: there are {', '.join(stems) or 'none'}")
        chosen += [s for s in meant if s not in chosen]
    return chosen or stems


def notebook_bytes(notebook: dict) -> bytes:
    """A notebook as nbformat writes it: sorted keys, UTF-8, LF, one line end at its end."""
    import nbformat

    text = nbformat.writes(nbformat.from_dict(notebook), version=nbformat.NO_CONVERT)
    return (text.rstrip("\n") + "\n").encode()


def stored_notebook(path: Path) -> dict:
    """A stored notebook of ours, its sources joined. Raises ValueError when it is not one."""
    notebook = json.loads(path.read_bytes().decode())
    try:
        for cell in notebook["cells"]:
            if isinstance(cell["source"], list):
                cell["source"] = "".join(cell["source"])
            if cell["cell_type"] == "code":
                list(cell["outputs"])
            dict(cell["metadata"])
        dict(notebook["metadata"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a notebook: {error}") from None
    return notebook


def write_whole(contents: dict[Path, bytes]) -> None:
    """Write all these files or none of them. Raises CourseError when a file cannot be written."""
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in contents}
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            beside[path].write_bytes(content)
            if path.exists():
                shutil.copymode(path, beside[path])
        for path, new in beside.items():
            os.replace(new, path)
    except OSError as error:
        raise CourseError(f"cannot write {path.name}, left as it was: {error.strerror}") from None
    finally:
        for new in beside.values():
            with suppress(OSError):
                new.unlink(missing_ok=True)
