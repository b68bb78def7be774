"""The students' copy: nothing in it answers an open exercise, and it runs."""

import ast
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from course_utils.cli import ROOT
from course_utils.cli.release import main
from course_utils.errors import CourseError
from course_utils.grading import leaks, pruned
from course_utils.grading.release import (
    FOLDER,
    HELD,
    copy_of,
    named,
    refuse_held,
    release,
    zip_bytes,
)

SPANS = {"00-03": ["00-03"], "00-06": ["00-06"], "all": None}
PRIVATE = (
    "solutions/", "tests/", "work/", ".venv/", ".git/", "course_utils/grading/", "course_utils/bench/",
    "course_utils/cli/grade.py", "course_utils/cli/release.py", "INSTRUCTORS.md",
)  # fmt: skip
SMOKE = """
import ast, json, os, pathlib, re, sys
import course_utils
here = pathlib.Path.cwd()
assert pathlib.Path(course_utils.__file__).is_relative_to(here), course_utils.__file__
for path in sorted(here.glob("notebooks/*.ipynb")):
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            code = re.sub(r"(?m)^(\\s*)[%!].*$", r"\\1pass", "".join(cell["source"]))
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    exec(compile(ast.Module([node], []), path.name, "exec"))
from course_utils.checks import all_exercises
from course_utils.checks.core import judge_answer
def stub(*args, **kwargs):
    raise NotImplementedError
states = {e.id: str(judge_answer(e, stub, 577).status) for e in all_exercises()}
print(json.dumps([states, str(course_utils.progress())]))
"""


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """{span: {path: content}} as they come out of the ZIPs."""
    folder, found = tmp_path_factory.mktemp("release"), {}
    for span, words in SPANS.items():
        out = folder / f"{span}.zip"
        release(out, words)
        with zipfile.ZipFile(out) as archive:
            assert archive.testzip() is None
            found[span] = {
                name.removeprefix(f"{FOLDER}/"): archive.read(name) for name in archive.namelist()
            }
            assert all(name.startswith(f"{FOLDER}/") for name in archive.namelist())
    return found


def texts(copy: dict[str, bytes]) -> str:
    return "\n".join(leaks.plain(name, content) for name, content in sorted(copy.items()))


# what is not in it


@pytest.mark.parametrize("span", SPANS)
def test_nothing_in_a_copy_gives_an_exercise_away(copies, span):
    copy = copies[span]
    assert leaks.leaks(copy, ROOT) == []
    assert not [name for name in copy if name.startswith(PRIVATE)]
    assert "### BEGIN SOLUTION" not in "".join(
        leaks.plain(name, content) for name, content in copy.items() if name.endswith(".ipynb")
    )
    for name, content in copy.items():
        if name.endswith(".ipynb"):
            cells = json.loads(content)["cells"]
            assert not any(cell.get("outputs") for cell in cells)


def test_a_lesson_that_is_not_out_leaves_no_trace(copies):
    early, later = copies["00-03"], copies["00-06"]
    assert [name for name in early if name.startswith("notebooks/")] == [
        f"notebooks/{stem}.ipynb"
        for stem in (
            "00_start_here",
            "01_measuring_memory",
            "02_requires_grad",
            "03_rematerialization",
        )
    ]
    for held in HELD:
        path = f"{held.module.replace('.', '/')}"
        assert not [name for name in early if name.startswith(path)], held
    for topic in ("tiling", "flash_attention", "online_softmax", "optimal_rematerialization"):
        assert not [name for name in early if topic in name]
        assert f"/{topic}" not in early["README.md"].decode()
    assert "def keys_outside_traffic" not in texts(later) and "square_tile" in texts(later)
    assert "def keys_outside_traffic" in texts(copies["all"])
    assert "L12-53" not in texts(early) and "L12-41" in texts(early)


def test_a_widget_of_two_lessons_brings_no_record_of_the_later_one(copies):
    trace = "course_utils/widgets/traces/{}.json".format
    later = copies["00-06"]
    assert trace("flash_attention") not in later and trace("flash_attention") in copies["all"]
    assert {trace("tiled_product"), trace("engines"), trace("checkpoints")} <= later.keys()
    tiles = later["course_utils/widgets/tiles.py"].decode()
    assert "flash_attention" not in tiles and "step_through_flash" not in tiles
    assert "def step_through_product" in tiles and "def tiles_in_motion" in tiles
    assert "def step_through_flash" in copies["all"]["course_utils/widgets/tiles.py"].decode()


def test_what_is_planted_is_found():
    source = next(  # a whole solution, indented otherwise and with a remark in it
        cell.text
        for path in sorted((ROOT / "solutions").glob("02*.py"))
        for cell in leaks.read_lesson(path).cells
        if "def lazy_add_backward" in cell.text
    )
    lines = leaks.bodies(source)[0].split("\n")
    hidden = "\n".join(f"        {line}\n  # so" for line in lines)
    notebook = json.dumps({"cells": [{"cell_type": "markdown", "source": [hidden]}]})
    for path, content in (("course_utils/x.py", hidden), ("notebooks/02.ipynb", notebook)):
        assert leaks.leaks({path: content.encode()}, ROOT) == [f"{path}: the answer to 2.3"]
    words = dict(leaks.secrets(ROOT))["1.w"]
    assert leaks.leaks({"README.md": words.encode()}, ROOT) == ["README.md: the answer to 1.w"]
    answer = "def " + sorted(leaks.answer_names(ROOT))[0] + "(x): pass"
    assert len(leaks.leaks({"a.py": answer.encode(), "solutions/a.md": b""}, ROOT)) == 2


def test_every_secret_is_known_and_each_exception_is_needed():
    known = {which for which, _ in leaks.secrets(ROOT)}
    for lesson in range(1, 8):
        assert f"{lesson}.w" in known
        assert sum(which.startswith(f"{lesson}.") for which in known) >= 4
    secrets = leaks.secrets(ROOT)
    for path, exercise in leaks.ORACLES:
        text = leaks.squeezed((ROOT / path).read_text("utf-8"))
        assert any(which == exercise and secret in text for which, secret in secrets)
    assert len(leaks.answer_names(ROOT)) > 100


def test_a_leak_is_refused_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(leaks, "ORACLES", set())
    with pytest.raises(CourseError, match="give away: .*3.1"):
        release(tmp_path / "a.zip", ["00-03"])
    assert not list(tmp_path.iterdir())


def test_what_is_held_back_can_not_be_dragged_along():
    with pytest.raises(CourseError, match="gives away lesson 04"):
        refuse_held("course_utils.remat.planners", {"00", "03"})
    refuse_held("course_utils.remat.planners", {"04"})
    with pytest.raises(CourseError, match="lesson 08"):
        refuse_held("course_utils.kernels.tiles", {"07"})
    with pytest.raises(CourseError, match="for instructors"):
        refuse_held("course_utils.grading.batch", {"00"})


def test_every_held_part_is_there_to_be_held():
    for held in HELD:
        path = ROOT / held.module.replace(".", "/")
        module = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path
        assert module.exists() and held.reason
        text = module.read_text("utf-8") if held.names else ""
        assert all(f"def {name}(" in text for name in held.names)


# it runs


@pytest.mark.parametrize("span", ["00-03", "all"])
def test_a_copy_runs(copies, span, tmp_path):
    for name, content in copies[span].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    clean = {
        k: v for k, v in os.environ.items() if k not in ("COURSE_STRICT", "NBGRADER_EXECUTION")
    }
    settings = clean | {
        "PYTHONPATH": str(tmp_path), "COURSE_STATE": str(tmp_path / "state"),
        "COURSE_PYTHON": sys.executable, "MPLBACKEND": "agg", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip

    def call(*command, status=0):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=settings, capture_output=True, text=True
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    states, progress = json.loads(call("-c", SMOKE).splitlines()[-1])
    assert set(states.values()) <= {"not attempted", "not verifiable here"} and len(states) >= 14
    assert ("7.2" in states) == (span == "all") and "total" in progress
    if span == "all":
        return
    assert "Python" in call("course.py", "doctor")
    work = tmp_path / "work"
    work.mkdir()
    old = json.loads(copies[span]["notebooks/02_requires_grad.ipynb"])
    old["metadata"]["course"]["version"] = "older"
    (work / "02_requires_grad.ipynb").write_text(json.dumps(old))
    assert "work/02_requires_grad.ipynb: updated" in call("course.py", "update")
    assert "nothing to build" in call("course.py", "build")
    assert "comes without 'grade'" in call("course.py", "grade", "x", status=2)


def test_the_same_course_gives_the_same_bytes(copies):
    chosen = ["00_start_here", "01_measuring_memory"]
    first, second = (zip_bytes(copy_of(chosen, ROOT)) for _ in range(2))
    assert first == second
    entries = zipfile.ZipFile(io.BytesIO(first)).infolist()
    assert [e.filename for e in entries] == sorted(e.filename for e in entries)
    assert {e.date_time for e in entries} == {(1980, 1, 1, 0, 0, 0)}


def test_the_readme_of_a_copy_links_to_what_is_there(copies):
    for copy in copies.values():
        readme = copy["README.md"].decode()
        links = pruned.LINK.findall(readme)
        assert links and all(link in copy for link in links)
        assert "solutions" not in readme and "course.py lab" in readme and "MIT" in readme
        assert not re.search(r"\bclone\b|this page|\bgit\b", readme), (
            "who has a ZIP has no page to clone"
        )
        assert "Unpack the ZIP where" in readme and "hand in a notebook from there" in readme
        assert "course.py site" not in readme and "\nThey follow" not in readme


# the parts


def test_names_are_cut_with_all_that_passes_them_on():
    text = (
        "from a import f, g\nimport math\n\n__all__ = [\n    'f',\n    'g',\n]\n\n\n"
        "@wraps\ndef f(x):\n    return x\n\n\ndef g(x):\n    return math.pi\n"
    )
    left = pruned.cut(text, {"f"})
    assert "def f" not in left and "@wraps" not in left and "def g" in left
    assert left.startswith("from a import g\n") and "__all__ = ['g']" in left
    assert "import" not in pruned.cut("from a import f\n", {"f"})
    with pytest.raises(CourseError, match="f: held back, but used"):
        pruned.cut("def f(): pass\n\n\nx = f()\n", {"f"})


def test_an_import_without_its_module_or_name_is_missing():
    copy = {
        "course_utils/__init__.py": b"def __getattr__(name): ...",
        "course_utils/a.py": b"from course_utils import b, check\nfrom course_utils.b import x, y\n",
        "course_utils/b.py": b"x = 1\ndef f():\n    from course_utils.c import z\n",
    }
    assert pruned.missing_imports(copy) == [
        "course_utils.a imports course_utils.b.y",
        "course_utils.b imports course_utils.c",
    ]


def test_modules_that_are_named_in_strings_come_along():
    tree = ast.parse(
        'import_module("course_utils.tracing")\nimport_module(f"course_utils.attention.{kind}")\n'
        'print("course_utils.", f"{x} course_utils.remat.", "see course_utils.ag")'
    )
    assert set(named(tree, ROOT)) >= {"course_utils.tracing", "course_utils.attention.masks"}
    assert not [name for name in named(tree, ROOT) if "remat" in name or name.endswith("ag")]


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    out = tmp_path / "course.zip"
    assert main(["--out", str(out), "--lessons", "00"]) == 0
    assert "00_start_here. It unpacks to" in capsys.readouterr().out and out.is_file()
    for words in ("99", "three", "", "03-01", "00,99"):
        with pytest.raises(CourseError, match="no lessons"):
            main(["--out", str(out), "--lessons", words])
    with pytest.raises(CourseError, match="is a folder"):
        main(["--out", str(tmp_path), "--lessons", "00"])
    with pytest.raises(CourseError, match="course.py build"):
        release(out, None, Path(tmp_path))
