"""`lab`: a student's copy is never overwritten, and a wrong name is told the right ones."""

import json
import os
import sys
import types
from pathlib import Path

import pytest

from course_utils.cli import lab
from course_utils.errors import CourseError


def notebook(text: str, version: str | None = None) -> str:
    metadata = {"course": {"version": version}} if version else {}
    return json.dumps({"cells": [text], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def course(tmp_path):
    (tmp_path / "notebooks").mkdir()
    for name in ("00_start_here", "01_measuring_memory"):
        (tmp_path / "notebooks" / f"{name}.ipynb").write_text(notebook(name, "v1"))
    return tmp_path


@pytest.fixture
def jupyter(monkeypatch) -> list:
    """Stands in for JupyterLab: records how it was called, and where."""
    calls = []
    app = types.SimpleNamespace(main=lambda arguments: calls.append((arguments, os.getcwd())))
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", app)
    monkeypatch.chdir(".")  # and back again
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    return calls


def test_lessons_are_copied_once_and_never_overwritten(course, jupyter, capsys) -> None:
    assert lab.main([], course) == 0
    assert "00_start_here.ipynb, 01_measuring_memory.ipynb" in capsys.readouterr().out
    mine = course / "work" / "01_measuring_memory.ipynb"
    assert mine.read_text() == notebook("01_measuring_memory", "v1")

    mine.write_text("my answers")
    lab.main([], course)
    assert mine.read_text() == "my answers"
    assert "New in work/" not in capsys.readouterr().out


def test_jupyterlab_opens_the_lesson_in_work(course, jupyter) -> None:
    lab.main(["01", "--", "--no-browser", "--port", "8899"], course)
    ((arguments, folder),) = jupyter
    assert f"--ServerApp.root_dir={course / 'work'}" in arguments
    assert "--LabApp.default_url=/lab/tree/01_measuring_memory.ipynb" in arguments
    assert arguments[-3:] == ["--no-browser", "--port", "8899"]
    assert folder == str(course / "work")
    assert os.environ["JUPYTER_PREFER_ENV_PATH"] == "1"


@pytest.mark.parametrize(
    "name",
    ["01", "01_measuring_memory", "01_measuring_memory.ipynb", "work/01_measuring_memory.ipynb"],
)
def test_a_lesson_goes_by_number_name_or_file(course, name) -> None:
    assert lab.find_lesson(name, course) == "01_measuring_memory.ipynb"


def test_a_duplicate_of_a_lesson_is_not_the_lesson(course) -> None:
    (course / "work").mkdir()
    for mine in ("01_measuring_memory-Copy1", "01_measuring_memory", "02_my_own"):
        (course / "work" / f"{mine}.ipynb").write_text("{}")
    assert lab.find_lesson("01", course) == "01_measuring_memory.ipynb"
    assert lab.find_lesson("02", course) == "02_my_own.ipynb"
    assert lab.find_lesson("01_measuring_memory-Copy1", course) == "01_measuring_memory-Copy1.ipynb"


@pytest.mark.parametrize("name", ["99", "1", "measuring", "", "../course.py"])
def test_an_unknown_lesson_is_told_the_known_ones(course, jupyter, name) -> None:
    with pytest.raises(CourseError, match="00_start_here, 01_measuring_memory") as error:
        lab.find_lesson(name, course)
    assert "\n" not in str(error.value)


def test_no_lessons_at_all(tmp_path, jupyter) -> None:
    with pytest.raises(CourseError, match="no lessons"):
        lab.main([], tmp_path)
    assert not jupyter and not (tmp_path / "work").exists()


def test_a_newer_lesson_is_announced_not_brought(course, jupyter, capsys) -> None:
    lab.main([], course)
    newer = course / "notebooks" / "01_measuring_memory.ipynb"
    newer.write_text(notebook("rewritten", "v2"))
    capsys.readouterr()
    lab.main([], course)
    said = capsys.readouterr().out
    assert "01_measuring_memory.ipynb" in said and "course.py update" in said
    assert "00_start_here" not in said
    assert (course / "work" / newer.name).read_text() == notebook("01_measuring_memory", "v1")


@pytest.mark.parametrize("text", ["", "not json", "[]", "{}", '{"metadata": {"course": null}}'])
def test_a_broken_copy_is_left_alone(course, jupyter, capsys, text) -> None:
    lab.main([], course)
    (course / "work" / "00_start_here.ipynb").write_text(text)
    lab.main([], course)
    assert (course / "work" / "00_start_here.ipynb").read_text() == text
    assert "newer" not in capsys.readouterr().out


def test_an_interrupted_copy_leaves_nothing(course, monkeypatch) -> None:
    def interrupted(source, target):
        target.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(lab.shutil, "copyfileobj", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lab.bring_lessons(course)
    assert list((course / "work").iterdir()) == []


def test_work_that_cannot_be_written(course) -> None:
    (course / "work").write_text("a file in the way")
    with pytest.raises(CourseError, match="can't write") as error:
        lab.bring_lessons(course)
    assert "\n" not in str(error.value)


def test_students_get_no_instructors_menus() -> None:
    """nbgrader is installed for a test; `lab` hides what it adds to JupyterLab."""
    folder = Path(lab.__file__).with_name("jupyter")
    pages = json.loads((folder / "labconfig" / "page_config.json").read_text())
    assert pages["disabledExtensions"]["@jupyter/nbgrader"] is True
    server = json.loads((folder / "jupyter_server_config.d" / "course.json").read_text())
    extensions = server["ServerApp"]["jpserver_extensions"]
    assert extensions["nbgrader.server_extensions.formgrader"] is False
