"""The door itself: it must work, and refuse clearly, where nothing of the course is installed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from course_utils.cli import ROOT
from course_utils.cli.__main__ import COMMANDS

DOOR = ROOT / "course.py"
BEFORE_INSTALLATION = ("__init__.py", "errors.py", "locks.py", "cli/__init__.py", "cli/environment.py",
                       "cli/installing.py")  # fmt: skip


def run(*arguments: str, code: str = "") -> subprocess.CompletedProcess:
    """The door in a process of its own; or other code that gets it as its argument."""
    command = [sys.executable, *(["-c", code] if code else []), str(DOOR), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def imported(path: Path) -> set[str]:
    """The top-level names of all modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    return names


def test_only_the_standard_library_is_imported_before_the_installation() -> None:
    files = [DOOR, *(ROOT / "course_utils" / name for name in BEFORE_INSTALLATION)]
    for file in files:
        foreign = imported(file) - set(sys.stdlib_module_names) - {"course_utils"}
        assert not foreign, f"{file.name} imports {foreign}"


def test_set_up_loads_nothing_that_it_installs() -> None:
    code = "import sys; import course_utils.cli.environment; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "course_utils.cli.installing" in loaded.stdout.split()
    assert not {"numpy", "torch", "matplotlib", "jupyterlab"} & set(loaded.stdout.split())


def test_an_old_python_can_read_the_door() -> None:
    source = DOOR.read_text("ascii")
    ast.parse(source, feature_version=(3, 6))
    assert not re.search(r"\bf[\"']", source), "an f-string stops Python 2 before it can say so"


def test_an_old_python_gets_one_line() -> None:
    pretend = "import runpy, sys; sys.version_info = (3, 8, 1); runpy.run_path(sys.argv[1])"
    refused = run(code=pretend)
    assert refused.returncode == 2 and refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert "needs Python 3.11" in refused.stderr and "this is Python 3.8" in refused.stderr


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_help_lists_every_command(arguments) -> None:
    helped = run(*arguments)
    assert helped.returncode == 0
    for name in COMMANDS:
        assert f"course.py {name}" in helped.stdout


@pytest.mark.parametrize("name", ["judge", "frobnicate", "--verbose"])
def test_an_unknown_command_gets_one_line(name) -> None:
    refused = run(name)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1 and repr(name) in refused.stderr


def test_a_python_without_the_course_gets_one_line(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("COURSE_PYTHON", str(tmp_path / "no-python"))
    refused = run("doctor")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1 and "COURSE_PYTHON" in refused.stderr


def test_the_door_passes_the_exit_status_on(monkeypatch) -> None:
    monkeypatch.setenv("COURSE_PYTHON", sys.executable)
    refused = run("doctor", "--no-such-option")
    assert refused.returncode == 2 and "--no-such-option" in refused.stderr


def test_the_door_opens_its_own_course_wherever_it_is_called(monkeypatch, tmp_path) -> None:
    """Not the copy in the current folder, whose checks and notebooks are others."""
    other = tmp_path / "course_utils" / "cli"
    other.mkdir(parents=True)
    for path in (other.parent / "__init__.py", other / "__init__.py"):
        path.write_text("")
    (other / "__main__.py").write_text("print('another course')")
    monkeypatch.setenv("COURSE_PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)
    refused = run("lab", "no-such-lesson")
    assert refused.returncode == 2 and "another course" not in refused.stdout
    assert "no lesson 'no-such-lesson'" in refused.stderr


def test_conda_lists_nothing_of_its_own() -> None:
    conda = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    *own, lists = conda["dependencies"]
    assert own == ["python=3.11", "pip"]
    # an item each: pip reads one option from a line
    assert lists == {"pip": ["-r requirements.txt", "-c constraints.txt"]}
    assert conda["channels"] == ["conda-forge"]


def test_constraints_pin_every_requirement_and_name_no_place() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.match(r"[a-z0-9.-]+==[\w.]+( ; .+)?$", pin) for pin in pins)
    pinned = {pin.partition("==")[0] for pin in pins}
    required = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    names = {match.group() for line in required if (match := re.match(r"[A-Za-z0-9-]+", line))}
    assert names - {"-e"} <= pinned and "torch" in names
    assert not any(re.search(r"://|/[a-z]+/", line) for line in lines)
