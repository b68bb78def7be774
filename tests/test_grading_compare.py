"""What changed between two runs: every grade and every final figure that is another, and the true reason."""

import datetime
from dataclasses import replace

import pytest

from course_utils.errors import CourseError
from course_utils.grading import compare, figures, finals
from course_utils.grading.ledger import Ledger
from course_utils.grading.lessons import lessons
from course_utils.grading.policy import Policy
from course_utils.grading.records import RowStatus
from course_utils.grading.roster import Roster
from tests.test_grading_rows import NOTEBOOK, row

DUE = {NOTEBOOK: datetime.datetime(2026, 5, 4, 23, 59, tzinfo=datetime.UTC)}
LATE = {"free_days": 0.0, "penalty_per_day": 0.1, "last_day": 9.0}
RULES = Policy(points={"2.4": 6.0}, due=DUE, late=LATE)


def run(graded, rules=RULES, by_hand=None) -> compare.Run:
    graded = [rules.with_points(each) for each in graded]
    found = finals.finals(graded, Roster(), rules, rules.lessons(lessons()), by_hand)
    return compare.Run(figures.figures(graded, found, by_hand), figures.percents(found, rules))


def changed(old, new) -> dict[tuple[str, str], tuple]:
    return {(c.student, c.exercise): (c.before, c.now, c.why) for c in compare.changes(old, new)}


def test_what_changed_and_why():
    old = [row("a"), row("b"), row("c"), row("d"), row("e", status=RowStatus.GRADER_ERROR)]
    new = [
        row("a", missed=("2.4",), content_hash="other"),
        replace(row("b", missed=("2.1", "2.2")), checks_version="def", seed=8),
        row("c", missed=("2.3",)),
        row("e"),
        row("f"),
    ]
    old, new = run(old, Policy()), run(new, Policy())
    found = changed(old, new)
    assert found["a", "2.4"] == (4.0, 0.0, "another submission")
    assert found["a", ""] == (13.0, 9.0, "another submission")
    assert found["b", "2.1"][2] == found["b", "2.2"][2] == "other checks, another seed"
    assert found["c", "2.3"][2] == compare.UNKNOWN
    assert found["d", ""][2] == "not in the new run" and found["f", ""][2] == "not in the old run"
    assert found["e", ""] == (None, 13.0, "the grader failed")
    assert len([key for key in found if key[0] == "a"]) == 2
    assert compare.changes(old, old) == [] and compare.told([]) == "0 grades changed"
    every = compare.changes(old, new)
    assert every[0].student == "c", "what to look at comes first"
    assert "a 2.4: 4 -> 0 (another submission)" in compare.told(every)
    assert "3 by other checks, another seed" in compare.told(every * 3, 2) or len(every) < 20


def test_the_same_run_under_the_same_policy_has_no_changes():
    graded = [row("a"), row("b", missed=("2.4",), handed_in="2026-05-06T10:00")]
    by_hand = {("a", NOTEBOOK): 1.5}
    assert compare.changes(run(graded, by_hand=by_hand), run(graded, by_hand=by_hand)) == []
    other = [replace(each, seed=99) for each in graded]
    assert compare.changes(run(graded), run(other)) == [], "another seed, and no verdict is another"


def test_a_policy_that_changed_is_the_reason():
    graded = [row("a"), row("b", missed=("2.4",))]
    found = changed(run(graded), run(graded, replace(RULES, points={})))
    assert found == {
        ("a", "2.4"): (6.0, 4.0, "policy"),
        ("a", ""): (15.0, 13.0, "policy"),
        ("b", "percent"): (60.0, 69.23, "policy"),  # 9 of 15, and of 13
    }
    late = [row("a", handed_in="2026-05-06T10:00")]
    dearer = replace(RULES, late=LATE | {"penalty_per_day": 0.2})
    assert changed(run(late), run(late, dearer)) == {("a", ""): (12.0, 9.0, "policy")}
    exempt = replace(RULES, exempt={NOTEBOOK: ["a"]})
    assert changed(run(graded[:1]), run(graded[:1], exempt))["a", ""][1:] == (None, "policy")
    both = [row("a"), row("a", missed=("2.1",), notebook="03_rematerialization")]
    heavy = replace(RULES, weights={NOTEBOOK: 90})
    assert [key for key in changed(run(both), run(both, heavy))] == [("a", "percent")]


def test_points_by_hand_and_lateness_are_reasons():
    graded = [row("a")]
    found = changed(run(graded), run(graded, by_hand={("a", NOTEBOOK): 2.0}))
    assert found == {("a", ""): (15.0, 17.0, "points by hand")}
    late = [row("a", handed_in="2026-06-20T10:00")]
    assert changed(run(graded), run(late)) == {("a", ""): (15.0, 0.0, "lateness")}
    poor = [row("a", missed=("2.1",), content_hash="x", handed_in="2026-05-06T10:00")]
    told = changed(run(graded), run(poor, by_hand={("a", NOTEBOOK): 1.0}))["a", ""][2]
    assert told == "another submission, points by hand, lateness"


def test_who_had_nothing_and_now_has():
    missing = row("a", status=RowStatus.MISSING)
    assert changed(run([missing]), run([row("a", content_hash="x")])) == {
        ("a", ""): (0.0, 15.0, "another submission")
    }
    assert compare.changes(run([missing]), run([])) == []


def test_an_old_run_is_a_folder_or_its_file(tmp_path):
    Ledger(tmp_path / "grades.jsonl").close([row()])
    for place in (tmp_path, tmp_path / "grades.jsonl"):
        old = compare.old_run(place)
        assert list(old.figures) == [("alice", NOTEBOOK)] and not old.is_whole
    kept = run([row()])
    figures.write_figures(tmp_path / figures.FILE, kept.figures, kept.percents)
    assert compare.old_run(tmp_path) == kept
    with pytest.raises(CourseError, match="no grades.jsonl there"):
        compare.old_run(tmp_path / "nothing")
    (tmp_path / figures.FILE).write_text("{}")
    with pytest.raises(CourseError, match="holds no figures of a run"):
        compare.old_run(tmp_path)
    worse = compare.changes(kept, run([row(missed=("2.1",))]))
    compare.write_changes(tmp_path / "changes.csv", worse)
    assert "alice,02_requires_grad,2.1,2,0,nothing" in (tmp_path / "changes.csv").read_text()
