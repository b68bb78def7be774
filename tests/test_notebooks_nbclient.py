"""A second opinion on nbval, which is little maintained: one lesson, run by nbclient alone."""

import nbclient
import nbformat

from course_utils.cli import ROOT

LESSON = ROOT / "notebooks" / "00_start_here.ipynb"


def test_the_first_lesson_runs_unsolved(monkeypatch, tmp_path) -> None:
    assert LESSON.exists(), "python course.py build makes it"
    monkeypatch.setenv("COURSE_STATE", str(tmp_path))
    monkeypatch.delenv("COURSE_STRICT", raising=False)
    notebook = nbformat.read(LESSON, as_version=4)
    place = {"metadata": {"path": str(LESSON.parent)}}
    nbclient.NotebookClient(notebook, timeout=60, allow_errors=True, resources=place).execute()

    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert code and all(cell.execution_count for cell in code)
    errors = [out.evalue for cell in code for out in cell.outputs if out.output_type == "error"]
    assert not errors
