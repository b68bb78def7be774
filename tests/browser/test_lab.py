"""Lessons in JupyterLab: opened and run as students do it, watched for errors and other hosts.

All of them as they are handed out, and two that are solved: quick ones with widgets that show one's own runs.
"""

import pytest

from course_utils.cli import ROOT
from tests.browser.lab import jupyter_lab
from tests.browser.lessons import runs_soundly

SOLVED = ("03_rematerialization", "06_tiling")
LESSONS = [
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
    *(ROOT / "solutions" / f"{stem}.ipynb" for stem in SOLVED),
]


@pytest.fixture(scope="session")
def host(chromium, tmp_path_factory):
    with jupyter_lab(tmp_path_factory.mktemp("lab"), LESSONS) as address:
        yield address


@pytest.mark.timeout(240)
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_lesson_runs(lab_page, host, path) -> None:
    runs_soundly(lab_page, host, path)
