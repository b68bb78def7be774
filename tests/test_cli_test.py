"""`test`: every step runs whatever the others do, counts are right, and work/ is not touched."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course_utils.cli import __main__ as commands
from course_utils.cli import test as command


def write_notebook(path: Path, *cells: str) -> None:
    python = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = nbformat.v4.new_notebook(metadata=python)
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)


@pytest.fixture
def course(tmp_path, monkeypatch) -> Path:
    """A very small course: one unit test, one notebook and its solution, and a student's work."""
    shutil.copy(command.ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("def test_one():\n    assert True\n")
    strict = "import os\nassert ('COURSE_STRICT' in os.environ) is {}"
    state = "import os, pathlib\npathlib.Path(os.environ['COURSE_STATE']).mkdir(exist_ok=True)"
    write_notebook(tmp_path / "notebooks" / "00_a.ipynb", strict.format(False), state, "1 / 0")
    write_notebook(tmp_path / "solutions" / "00_a.ipynb", strict.format(True))
    write_notebook(tmp_path / "work" / "00_a.ipynb", "raise SystemExit('not to be run')")
    monkeypatch.setattr(
        command, "core_count", lambda: 1
    )  # one kernel after another is quicker here
    monkeypatch.setenv("COURSE_STRICT", "1")  # of the user's own shell: not for notebooks/
    monkeypatch.setenv("COURSE_STATE", str(tmp_path / "work" / "progress"))
    return tmp_path


def contents(folder: Path) -> dict:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*")}


def test_all_steps_run_and_work_is_untouched(course, capfd, monkeypatch) -> None:
    """The third cell of the student's notebook fails; the steps after it run all the same."""
    monkeypatch.setattr(command.Runner, "build", lambda self: command.whole("build", 0))
    before = contents(course / "work")
    assert command.main([], course) == 1
    assert contents(course / "work") == before
    lines = capfd.readouterr().out.strip().splitlines()
    assert lines[-1] == "6 passed, 1 failed, 0 skipped"
    counts = {line.split()[0]: line.split()[1:4] for line in lines[-6:-1]}
    assert counts == {
        "style": ["1", "0", "0"],
        "units": ["1", "0", "0"],
        "notebooks": ["2", "1", "0"],
        "solutions": ["1", "0", "0"],
        "build": ["1", "0", "0"],
    }


def test_without_notebooks_or_tests_nothing_passes(tmp_path, capfd, monkeypatch) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "bad.py").write_text("import os, sys\n")
    monkeypatch.setattr(command, "core_count", lambda: 1)
    monkeypatch.setattr(command.Runner, "build", lambda self: command.whole("build", 0))
    assert command.main([], tmp_path) == 1
    said = capfd.readouterr().out
    assert said.strip().endswith("1 passed, 4 failed, 0 skipped")
    assert "no notebooks in solutions/" in said


def test_a_students_copy_tests_its_notebooks(course, capfd) -> None:
    for folder in ("tests", "solutions"):
        shutil.rmtree(course / folder)
    write_notebook(course / "notebooks" / "00_a.ipynb", "x = 1")
    assert command.main([], course) == 0
    assert capfd.readouterr().out.strip().endswith("1 passed, 0 failed, 0 skipped")


def test_options_go_to_the_units_alone(course, capfd) -> None:
    (course / "tests" / "test_two.py").write_text(
        "import pytest\n\n\ndef test_two():\n    pytest.skip('not here')\n\n\n"
        "def test_three():\n    assert False\n"
    )
    assert command.main(["tests", "-k", "two or three"], course) == 1
    said = capfd.readouterr().out
    assert said.strip().endswith("0 passed, 1 failed, 1 skipped")
    assert re.findall(r"^=== (\w+)$", said, re.MULTILINE) == ["units"]


def test_the_browsers_tests_are_a_step_of_their_own(course, capfd, monkeypatch) -> None:
    monkeypatch.setattr(command.Runner, "build", lambda self: command.whole("build", 0))
    (course / "tests" / "browser").mkdir()
    (course / "tests" / "browser" / "test_b.py").write_text("def test_b():\n    assert True\n")
    command.main([], course)
    lines = capfd.readouterr().out.strip().splitlines()
    counts = {line.split()[0]: line.split()[1:4] for line in lines[-7:-1]}
    assert counts["units"] == counts["browser"] == ["1", "0", "0"]


def test_a_report_that_was_never_written_is_a_failure(tmp_path) -> None:
    assert command.count("units", 137, tmp_path / "none.xml").failed == 1
    (tmp_path / "half.xml").write_text("<testsuites><tests")
    assert command.count("units", 0, tmp_path / "half.xml") == command.Result("units", 0, 0, 0)


def test_commands_turn_errors_into_one_line(capsys, monkeypatch) -> None:
    assert commands.main(["lab", "99"]) == 2
    assert commands.main(["frobnicate"]) == 2
    assert commands.main([]) == 2
    monkeypatch.setitem(commands.COMMANDS, "build", "course_utils.not_in_this_copy")
    assert commands.main(["build"]) == 2
    assert capsys.readouterr().err.count("\n") == 4


def test_ctrl_c_in_a_command_is_quiet(capsys, monkeypatch) -> None:
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "find", lambda name: interrupted)
    assert commands.main(["build"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_the_module_is_a_command() -> None:
    command = [sys.executable, "-m", "course_utils.cli", "no-such-command"]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert ended.returncode == 2 and "no-such-command" in ended.stderr
