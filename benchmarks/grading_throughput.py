"""How many submissions a minute, ours beside nbgrader's: the same clean ones, on the same machine.

    python benchmarks/grading_throughput.py [--submissions 40] [--of-nbgrader 40] [--lesson 02]

Ours runs as `course.py grade` does, over all cores and in its sandbox; nbgrader as its users run it,
`nbgrader autograde`, whole notebooks one after the other and no sandbox. Each is timed from the command to its
end, start-up included. Every submission is the solution under another name, with a comment of its own.
nbgrader may take half a minute for each: --of-nbgrader measures it on fewer of them.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from course_utils.authoring.files import ROOT, stored_notebook
from course_utils.machine import machine_name

CONFIG = """\
c = get_config()
c.ClearSolutions.enabled = False
c.ExecutePreprocessor.timeout = 300
"""


def main() -> int:
    """Measure both, and print the figures and their ratio. Exit status 1 where a grade is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--submissions", type=int, default=40)
    parser.add_argument("--lesson", default="02")
    parser.add_argument("--of-nbgrader", type=int, help="how many of them; 0 leaves it out")
    options = parser.parse_args()
    (source,) = (ROOT / "notebooks").glob(f"{options.lesson}_*.ipynb")
    with tempfile.TemporaryDirectory(prefix="grading-throughput-") as scratch:
        place = Path(scratch)
        ours = of_ours(place / "ours", source.name, options.submissions)
        print(f"machine: {machine_name()}")
        print(told("course.py grade", options.submissions, *ours))
        number = options.submissions if options.of_nbgrader is None else options.of_nbgrader
        if not number:
            return 0 if ours[1] else 1
        theirs = of_nbgrader(place / "nbgrader", source, number)
        print(told("nbgrader autograde", number, *theirs))
        ratio = (theirs[0] / number) / (ours[0] / options.submissions)
        print(f"ours takes 1/{ratio:.1f} of nbgrader's time for a submission")
    return 0 if ours[1] and theirs[1] else 1


def told(name: str, count: int, seconds: float, all_right: bool) -> str:
    each = f"{seconds / count:.2f} s a submission, {60 * count / seconds:.0f} a minute"
    return f"{name}: {count} in {seconds:.1f} s, {each}" + ("" if all_right else "; WRONG GRADES")


def clean(name: str, number: int) -> bytes:
    """The student's notebook with the solution's answers, and a comment by which no two are the same."""
    notebook = stored_notebook(ROOT / "notebooks" / name)
    solved = stored_notebook(ROOT / "solutions" / name)
    answers = {c["id"]: c["source"] for c in solved["cells"] if c["id"].startswith("answer-")}
    for cell in notebook["cells"]:
        if cell["id"] in answers:
            cell["source"] = f"{answers[cell['id']]}\n# student {number}"
    return json.dumps(notebook).encode()


def environment(place: Path) -> dict[str, str]:
    """As a user's, but for the record of progress, and for the kernel: the one that has the course."""
    tools = Path(sys.executable).parent
    path = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
    given = {"COURSE_STATE": str(place / "state"), "JUPYTER_PREFER_ENV_PATH": "1", "PATH": path}
    return os.environ | given


def timed(command: list[str], place: Path) -> float:
    """Seconds that a command takes, its output kept in a file. Raises where it fails."""
    start = time.perf_counter()
    with open(place / "log.txt", "ab") as log:
        subprocess.run(
            command, cwd=place, env=environment(place), check=True, stdout=log, stderr=log
        )
    return time.perf_counter() - start


def of_ours(place: Path, name: str, count: int) -> tuple[float, bool]:
    """(seconds, did all get full marks)."""
    for number in range(count):
        path = place / "submissions" / f"student{number:03}" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(clean(name, number))
    grade = [sys.executable, str(ROOT / "course.py"), "grade", "submissions", "--out", "out"]
    seconds = timed([*grade, "--seed", "1"], place)
    with open(place / "out" / "grades.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    full = [row for row in rows if row["status"] == "graded" and row["total"] == row["max_total"]]
    return seconds, len(full) == count


def of_nbgrader(place: Path, source: Path, count: int) -> tuple[float, bool]:
    """(seconds of `nbgrader autograde`, did all get full marks). Handing out is not timed."""
    nbgrader = shutil.which("nbgrader", path=environment(place)["PATH"])
    (place / "source" / "ps1").mkdir(parents=True)
    (place / "nbgrader_config.py").write_text(CONFIG)
    shutil.copy(source, place / "source" / "ps1")
    timed([nbgrader, "generate_assignment", "ps1", "--create"], place)
    for number in range(count):
        path = place / "submitted" / f"student{number:03}" / "ps1" / source.name
        path.parent.mkdir(parents=True)
        path.write_bytes(clean(source.name, number))
    seconds = timed([nbgrader, "autograde", "ps1"], place)
    timed([nbgrader, "export", "--to", "grades.csv"], place)
    with open(place / "grades.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["assignment"] == "ps1"]
    full = [row for row in rows if float(row["score"]) == float(row["max_score"]) > 0]
    return seconds, len(full) == count


if __name__ == "__main__":
    sys.exit(main())
