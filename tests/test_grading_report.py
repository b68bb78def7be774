"""The class report: what it counts, and whom it shows."""

from course_utils.grading.records import Ending, ExerciseResult, Graded, RowStatus
from course_utils.grading.report import reasons, report_page, write_report
from course_utils.grading.similar import Pair
from tests.test_grading_feedback import EVIL, harmless

NOTEBOOK = "02_requires_grad"


def result(status="passed", exercise="2.1", **more):
    points = 2 if status == "passed" else 0
    return ExerciseResult(exercise, "a title", points, 2, status, **more)


def row(student, *results, status=RowStatus.GRADED, **more):
    found = {each.exercise: each for each in results}
    return Graded(student, NOTEBOOK, status, found, **more)


def text(rows, pairs=()):
    return harmless(report_page(list(rows), list(pairs))).text


def test_pass_rates_and_causes():
    wrong = [
        result("failed", cause="kept the gradient", diagnosis=f"It kept `{n}`.") for n in "aab"
    ]
    wrong += [result("failed", cause="wrong shape", diagnosis="Shape."), result("not attempted")]
    told = text([row("s1", result()), *(row(f"w{k}", r) for k, r in enumerate(wrong))])
    assert "Submissions: 6." in told and "2.1 - a title: 17 % passed" in told
    assert "1 passed, 4 failed, 1 not attempted" in told
    assert told.index("kept the gradient") < told.index("wrong shape")
    assert "It kept a." in told and "It kept b." not in told


def test_totals_are_of_the_core():
    rows = [row("a", result(), result("failed", "2.9", optional=True)), row("b", result("failed"))]
    html = report_page(rows, [])
    assert "median 50 % of the core" in harmless(html).text
    assert "2.9 - a title, optional: 0 % passed" in html


def test_who_needs_a_person_is_named_with_the_reason():
    rows = [
        row("ada", result(flags=("meters disagree",))),
        row("bob", status=RowStatus.GRADER_ERROR, note="KeyError: 'x'"),
        row("cy", status=RowStatus.UNREADABLE, note="no JSON"),
        row("di", result(Ending.TOO_SLOW), status=RowStatus.PARTLY),
        row("ed", status=RowStatus.MISSING),
        row("fay", result()),
    ]
    told = text(rows)
    for words in ("2.1: meters disagree", "not a grade: KeyError", "could not be read: no JSON"):
        assert words in told
    assert "some answers were stopped" in told and "1 on the roster handed in nothing" in told
    assert "fay" not in told and "1 stopped" in told
    assert "No submission was flagged" in text([row("fay", result())])


def test_outliers_in_memory_and_time():
    def measured(value, seconds=0.1):
        peak = {"value": value, "unit": "bytes", "at_most": 10**7}
        return result(measured={"peak": peak}, seconds=seconds)

    rows = [row(f"s{k}", measured(10**6)) for k in range(6)]
    assert "passed, but" not in text(rows)
    told = text([*rows, row("big", measured(5 * 10**6)), row("slow", measured(10**6, 30.0))])
    assert "5,000,000 bytes (5.00 MB)1,000,000 bytes" in told
    assert "time in the sandboxslow30 s1 s" in told


def test_pairs_are_a_hint_and_all_is_harmless():
    evil = result(EVIL, EVIL, cause=EVIL, diagnosis=EVIL, flags=(EVIL,))
    rows, pairs = [row(EVIL, evil, note=EVIL)], [Pair(EVIL, EVIL, (EVIL, EVIL), 0.9, True)]
    html = report_page(rows, pairs, [Pair(EVIL, EVIL, (EVIL,), 1.0, False)], {EVIL: EVIL + "b"})
    told = harmless(html).text
    assert "A hint, not a verdict" in told and "90 %" in told and "the same text" in told
    assert "As in the published solutions" in told
    assert "Submissions: 0." in text([])


def test_the_report_is_a_file_and_comes_out_the_same(tmp_path):
    rows = [row("b", result()), row("a", result("failed", cause="x", diagnosis="y"))]
    path = write_report(tmp_path / "report.html", rows)
    before = path.read_bytes()
    assert write_report(path, rows).read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_late_marks_and_other_names_are_for_a_person():
    told = text([row("ada", result(), note="marked late by the platform"), row("bob", note="odd")])
    assert "adamarked" not in told and "marked late by the platform" in told and "odd" not in told


def test_a_notebook_of_another_lesson_than_its_name_says_is_for_a_person():
    renamed = row("ada", result(), note="named 03.ipynb, but by its content it is 02_requires_grad")
    assert reasons(renamed) == [renamed.note] and reasons(row("bob", result())) == []


def test_people_have_their_names():
    html = report_page([row("ada", result(flags=("odd",)))], [], names={"ada": "Ada Ames"})
    told = harmless(html).text
    assert "Ada Ames (ada)" in told and "02 requires_grad: gradients" in told


def test_who_handed_in_nothing_is_counted_once():
    nothing = [row("ed", status=RowStatus.MISSING), row("ed", status=RowStatus.MISSING)]
    told = text([*nothing, row("ada", result()), row("ada", status=RowStatus.MISSING)])
    assert "Submissions: 1." in told and "1 on the roster handed in nothing" in told


def test_a_text_that_a_class_shares_is_one_line():
    many = tuple(f"s{k:02}" for k in range(16))
    told = text([row(name, result()) for name in many], [Pair(NOTEBOOK, "2.1", many, 1.0, True)])
    assert "16 students" in told and "s15" in told
    few = text([row("ada", result())], [Pair(NOTEBOOK, "2.1", ("ada", "bob"), 1.0, True)])
    assert "ada, bob" in few and "2 students" not in few


def test_what_a_person_must_decide_and_what_holds_of_all_is_in_it():
    asks = [("ada", NOTEBOOK, "nothing tells which was the last")]
    told = harmless(
        report_page([row("ada", result())], [], asks=asks, told=["3 answers wait"])
    ).text
    assert "3 answers wait" in told and "nothing tells which was the last" in told


def test_an_answer_that_failed_with_an_earlier_one_is_for_a_person():
    one, two = result("failed", "2.1"), result("failed", "2.3")
    sources = {"2.3": "def f(x):\n    return matmul_backward(x)"}
    assert reasons(row("ada", one, two, sources=sources)) == [
        "2.3 uses `matmul_backward` (2.1), which did not pass"
    ]
