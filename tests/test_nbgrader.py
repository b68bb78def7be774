"""An nbgrader course can take our notebooks as they are: it hands one out, collects and grades it."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from course_utils.checks.start_here import EXERCISES
from course_utils.cli import ROOT

pytest.importorskip("nbgrader")
pytestmark = pytest.mark.filterwarnings("ignore:Object of type")
LESSON = "00_start_here"  # the quickest; all are built alike


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """An nbgrader course with one assignment, handed in by one who did nothing and one who did all."""
    folder = tmp_path_factory.mktemp("nbgrader")
    source = folder / "source" / "ps1"
    source.mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / f"{LESSON}.ipynb", source)
    return folder


@pytest.fixture(scope="module")
def api(course):
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    config = Config()
    config.CourseDirectory.root = str(course)
    config.ClearSolutions.enabled = False  # ours are cleared; it would take the `def` lines as well
    config.ExecutePreprocessor.timeout = 100
    return NbGraderAPI(config=config)


@pytest.fixture(scope="module")
def scores(api, course):
    """{student: {grade cell: (score, most)}} after nbgrader has graded both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PREFER_ENV_PATH", "1")  # the kernel that has course_utils
        patch.setenv("COURSE_STATE", str(course / "state"))
        patch.delenv("COURSE_STRICT", raising=False)
        patch.delenv("NBGRADER_EXECUTION", raising=False)
        tools = Path(sys.executable).parent  # nbgrader calls alembic by its name
        patch.setenv("PATH", f"{tools}{os.pathsep}{os.environ.get('PATH', '')}")
        made = api.generate_assignment("ps1")
        assert made["success"], made.get("log", made.get("error"))
        released = course / "release" / "ps1" / f"{LESSON}.ipynb"
        for student in ("untouched", "solved"):
            there = course / "submitted" / student / "ps1"
            there.mkdir(parents=True)
            shutil.copy(released, there)
        solve(course / "submitted" / "solved" / "ps1" / f"{LESSON}.ipynb")
        for student in ("untouched", "solved"):
            graded = api.autograde("ps1", student)
            assert graded["success"], graded.get("log", graded.get("error"))
        with api.gradebook as book:
            return {
                student: {
                    grade.name: (grade.auto_score, grade.max_score)
                    for notebook in book.find_submission("ps1", student).notebooks
                    for grade in notebook.grades
                }
                for student in ("untouched", "solved")
            }


def solve(path: Path) -> None:
    """The solution's answers, put into the copy that nbgrader handed out."""
    solved = json.loads((ROOT / "solutions" / f"{LESSON}.ipynb").read_text("utf-8"))
    answers = {c["id"]: c["source"] for c in solved["cells"] if c["id"].startswith("answer-")}
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if name in answers:
            cell["source"] = answers.pop(name)
    assert not answers
    path.write_text(json.dumps(notebook), encoding="utf-8")


def test_what_nbgrader_hands_out_is_what_we_gave(scores, course):
    given = json.loads((ROOT / "notebooks" / f"{LESSON}.ipynb").read_text("utf-8"))
    handed_out = json.loads((course / "release" / "ps1" / f"{LESSON}.ipynb").read_text("utf-8"))
    assert ["".join(c["source"]) for c in handed_out["cells"]] == [
        "".join(c["source"]) for c in given["cells"]
    ]


def test_the_untouched_notebook_earns_nothing(scores):
    points = {k: v for k, v in scores["untouched"].items() if k.startswith("check-")}
    assert [most for _, most in points.values()] == [each.points for each in EXERCISES.values()]
    assert points and all(got == 0 for got, _ in points.values())


def test_the_solved_one_earns_all(scores):
    points = {k: v for k, v in scores["solved"].items() if k.startswith("check-")}
    assert points and all(got == most > 0 for got, most in points.values()), points
