"""python course.py build, on a small course of its own: executes, compares, leaves no halves."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_utils.authoring.build import main
from course_utils.authoring.files import ROOT, write_whole
from course_utils.errors import CourseError
from tests.test_authoring import SAMPLE, known

STEM = "01_measuring_memory"
PACKAGE = {
    "course_utils/__init__.py": """
        _HOME = {"check": "course_utils.core", "predict": "course_utils.core"}

        from course_utils.core import check, measured, needs, predict
    """,
    "course_utils/core.py": """
        import os
        from pathlib import Path

        def check(name, answer):
            value = answer((2, 3), "float64")
            assert value == 48 or "COURSE_STRICT" not in os.environ, f"{name}: 48\\n  not {value}"
            Path(os.environ["COURSE_STATE"], "passed").write_text(name)
            return value

        def predict(name, number, unit=""):
            return number

        def measured(name, value):
            print(name, value)

        needs = None
    """,
}


def make_course(root, sample=SAMPLE):
    for name, text in PACKAGE.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(line.removeprefix(" " * 8) for line in text.split("\n")))
    (root / "solutions").mkdir()
    (root / "notebooks").mkdir()
    (root / "solutions" / f"{STEM}.py").write_text(sample)
    return root


def build(root, *arguments):
    return main(list(arguments), root=root, find_exercise=known)


def contents(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A course that was built once. Do not change it: copy it."""
    root = make_course(tmp_path_factory.mktemp("course"))
    assert build(root) == 0
    return root


@pytest.fixture
def course(built, tmp_path):
    return Path(shutil.copytree(built, tmp_path / "course"))


@pytest.fixture
def no_kernel(monkeypatch):
    """Fail where a notebook is executed."""

    def refuse(*_):
        raise AssertionError("executed")

    monkeypatch.setattr("course_utils.authoring.build.execute", refuse)


def notebook(root, folder="solutions"):
    return json.loads((root / folder / f"{STEM}.ipynb").read_text())


def rewrite(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


# building


def test_a_solution_is_executed_and_a_student_notebook_is_not(built):
    cells = {cell["id"]: cell for cell in notebook(built)["cells"]}
    assert "".join(cells["check-1-1"]["outputs"][0]["data"]["text/plain"]) == "48"
    assert any("### BEGIN SOLUTION" in line for line in cells["answer-1-1"]["source"])
    counts = [c["execution_count"] for c in cells.values() if c["cell_type"] == "code"]
    assert counts == [1, 2, 3, 4, 5]
    assert all("execution" not in cell["metadata"] for cell in cells.values())
    given = notebook(built, "notebooks")
    assert all(not cell.get("outputs") for cell in given["cells"])
    course = notebook(built)["metadata"]["course"]
    assert set(course.pop("executed_from")) == {
        "course_utils/__init__.py", "course_utils/core.py", f"solutions/{STEM}.py",
    }  # fmt: skip
    assert course == given["metadata"]["course"]


def test_a_second_build_executes_nothing_and_changes_no_byte(course, no_kernel, capsys):
    before = contents(course)
    assert build(course) == 0
    assert contents(course) == before
    assert capsys.readouterr().out == f"{STEM}: up to date\n"


def test_an_edited_student_notebook_is_restored_without_executing(course, no_kernel):
    before = contents(course)
    path = course / "notebooks" / f"{STEM}.ipynb"
    for damage in (b"", b"{", b'{"cells": 3}', before[path].replace(b"raise", b"pass #")):
        path.write_bytes(damage)
        assert build(course) == 0
        assert contents(course) == before


@pytest.mark.parametrize(
    "edit",
    [
        lambda root: (root / "course_utils" / "core.py").open("a").write("\nx = 1\n"),
        lambda root: (root / "solutions" / f"{STEM}.py").open("a").write("# end\n"),
        lambda root: (root / "solutions" / f"{STEM}.ipynb").unlink(),
        lambda root: (root / "solutions" / f"{STEM}.ipynb").write_text("{"),
        lambda root: rewrite(
            root / "solutions" / f"{STEM}.ipynb", lambda nb: nb["cells"][0].update(source="x")
        ),
    ],
)
def test_what_is_executed_again(course, no_kernel, edit):
    edit(course)
    with pytest.raises(AssertionError, match="executed"):
        build(course)


def test_force_executes_what_is_up_to_date(course, no_kernel):
    with pytest.raises(AssertionError, match="executed"):
        build(course, "--force", "01")


def test_a_failing_check_is_refused_with_its_line_and_the_old_notebooks_stay(course, capsys):
    source = course / "solutions" / f"{STEM}.py"
    wrong = "    return int(np.prod(shape))\n"
    source.write_text(SAMPLE.replace(" * np.dtype(dtype).itemsize", "").replace("µ", "m"))
    assert wrong in source.read_text()
    before = contents(course)
    assert build(course) == 1
    assert contents(course) == before
    line = SAMPLE.split("\n").index('check("1.1", payload_bytes)') + 1
    said = f"solutions/{STEM}.py:{line}: cell failed: AssertionError: 1.1: 48 / not 6"
    assert said in capsys.readouterr().out.splitlines()


def test_an_error_names_the_line_inside_the_cell_and_leaks_are_refused(tmp_path, capsys):
    fails = SAMPLE.replace('measured("1.a", 24)', 'measured("1.a", 24)\n\n1 / 0')
    leaks = SAMPLE.replace(
        'measured("1.a", 24)', 'measured("1.a", 24)\nprint(__import__("os").getcwd())'
    )
    root = make_course(tmp_path, fails)
    (root / "solutions" / "02_leak.py").write_text(
        leaks.replace("1.1", "2.1").replace("1.a", "2.a")
    )
    assert main([], root=root, find_exercise=lambda _: known("1.1")) == 1
    said = capsys.readouterr().out
    line = len(fails.rstrip().split("\n"))
    assert f"solutions/{STEM}.py:{line}: cell failed: ZeroDivisionError: division by zero" in said
    assert f"solutions/02_leak.py:{line - 5}: an output names a folder of this machine" in said
    assert not list(root.rglob("*.ipynb"))


def test_ctrl_c_leaves_everything_as_it_was(course):
    source = course / "solutions" / f"{STEM}.py"
    started = course / "started"
    sleep = f'import time\nopen({str(started)!r}, "w").close()\ntime.sleep(60)'
    source.write_text(SAMPLE.replace('measured("1.a", 24)', f'measured("1.a", 24)\n{sleep}'))
    before = contents(course)
    command = (
        "import sys, pathlib; from course_utils.authoring.build import main;"
        "from tests.test_authoring import known;"
        "main([], root=pathlib.Path(sys.argv[1]), find_exercise=known)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", command, str(course)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert started.exists() and b"KeyboardInterrupt" in errors
    started.unlink()
    assert contents(course) == before


def test_writing_fails_whole(tmp_path, monkeypatch):
    old, other = tmp_path / "a.ipynb", tmp_path / "b.ipynb"
    old.write_text("old")
    write = Path.write_bytes

    def disk_full(path, data):
        write(path, data[: len(data) // 2])
        if path.name.startswith(".b"):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", disk_full)
    with pytest.raises(CourseError, match=r"^cannot write b.ipynb.*: No space left on device$"):
        write_whole({old: b"new new", other: b"new new"})
    assert contents(tmp_path) == {old: b"old"}


# checking


def test_check_agrees_and_writes_nothing(course, no_kernel, capsys):
    before = contents(course)
    assert build(course, "--check") == 0
    assert capsys.readouterr().out == "1 lesson agrees with its source\n"
    assert contents(course) == before


def edit_cell(name, **change):
    def edit(nb):
        next(cell for cell in nb["cells"] if cell["id"] == name).update(change)

    return edit


DRIFT = [  # (folder, change, what is said of it)
    ("notebooks", edit_cell("answer-1-1", source="x"), "the text of cell answer-1-1 is not"),
    ("notebooks", edit_cell("answer-1-1", metadata={}), "the metadata of cell answer-1-1 is not"),
    ("notebooks", edit_cell("check-1-1", execution_count=3), "execution count of cell check-1-1"),
    ("notebooks", lambda nb: nb["cells"].pop(), "is missing: run"),
    ("notebooks", lambda nb: nb["cells"].reverse(), "in another order"),
    ("notebooks", lambda nb: nb["cells"].insert(1, nb["cells"][0] | {"id": "n"}), "cell n ('# Me"),
    ("notebooks", lambda nb: nb["metadata"].update(x=1), "the notebook's metadata are not"),
    ("solutions", edit_cell("answer-1-1", source="x"), "the text of cell answer-1-1 is not"),
    ("solutions", edit_cell("check-1-1", execution_count=None), "check-1-1 was not executed"),
    (
        "solutions",
        edit_cell("check-1-1", outputs=[{"output_type": "error"}]),
        "cell check-1-1 holds an error",
    ),
    ("solutions", lambda nb: nb["metadata"].update(x=1), "the notebook's metadata are not"),
    ("solutions", lambda nb: nb["metadata"]["course"].pop("executed_from"), "executed before"),
]


@pytest.mark.parametrize("number", range(len(DRIFT)))
def test_check_names_the_drift(course, no_kernel, capsys, number):
    folder, change, said = DRIFT[number]
    path = course / folder / f"{STEM}.ipynb"
    rewrite(path, change)
    before = contents(course)
    assert build(course, "--check") == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"{folder}/{STEM}.ipynb: ") and said in lines[0]
    assert lines[0].endswith("run python course.py build")
    assert contents(course) == before


def test_check_minds_every_byte_of_a_student_notebook(course, no_kernel, capsys):
    path = course / "notebooks" / f"{STEM}.ipynb"
    path.write_bytes(path.read_bytes() + b"\n")
    assert build(course, "--check") == 1
    assert "is formatted in another way" in capsys.readouterr().out


def test_check_allows_other_outputs_and_counts_in_a_solution(course, no_kernel):
    rewrite(
        course / "solutions" / f"{STEM}.ipynb",
        edit_cell(
            "check-1-1",
            execution_count=7,
            outputs=[{"output_type": "stream", "name": "stdout", "text": "other"}],
        ),
    )
    assert build(course, "--check") == 0


def test_check_names_the_module_that_changed(course, no_kernel, capsys):
    with (course / "course_utils" / "core.py").open("a") as module:
        module.write("\nx = 1\n")
    assert build(course, "--check") == 1
    said = "executed before course_utils/core.py changed: run python course.py build"
    assert capsys.readouterr().out == f"solutions/{STEM}.ipynb: {said}\n"


def test_check_misses_and_orphans(course, no_kernel, capsys):
    source = course / "solutions" / f"{STEM}.py"
    (course / "notebooks" / f"{STEM}.ipynb").rename(course / "notebooks" / "05_gone.ipynb")
    (course / "solutions" / f"{STEM}.ipynb").write_text("{}")
    assert build(course, "--check") == 1
    assert [line.split(": ")[:2] for line in sorted(capsys.readouterr().out.splitlines())] == [
        ["notebooks/01_measuring_memory.ipynb", "is missing"],
        ["notebooks/05_gone.ipynb", "no source gives it"],
        ["solutions/01_measuring_memory.ipynb", "cannot be read (not a notebook"],
    ]
    source.write_text(source.read_text() + "### END SOLUTION\n")
    assert build(course, "--check") == 2
    assert (
        f"solutions/{STEM}.py:{len(SAMPLE.splitlines()) + 1}: `### END" in capsys.readouterr().out
    )


def test_a_name_that_means_no_lesson(course, capsys):
    with pytest.raises(CourseError, match="no lesson '7': there are 01_measuring_memory"):
        build(course, "7")
    (course / "solutions" / f"{STEM}.py").write_bytes(b"# \xff")
    assert build(course, "01") == 2
    assert "cannot be read as UTF-8" in capsys.readouterr().out
