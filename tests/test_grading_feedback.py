"""The student's page: what it says, and what it must never say or do."""

from html.parser import HTMLParser

import pytest

from course_utils.grading import pages
from course_utils.grading.feedback import feedback_page, fit_to_show, write_feedback
from course_utils.grading.records import Ending, ExerciseResult, Graded, RowStatus

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&`</pre></details>\u202egpj.exe\x00"
ALLOWED_TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "span", "strong",
    "section", "details", "summary", "pre", "code", "svg", "rect", "line", "text", "table", "thead",
    "tbody", "tr", "th", "td", "caption", "article",
}  # fmt: skip
VOID = {"meta", "rect", "line"}


class Page(HTMLParser):
    """Reads a page as a browser does: its tags, attributes, text, and whether all tags close."""

    def __init__(self, html: str):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_data(self, data):
        self.text += data


def harmless(html: str) -> Page:
    """The page, when it holds nothing but our own tags, no handler, and loads nothing."""
    page = Page(html)
    assert not page.open and set(page.tags) <= ALLOWED_TAGS
    for _, name, value in page.attributes:
        assert not name.startswith("on") and name not in ("src", "href", "action", "srcdoc")
        assert "javascript:" not in (value or "")
    assert "default-src 'none'" in html and not pages.UNSEEN.search(html)
    return page


def result(status="passed", exercise="2.1", points=2, **more):
    return ExerciseResult(exercise, "the backward", points, 2, status, **more)


def graded(*results, **more):
    row = {"student": "ada", "notebook": "02_requires_grad", "status": RowStatus.GRADED} | more
    return Graded(results={each.exercise: each for each in results}, **row)


def test_a_page_says_verdict_reason_and_budget():
    measured = {"peak": {"value": 12_000_000, "unit": "bytes", "at_most": 8_000_000}}
    wrong = result("failed", "2.2", 0, diagnosis="It kept `grad`.", measured=measured)
    page = harmless(feedback_page(graded(result(), wrong, checks_version="abc123")))
    assert "2 of 4 points" in page.text and "Exercise 2.2 - the backward: failed" in page.text
    assert "It kept grad." in page.text
    assert "12,000,000 bytes (12.00 MB)" in page.text and "at most 8,000,000" in page.text
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert labels == [
        "peak: 12,000,000 bytes (12.00 MB); allowed: at most 8,000,000 bytes (8.00 MB)"
    ]
    assert ("rect", "class", "bad") in page.attributes and "abc123" in page.text


def test_a_bar_within_its_limits_is_good_and_one_below_the_possible_is_not():
    limits = {"unit": "bytes", "at_least": 100, "at_most": 200}
    assert 'class="good"' in pages.measure_bar("held", {"value": 150} | limits)
    assert 'class="bad"' in pages.measure_bar("held", {"value": 50} | limits)
    for none in (None, float("nan"), float("inf"), "9", True, -1):
        assert pages.measure_bar("held", {"value": none} | limits) == ""
    assert pages.measure_bar("held", {"value": 150, "unit": "bytes"}) == ""
    assert pages.quantity(10**400, "bytes") == "no number"


def test_optional_points_and_words_are_told_apart():
    row = graded(result(), result("failed", "2.5", 0, optional=True), written={"2.w": "Because."})
    page = harmless(feedback_page(row, {"2.w": (1.5, "Which array?")}))
    assert "2 of 2 points, and 0 of 2 points of optional exercises" in page.text
    assert "Question 2.w: 1.5 points" in page.text and "Which array?" in page.text
    assert "not read yet" in harmless(feedback_page(row)).text


@pytest.mark.parametrize("status", list(RowStatus))
def test_every_status_has_a_page(status):
    row = graded(status=status, note="/home/prof/seed.txt: KeyError")
    text = harmless(feedback_page(row)).text
    assert (status is RowStatus.GRADED) or len(text) > 100
    if status is RowStatus.GRADER_ERROR:
        assert "KeyError" not in text and "not your fault" in text


@pytest.mark.parametrize("ending", [each for each in Ending if each is not Ending.COMPLETE])
def test_every_ending_is_explained_and_its_output_is_not_shown(ending):
    text = harmless(feedback_page(graded(result(ending, points=0, diagnosis="seed 4711")))).text
    assert f"the backward: {ending}" in text and "4711" not in text


def test_everything_from_a_student_is_harmless():
    measured = {EVIL: {"value": 3, "unit": EVIL, "at_most": 2}}
    evil = result(EVIL, EVIL, 0, cause=EVIL, diagnosis=EVIL, measured=measured)
    row = graded(evil, student=EVIL, notebook=EVIL, note=EVIL, sources={EVIL: EVIL})
    row.written = {EVIL: EVIL + "\n\n" + EVIL}
    page = harmless(feedback_page(row, {EVIL: (1, EVIL)}))
    assert "alert(1)" in page.text  # shown, as text
    assert len(feedback_page(graded(result(), sources={"2.1": "x" * 10**6}))) < 50_000
    assert "\udcff" not in pages.text("a\udcff") and pages.text("a\udcff").encode()


def test_no_hidden_input_reaches_the_page():
    told = (
        "Your code raised ValueError at `raise ValueError(list(x))`: [0.125, -3.5e-07, nan] 4_711"
    )
    shown = fit_to_show(result("failed", diagnosis=told))
    assert shown.startswith(
        "Your code raised ValueError at `raise ValueError(list(x))`: [#, -#, #]"
    )
    assert "0.125" not in shown and "711" not in shown
    again = f"right the first time. The second time: {told}"
    assert "0.125" not in fit_to_show(result("failed", diagnosis=again))
    assert len(fit_to_show(result("failed", diagnosis=told + "a" * 10**5))) < 400
    page = feedback_page(
        graded(result("failed", diagnosis=told, flags=("patched numpy",)), seed=918273)
    )
    assert "918273" not in page and "patched" not in page
    plain = "Expected 24 bytes, got 48."
    assert fit_to_show(result("failed", diagnosis=plain)) == plain


def test_pages_lie_in_a_folder_for_each_student(tmp_path):
    rows = [
        graded(result(), student=name) for name in ("ada", "../../etc", "a/b", "CON", "Zoë", "..")
    ]
    paths = write_feedback(rows, tmp_path / "feedback")
    assert paths[0] == tmp_path / "feedback" / "ada" / "02_requires_grad.html"
    for path in paths:
        assert path.is_file() and path.resolve().parents[1] == (tmp_path / "feedback").resolve()
    assert len({path.parent.name for path in paths}) == len(rows)
    assert pages.safe_name("Zoë") == pages.safe_name("Zoë") != pages.safe_name("Zoé")
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write_feedback(rows, tmp_path / "feedback")] == before


def test_no_two_students_share_a_folder():
    made = pages.safe_name("=x")
    assert made.startswith("x-") and pages.safe_name(made) != made
    assert pages.safe_name("ada") == "ada" and pages.safe_name("ada-2026") == "ada-2026"
