"""Run the tests marked `gpu`, and count them.

CI has no GPU. So the file of measurements says of these tests when they ran, where, and how they ended. Only
files that have such tests are collected: the others need packages that a GPU machine may lack.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

from course_utils.bench.files import now, versions

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 180


def files_with_gpu_tests(root: Path = ROOT) -> list[str]:
    found = (root / "tests").glob("test_*.py")
    return sorted(
        f"tests/{file.name}" for file in found if "pytest.mark.gpu" in file.read_text("utf-8")
    )


def run_gpu_tests(root: Path = ROOT, seconds: float = SECONDS) -> dict:
    """Counts, and the names of what failed. Never raises: a run that can't be counted says why."""
    files = files_with_gpu_tests(root)
    record = {"date": now(), "versions": versions(), "files": files}
    if not files:
        return record | {"trouble": "no tests are marked gpu"}
    with tempfile.TemporaryDirectory(prefix="course-gpu-") as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider"]
        record["command"] = "python -m pytest -m gpu -q " + " ".join(files)
        start = time.monotonic()
        try:
            ended = subprocess.run(
                [*command, f"--junitxml={report}", *files],
                cwd=root,
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return record | {"trouble": f"not finished after {seconds:.0f} s"}
        record["seconds"] = time.monotonic() - start
        return record | counts(report, ended)


def counts(report: Path, ended: subprocess.CompletedProcess) -> dict:
    """What pytest's own report says; its last line where there is none."""
    try:
        suite = ElementTree.parse(report).getroot().find("testsuite")
        cases = list(suite.iter("testcase"))
    except (OSError, ElementTree.ParseError, AttributeError):
        said = [*ended.stdout.splitlines(), *ended.stderr.splitlines()]
        last = next((line for line in reversed(said) if line.strip()), "nothing")
        return {"trouble": f"pytest ended with status {ended.returncode}: {last[:300]}"}
    outcome = {"failed": [], "skipped": [], "passed": []}
    for case in cases:
        kinds = {child.tag for child in case}
        kind = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"  # fmt: skip
        outcome[kind].append(case.get("name", ""))
    found = {kind: len(names) for kind, names in outcome.items()}
    return found | ({"failures": outcome["failed"][:20]} if outcome["failed"] else {})
