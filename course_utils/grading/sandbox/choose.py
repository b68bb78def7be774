"""Which sandbox there is on this machine. None: no grading."""

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from course_utils.checks import lesson_exercises
from course_utils.errors import CourseError
from course_utils.grading.records import Answer, Ending, Job
from course_utils.grading.sandbox.bubblewrap import Bubblewrap, scope_prefix
from course_utils.grading.sandbox.cgroups import find_groups
from course_utils.grading.sandbox.containers import BUILD, ENGINES, IMAGE, Container
from course_utils.grading.sandbox.inside import Inside
from course_utils.grading.sandbox.limits import Limits
from course_utils.grading.sandbox.run import SandboxFailure, run_job

_FOLDER = "course_sandbox_"


def choose_sandbox(inside_container: bool = False) -> Any:
    """The best sandbox that works here, tried out; its course folder goes when it does.

    inside_container: there is none, and need not be. Raises CourseError where nothing works.
    """
    course = _course_folder()
    tried = []
    try:
        for sandbox in [Inside(course)] if inside_container else _there(course):
            problem = _trouble(sandbox)
            if problem is None:
                Finalize(sandbox, shutil.rmtree, args=(course, True), exitpriority=10)
                return sandbox
            tried.append(f"{sandbox.name}: {problem}")
    except BaseException:
        shutil.rmtree(course, ignore_errors=True)
        raise
    shutil.rmtree(course, ignore_errors=True)
    raise CourseError(_advice(tried))


def _there(course: Path) -> list[Any]:
    """What this machine seems to have, the best first."""
    found: list[Any] = []
    if sys.platform == "linux" and (program := shutil.which("bwrap")):
        plain = Bubblewrap(course, program=program)
        groups = find_groups()
        if groups is not None:
            groups.sweep()
            found.append(dataclasses.replace(plain, groups=groups))
        if (
            groups is None
            and shutil.which("systemd-run")
            and _succeeds(scope_prefix(Limits()) + ["true"])
        ):
            found.append(dataclasses.replace(plain, scope=("systemd-run",)))
        found.append(plain)
    for engine in ENGINES:
        program = shutil.which(engine)
        if program and _succeeds([program, "image", "inspect", IMAGE]):
            found.append(Container(course, program))
    return found


def _succeeds(command: list[str]) -> bool:
    quiet = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    try:
        return subprocess.run(command, **quiet, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _trouble(sandbox: Any) -> str | None:
    """Why it does not work here; None if it does: an answer was run in it."""
    exercise = lesson_exercises("0")["0.1"]
    answer = Answer(
        exercise.id, "answer", "def answer(*args):\n    raise NotImplementedError\n", ""
    )
    job = Job("a trial", (answer,), {exercise.id: exercise.cases(0)[:1]})
    try:
        (run,) = run_job(job, Limits(), sandbox)
    except (SandboxFailure, OSError) as problem:
        return str(problem)
    return None if run.ending is Ending.COMPLETE else f"{run.ending}: {run.detail}"


def _course_folder() -> Path:
    """A fresh folder for the sandbox's courses; those of graders that were killed are taken away."""
    for old in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        owner = old.name.removeprefix(_FOLDER).partition("_")[0]
        if owner.isdigit() and not _is_alive(int(owner)):
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}_"))
    folder.chmod(0o755)
    return folder


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _advice(tried: list[str]) -> str:
    """No sandbox, no grading: what was tried, and what would help."""
    told = (
        "; ".join(tried) or "neither bubblewrap (bwrap) nor an image for Docker or Podman is here"
    )
    return (
        f"no sandbox, no grading: answers are programs of strangers. {told}. On Linux install bubblewrap, 0.8 "
        "or newer (`apt install bubblewrap`; Ubuntu 24.04 allows it for root alone, or by an AppArmor profile); "
        f"elsewhere `podman {BUILD}`, or docker. In a container that is "
        "thrown away afterwards: --inside-container."
    )
