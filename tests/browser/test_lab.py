"""The students' lessons in JupyterLab: opened and run as they do it, watched for errors and other hosts."""

import pytest

from course_utils.cli import ROOT
from tests.browser.lab import jupyter_lab
from tests.browser.lessons import runs_soundly

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def host(chromium, tmp_path_factory):
    with jupyter_lab(tmp_path_factory.mktemp("lab"), LESSONS) as address:
        yield address


@pytest.mark.timeout(240)
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_runs_unsolved(lab_page, host, path) -> None:
    runs_soundly(lab_page, host, path)
