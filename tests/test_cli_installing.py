"""pip, watched: a fake pip says what the real one says when things go wrong."""

import sys
from pathlib import Path

import pytest

from course_utils.cli import installing
from course_utils.errors import CourseError

OFFLINE = (
    "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<...>: "
    "Failed to establish a new connection: [Errno -2] Name or service not known')': /simple/numpy/",
    "ERROR: Could not find a version that satisfies the requirement numpy (from versions: none)",
    "ERROR: No matching distribution found for numpy",
)
FULL = ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",)
ABSENT = (
    "ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: "
    "2.0.0, 2.2.2)",
    "ERROR: No matching distribution found for torch==2.13.0",
    "",
)


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Runs pip_install with a `python -m pip` that prints these lines and ends with this status."""

    def install(lines, status) -> None:
        package = tmp_path / "pip.py"
        package.write_text(f"print(*{list(lines)!r}, sep='\\n'); raise SystemExit({status})")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        installing.pip_install(Path(sys.executable), tmp_path, log=tmp_path / "log")

    return install


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (OFFLINE, "no network"),
        (FULL, "no disk space"),
        (ABSENT, "No matching distribution found for torch==2.13.0; is there a network"),
        (["Collecting x", "boom", ""], "boom"),
        ([], "pip said nothing"),
    ],
)
def test_a_failing_pip_gets_one_line_that_says_why(pip, tmp_path, lines, reason) -> None:
    with pytest.raises(CourseError) as error:
        pip(lines, 1)
    message = str(error.value)
    assert reason in message and "Nothing was lost" in message and "\n" not in message
    assert (tmp_path / "log").read_text().split() == " ".join(lines).split()


def test_a_pip_that_succeeds_after_warnings(pip, capsys) -> None:
    pip([OFFLINE[0], "Collecting numpy", "Installing collected packages: a, b, c", "Done"], 0)
    said = capsys.readouterr().err
    assert "unpacking 3 packages" in said
    assert "Collecting" not in said, "without a terminal, only the long steps leave a line"


def test_ctrl_c_ends_pip_too(monkeypatch, tmp_path) -> None:
    """Else it would go on writing into .venv behind the prompt."""
    started = []

    def interrupted(process, log):
        started.append(process)
        raise KeyboardInterrupt

    (tmp_path / "pip.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(installing, "follow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        installing.pip_install(Path(sys.executable), tmp_path, log=tmp_path / "log")
    assert started[0].poll() is not None


def test_a_terminal_sees_one_moving_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    installing.show("  Downloading torch-2.13.0-cp311-abc.whl (830.1 MB)", 75, is_new=True)
    installing.show("Collecting " + "x" * 100, 76, is_new=False)
    first, second = capsys.readouterr().err.split("\r")[1:]
    assert first.rstrip() == "  1:15  downloading torch-2.13.0-cp311-abc.whl (830.1 MB)"
    assert len(first) == len(second) == 59


@pytest.mark.parametrize(
    ("line", "long"),
    [
        ("  Downloading torch-2.13.0.whl (830.1 MB)", True),
        ("  Downloading torch-2.13.0.whl (1.2 GB)", True),
        ("  Downloading six-1.17.0.whl (11 kB)", False),
        ("Downloading idna.whl (2.1 MB)", False),
        ("Installing collected packages: a", True),
        ("Collecting a", False),
    ],
)
def test_long_steps(line, long) -> None:
    assert installing.is_long_step(line) is long
