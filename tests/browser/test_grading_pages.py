"""The grader's pages in a browser: nothing that shuts somebody out, no width that a phone does not have, no request."""

import pytest

from course_utils.grading.feedback import write_feedback
from course_utils.grading.finals import Final
from course_utils.grading.records import ExerciseResult, Graded, RowStatus
from course_utils.grading.report import write_report
from course_utils.grading.written import update_sheet
from course_utils.grading.written_page import write_written
from tests.browser.watching import faults, listen

NOTEBOOK = "02_requires_grad"
LOOKS = {"light": (1200, "light"), "dark on a phone": (400, "dark")}
LONG = "def f(x):\n    return " + " + ".join(["a_name_that_is_rather_long"] * 12)


def results(passes: bool) -> dict[str, ExerciseResult]:
    peak = {"value": 12_000_000, "unit": "bytes", "at_most": 8_000_000, "at_least": 1_000_000}
    told = "The peak is 3 activations (12,000,000 bytes (12.00 MB)), and `x.grad` is kept."
    wrong = ("failed", "kept every activation", told, {"peak inside a step": peak})
    return {
        "2.1": ExerciseResult("2.1", "the backward of a matmul", 2, 2, "passed"),
        "2.2": ExerciseResult("2.2", "frozen weights", 0, 4, *(("passed",) if passes else wrong)),
        "2.3": ExerciseResult("2.3", "a tensor used twice", 0, 3, "too slow", flags=("odd",)),
    }


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> list:
    """The report, the answers in words and two pages of feedback."""
    place, answer = (
        tmp_path_factory.mktemp("pages"),
        "*Zeros* say `nothing` of $dW_6$.\n\n- <script>\n- b",
    )
    rows = [
        Graded(
            f"student{k}", NOTEBOOK, RowStatus.PARTLY, results(k % 2 == 0), written={"2.w": answer}
        )
        for k in range(6)
    ]
    rows[0].student, rows[1].student = "=cmd|'calc'!A0" * 5, "x" * 200
    for row in rows[:3]:
        row.sources = {"2.1": LONG * 2, "2.2": LONG}
    rows.append(Graded("cut", NOTEBOOK, RowStatus.UNREADABLE, note="its JSON ends or breaks"))
    sheet = place / "written.csv"
    update_sheet(sheet, rows)
    finals = [Final(row.student, NOTEBOOK, 1.0, 9.0, 2, "2 days late", 2.0, 0.5) for row in rows]
    made = write_feedback(rows, place / "feedback", sheet, finals, {"cut": "Cut Short"})
    report = write_report(place / "report.html", rows)
    return [report, write_written(place / "written.html", rows, sheet), made[1], made[-1]]


@pytest.mark.parametrize("look", LOOKS)
def test_pages_are_sound(chromium, places, look):
    width, scheme = LOOKS[look]
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    heard = listen(page, "")
    for place in places:
        page.goto(place.as_uri())
        for closed in page.query_selector_all("summary"):
            closed.click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        assert faults(page) == [], place
    assert heard.errors == [] and heard.strangers == []
    context.close()
