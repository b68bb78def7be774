"""course.py test: everything that must hold before a change is let in.

    style         ruff, over all that is Python
    units         tests/, on two cores
    notebooks     what students get, unsolved, cell by cell: it must run to its end
    solutions     the same with answers and COURSE_STRICT: every check must pass
    build         the notebooks are what their sources give
    browser       tests/browser: the lessons in JupyterLab, and the site, in a real browser

A step that fails does not stop the next ones. Nothing of the student's is read or written: progress
goes to a temporary folder, and work/ is not looked at. A students' copy (`release`) has notebooks
only, and they are tested. With options for pytest, the units alone run: course.py test -k tracing.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from course_utils.cli import ROOT
from course_utils.hardware import browser_path
from course_utils.machine import core_count

CELL_SECONDS = 60  # no notebook takes more than 40
# Tests run side by side, a core each: more threads in each would only get into each other's way.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
SET_ELSEWHERE = (  # in the user's own shell
    *("COURSE_STRICT", "NBGRADER_EXECUTION", "PYTEST_ADDOPTS"),
    "PYTHONDONTWRITEBYTECODE",  # with it every process of the tests would compile the course anew
)
PYTEST = (sys.executable, "-m", "pytest", "-q")
NBVAL = (
    "--nbval-lax",
    "--nbval-current-env",
    f"--nbval-cell-timeout={CELL_SECONDS}",
    f"--timeout={CELL_SECONDS + 30}",
)


@dataclass(frozen=True)
class Result:
    """How one step ended."""

    step: str
    passed: int
    failed: int
    skipped: int
    seconds: float = 0.0


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Run every step, or the units alone if there are options for pytest; 1 if anything failed."""
    with tempfile.TemporaryDirectory(prefix="course-test-") as scratch:
        runner = Runner(root, Path(scratch))
        steps: list[tuple[str, Callable[[], Result]]] = [
            ("style", runner.style),
            ("units", lambda: runner.units(["tests", "--ignore=tests/browser"])),
            ("notebooks", lambda: runner.notebooks("notebooks", strict=False)),
            ("solutions", lambda: runner.notebooks("solutions", strict=True)),
            ("build", runner.build),
        ]
        if (root / "tests" / "browser").exists():
            steps.append(("browser", runner.browser))
        if not any((root / folder).exists() for folder in ("tests", "solutions")):
            print("This copy has the students' notebooks alone: they are what is tested.")
            steps = [step for step in steps if step[0] == "notebooks"]
        if arguments:
            steps = [("units", lambda: runner.units(arguments))]
        results = [timed(name, step) for name, step in steps]
    print(summary(results), flush=True)
    return 1 if any(result.failed for result in results) else 0


def timed(name: str, step: Callable[[], Result]) -> Result:
    print(f"\n=== {name}", flush=True)
    start = time.monotonic()
    result = step()
    return Result(name, result.passed, result.failed, result.skipped, time.monotonic() - start)


class Runner:
    """Runs the steps in a course's folder; what they write goes to a scratch folder."""

    def __init__(self, root: Path, scratch: Path):
        self.root = root
        self.scratch = scratch
        self.environment = os.environ | {"JUPYTER_PREFER_ENV_PATH": "1"}
        self.environment["COURSE_STATE"] = str(scratch / "state")
        for name in SET_ELSEWHERE:
            self.environment.pop(name, None)

    def call(self, command: list[str], **extra: str) -> int:
        return subprocess.run(command, cwd=self.root, env=self.environment | extra).returncode

    def style(self) -> Result:
        return whole("style", self.call([sys.executable, "-m", "ruff", "check", "."]))

    def build(self) -> Result:
        command = [sys.executable, "-m", "course_utils.cli", "build", "--check"]
        return whole("build", self.call(command))

    def units(self, arguments: list[str]) -> Result:
        return self.pytest("units", arguments, **ONE_THREAD)

    def notebooks(self, folder: str, strict: bool) -> Result:
        found = sorted((self.root / folder).glob("*.ipynb"))
        if not found:
            print(f"There are no notebooks in {folder}/: python course.py build makes them.")
            return Result(folder, 0, 1, 0)
        files = [str(notebook.relative_to(self.root)) for notebook in found]
        environment = ONE_THREAD | ({"COURSE_STRICT": "1"} if strict else {})
        # a notebook's cells share a kernel, so they stay together
        return self.pytest(folder, [*NBVAL, *files], dist="loadfile", **environment)

    def browser(self) -> Result:
        """Each worker has servers of its own, of JupyterLab and of the site, once a test asks for them."""
        if browser_path() is None:
            print("There is no Chromium here: these tests are skipped, or fail if they must run.")
        return self.pytest("browser", ["tests/browser"], **ONE_THREAD)

    def pytest(self, step: str, arguments: list[str], dist="worksteal", **extra: str) -> Result:
        report = self.scratch / f"{step}.xml"
        cores = ["-n", "2", "--dist", dist] if core_count() > 1 else []
        command = [*PYTEST, *cores, f"--junitxml={report}", *arguments]
        return count(step, self.call(command, **extra), report)


def whole(step: str, status: int) -> Result:
    """A step that passes or fails as one."""
    return Result(step, int(status == 0), int(status != 0), 0)


def count(step: str, status: int, report: Path) -> Result:
    """Pytest's own counts; a run without any, or that says it failed, failed."""
    try:
        suite = ElementTree.parse(report).getroot().find("testsuite").attrib
        tests, skipped = int(suite["tests"]), int(suite["skipped"])
        failed = int(suite["failures"]) + int(suite["errors"])
    except (OSError, ElementTree.ParseError, AttributeError, KeyError):
        tests = skipped = failed = 0
    passed = max(0, tests - failed - skipped)
    return Result(step, passed, max(failed, int(status != 0)), skipped)


def summary(results: list[Result]) -> str:
    """A small table, and one plain line for whoever reads by machine."""
    lines = [f"\n{'step':<12}{'passed':>8}{'failed':>8}{'skipped':>8}{'time':>10}"]
    for r in results:
        lines.append(f"{r.step:<12}{r.passed:>8}{r.failed:>8}{r.skipped:>8}{r.seconds:>8.1f} s")
    passed, failed, skipped = (
        sum(getattr(result, name) for result in results) for name in ("passed", "failed", "skipped")
    )
    return "\n".join([*lines, f"{passed} passed, {failed} failed, {skipped} skipped"])
