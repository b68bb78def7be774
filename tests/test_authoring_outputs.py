"""What may be stored as an output, and what an output depends on. Nothing is executed here."""

from dataclasses import replace
from pathlib import Path

import pytest

from course_utils.authoring import execute as execution
from course_utils.authoring.files import ROOT
from course_utils.authoring.fingerprint import LISTING, changed, fingerprint
from course_utils.authoring.pictures import pictures
from course_utils.checks.core import Exercise
from course_utils.errors import CourseError
from course_utils.site.running import package_hash
from tests.test_authoring import read


def output(text, kind="text/plain"):
    return {"output_type": "display_data", "data": {kind: text}, "metadata": {}}


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (output("/home/ada/course"), "(/home/ada/course)"),
        (output("see '/home/ada/course/x.py'", "text/html"), "(/home/ada/course)"),
        (output("<svg>/home/ada</svg>", "image/svg+xml"), "(/home/ada)"),
        ({"output_type": "stream", "name": "stderr", "text": "/home/ada/.x"}, "(/home/ada)"),
        (output("x" * 1_000_001, "image/png"), "1.0 MB"),
        ({"output_type": "error", "ename": "ValueError", "evalue": "a\nb"}, "ValueError: a / b"),
        (output("/home/adam /srv/home/ada/x https://a.b/home/ada_lovelace"), None),
        (output("/home/ada", "image/png"), None),
        (output("x" * 900_000, "image/png"), None),
    ],
)
def test_outputs_that_are_refused(monkeypatch, made, reason):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    private = execution.private_places(Path("/home/ada/course"), Path("/var/tmp/state"))
    said = execution.refused(made, private)
    assert said is None if reason is None else reason in said


def test_the_kernels_random_file_names_are_cleaned():
    text = "/var/tmp/ipykernel_123/4567.py:3: RuntimeWarning: overflow\n  x = 1"
    made = execution.cleaned({"output_type": "stream", "name": "stderr", "text": text})
    assert made["text"] == "<cell>:3: RuntimeWarning: overflow\n  x = 1"


def test_a_fingerprint_reaches_what_is_imported_and_no_more(tmp_path):
    modules = {
        "__init__.py": '_HOME: dict = {"check": "course_utils.checks.core", "x": "no"}',
        "checks/__init__.py": "def f():\n    from ..errors import CourseError",
        "checks/core.py": "from . import tools\nfrom ..cli import lab",
        "checks/tools.py": 'STYLE = "course.mplstyle"',
        "checks/course.mplstyle": "",
        "checks/one.py": "def run():\n    import course_utils.deep.down.flash, course_utils.ag",
        "deep/__init__.py": "",
        "deep/down/__init__.py": "",
        "deep/down/flash.py": "",
        "ag.py": "import numpy",
        "no.py": "",
        "errors.py": "",
        "plots.py": "",
        "cli/__init__.py": "",
        "cli/lab.py": "",
    }
    for name, text in modules.items():
        path = tmp_path / "course_utils" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    lesson = read('# %%\nfrom course_utils import check\ncheck("1.1", f)\n')
    lesson.path = tmp_path / "solutions" / "01_x.py"
    lesson.path.parent.mkdir()
    lesson.path.write_text("")

    def find(_):
        return type("Exercise", (), {"module": "course_utils.checks.one"})

    def found():
        return fingerprint(lesson, tmp_path, find)

    first = found()
    assert set(first) == {"solutions/01_x.py"} | {
        f"course_utils/{name}"
        for name in modules
        if name not in ("no.py", "plots.py", "cli/__init__.py", "cli/lab.py")
    }
    (tmp_path / "course_utils" / "checks" / "core.py").write_bytes(
        b"from . import tools\r\nfrom ..cli import lab"
    )
    assert changed(first, found()) == []
    (tmp_path / "course_utils" / "ag.py").write_text("import numpy as np")
    (tmp_path / "course_utils" / "errors.py").unlink()
    assert changed(first, found()) == ["course_utils/ag.py", "course_utils/errors.py"]


def test_a_lesson_that_shows_progress_depends_on_what_is_listed_not_on_how_it_is_judged(tmp_path):
    lesson = read("# %%\nfrom course_utils import progress\nprogress()\n")
    lesson.path = tmp_path / "01_x.py"
    lesson.path.write_text("")
    one = Exercise("1.1", "payload", 2, None, None, None)

    def found(*exercises):
        return fingerprint(lesson, tmp_path, list_exercises=lambda: list(exercises))

    assert changed(found(one), found(replace(one, judge=len))) == []
    for other in (replace(one, points=3), replace(one, title="bytes"), replace(one, optional=True)):
        assert changed(found(one), found(other)) == [LISTING]
    assert changed(found(one), found(one, one)) == [LISTING]


def test_new_measurements_make_their_lessons_run_again(tmp_path):
    """gpu.json lies beside the package; a lesson and its page show what is in it."""
    for folder in ("course_utils", "benchmarks"):
        (tmp_path / folder).mkdir()
    for module in ("__init__", "recorded", "ag"):
        (tmp_path / "course_utils" / f"{module}.py").write_text("")
    marks = []
    for content in ("{}", '{"seconds": 1}'):
        (tmp_path / "benchmarks" / "gpu.json").write_text(content)
        lessons = [read(f"# %%\nimport course_utils.{name}\n") for name in ("recorded", "ag")]
        for lesson in lessons:
            lesson.path = tmp_path / "course_utils" / "__init__.py"
        marks.append(
            [fingerprint(lesson, tmp_path) for lesson in lessons] + [package_hash(tmp_path)]
        )
    (shows, does_not, page), (shows_new, does_not_new, page_new) = marks
    assert changed(shows, shows_new) == ["benchmarks/gpu.json"]
    assert does_not == does_not_new and page != page_new


def test_the_fingerprint_of_this_course_sees_through_its_lazy_names():
    lesson = read("# %%\nfrom course_utils import check\n")
    lesson.path = ROOT / "course_utils" / "errors.py"
    assert {"course_utils/__init__.py", "course_utils/checks/core.py"} <= set(
        fingerprint(lesson, ROOT)
    )


def test_a_cell_marked_picture_leaves_its_figure(tmp_path):
    shown = {"data": {"text/html": '<img alt="x" src="data:image/png;base64,iVBORw==">'}}
    cell = {"metadata": {"picture": "memory"}, "outputs": [shown]}
    other = {"metadata": {}, "outputs": [shown]}
    found = pictures({"cells": [other, cell]}, tmp_path)
    assert found == {tmp_path / "docs" / "memory.png": b"\x89PNG"}
    with pytest.raises(CourseError, match="picture='memory'"):
        pictures({"cells": [cell | {"outputs": []}]}, tmp_path)
