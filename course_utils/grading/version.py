"""Which version of a lesson's checks gave a grade: a hash over all that they judge by.

That is the lesson's own checks, and the grader from the reading of a notebook over the sandbox to the
verdict; not what only shows a grade. It stands in every row. A grading run that goes on after a change
grades again what the change may touch, and `--compare` can say that a grade changed because of it.
"""

import functools
import hashlib
from pathlib import Path

from course_utils.authoring.files import ROOT
from course_utils.authoring.fingerprint import file_hash, imported, module_path, module_tree
from course_utils.checks import LESSONS

CHECKS = "course_utils.checks"
GRADER = ("course_utils.grading.grade_one", "course_utils.grading.driver")  # here; in the sandbox
NOT_JUDGING = ("course_utils.authoring.build",)  # what `authoring` brings along


@functools.cache
def checks_version(notebook: str, root: Path = ROOT) -> str:
    """Ten hex digits for the checks of a notebook ("02_requires_grad"); "" for no notebook of ours."""
    topic = LESSONS.get(notebook[:2].lstrip("0") or "0") if notebook[:2].isdigit() else None
    if topic is None:
        return ""
    hashes = {path.relative_to(root).as_posix(): file_hash(path) for path in judged_by(topic, root)}
    return hashlib.sha256(repr(sorted(hashes.items())).encode()).hexdigest()[:10]


def judged_by(topic: str, root: Path) -> set[Path]:
    """The files that decide the grades of a topic ("requires_grad")."""
    return modules_behind([f"{CHECKS}.{topic}", f"{CHECKS}.core", *GRADER], root)


def modules_behind(names: list[str], root: Path) -> set[Path]:
    """The files of these modules and of all of course_utils that they import, however far."""
    paths, waiting, seen = set(), list(names), set(NOT_JUDGING)
    while waiting:
        module = waiting.pop()
        path = module_path(module, root)
        if module in seen or path is None:
            continue
        seen.add(module)
        paths.add(path)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        waiting += imported(module_tree(path), package, root)
    return paths
