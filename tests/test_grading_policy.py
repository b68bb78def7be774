"""Roster and policy: who is who, what counts, what lateness costs; and bad files said clearly."""

import datetime

import pytest

from course_utils.errors import CourseError
from course_utils.grading import finals
from course_utils.grading.lessons import lessons
from course_utils.grading.policy import Policy, moment, read_policy
from course_utils.grading.records import RowStatus
from course_utils.grading.roster import Roster, read_roster
from tests.test_grading_rows import NOTEBOOK, row

WHOLE = """
attempts = "last"
count_optional = true
[points]
"2.4" = 6
[weights]
"02_requires_grad" = 2
[due]
"02_requires_grad" = 2026-05-04T23:59:00+02:00
[late]
free_days = 1
penalty_per_day = 0.1
last_day = 3
[extensions]
"02_requires_grad" = { alice = 2 }
[exempt]
"02_requires_grad" = ["bob"]
[names]
"02_requires_grad" = "Lesson 2 (4711)"
"""


def policy(tmp_path, text: str) -> Policy:
    (tmp_path / "policy.toml").write_text(text, "utf-8")
    return read_policy(tmp_path / "policy.toml", lessons())


def roster(tmp_path, text: str) -> Roster:
    (tmp_path / "roster.csv").write_text(text, "utf-8-sig")
    return read_roster(tmp_path / "roster.csv")


def test_a_whole_policy(tmp_path):
    rules = policy(tmp_path, WHOLE)
    assert rules.attempts == "last"
    assert rules.is_exempt("bob", NOTEBOOK)
    assert not rules.is_exempt("alice", NOTEBOOK)
    graded = rules.with_points(row(missed=("2.1",)))
    assert [graded.results[name].points for name in ("2.1", "2.4")] == [0, 6]
    assert graded.results["2.4"].max_points == 6
    assert read_policy(None, lessons()) == Policy() == policy(tmp_path, "")


@pytest.mark.parametrize(
    "student, handed_in, days",
    [
        ("carol", "2026-05-04T21:58:00Z", 0),
        ("carol", "2026-05-05T23:58:00+02:00", 0),  # the free day
        ("carol", "2026-05-06T00:00:00+02:00", 1),
        ("carol", "2026-05-06 00:00:00", 1),  # without a zone: the policy's
        ("carol", "2026-05-08T12:00:00+02:00", 3),
        ("alice", "2026-05-08T12:00:00+02:00", 1),
        ("alice", "", 0),
        ("alice", "yesterday", 0),
        ("carol", "2026-05-05T17:58:00-04:00", 0),  # the same moment, elsewhere
        ("carol", "2026-05-05 18:00:00 -0400", 1),
    ],
)
def test_late_days(tmp_path, student, handed_in, days):
    assert policy(tmp_path, WHOLE).days_late(student, NOTEBOOK, handed_in) == days


def test_what_lateness_leaves(tmp_path):
    rules = policy(tmp_path, WHOLE)
    assert [rules.share(days) for days in (0, 1, 3, 4)] == [1.0, 0.9, pytest.approx(0.7), 0.0]
    assert policy(tmp_path, "[late]\npenalty_per_day = 0.4").share(9) == 0.0
    assert Policy().share(99) == 1.0


def test_moments():
    utc = datetime.UTC
    assert moment("2026-05-04 21:00:00.123456789 Z") == datetime.datetime(
        2026, 5, 4, 21, tzinfo=utc
    )
    assert moment("2026-05-04T21:00:00Z") == datetime.datetime(2026, 5, 4, 21, tzinfo=utc)
    assert moment("2026-05-04 21:00:00 UTC") == datetime.datetime(2026, 5, 4, 21, tzinfo=utc)
    assert moment("2026-05-04 21:00:00.5 -0700").utcoffset() == datetime.timedelta(hours=-7)
    assert moment("2026-05-04T21:00") == datetime.datetime(2026, 5, 4, 21)
    assert moment("") is moment("99") is moment("2026-13-01") is None


@pytest.mark.parametrize(
    "text, said",
    [
        ("x = [", "not TOML"),
        ("color = 3", "there is no rule 'color'"),
        ('attempts = "first"', '"best" or "last"'),
        ("attempts = []", '"best" or "last"'),
        ("count_optional = 1", "true or false"),
        ("points = 3", "[points] is a table"),
        ('[points]\n"9.9" = 3', "there is no '9.9'"),
        ('[points]\n"2.4" = "six"', "'six' is not a number of points"),
        ('[points]\n"2.4" = nan', "nan is not"),
        ('[weights]\n"02_requires_grad" = -1', "-1 is not"),
        ('[due]\n"02_requires_grad" = "monday"', "is not a date and time"),
        ('[due]\n"02_requires_grad" = 2026-05-04', "is not a date and time"),
        ('[due]\n"02_requires_grad" = 2026-05-04T23:59:00', "with its zone"),
        ("[late]\ndays = 3", "there is no 'days'"),
        ("[late]\nfree_days = true", "True is not a number"),
        ('[exempt]\n"02_requires_grad" = "bob"', "is not a list"),
        ('[extensions]\n"02_requires_grad" = { bob = "x" }', "is not a table of days"),
        ('[names]\n"02_requires_grad" = 3', "is not a name in quotes"),
    ],
)
def test_a_bad_policy_is_one_clear_line(tmp_path, text, said):
    with pytest.raises(CourseError) as problem:
        policy(tmp_path, text)
    assert said in str(problem.value)
    assert "policy.toml" in str(problem.value)
    assert "\n" not in str(problem.value).replace(text, "")


def test_a_policy_that_is_not_there(tmp_path):
    with pytest.raises(CourseError, match="cannot be read"):
        read_policy(tmp_path / "none.toml", lessons())


PEOPLE = (
    "student,name,email,canvas_id,moodle_id\n"
    "ada,Ada Lovelace,ada@example.org,4711,12\n"
    "bob,Bob,bob@example.org,4712,13\n"
    "bob2,Bob,bob2@example.org,4713,\n\n"
)


@pytest.mark.parametrize(
    "found, student",
    [
        ("ada", "ada"),
        ("ADA lovelace", "ada"),
        ("Ada Lovelace_12", "ada"),
        ("lovelaceada_4711", "ada"),
        ("Bob_bob2@example.org", "bob2"),
        ("somebody_13", "bob"),
        ("Bob", "bob"),  # a student's own name comes before a name that two have
        ("Eve_99", "Eve_99"),
    ],
)
def test_a_submission_finds_its_student(tmp_path, found, student):
    assert roster(tmp_path, PEOPLE).student(found) == student


def test_an_empty_roster_knows_nobody():
    assert read_roster(None).student("ada") == "ada"
    assert read_roster(None).entry("ada")["student"] == "ada"


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "must name the columns"),
        ("name\nAda\n", "must name the columns"),
        ("student,shoe\nada,39\n", "no column 'shoe'"),
        ("student,name\nada,A\nada,B\n", "line 3: ada stands there twice"),
        ("student,name\n,A\n", "line 2 names no student"),
    ],
)
def test_a_bad_roster_is_one_clear_line(tmp_path, text, said):
    with pytest.raises(CourseError, match=said):
        roster(tmp_path, text)


def test_final_points(tmp_path):
    rules, people = policy(tmp_path, WHOLE), roster(tmp_path, "student\nalice\nbob\ncarol\ndave\n")
    graded = [
        row("alice"),
        row("bob"),
        row("carol", handed_in="2026-05-06T12:00:00+02:00"),
        row("erin", status=RowStatus.GRADER_ERROR),
    ]
    graded = [rules.with_points(each) for each in graded]
    graded += finals.missing_rows(graded, people, [NOTEBOOK], 7)
    by_hand = {("alice", NOTEBOOK): 1.0}
    found = {f.student: f for f in finals.finals(graded, people, rules, lessons(), by_hand)}
    assert found["alice"].points == 16.0
    assert found["alice"].max_points == 15.0
    assert (found["bob"].points, found["bob"].why) == (None, "exempt")
    assert (found["carol"].points, found["carol"].why) == (13.5, "1 day late (after free days)")
    assert (found["dave"].points, found["dave"].why) == (0.0, "missing")
    assert (found["erin"].points, found["erin"].why) == (None, "grader error")
    finals.write_finals(tmp_path / "final.csv", list(found.values()), people, rules)
    lines = (tmp_path / "final.csv").read_text().splitlines()
    assert lines[0] == "student,name,02_requires_grad,percent,why"
    assert lines[3] == "carol,,13.5,90,02_requires_grad: 1 day late (after free days)"


def test_weights_and_what_does_not_count():
    rules = Policy(weights={"a": 3.0})
    of = {"points": 5.0, "max_points": 10.0}
    mine = [
        finals.Final("x", "a", **of),
        finals.Final("x", "b", 1.0, 1.0),
        finals.Final("x", "c", None, 9.0),
    ]
    assert finals.total_share(mine, rules) == pytest.approx((3 * 0.5 + 1 * 1.0) / 4)
    assert finals.total_share(mine[2:], rules) is None


def test_what_is_missing_has_no_figure_before_it_is_due(tmp_path):
    rules = policy(tmp_path, WHOLE)  # alice has three days more
    missing = [row(name, status=RowStatus.MISSING) for name in ("alice", "carol")]
    moments = [datetime.datetime(2026, 5, day, 12, tzinfo=datetime.UTC) for day in (4, 6, 9)]
    found = [finals.finals(missing, Roster(), rules, lessons(), now=now) for now in moments]
    assert [[final.points for final in each] for each in found] == [[None] * 2, [None, 0], [0, 0]]
    assert found[0][0].why == "not due yet"
    assert finals.finals(missing, Roster(), Policy(), lessons())[0].points == 0


def test_one_wrong_file_sets_no_lesson_for_a_class():
    graded = [row(f"s{k}") for k in range(9)]
    stray = row("s3", notebook="03_rematerialization")
    assert finals.asked_for([*graded, stray], Policy()) == ([NOTEBOOK], ["03_rematerialization"])
    named = Policy(weights={"03_rematerialization": 1})
    assert finals.asked_for([*graded, stray], named)[1] == []
    assert finals.asked_for([], Policy()) == ([], [])
    alone = row("s0", notebook="", status=RowStatus.WRONG_NOTEBOOK)
    assert finals.asked_for([alone, stray], Policy()) == (["03_rematerialization"], [])


def test_answers_in_words_may_be_part_of_the_maximum(tmp_path):
    rules = policy(tmp_path, '[points]\n"2.w" = 2')
    given = {("alice", NOTEBOOK): 1.5}
    (found,) = finals.finals([row("alice")], Roster(), rules, rules.lessons(lessons()), given)
    assert (found.points, found.max_points, found.in_words) == (14.5, 15.0, 2.0)
    (found,) = finals.finals([row("alice")], Roster(), Policy(), lessons(), given)
    assert (found.points, found.max_points, found.in_words) == (14.5, 13.0, 0.0)


def test_what_lateness_takes_is_told_apart(tmp_path):
    late = row("carol", handed_in="2026-05-06T12:00:00+02:00")
    (found,) = finals.finals([late], Roster(), policy(tmp_path, WHOLE), lessons())
    assert (found.earned, found.share, round(found.points, 9)) == (13.0, 0.9, 11.7)
    assert found.counts_optional


def test_a_rule_for_nobody_is_a_typing_error(tmp_path):
    people = roster(tmp_path, "student\nbob\n")
    with pytest.raises(CourseError, match="extensions.*'alice' is not on the roster"):
        policy(tmp_path, WHOLE).check_names(people)
    policy(tmp_path, WHOLE).check_names(Roster())


def test_points_of_the_policy_hold_where_nothing_was_handed_in(tmp_path):
    known = policy(tmp_path, '[points]\n"2.4" = 6').lessons(lessons())
    assert known[NOTEBOOK].max_total == 15 and lessons()[NOTEBOOK].max_total == 13


def test_a_roster_as_a_spreadsheet_may_save_it(tmp_path):
    assert set(roster(tmp_path, "student;name\nbob;Bob\n").students) == {"bob"}
    (tmp_path / "roster.csv").write_bytes("student,name\nbob,J\u00f6\n".encode("cp1252"))
    with pytest.raises(CourseError, match="save it as CSV UTF-8"):
        read_roster(tmp_path / "roster.csv")


@pytest.mark.parametrize(
    "found, platform, student",
    [
        ("somebody_4711", "canvas", "ada"),
        ("somebody_4711", "moodle", "somebody_4711"),  # a Canvas id is no number of Moodle's
        ("somebody_12", "moodle", "ada"),
        ("somebody_12", "canvas", "somebody_12"),
        ("somebody_12", "gradescope", "somebody_12"),
        (
            "Ada Lovelace_13",
            "moodle",
            "ada",
        ),  # numbered anew in each assignment: the name comes first
    ],
)
def test_a_platforms_number_is_looked_up_in_its_own_column(tmp_path, found, platform, student):
    people = roster(tmp_path, PEOPLE)
    assert people.student(found, platform) == student
    assert people.knows(found, platform) == (student == "ada")


def test_a_roster_of_numbers_alone_is_any_platforms(tmp_path):
    people = roster(tmp_path, "student\n4711\n")
    assert people.student("Ada_4711", "canvas") == people.student("Ada_4711", "moodle") == "4711"


def test_another_lessons_notebook_under_this_ones_name_has_a_row_here(tmp_path):
    note = "named 02_requires_grad.ipynb, but by its content it is 06_tiling"
    other = row("bob", notebook="06_tiling", note=note, origin="in/bob/02_requires_grad.ipynb")
    people = roster(tmp_path, "student\nalice\nbob\n")
    (alice, bob) = finals.missing_rows([other], people, [NOTEBOOK], 7)
    assert alice.status is RowStatus.MISSING
    assert (bob.status, bob.origin) == (RowStatus.WRONG_NOTEBOOK, other.origin)
    assert bob.note == "02_requires_grad.ipynb was handed in, but by its content it is 06_tiling"
    (bob,) = finals.missing_rows([other], Roster(), [NOTEBOOK], 7)
    assert bob.status is RowStatus.WRONG_NOTEBOOK, "also without a roster"
    assert finals.missing_rows([other, row("bob")], Roster(), [NOTEBOOK], 7) == []
    (found,) = finals.finals([bob], Roster(), Policy(), lessons())
    assert (found.points, found.why) == (0.0, "wrong notebook")
