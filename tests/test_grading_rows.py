"""grades.csv and what is made from rows: exact columns, harmless cells, and what changed since."""

import csv

import pytest

from course_utils.errors import CourseError
from course_utils.grading import attempts, rows
from course_utils.grading.lessons import lessons
from course_utils.grading.policy import Policy
from course_utils.grading.records import ExerciseResult, Graded, RowStatus

NOTEBOOK = "02_requires_grad"
POINTS = {"2.1": 2.0, "2.2": 4.0, "2.3": 3.0, "2.4": 4.0}


def row(student="alice", missed=(), status=RowStatus.GRADED, notebook=NOTEBOOK, **more) -> Graded:
    results = {
        name: ExerciseResult(
            name,
            "title",
            0.0 if name in missed else most,
            most,
            "failed" if name in missed else "passed",
        )
        for name, most in POINTS.items()
    }
    has = status in (RowStatus.GRADED, RowStatus.PARTLY)
    return Graded(
        student, notebook, status, results if has else {}, seed=7, checks_version="abc", **more
    )


def table(tmp_path, graded, **options) -> list[list[str]]:
    rows.write_csv(tmp_path / "grades.csv", graded, lessons(), **options)
    with open(tmp_path / "grades.csv", newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_the_columns_are_exactly_these(tmp_path):
    head, line = table(tmp_path, [row(missed=("2.2",))])
    assert ",".join(head) == (
        "student,notebook,status,2.1,2.2,2.3,2.4,total,max_total,seed,checks_version"
    )
    assert line == ["alice", NOTEBOOK, "graded", "2", "0", "3", "4", "9", "13", "7", "abc"]


def test_a_failure_of_ours_has_no_points_and_a_broken_file_has_zero(tmp_path):
    _, failed, broken, missing = table(
        tmp_path,
        [
            row("a", status=RowStatus.GRADER_ERROR),
            row("b", status=RowStatus.UNREADABLE),
            row("c", status=RowStatus.MISSING),
        ],
    )
    assert failed[2:9] == ["grader error", "", "", "", "", "", "13"]
    assert broken[2:9] == ["unreadable", "0", "0", "0", "0", "0", "13"]
    assert missing[2:9] == ["missing", "0", "0", "0", "0", "0", "13"]


def test_several_notebooks_share_a_table(tmp_path):
    other = Graded("bob", "00_start_here", RowStatus.UNREADABLE)
    strange = Graded("carl", "", RowStatus.WRONG_NOTEBOOK)
    head, alice, bob, carl = table(tmp_path, [row(), other, strange])
    assert head[3:8] == ["0.1", "2.1", "2.2", "2.3", "2.4"]
    assert alice[3:8] == ["", "2", "4", "3", "4"]
    assert bob[3:10] == ["0", "", "", "", "", "0", "2"]
    assert carl[1:10] == ["", "wrong notebook", "", "", "", "", "", "0", ""]


@pytest.mark.parametrize(
    "name", ["=cmd|' /C calc'!A0", "+1", "-1", "@x", "\t=1", 'a"b', "a,b", "a\nb", "Zo\u00eb", "'x"]
)
def test_names_do_no_harm_and_come_back(tmp_path, name):
    _, line = table(tmp_path, [row(name)])
    assert line[0] in (name, f"'{name}")
    assert line[0][0] not in "=+-@\t\r"


def test_optional_points_and_points_by_hand(tmp_path):
    bonus = row()
    bonus.results["2.4"].optional = True
    assert table(tmp_path, [bonus])[1][7:9] == ["9", "9"]
    assert table(tmp_path, [bonus], count_optional=True)[1][7:9] == ["13", "9"]
    by_hand = {("alice", NOTEBOOK): 1.5}
    assert table(tmp_path, [row()], written=by_hand)[1][7:9] == ["14.5", "13"]


def test_a_table_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    table(tmp_path, [row()])
    before = (tmp_path / "grades.csv").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(CourseError, match="grades.csv, left as it was: No space"):
        table(tmp_path, [row("bob")])
    assert (tmp_path / "grades.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["grades.csv"]


def test_the_best_or_the_last_attempt():
    first = row(missed=("2.1",), handed_in="2026-05-01T10:00", content_hash="1")
    second = row(missed=("2.2",), handed_in="2026-05-02T10:00", content_hash="2")
    broken = row(status=RowStatus.UNREADABLE, handed_in="2026-05-03T10:00", attempt=3)
    failed = row(status=RowStatus.GRADER_ERROR)
    assert attempts.chosen([first, second, broken]) == ([first], [])
    assert attempts.chosen([first, second, broken], Policy("last")) == ([second], [])
    assert attempts.chosen([first, failed]) == ([failed], [])
    stray = row(status=RowStatus.WRONG_NOTEBOOK, notebook="")
    assert attempts.chosen([stray, first]) == ([first], [])
    alone = row("bob", status=RowStatus.WRONG_NOTEBOOK, notebook="")
    assert attempts.chosen([first, alone, stray]) == ([first, alone], [])
