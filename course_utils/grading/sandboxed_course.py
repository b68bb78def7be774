"""The course as a sandbox sees it: what an answer may use, and what `run` needs. Nothing to copy from.

An answer that can import the oracle returns the oracle's values. So the sandbox gets a course of its own,
another for each lesson.
Of the checks it holds what `run` reaches, and no judge, no oracle, no expected number (`shaking`). Modules that
hold what exercises ask for can be imported, for a notebook's first cell does that, and refuse to be used.
Modules that draw figures do nothing. The grader's own modules are the few that run there.
"""

import compileall
import shutil
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from course_utils.checks import lesson_exercises
from course_utils.grading.jobs import run_place
from course_utils.grading.shaking import shaken

PACKAGE = Path(__file__).parents[1]
# What exercises ask for, or give their values away. `remat` is here with its planners alone.
WITHHELD = (
    *("attention", "kernels", "remat/exhaustive", "remat/milp", "remat/planners", "remat/solver"),
)
# Figures, and what a machine has: no answer needs them, and matplotlib takes its time.
SILENT = (
    *("plots", "schedule_plots", "softmax_plots", "tiling_plots", "flash_plots", "gpu_plots"),
    *("graphs", "recorded", "gpu_timing", "hardware", "machine", "widgets"),
)
ABSENT = ("authoring", "bench", "checks", "cli", "grading")
INSIDE = (
    *(
        "__init__",
        "alive",
        "answering",
        "apart",
        "cells_run",
        "codec",
        "decoding",
        "driver",
        "outside",
        "records",
        "tampering",
    ),
)
WHOLE_CHECKS = ("__init__", "core", "observe")

_COURSE = '''"""The course's tools in a sandbox. What checks, predicts or shows does nothing here."""


def check(*args, **options):
    return None


predict = measured = progress = check


class needs:
    """Runs its block, as far as it goes."""

    def __init__(self, *exercise_ids):
        pass

    def __enter__(self):
        pass

    def __exit__(self, kind, problem, traceback):
        return kind is not None and issubclass(kind, Exception)
'''
_WITHHELD = '''"""Held back from answers: this module holds what an exercise asks for."""


class HeldBack(RuntimeError):
    """An answer used what it was to write itself."""


class _HeldBack:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _HeldBack(f"{self._name}.{name}")

    def __call__(self, *args, **options):
        raise HeldBack(f"{self._name} is the course's own and not there for answers: write it yourself")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _HeldBack(f"{__name__}.{name}")
'''
_SILENT = '''"""Shows nothing in a sandbox."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *args, **options: None
'''


def course_for(folder: Path, lesson: str) -> Path:
    """The course that answers of this lesson ("2") see, below `folder`; written when it is first asked for."""
    place = folder / lesson
    if place.exists():
        return place
    new = Path(tempfile.mkdtemp(prefix=f"{lesson}_", dir=folder))
    new.chmod(0o755)
    build_course(new, map(run_place, lesson_exercises(lesson).values()))
    try:
        new.rename(place)
    except OSError:  # another thread was faster
        shutil.rmtree(new, ignore_errors=True)
    return place


def build_course(folder: Path, runs: Iterable[tuple[str, str]]) -> None:
    """Write a course below `folder`: folder/course_utils, with its bytecode.

    `runs` are (module, name) of the checks' run functions that it is for.
    """
    target = folder / "course_utils"
    target.mkdir(parents=True)
    (target / "__init__.py").write_text(_COURSE, encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).with_suffix("").as_posix()
        text = _text_of(part, path)
        if text is not None:
            _write(target / path.relative_to(PACKAGE), text)
    for part in WHOLE_CHECKS:
        _write(target / f"checks/{part}.py", (PACKAGE / f"checks/{part}.py").read_text("utf-8"))
    for module, text in shaken(runs, _is_shaken):
        place = Path(find_spec(module).origin).relative_to(PACKAGE)
        withheld = _text_of(place.with_suffix("").as_posix(), place) == _WITHHELD
        _write(target / place, text + _WITHHELD * withheld)
    compileall.compile_dir(folder, quiet=2, workers=1)


def _text_of(part: str, path: Path) -> str | None:
    """A module's text in the sandbox; None where it is not there, or is written otherwise."""
    if part == "__init__":
        return None
    if part.startswith("grading/"):
        return path.read_text("utf-8") if part.removeprefix("grading/") in INSIDE else None
    if any(part == other or part.startswith(f"{other}/") for other in ABSENT):
        return None
    if any(part == other or part.startswith(f"{other}/") for other in WITHHELD):
        return _WITHHELD
    if any(part == other or part.startswith(f"{other}/") for other in SILENT):
        return _SILENT
    return path.read_text("utf-8")


def _is_shaken(module: str) -> bool:
    part = module.removeprefix("course_utils.").replace(".", "/")
    if module == part or not part:
        return False
    if part.startswith("checks/"):
        return part.removeprefix("checks/") not in WHOLE_CHECKS
    return any(part == other or part.startswith(f"{other}/") for other in WITHHELD)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for package in path.parents:
        if package.name == "course_utils":
            break
        init = package / "__init__.py"
        if not init.exists():
            init.write_text("", encoding="utf-8")
    path.write_text(text, encoding="utf-8")
