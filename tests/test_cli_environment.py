"""The set-up of .venv: ready means ready, and whatever interrupts it, the next call goes on."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils.cli import environment, installing
from course_utils.cli.environment import Environment
from course_utils.errors import CourseError


class FakeCourse(Environment):
    """A course in a temporary folder, whose Python and pip are answers written down here.

    Files make the state, as in a real .venv: the test removes what an interruption would have
    left out.
    """

    def __init__(self, root: Path):
        super().__init__(root)
        self.calls: list[str] = []
        for name in (*environment.LISTS, "course.py"):
            (root / name).write_text(f"# {name}\n")

    def make(self) -> None:
        self.calls.append("make")
        shutil.rmtree(self.folder, ignore_errors=True)
        for file in ("lib/python3.11/site-packages/pip.txt", self.python.relative_to(self.folder)):
            (self.folder / file).parent.mkdir(parents=True)
            (self.folder / file).touch()


@pytest.fixture
def course(tmp_path, monkeypatch) -> FakeCourse:
    course = FakeCourse(tmp_path)

    def ask(python, code):
        if not Path(python).exists():
            return None
        if "INSTALLER" in code:
            return "pip" if (course.site_packages() / "pip.txt").exists() else None
        return "3.11"

    monkeypatch.setattr(environment, "ask", ask)
    monkeypatch.setattr(installing, "pip_install", lambda *a, **k: course.calls.append("pip"))
    return course


def set_up(course) -> list[str]:
    """What one call of set_up did."""
    course.calls.clear()
    course.set_up()
    return list(course.calls)


def test_the_first_call_makes_everything_and_the_second_nothing(course) -> None:
    assert set_up(course) == ["make", "pip"]
    assert course.is_ready()
    assert set_up(course) == []


@pytest.mark.parametrize("name", environment.LISTS)
def test_a_changed_list_runs_pip_again(course, name) -> None:
    set_up(course)
    (course.root / name).write_text("numpy\n")
    assert set_up(course) == ["pip"]
    assert set_up(course) == []


def test_an_interrupted_pip_is_resumed(course, monkeypatch) -> None:
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(installing, "pip_install", interrupted)
        course.set_up()
    assert not course.is_ready()
    assert set_up(course) == ["pip"]


def test_an_interrupted_update_leaves_no_stamp_of_the_older_lists(course, monkeypatch) -> None:
    set_up(course)
    older = (course.root / "requirements.txt").read_text()
    (course.root / "requirements.txt").write_text("newer\n")

    def fails(*args, **kwargs):
        raise CourseError("no network")

    with monkeypatch.context() as patch, pytest.raises(CourseError):
        patch.setattr(installing, "pip_install", fails)
        course.set_up()
    (course.root / "requirements.txt").write_text(older)
    assert set_up(course) == ["pip"]


@pytest.mark.parametrize("lost", ["Python", "pip"])
def test_a_half_made_venv_is_made_again(course, lost) -> None:
    """Without its Python, or without its pip, a .venv that was cut short is of no use."""
    course.make()
    (course.python if lost == "Python" else course.site_packages() / "pip.txt").unlink()
    assert set_up(course) == ["make", "pip"]


def test_a_venv_made_by_hand_is_kept(course) -> None:
    course.make()
    assert set_up(course) == ["pip"]


@pytest.mark.parametrize("what", [{"location": "/elsewhere/.venv"}, {"python": "3.12"}])
def test_a_venv_of_another_place_or_python_is_made_again(course, what) -> None:
    set_up(course)
    course.write_stamp(course.read_stamp() | what)
    assert set_up(course) == ["make", "pip"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"done"', "\x00\xff"])
def test_a_broken_stamp_is_no_stamp(course, text) -> None:
    set_up(course)
    course.stamp.write_text(text)
    assert set_up(course) == ["pip"]


def test_half_installed_packages_are_forgotten(course) -> None:
    course.make()
    site = course.site_packages()
    for record in ("whole-1.dist-info", "half-1.dist-info", "~removed"):
        (site / record).mkdir()
    (site / "whole-1.dist-info" / "INSTALLER").write_text("pip\n")
    set_up(course)
    assert {path.name for path in site.iterdir()} == {"pip.txt", "whole-1.dist-info"}


def refused(course) -> str:
    with pytest.raises(CourseError) as error:
        course.set_up()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_no_ensurepip(course, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "python3-venv" in refused(course)
    assert not course.folder.exists()


def test_no_disk(course, monkeypatch) -> None:
    usage = shutil.disk_usage(course.root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10**9))
    assert "1.0 GB free" in refused(course) and not course.calls
    (course.folder / "lib/python3.11/site-packages/torch").mkdir(parents=True)
    assert set_up(course) == ["make", "pip"]  # what is large is there already


def test_no_folder_to_write_to(course, monkeypatch) -> None:
    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    assert "Permission denied" in refused(course)


def test_a_venv_that_cannot_be_made(course, monkeypatch) -> None:
    def fails(*args, **kwargs):
        raise subprocess.CalledProcessError(1, "ensurepip")

    monkeypatch.setattr(environment.venv.EnvBuilder, "create", fails)
    monkeypatch.setattr(course, "make", lambda: Environment.make(course))
    assert environment.AGAIN in refused(course)


def test_a_second_set_up_waits_for_the_first(course, capsys, tmp_path) -> None:
    """The first is another process; it holds the lock until it crashes."""
    door = tmp_path / "course.py"
    hold = (
        "import os, pathlib, sys, time; from course_utils.cli.environment import only_one\n"
        "with only_one(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n"
        "    time.sleep(1)\n    os._exit(1)"
    )
    with subprocess.Popen([sys.executable, "-c", hold, door], stdout=subprocess.PIPE) as first:
        first.stdout.readline()
        assert set_up(course) == ["make", "pip"]
        assert first.poll() == 1
    assert "Another set-up" in capsys.readouterr().err


def test_a_named_python_is_used_as_it_is(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("COURSE_PYTHON", sys.executable)
    assert environment.choose_python(tmp_path) == Path(sys.executable)


def test_a_python_that_has_everything_is_used_as_it_is(course, monkeypatch, tmp_path) -> None:
    """As in conda, on Binder, on a JupyterHub: this course is installed, and all it requires."""
    site = tmp_path / "conda" / "site-packages"
    record = site / "memory_io_course-0.1.dist-info"
    record.mkdir(parents=True)
    monkeypatch.delenv("COURSE_PYTHON", raising=False)
    monkeypatch.setattr(environment.sysconfig, "get_path", lambda name: str(site))
    assert not environment.has_everything(course)

    (record / "direct_url.json").write_text(f'{{"url": "{course.root.as_uri()}"}}')
    (course.root / "requirements.txt").write_text("-e .\npytest>=1  # here\n")
    assert environment.has_everything(course)

    (course.root / "requirements.txt").write_text("not-a-package-of-anyone\n")
    assert not environment.has_everything(course)
    (course.root / "requirements.txt").write_text("")
    (record / "direct_url.json").write_text('{"url": "file:///another/copy"}')
    assert not environment.has_everything(course)


def test_a_python_that_has_everything_in_the_users_own_packages(
    course, monkeypatch, tmp_path
) -> None:
    """As pip install --user does, on a JupyterHub."""
    record = tmp_path / "home" / "memory_io_course-0.1.dist-info"
    record.mkdir(parents=True)
    (record / "direct_url.json").write_text(f'{{"url": "{course.root.as_uri()}"}}')
    (course.root / "requirements.txt").write_text("-e .\npytest>=1\n")
    monkeypatch.setattr(environment.sysconfig, "get_path", lambda name: str(tmp_path / "none"))
    monkeypatch.setattr(environment.site, "getusersitepackages", lambda: str(record.parent))
    for is_on in (True, False, None):
        monkeypatch.setattr(environment.site, "ENABLE_USER_SITE", is_on)
        assert environment.has_everything(course) is bool(is_on)


@pytest.mark.skipif(os.name == "nt", reason="links to a program")
def test_a_python_may_be_named_as_in_a_shell(monkeypatch, tmp_path) -> None:
    """By a name on the PATH, or a path from the current folder: what runs it needs a whole path."""
    (tmp_path / "my-python").symlink_to(sys.executable)
    monkeypatch.setattr(environment, "ask", lambda *arguments: "here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for named in ("my-python", "./my-python"):
        monkeypatch.setenv("COURSE_PYTHON", named)
        assert environment.choose_python(tmp_path) == tmp_path / "my-python"


def test_required_names(course) -> None:
    (course.root / "requirements.txt").write_text("# why\n-e .\n\ntorch==2.13.0  # x\na-b<4,>2\n")
    assert course.required_names() == ["torch", "a-b"]


def test_ask_tells_what_cannot_run(tmp_path) -> None:
    assert environment.ask(sys.executable, "print(6 * 7)") == "42"
    assert environment.ask(sys.executable, "raise SystemExit(1)") is None
    assert environment.ask(tmp_path / "none", "print(1)") is None


def test_packages_of_another_system_are_not_missed(course) -> None:
    (course.root / "requirements.txt").write_text(
        f'here; sys_platform == "{sys.platform}"\nelsewhere==3; sys_platform == "plan9"  # why\n'
    )
    assert course.required_names() == ["here"]
