"""Several attempts: which one counts, and which one a time belongs to."""

import datetime

import pytest

from course_utils.errors import CourseError
from course_utils.grading import telling
from course_utils.grading.attempts import chosen
from course_utils.grading.policy import Policy
from course_utils.grading.times import Time, read_times, with_times, without_row
from tests.test_grading_rows import NOTEBOOK, row

DUE = {NOTEBOOK: datetime.datetime(2026, 5, 4, 23, 59, tzinfo=datetime.UTC)}
LATE = {"free_days": 0.0, "penalty_per_day": 0.2, "last_day": 9.0}
BEST, LAST = (Policy(attempts, due=DUE, late=LATE) for attempts in ("best", "last"))
TEN = "2026-05-07T10:00"  # three days late


def attempt(content: str, origin: str = "", missed=(), **more):
    return row("ames", missed, content_hash=content, origin=origin or f"{content}.zip!x", **more)


def test_an_attempt_in_time_never_pays_for_a_later_one():
    good, late = attempt("first"), attempt("late", missed=("2.1", "2.2"))
    rows, doubtful = with_times([good, late], [Time("ames", "02", "", TEN)])
    assert chosen(rows, BEST) == ([good], []) and not rows[0].handed_in, "13 in time, not 13 late"
    asked = telling.asks([], doubtful, BEST)
    assert [each[:2] for each in asked] == [("ames", NOTEBOOK)] and "Name the `file`" in asked[0][2]
    assert "ames (02)" in telling.asks_told(asked)[0]
    in_time = [Time("ames", "02", "", "2026-05-04T10:00")]
    assert telling.asks([], with_times([good, late], in_time)[1], BEST) == []
    rows, doubtful = with_times([good, late], [Time("ames", "02", "late.zip", TEN)])
    assert [each.handed_in for each in rows] == ["", TEN] and not doubtful
    times = [Time("ames", "02", "late.zip", TEN), Time("ames", "", "", "2026-05-04T10:00")]
    rows, doubtful = with_times([good, late], times)
    assert [each.handed_in for each in rows] == ["2026-05-04T10:00", TEN], "the one that is left"


def test_the_best_is_what_comes_to_most():
    early, better = attempt("a", missed=("2.1",)), attempt("b", handed_in=TEN)
    assert chosen([early, better], BEST)[0] == [early]
    assert chosen([early, better], Policy())[0] == [better], "nothing is late without a due date"


def test_the_last_goes_by_times_then_by_the_platforms_number():
    first, second = attempt("a", handed_in="2026-05-01T10:00"), attempt("b", missed=("2.1",))
    for rows in ([first, second], [second, first]):
        assert chosen(rows, LAST) == ([first], [first]), (
            "one has no time: the best, and a person is asked"
        )
        timed, _ = with_times(rows, [Time("ames", "02", "b.zip", "2026-05-02T10:00+02:00")])
        assert chosen(timed, LAST)[0][0].content_hash == "b" and not chosen(timed, LAST)[1]
    canvas = "submissions{}.zip!ames_5001_{}_02_requires_grad.ipynb".format
    old = attempt("a", canvas("", 90001))
    new = attempt("b", canvas(" (1)", 91001), missed=("2.1",))
    for rows in ([old, new], [new, old]):
        assert chosen(rows, LAST) == ([new], [])
    again = attempt("c", "s.zip!ames_5001_91001_02_requires_grad-1.ipynb", missed=("2.2",))
    assert chosen([again, old, new], LAST) == ([again], [])
    assert chosen([old, new], BEST) == ([old], [])


def test_the_name_of_a_zip_decides_nothing():
    moodle = "CS577 {}.zip!Max Ames_7001_assignsubmission_file_/02_requires_grad.ipynb".format
    good, poor = attempt("a", moodle("a late")), attempt("b", moodle("z first"), missed=("2.1",))
    for rows in ([good, poor], [poor, good]):
        assert chosen(rows, LAST) == ([good], [good])
        assert "ames (02)" in telling.asks_told(telling.asks(chosen(rows, LAST)[1], [], LAST))[0]
    twice = [good, attempt("a", moodle("again"))]
    assert chosen(twice, LAST)[1] == [], "the same content twice is one attempt"


def test_a_table_of_times_names_files(tmp_path):
    table = tmp_path / "handed_in.csv"
    table.write_text(f"student,notebook,file,handed_in\names,02,a.zip,{TEN}\names,02,,{TEN}\n")
    assert [each.file for each in read_times(tmp_path)] == ["a.zip", ""]
    rows = [attempt("a")]
    assert without_row(rows, read_times(tmp_path)) == []
    assert without_row(rows, [Time("ames", "02", "b.zip", TEN), Time("zoe", "", "", TEN)]) == [
        "ames's b.zip",
        "zoe",
    ]
    table.write_text(
        f"student,notebook,handed_in\names,02,{TEN}\names,02_requires_grad,2026-05-01\n"
    )
    with pytest.raises(CourseError, match="ames has two times for 02.*name each attempt's file"):
        read_times(tmp_path)
