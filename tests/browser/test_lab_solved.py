"""Two solved lessons in JupyterLab, quick ones with widgets that show one's own runs.

In a file of their own, for a worker that is free.
"""

import pytest

from course_utils.cli import ROOT
from tests.browser.lab import jupyter_lab
from tests.browser.lessons import runs_soundly

SOLVED = [ROOT / "solutions" / f"{stem}.ipynb" for stem in ("03_rematerialization", "06_tiling")]


@pytest.fixture(scope="module")
def host(chromium, tmp_path_factory):
    with jupyter_lab(tmp_path_factory.mktemp("lab"), SOLVED) as address:
        yield address


@pytest.mark.timeout(240)
@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_a_solved_lesson_runs(lab_page, host, path) -> None:
    runs_soundly(lab_page, host, path)
