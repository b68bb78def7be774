"""Predictions, the record that keeps them, and the table of progress."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from course_utils import measured, needs, predict, progress
from course_utils.checks import all_exercises, predictions, record
from course_utils.checks.core import Status, Verdict
from course_utils.locks import held


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_STATE", str(tmp_path))
    monkeypatch.setattr(predictions, "_measured", {})
    monkeypatch.setattr(record, "_memory", {})
    return tmp_path


def test_both_and_their_ratio_are_shown_once_measured(capsys):
    predict("2.a", 96, unit="MB")
    assert "192" not in capsys.readouterr().out
    measured("2.a", 192)
    shown = capsys.readouterr().out
    assert "you said 96 MB, measured 192 MB" in shown and "= 0.5" in shown
    predict("2.a", 384, unit="MB")  # the cell is run again
    assert "you said 384 MB, measured 192 MB" in capsys.readouterr().out


@pytest.mark.parametrize("open_", [..., None])
def test_an_open_prediction_lets_the_notebook_run_on(open_, capsys):
    predict("2.a", open_, unit="MB")
    measured("2.a", 5)
    shown = capsys.readouterr().out
    assert "is open" in shown and "none made. Measured: 5" in shown


@pytest.mark.parametrize("odd", ["96", [96], True, {}, float("nan"), float("inf")])
def test_what_is_no_number_is_told(odd, capsys):
    predict("2.a", odd)
    assert "a number please" in capsys.readouterr().out
    assert record.load()["predictions"] == {}


def test_a_number_with_commas_is_told(capsys):
    predict("1.a", 8, 112, unit="bytes")
    assert "without commas" in capsys.readouterr().out
    assert record.load()["predictions"] == {}


def test_one_array_is_not_one_arrays(capsys):
    predict("1.c", 2, unit="arrays")
    measured("1.c", 1)
    assert "you said 2 arrays, measured 1 array;" in capsys.readouterr().out


def test_zero_measured_has_no_ratio(capsys):
    predict("2.b", 32, unit="MB")
    measured("2.b", 0)
    assert "you said 32 MB, measured 0 MB." in capsys.readouterr().out


def test_a_prediction_outlives_its_kernel(capsys, monkeypatch):
    predict("2.a", 96)
    monkeypatch.setattr(predictions, "_measured", {})
    monkeypatch.setattr(record, "_memory", {})
    measured("2.a", 192)
    assert "you said 96" in capsys.readouterr().out


def test_needs_swallows_a_stub_and_nothing_else(capsys):
    with needs("2.2"):
        raise NotImplementedError
    assert "Solve exercise 2.2 to see this" in capsys.readouterr().out
    record.record_verdict(verdict(Status.PASSED, "2.2"))
    with pytest.raises(ValueError), needs("2.2"):
        raise ValueError  # a fault of the demonstration's own
    with needs("2.2"):
        ran = True
    assert ran and capsys.readouterr().out == ""


def test_needs_can_be_entered_again():
    block = needs("2.2")
    for _ in range(2):
        with block:
            pass


def test_needs_is_careful_with_an_answer_that_has_not_passed(capsys):
    record.record_verdict(verdict(Status.FAILED, "2.2"))
    with needs("2.2"):
        print("numbers")
    assert "numbers\nYour answer to 2.2 has not passed" in capsys.readouterr().out
    with needs("2.2"):
        raise TypeError("no array")
    assert "came to TypeError: no array" in capsys.readouterr().out
    with pytest.raises(KeyboardInterrupt), needs("2.2"):
        raise KeyboardInterrupt


def test_needs_several_answers_and_names_those_that_are_open(capsys):
    record.record_verdict(verdict(Status.PASSED, "2.1"))
    with needs("2.1", "2.2"):
        raise NotImplementedError
    assert "Solve exercise 2.2 to see this" in capsys.readouterr().out
    record.record_verdict(verdict(Status.FAILED, "2.2"))
    with needs("2.1", "2.2"):
        raise TypeError("no array")
    assert "answer to 2.2 has not passed its check, and here it came" in capsys.readouterr().out
    record.record_verdict(verdict(Status.PASSED, "2.2"))
    with pytest.raises(TypeError), needs("2.1", "2.2"):
        raise TypeError


def verdict(status: Status, exercise: str = "1.1") -> Verdict:
    return Verdict(status, exercise=exercise)


def test_the_best_attempt_counts():
    for status, expected in [
        (Status.NOT_ATTEMPTED, "not attempted"),
        (Status.FAILED, "failed"),
        (Status.NOT_ATTEMPTED, "failed"),
        (Status.PASSED, "passed"),
        (Status.FAILED, "passed"),
        (Status.NOT_ATTEMPTED, "passed"),
    ]:
        record.record_verdict(verdict(status))
        assert record.load()["exercises"] == {"1.1": expected}


def test_progress_counts_points():
    assert progress().points == 0 and progress().max_points == sum(
        e.points for e in all_exercises()
    )
    first = all_exercises()[0]
    record.record_verdict(verdict(Status.PASSED, first.id))
    shown = progress()
    assert shown.points == first.points
    assert f"{first.points} / {first.points}" in str(shown) and first.title in shown._repr_html_()
    assert all(exercise.id in str(shown) for exercise in all_exercises())


@pytest.mark.parametrize("damage", ["", "not json", "[]", '{"exercises": 3}', "\x00\x01"])
def test_a_damaged_record_is_begun_again(damage, own_state):
    (own_state / ".progress.json").write_text(damage)
    assert record.load() == {"exercises": {}, "predictions": {}}
    record.record_verdict(verdict(Status.PASSED))
    assert json.loads((own_state / ".progress.json").read_text())["exercises"] == {"1.1": "passed"}


def test_deleting_the_record_loses_nothing_else(own_state):
    record.record_verdict(verdict(Status.PASSED))
    assert [path.name for path in own_state.iterdir()] == [".progress.json"]
    (own_state / ".progress.json").unlink()
    assert progress().points == 0


def test_two_notebooks_at_once_lose_no_entry(own_state):
    def notebook(name):
        for number in range(40):
            record.store("predictions", f"{name}.{number}", {"number": number, "unit": ""})

    with ThreadPoolExecutor(3) as kernels:
        list(kernels.map(notebook, "abc"))
    assert len(record.load()["predictions"]) == 120
    assert [path.name for path in own_state.iterdir()] == [".progress.json"]


def test_a_lock_that_somebody_keeps_stops_no_check(own_state, monkeypatch):
    monkeypatch.setattr(record, "_WAIT_SECONDS", 0.05)
    with held(own_state / ".progress.json.lock", 0) as has_it:
        record.record_verdict(verdict(Status.PASSED))
        assert has_it and record.load()["exercises"] == {"1.1": "passed"}


def test_a_record_that_is_open_elsewhere_leaves_nothing_behind(own_state, monkeypatch):
    """As on Windows: it cannot be replaced now, and lives as long as the kernel."""

    def refused(*_):
        raise PermissionError(13, "it is open")

    monkeypatch.setattr(record.os, "replace", refused)
    record.record_verdict(verdict(Status.PASSED))
    assert list(own_state.iterdir()) == []
    assert record.load()["exercises"] == {"1.1": "passed"}


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_STATE", str(tmp_path / "file"))
    record.record_verdict(verdict(Status.PASSED))
    assert record.load()["exercises"] == {"1.1": "passed"}


def test_under_nbgrader_students_share_no_record(own_state, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    record.record_verdict(verdict(Status.PASSED))
    predict("2.a", 96)
    assert record.load()["exercises"] == {"1.1": "passed"} and not list(own_state.iterdir())
    monkeypatch.setattr(record, "_memory", {})  # the next student's kernel
    assert record.load() == {"exercises": {}, "predictions": {}}
