"""Answers in words: shown, and given points that no later run touches."""

import csv
import io
import json
import time

import pytest

from course_utils.authoring.student import YOUR_WORDS
from course_utils.errors import CourseError
from course_utils.grading.records import Graded, RowStatus
from course_utils.grading.written import (
    CHANGED,
    STRANGER,
    given_points,
    points_of,
    questions,
    read_sheet,
    update_sheet,
)
from course_utils.grading.written_page import NOT_CHECKED, write_written
from tests.test_grading_feedback import EVIL, harmless

NOTEBOOK = "02_requires_grad"


def row(student, answer, notebook=NOTEBOOK):
    return Graded(student, notebook, RowStatus.GRADED, written={"2.w": answer})


def fill(path, student, points, comment=""):
    """What a person does in a spreadsheet."""
    rows = read_sheet(path)
    for each in rows:
        if each["student"] == student:
            each["points"], each["comment"] = points, comment
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8-sig", newline="")


@pytest.fixture
def sheet(tmp_path):
    path = tmp_path / "written.csv"
    update_sheet(path, [row("ada", 'A view,\n"really".'), row("bob", "No idea.")])
    return path


def test_the_table_has_a_row_an_answer(sheet):
    rows = read_sheet(sheet)
    assert [(r["student"], r["question"], r["points"]) for r in rows] == [
        ("ada", "2.w", ""), ("bob", "2.w", ""),
    ]  # fmt: skip
    assert rows[0]["answer"] == 'A view,\n"really".'
    assert sheet.read_text("utf-8-sig").startswith("student,notebook,question,points,comment,")


def test_a_later_run_keeps_points_and_comments(sheet):
    fill(sheet, "ada", "1,5", "Good; say more")
    again = [row("ada", 'A view,\r\n"really".  '), row("bob", "An idea."), row("cy", "So.")]
    assert update_sheet(sheet, again) == 2
    ada, bob, cy = read_sheet(sheet)
    assert (ada["points"], ada["comment"], ada["note"]) == ("1,5", "Good; say more", "")
    assert (bob["answer"], cy["answer"]) == ("An idea.", "So.")
    assert points_of(given_points(sheet), "ada", NOTEBOOK) == {"2.w": (1.5, "Good; say more")}
    assert points_of(given_points(sheet), "bob", NOTEBOOK) == {}
    before = sheet.read_bytes()
    update_sheet(sheet, again)
    assert sheet.read_bytes() == before


def test_an_answer_that_changed_after_its_points_says_so(sheet):
    fill(sheet, "ada", "2")
    update_sheet(sheet, [row("ada", "Something else."), row("bob", "No idea.")])
    assert [(r["points"], r["note"]) for r in read_sheet(sheet)] == [("2", CHANGED), ("", "")]


def test_points_without_their_submission_are_kept_and_noted(sheet):
    fill(sheet, "ada", "2")
    update_sheet(sheet, [row("bob", "No idea.")])
    assert [(r["points"], r["note"]) for r in read_sheet(sheet)] == [("2", STRANGER), ("", "")]
    update_sheet(sheet, [row("ada", 'A view, "really".'), row("bob", "No idea.")])
    assert read_sheet(sheet)[0]["note"] == ""
    update_sheet(sheet, [row("bob", "x", notebook="03_rematerialization")])
    assert read_sheet(sheet)[0]["note"] == "", "another notebook's run says nothing of this one"


def test_a_row_that_nobody_filled_in_goes_with_its_submission(sheet):
    fill(sheet, "ada", "", "look again")
    update_sheet(sheet, [row("cy", "So.")])
    assert [(r["student"], r["note"]) for r in read_sheet(sheet)] == [("ada", STRANGER), ("cy", "")]


def test_points_follow_a_student_who_has_a_name_now(sheet):
    """A roster that is added later gives names: what was filled in comes along, and no row is left twice."""
    fill(sheet, "ada", "2", "good")
    update_sheet(sheet, [row("bob", "No idea.")], lambda name: name.replace("ada", "Ada"))
    again = [row("Ada", 'A view, "really".'), row("=b", "No idea.")]
    update_sheet(sheet, again, lambda name: {"ada": "Ada", "bob": "=b"}.get(name, name))
    assert [(r["student"], r["points"], r["comment"], r["note"]) for r in read_sheet(sheet)] == [
        ("'=b", "", "", ""), ("Ada", "2", "good", ""),
    ]  # fmt: skip
    update_sheet(sheet, [*again, row("Carol", "Mine.")])
    fill(sheet, "Carol", "3")
    update_sheet(sheet, again, lambda name: name.replace("Carol", "Ada"))
    assert [(r["student"], r["points"]) for r in read_sheet(sheet)] == [
        ("'=b", ""), ("Ada", "2"), ("Carol", "3"),
    ]  # fmt: skip


def test_no_more_points_than_the_policy_gives(sheet):
    fill(sheet, "bob", "2,5")
    assert given_points(sheet, {"2.w": 2.5, "2.1": 1.0})
    with pytest.raises(CourseError, match="bob 2.w: 2.5 points, and the policy gives 2"):
        given_points(sheet, {"2.w": 2})


def test_nothing_written_leaves_no_table(tmp_path):
    empty = [row("ada", YOUR_WORDS), row("bob", "  \n")]
    assert update_sheet(tmp_path / "written.csv", empty) == 0
    assert not (tmp_path / "written.csv").exists()
    page = write_written(tmp_path / "written.html", empty, tmp_path / "written.csv")
    assert "No answers in words" in harmless(page.read_text("utf-8")).text


def test_a_cell_is_no_formula(tmp_path):
    path = tmp_path / "written.csv"
    update_sheet(path, [row("=cmd|' /C calc'!A0", "=1+1"), row("-x", "@SUM(A1)\ud800")])
    cells = [
        cell for line in csv.reader(path.open(encoding="utf-8-sig", newline="")) for cell in line
    ]
    assert cells and not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    fill(path, "'=cmd|' /C calc'!A0", "3")
    assert points_of(given_points(path), "=cmd|' /C calc'!A0", NOTEBOOK) == {"2.w": (3.0, "")}
    before = path.read_bytes()
    update_sheet(path, [row("=cmd|' /C calc'!A0", "=1+1"), row("-x", "@SUM(A1)\ud800")])
    assert path.read_bytes().replace(b"\r\n", b"\n") == before.replace(b"\r\n", b"\n")


@pytest.mark.parametrize("points", ["two", "-1", "inf", "nan", "1e999"])
def test_points_that_are_no_points_are_refused(sheet, points):
    fill(sheet, "bob", points)
    with pytest.raises(CourseError, match="bob 2.w"):
        given_points(sheet)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe\x00", "UTF-8"),
        (b"name,points\na,1\n", "no column student"),
        (b"student,notebook,question,points\na,b,c,1\na,b,c,2\n", "a b c stands there twice"),
    ],
)
def test_a_table_that_is_none_is_left_as_it_is(sheet, content, words):
    sheet.write_bytes(content)
    with pytest.raises(CourseError, match=words):
        update_sheet(sheet, [row("ada", "x")])
    assert sheet.read_bytes() == content


def test_semicolons_are_understood(sheet):
    sheet.write_text("student;notebook;question;points\nada;02_requires_grad;2.w;2,5\n")
    assert given_points(sheet) == {("ada", NOTEBOOK): {"2.w": (2.5, "")}}


def test_answers_stand_side_by_side_below_their_question(sheet, tmp_path):
    cells = [
        {"cell_type": "markdown", "source": "### In your own words 2.w\n\nWhy `so`?\n\n" + NOT_CHECKED, "metadata": {}},
        {"cell_type": "markdown", "source": YOUR_WORDS, "metadata": {"course": {"role": "written", "exercise": "2.w"}}},
    ]  # fmt: skip
    (tmp_path / "notebooks").mkdir()
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notebooks" / f"{NOTEBOOK}.ipynb").write_text(json.dumps(notebook))
    (tmp_path / "solutions").mkdir()
    cells[1]["source"] = "It is a *view*."
    (tmp_path / "solutions" / f"{NOTEBOOK}.ipynb").write_text(json.dumps(notebook))
    assert list(questions(NOTEBOOK, tmp_path)) == ["2.w"]
    fill(sheet, "ada", "2")
    rows = [row("ada", "A view."), row("bob", "A  view."), row(EVIL, EVIL)]
    page = harmless(
        write_written(tmp_path / "w.html", rows, sheet, tmp_path).read_text(encoding="utf-8")
    )
    assert "Why so?" in page.text and "3 answers." in page.text
    assert "No check reads" not in page.text
    assert "What the course would acceptIt is a view." in page.text
    assert "2 points; 1 more with the same words" in page.text and "no points yet" in page.text


def test_the_lessons_ask_a_question_each():
    asked = {notebook[:2]: questions(notebook) for notebook in ("01_measuring_memory",)}
    assert "table" in asked["01"]["1.w"]


def test_no_formula_begins_after_a_semicolon_either(tmp_path):
    path = tmp_path / "written.csv"
    update_sheet(path, [row("eve", "words ;=HYPERLINK(A1)\n@x\n- a point; and-so")])
    (found,) = read_sheet(path)
    assert found["answer"] == "words ;'=HYPERLINK(A1)\n'@x\n- a point; and-so"
    fill(path, "eve", "1")
    update_sheet(path, [row("eve", "words ;=HYPERLINK(A1)\n@x\n- a point; and-so")])
    assert read_sheet(path)[0]["note"] == ""


def test_thousands_of_answers_in_words_are_quick(tmp_path):
    """In seconds: a table that was searched for each of its rows would take minutes."""
    graded = [
        Graded(f"s{k}", NOTEBOOK, RowStatus.GRADED, written={f"2.{k}": "x"}) for k in range(3000)
    ]
    start = time.process_time()
    for _ in range(2):  # the second run meets the first one's table
        update_sheet(tmp_path / "written.csv", graded)
        write_written(tmp_path / "written.html", graded, tmp_path / "written.csv")
    assert time.process_time() - start < 10  # 0.3 s seen
    assert len(read_sheet(tmp_path / "written.csv")) == 3000
    assert (tmp_path / "written.html").read_text("utf-8").count("<h3>") == 3000
