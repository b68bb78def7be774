"""The student's page: what it says, and what it must never say or do."""

import time
from html.parser import HTMLParser

import pytest

from course_utils.grading import pages, wording
from course_utils.grading.feedback import feedback_page, write_feedback
from course_utils.grading.finals import Final
from course_utils.grading.masking import fit_to_show
from course_utils.grading.records import Ending, ExerciseResult, Graded, RowStatus

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&`</pre></details>\u202egpj.exe\x00"
ALLOWED_TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "span", "strong",
    "section", "details", "summary", "pre", "code", "svg", "rect", "line", "text", "table", "thead",
    "tbody", "tr", "th", "td", "caption", "article", "main", "em", "i", "sub", "sup", "ul", "li",
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
    assert "2 of 2 points by the checks; 0 of 2 points of optional exercises" in page.text
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


def final(points, **more):
    return Final("ada", "02_requires_grad", points, 4.0, **more)


def test_a_page_says_how_its_points_become_the_total():
    row = graded(result(), result("failed", "2.2", 0), result(exercise="2.5", optional=True))
    row.written = {"2.w": "Because."}
    late = final(2.4, days_late=4, why="4 days late", earned=4.0, share=0.6, in_words=2.0)
    told = harmless(feedback_page(row, {"2.w": (2.0, "")}, late)).text
    assert "2.4 of 4 points" in told and "2 of 4 points by the checks" in told
    assert "2 of 2 points of optional exercises, which are for you alone" in told
    assert "2 of 2 for answers in words" in told and "4 days late" in told
    assert "of the 4 points earned, 60 % count" in told
    waiting = harmless(feedback_page(row, {}, final(2.0, counts_optional=True))).text
    assert "an answer in words is not read yet" in waiting and "exercises, a bonus" in waiting
    exempt = harmless(feedback_page(row, {}, final(None, why="exempt"))).text
    assert "does not count for you" in exempt and "4 points by the checks" in exempt
    assert "of 4 points" not in harmless(feedback_page(graded(), {}, final(None))).text


def test_a_page_knows_the_lesson_and_the_roster(tmp_path):
    rows = [graded(result()), graded(result(), student="=x")]
    pair = write_feedback(rows, tmp_path, names={"ada": "Ada <b>", "=x": ""})
    told = [harmless(path.read_text("utf-8")).text for path in pair]
    assert "Feedback on lesson 02 requires_grad: gradients that nobody reads" in told[0]
    assert "Ada <b> (ada)" in told[0] and "=x" in told[1] and "()" not in told[1]


def test_pages_of_an_earlier_run_go_where_their_rows_went(tmp_path):
    def run(*students, notebook="02_requires_grad"):
        rows = [graded(result(), student=name, notebook=notebook) for name in students]
        write_feedback(rows, tmp_path)
        return sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html"))

    run("ada_4711", "bob")
    run("bob", notebook="03_rematerialization")
    (tmp_path / "bob" / "note.html").write_text("mine")
    assert run("ada", "bob") == [
        "ada/02_requires_grad.html",
        "bob/02_requires_grad.html",
        "bob/note.html",
    ]
    assert not (tmp_path / "ada_4711").exists()


def test_what_a_student_can_do_is_said_in_place_of_what_the_reader_found():
    note = "not a notebook: its JSON ends or breaks (Expecting value)"
    told = harmless(feedback_page(graded(status=RowStatus.UNREADABLE, note=note))).text
    assert "save it, and hand it in again" in told and "JSON" not in told


def test_an_import_of_the_checks_is_said_plainly():
    error = "Your code raised ModuleNotFoundError: No module named 'course_utils.checks.chain'"
    assert "answers may not use" in fit_to_show(result("failed", diagnosis=error))


def test_figures_are_easy_to_read():
    exactly = {"value": 3_145_728, "unit": "bytes", "at_least": 3_145_728, "at_most": 3_145_728}
    assert pages.allowed(exactly) == "exactly 3,145,728 bytes (3.15 MB)"
    told = "The peak is 17.1 activations (53,776,144 bytes (53.78 MB))."
    assert "(53,776,144 bytes, 53.78 MB)." in wording.diagnosis(told)


def test_answers_in_words_look_as_they_were_meant():
    answer = "The *zeros* **say** nothing of $dW_6$: `a*b*c` is 2*3*4, for 5$ or $6.\n\n- $\\frac{1}{2} N^{2}$\n- b"
    assert wording.rendered(answer) == (
        "<p>The <em>zeros</em> <strong>say</strong> nothing of "
        '<i class="formula">dW<sub>6</sub></i>: <code>a*b*c</code> is 2*3*4, for 5$ or $6.</p>'
        '<ul><li><i class="formula">1/2 N<sup>2</sup></i></li><li>b</li></ul>'
    )
    for odd in (
        EVIL,
        "`" * 5,
        "$" * 7,
        "*" * 9,
        "**a*",
        "- ",
        "\\",
        "_^{",
        "$_$",
        "\x00" + "1\x00",
    ):
        harmless(pages.page("x", [wording.rendered(odd), wording.rendered(f"${odd}$")]))
    start = time.monotonic()
    for odd in ("*a ", "$a", "`", "\\frac{", "- a\n", "_{"):
        wording.rendered(odd * 4000)
    assert time.monotonic() - start < 2


def test_no_two_students_share_a_folder():
    made = pages.safe_name("=x")
    assert made.startswith("x-") and pages.safe_name(made) != made
    assert pages.safe_name("ada") == "ada" and pages.safe_name("ada-2026") == "ada-2026"


def told_of(row) -> str:
    return harmless(feedback_page(row)).text


def test_an_answer_that_calls_one_without_a_pass_says_where_to_look():
    name = "lazy_add_backward"
    sources = {
        "2.1": "def matmul_backward(x): ...",
        "2.3": f"def {name}(x):\n    matmul_backward(x)",
    }
    rows = [result("failed", "2.1", 0), result("failed", "2.3", 0)]
    both = {each.exercise: each for each in rows}
    told = told_of(Graded("ada", "02_requires_grad", RowStatus.GRADED, both, sources=sources))
    assert "2.3 uses matmul_backward (2.1), which did not pass: look there first" in told
    both["2.3"] = result("not attempted", "2.3", 0)
    told = told_of(Graded("ada", "02_requires_grad", RowStatus.GRADED, both, sources=sources))
    assert "2.3 uses matmul_backward" in told and f"def {name}" in told, "the code is shown"
    both["2.1"] = result("passed", "2.1")
    told = told_of(Graded("ada", "02_requires_grad", RowStatus.GRADED, both, sources=sources))
    assert "look there first" not in told


def test_a_renamed_function_is_not_an_answer_that_is_gone():
    row = graded(result(Ending.NOT_FOUND, "2.1", 0), sources={"2.1": "def my_backward(x): ..."})
    told = told_of(row)
    assert "does not define the name" in told and "No answer to this exercise was found" not in told
    assert "The cell that was found" in told and "answer that was graded" not in told
    assert "No answer to this exercise was found" in told_of(graded(result(Ending.NOT_FOUND)))


def test_a_syntax_error_has_the_line_of_its_cell():
    said = "Your code raised SyntaxError at `else`: expected ':'"
    wrong = result("failed", "2.1", 0, cause="raised an error", diagnosis=said)
    source = "def f(x):\n    if x:\n        pass\n    else\n        pass"
    told = told_of(graded(wrong, sources={"2.1": source}))
    assert "SyntaxError in line 4 of your cell at else: expected ':'" in told


@pytest.mark.parametrize("note", ["no notebook in it: 02_requires_grad.py", "not a notebook"])
def test_who_handed_in_no_notebook_is_told_what_to_hand_in(note):
    told = told_of(Graded("ada", "", RowStatus.UNREADABLE, note=note))
    assert "Hand in the notebook itself: the file that ends in .ipynb" in told
    assert "02_requires_grad.py" in told or note == "not a notebook"
