"""The site's pages, made from notebooks that were run beforehand: no kernel, no browser."""

import json
import re
import struct
import zlib
from base64 import b64encode
from pathlib import Path
from xml.etree import ElementTree

import pytest

from course_utils.checks import predictions
from course_utils.cli import ROOT
from course_utils.cli import site as command
from course_utils.errors import CourseError
from course_utils.site import build, cells, mathematics, outline, running
from course_utils.widgets import base

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def markdown(text: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def code(text: str, *outputs: dict, **course) -> dict:
    metadata = {"course": course} if course else {}
    return {"cell_type": "code", "metadata": metadata, "source": text, "outputs": list(outputs)}


def shown(**data) -> dict:
    kinds = {
        "html": "text/html",
        "plain": "text/plain",
        "latex": "text/latex",
        "record": base.RECORD,
    }
    return {
        "output_type": "display_data",
        "data": {kinds[kind]: text for kind, text in data.items()},
    }


def page_of(*made: dict) -> tuple[str, cells.Page]:
    page = cells.Page()
    return cells.cells_html({"cells": list(made)}, page), page


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


# ---------------------------------------------------------------- mathematics


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_formula_of_the_course_can_be_set(path) -> None:
    """`prose` raises for one that cannot, and no dollar is left over outside of code."""
    notebook = json.loads(path.read_text("utf-8"))
    texts = [
        "".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"
    ]
    html = "".join(cells.prose(text, cells.Page()) for text in texts)
    formulas = re.findall(r"<math\b.*?</math>", html, re.S)
    for formula in formulas:
        ElementTree.fromstring(formula)
        assert "\\" not in formula
    assert len(formulas) > 3
    assert "$" not in re.sub(r"<(pre|code)\b.*?</\1>", "", html, flags=re.S)


@pytest.mark.parametrize(
    ("tex", "holds"),
    [
        (r"\Big\lceil x \Big\rceil", ">⌈</mo>"),
        (r"\text{block\_q}", "<mtext>block_q</mtext>"),
        (r"m = -\infty", '<mo form="prefix">−</mo><mi>∞</mi>'),
        (r"a - b", "<mi>a</mi><mo>−</mo><mi>b</mi>"),
        (r"(a) - b", ")</mo><mo>−</mo>"),
        (r"\mathrm{softmax}(S)", "<mtext>softmax</mtext>"),
        (r"\log \ell", '<mi>log</mi><mspace width="0.167em" /><mi>ℓ</mi>'),
        (r"\exp(x)", "<mi>exp</mi><mo"),
        (r"m\log x", '<mi>m</mi><mspace width="0.167em" /><mi>log</mi><mspace'),
        (r"\max_j s_j", "<munder><mo movablelimits="),
    ],
)
def test_formulas_are_mended(tex, holds) -> None:
    assert holds in mathematics.to_mathml(tex, display=True)


@pytest.mark.parametrize("tex", [r"\undefinedthing x", r"\Big\lVert x", r"x_1_2"])
def test_a_formula_that_is_not_understood_is_refused(tex) -> None:
    with pytest.raises(CourseError, match="cannot be set"):
        mathematics.to_mathml(tex, display=False)


def test_the_font_has_what_formulas_show() -> None:
    from io import BytesIO

    from fontTools.ttLib import TTFont

    made = mathematics.math_font({"x", "h", "∑"})
    assert made == mathematics.math_font({"∑", "h", "x"}) and len(made) < 100_000
    font = TTFont(BytesIO(made))
    assert {ord(c) for c in "x∑√ℎ"} | {0x1D465} <= set(font.getBestCmap())
    assert "MATH" in font and "Open Font License" in font["name"].getDebugName(13)


# ---------------------------------------------------------------- cells


def test_checks_open_predictions_and_progress_show_no_output() -> None:
    html, _ = page_of(
        code("progress()", shown(html="<table>not attempted</table>")),
        code('check("1.1", f)', shown(html="<b>not attempted</b>"), role="check", exercise="1.1"),
        code('predict("1.a", ...)', shown(html="<b>is open</b>"), role="predict", exercise="1.a"),
        code("print(1)", {"output_type": "stream", "name": "stdout", "text": "1 < 2\n"}),
    )
    assert "not attempted" not in html and "is open" not in html
    assert '<pre class="output wide" role="group" aria-label="Output">1 &lt; 2</pre>' in html


def test_what_needs_a_kernel_is_told_in_words_that_are_true_on_a_page(
    monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("COURSE_STATE", str(tmp_path))
    told: list[str] = []
    monkeypatch.setattr(predictions, "_say", told.append)
    predictions.measured("9.a", 112)
    with predictions.needs("9.1", "9.2"):
        raise NotImplementedError
    html, _ = page_of(
        *(code("run()", shown(plain=text, html=f"<em>{text}</em>")) for text in told),
        code("print()", shown(plain="Measured: 112.")),
    )
    assert "<details><summary>What was measured</summary>112</details>" in html
    assert "What your own answer to exercise 9.1 and 9.2 does stands here in the notebook." in html
    assert "none made" not in html and "Solve exercise" not in html
    assert "Measured: 112." in html


def test_pictures_become_files_with_their_size() -> None:
    data = b64encode(png(800, 30)).decode()
    image = f'<img style="max-width: 100%" alt="a &amp; b" src="data:image/png;base64,{data}">'
    html, page = page_of(code("plot()", shown(html=image)), code("plot()", shown(html=image)))
    ((name, content),) = page.files.items()
    assert content == png(800, 30)
    assert html.count(f'src="{name}" width="800" height="30" alt="a &amp; b"') == 2
    assert "base64" not in html and "style" not in html


def test_a_widget_leaves_its_data_and_nothing_can_end_them() -> None:
    record = {"script": "online_softmax", "data": {"a": "</script><b>"}, "state": {"step": 2}}
    html, page = page_of(code("show()", shown(html="<div>stead</div>"), shown(record=record)))
    assert page.widgets == ["online_softmax"]
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert json.loads(data) == {"step": 2, "data": {"a": "</script><b>"}}
    # the script looks for the figure right before its own place
    assert re.search(
        r'<div class="output wide"><div>stead</div></div>\n<div class="course-widget-slot"', html
    )


def test_show_gives_the_site_data_in_place_of_a_widget(monkeypatch) -> None:
    from course_utils.widgets.softmax import step_through_softmax

    displayed = []
    monkeypatch.setattr(base, "display", lambda bundle, **_: displayed.append(bundle))
    monkeypatch.setenv("COURSE_SITE", "1")
    step_through_softmax()
    figure, record = displayed
    assert "data-course-fallback" in figure["text/html"]
    assert json.loads(json.dumps(record))[base.RECORD]["script"] == "online_softmax"


def test_headings_are_anchors_and_no_two_alike() -> None:
    html, page = page_of(markdown("## Who `reads`?\n\n### Less\n"), markdown("## Who reads\n"))
    assert page.sections == [("who-reads", "Who <code>reads</code>?"), ("who-reads-2", "Who reads")]
    assert '<h3 id="less">' in html


def test_prose_keeps_details_tables_and_displayed_formulas() -> None:
    html, _ = page_of(markdown("<details><summary>Hint</summary>\n\nTry $x^2$.\n</details>\n"))
    assert html.startswith("<details><summary>Hint</summary>") and "<msup>" in html
    html, _ = page_of(markdown("| a | b |\n|---|---|\n| 1 | 2 |\n"))
    assert html.startswith('<div class="wide"><table>') and html.rstrip().endswith("</table></div>")
    html, _ = page_of(markdown("so $$x$$ it is\n"))
    assert '<span class="math block wide">' in html and "<div" not in html


def test_an_empty_head_is_a_cell_and_a_formula_keeps_its_comma() -> None:
    html, _ = page_of(markdown("| | b |\n|---|---|\n| 1 | 2 |\n\nIt is $-\\infty$, and $x$ is.\n"))
    assert html.count("<th>") == 1 and "<td></td>" in html and '<th scope="row">1</th>' in html
    assert '</math></span>,</span> and <span class="math inline">' in html
    heads = '<table><tr><th scope="col" style="a"></th><th scope="col">b</th></tr></table>'
    html, _ = page_of(code("f()", shown(html=heads)))
    assert '<td style="a"></td><th scope="col">b</th>' in html


def test_heads_that_are_all_empty_are_left_out_and_others_name_columns_alone() -> None:
    html, _ = page_of(markdown("| | |\n|---|---|\n| 1 | 2 |\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"))
    first, second = html.split("</table>")[:2]
    assert "<thead>" not in first and '<th scope="row">1</th>' in first
    assert second.count("<th>") == 2 and "scope" not in second


def test_source_that_a_cell_shows_is_coloured_as_code() -> None:
    html, _ = page_of(
        code("f()", shown(html="<style>pre {}</style>", latex="x", plain="def f(): 1"))
    )
    assert (
        html.count("<pre") == 2
        and 'aria-label="Source of f"' in html
        and "<style>" not in html
        and '<span class="k">def</span>' in html
    )


# ---------------------------------------------------------------- lessons and files


def test_a_lesson_describes_itself() -> None:
    check = {"role": "check", "exercise": "2.1", "title": "t", "points": 3, "minutes": 9}
    extra = check | {"exercise": "2.2", "points": 4, "optional": True}
    opening = "# 02 A `title`: more\n\nFirst\nparagraph.\n\nCore: one exercise, 3 points, about 90 minutes."
    notebook = {"cells": [markdown(opening), code("c", **check), code("c", **extra)]}
    lesson = outline.lesson("02_a", notebook, {})
    assert (lesson.number, lesson.title, lesson.promise) == (
        "02",
        "A `title`: more",
        "First paragraph.",
    )
    assert (lesson.minutes, lesson.points, len(lesson.exercises)) == (90, 3, 2)
    assert outline.lesson("02_a", notebook, {"02_a": "Do it."}).promise == "Do it."


def test_the_readme_promises_something_for_every_lesson() -> None:
    promised = outline.promises((ROOT / "README.md").read_text("utf-8"))
    assert set(promised) == {path.stem for path in LESSONS}


@pytest.fixture(scope="module")
def unrun() -> dict[str, bytes]:
    """The site of the course's own notebooks, without outputs."""
    return build.site_files(LESSONS, [build_notebook(path) for path in LESSONS], build.readme(ROOT))


def build_notebook(path: Path) -> dict:
    from course_utils.authoring.files import stored_notebook

    return stored_notebook(path)


def test_all_links_lead_somewhere_in_the_site(unrun) -> None:
    for name, content in unrun.items():
        if not name.endswith(".html"):
            continue
        text = content.decode()
        ids = set(re.findall(r'\bid="([^"]+)"', text))
        for address in re.findall(r'\b(?:href|src)="([^"]+)"', text):
            assert address == "data:," or address.removeprefix("#") in ids or address in unrun, (
                address
            )
    styles = unrun["site.css"].decode() + unrun["widgets.css"].decode()
    assert set(re.findall(r'url\("?([^")]+)', styles)) <= set(unrun)
    assert not re.search(r"https?://(?!www\.w3\.org)", styles + unrun["site.js"].decode())


def test_the_same_notebooks_give_the_same_site(unrun) -> None:
    again = build.site_files(LESSONS, [build_notebook(p) for p in LESSONS], build.readme(ROOT))
    assert again == unrun


@pytest.mark.parametrize("name", base.SCRIPTS)
def test_a_widgets_script_is_small_and_runs_as_a_plain_script(name) -> None:
    assert len(base.script(name).encode()) < 30_000
    text = build.plain_script(name)
    assert f'["{name}"] = render;' in text and "export" not in text


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path, capsys) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    for out in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(CourseError, match="name a"):
            command.main(["--out", str(out)])
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_an_older_site_is_replaced_whole(tmp_path) -> None:
    out, page = tmp_path / "deep" / "site", f"<meta {build.MARK}>".encode()
    build.write(out, {"index.html": page, "09_gone.html": page, "images/x.png": b"1"})
    build.refuse_foreign(out)
    build.write(out, {"index.html": b"2"})
    assert [path.name for path in out.rglob("*")] == ["index.html"]
    assert list(out.parent.iterdir()) == [out]


def test_what_lies_beside_an_older_site_stays(tmp_path) -> None:
    out, page = tmp_path / "site", f"<meta {build.MARK}>".encode()
    build.write(out, {"index.html": page, "site.css": b"1"})
    (out / ".git").mkdir()
    (out / ".git" / "HEAD").write_text("ref")
    (out / "CNAME").write_text("name")
    (out / "own.html").write_text("mine")
    build.write(out, {"index.html": page + b"2"})
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert found == [".git/HEAD", "CNAME", "index.html", "own.html"]
    assert (out / "index.html").read_bytes() == page + b"2"


def test_what_cannot_be_written_is_told(tmp_path) -> None:
    out = tmp_path / "site"
    build.write(out, {"index.html": b"1"})
    with pytest.raises(CourseError, match="cannot write"):
        build.write(out / "index.html" / "site", {"index.html": b"2"})


# ---------------------------------------------------------------- running


@pytest.fixture
def course(tmp_path, monkeypatch) -> Path:
    """A course of one notebook, whose runs are counted and not made."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "course_utils" / "cli").mkdir(parents=True)
    (tmp_path / "course_utils" / "ag.py").write_text("1")
    cell = code("1") | {"execution_count": None, "id": "a"}
    notebook = {
        "cells": [markdown("# 00 A"), cell],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (tmp_path / "notebooks" / "00_a.ipynb").write_text(json.dumps(notebook))
    outputs = [[{"output_type": "stream", "name": "stdout", "text": "ran"}]]
    monkeypatch.setattr(running, "outputs_of", lambda path, root: runs.append(path) or outputs)
    runs = []
    monkeypatch.setattr(running, "runs", runs, raising=False)
    return tmp_path


def test_a_notebook_runs_again_only_when_something_changed(course) -> None:
    def site(**options) -> int:
        before = len(running.runs)
        files = build.build(course / "out", course, say=lambda line: None, **options)
        assert b">ran</pre>" in files["00_a.html"]
        return len(running.runs) - before

    assert [site(), site(), site(fresh=True)] == [1, 0, 1]
    (course / "course_utils" / "widgets" / "js").mkdir(parents=True)
    for unread in ("cli/lab.py", "widgets/js/base.js"):
        (course / "course_utils" / unread).write_text("no lesson runs this")
    assert site() == 0
    (course / "course_utils" / "ag.py").write_text("2")
    assert site() == 1
    (course / "build" / "site" / "00_a.json").write_text("{half")
    assert site() == 1


def test_what_does_not_run_is_one_line(tmp_path) -> None:
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    cell = code("1 / 0") | {"execution_count": None, "id": "a"}
    path = tmp_path / "00_a.ipynb"
    path.write_text(json.dumps(notebook | {"cells": [cell]}))
    with pytest.raises(CourseError, match="00_a.ipynb does not run unsolved: .*division by zero"):
        running.outputs_of(path, ROOT)
    with pytest.raises(CourseError, match="there are no notebooks"):
        build.build(tmp_path / "out", tmp_path)
