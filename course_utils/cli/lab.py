"""course.py lab [NOTEBOOK]: the lessons in JupyterLab.

A student works on copies, in work/, so that a newer version of the course never meets their
answers unasked. A lesson is copied there once and never overwritten; when the course has a newer
one, `lab` says so, and `update` brings it.
"""

import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from course_utils.cli import ROOT
from course_utils.errors import CourseError

FIRST = "00_start_here"
QUIET = (  # no question about Jupyter's news, no look-up of newer versions
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
)


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Copy new lessons into work/ and open JupyterLab there; returns when JupyterLab ends."""
    chosen, lab_options = parse(arguments)
    lesson = find_lesson(chosen or FIRST, root)
    bring_lessons(root)
    open_lab(root / "work", lesson, lab_options)
    return 0


def parse(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The named notebook, if any, and what follows -- for JupyterLab itself."""
    parser = argparse.ArgumentParser(
        prog="course.py lab",
        description="Open the lessons in JupyterLab.",
        epilog="What follows -- goes to JupyterLab: course.py lab -- --no-browser --port 8899",
    )
    parser.add_argument("notebook", nargs="?", help="01, or 01_measuring_memory")
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    return parser.parse_args(arguments[:cut]).notebook, arguments[cut + 1 :]


def find_lesson(name: str, root: Path) -> str:
    """The file name of a lesson, from its number, its name, or a path that ends in it."""
    names = sorted(path.name for path in root.glob("notebooks/*.ipynb"))
    # a student's own, too: after the lessons, for "01_topic-Copy1" is no lesson's name
    names += sorted({path.name for path in root.glob("work/*.ipynb")} - set(names))
    if not names:
        raise CourseError(f"there are no lessons in {root / 'notebooks'}; is the course complete?")
    wanted = Path(name).name.removesuffix(".ipynb")
    for file in names:
        if wanted in (file.removesuffix(".ipynb"), file.partition("_")[0]):
            return file
    lessons = ", ".join(sorted(file.removesuffix(".ipynb") for file in names))
    raise CourseError(f"there is no lesson {name!r}; there are: {lessons}")


def bring_lessons(root: Path) -> None:
    """Copy the lessons that work/ does not have yet, and say which of its lessons are older."""
    work = root / "work"
    lessons = sorted((root / "notebooks").glob("*.ipynb"))
    try:
        work.mkdir(exist_ok=True)
        new = [lesson for lesson in lessons if copy_new(lesson, work / lesson.name)]
    except OSError as error:
        raise CourseError(f"can't write into {work}: {error.strerror}") from None
    older = [lesson.name for lesson in lessons if is_older(work / lesson.name, lesson)]
    if new:
        print("New in work/:", ", ".join(lesson.name for lesson in new))
    if older:
        print("The course has a newer version of", ", ".join(older), end=". ")
        print("To bring it in, with your answers: python course.py update")


def copy_new(lesson: Path, copy: Path) -> bool:
    """Copy a file whole or not at all, and only where there is none; True if it was copied."""
    if os.path.lexists(copy):
        return False
    with tempfile.NamedTemporaryFile(dir=copy.parent, suffix=".part", delete=False) as part:
        try:
            with open(lesson, "rb") as source:
                shutil.copyfileobj(source, part)
            part.close()
            os.chmod(part.name, 0o644)
            os.replace(part.name, copy)
        except BaseException:
            part.close()
            os.unlink(part.name)
            raise
    return True


def is_older(copy: Path, lesson: Path) -> bool:
    """True if both say which version of the lesson they are, and it is not the same."""
    mine, theirs = version(copy), version(lesson)
    return None not in (mine, theirs) and mine != theirs


def version(notebook: Path) -> str | None:
    """What the builder wrote into a notebook to tell its versions apart."""
    try:
        return json.loads(notebook.read_text("utf-8"))["metadata"]["course"]["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def open_lab(work: Path, lesson: str, options: list[str]) -> None:
    """Run JupyterLab in this process: its signals and its Ctrl-C are then its own."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise CourseError("this Python has no JupyterLab: see python course.py doctor")
    here = Path(sys.executable).parent  # for terminals, and for `!python` in a cell
    os.environ["PATH"] = os.pathsep.join([str(here), os.environ.get("PATH", "")])
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # this Python's kernel, not a namesake at home
    # nbgrader, which tests use, brings an instructor's menus: a student's JupyterLab does without
    settings = [str(Path(__file__).with_name("jupyter")), os.environ.get("JUPYTER_CONFIG_PATH")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, settings))
    os.chdir(work)

    from jupyterlab.labapp import main as jupyter_lab

    place = (f"--ServerApp.root_dir={work}", f"--LabApp.default_url=/lab/tree/{lesson}")
    as_root = ("--allow-root",) if getattr(os, "geteuid", lambda: 1)() == 0 else ()  # containers
    jupyter_lab([*place, *QUIET, *as_root, *options])
