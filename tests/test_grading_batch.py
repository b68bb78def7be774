"""The batch: a row for every submission, whatever its worker meets; what is done is never done again."""

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from course_utils.errors import CourseError
from course_utils.grading import batch as batches
from course_utils.grading import grade_one as one
from course_utils.grading.batch import Batch, Workers, cluster_workers, local_workers
from course_utils.grading.grade_one import Settings, grade_one
from course_utils.grading.ledger import Ledger, read_rows
from course_utils.grading.progress_bar import ProgressBar
from course_utils.grading.records import (
    Answer,
    ExerciseResult,
    Graded,
    Job,
    RowStatus,
    Submission,
)
from course_utils.grading.version import checks_version
from tests.grading_helpers import as_bytes, solved

NAME = "02_requires_grad.ipynb"
SETTINGS = Settings(seed=5)


def hand_in(*contents: bytes | None) -> list[Submission]:
    return [
        Submission(f"student{at}", NAME, content, f"in/{at}", problem="" if content else "gone")
        for at, content in enumerate(contents)
    ]


def fake(submission: Submission, settings: Settings) -> Graded:
    """A grader of bytes that say what to do. It reads no lesson: that takes a new process a second."""
    row = Graded(submission.student, "02_requires_grad", RowStatus.GRADER_ERROR, seed=settings.seed)
    row.content_hash, row.origin = hashlib.sha256(submission.content).hexdigest(), submission.origin
    word = submission.content.split()[0]
    if word == b"die":
        os._exit(9)
    if word == b"raise":
        raise ZeroDivisionError("ours")
    if word == b"no-sandbox":
        raise CourseError("no sandbox here")
    if word == b"terminated" and not (marker := Path(submission.origin)).exists():
        marker.write_text("")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    if word == b"memory":
        raise MemoryError("here")
    if word == b"sleep":
        time.sleep(30)
    row.status, row.checks_version = RowStatus.GRADED, checks_version(row.notebook)
    points = 1.0 if word == b"terminated" else float(word)
    row.results = {"2.1": ExerciseResult("2.1", "t", points, 2.0, "passed", flags=("f",))}
    row.note = str(os.getpid())
    return row


def here() -> Workers:
    return Workers(lambda: ThreadPoolExecutor(2), 2)


def run(tmp_path, submissions, workers=None, settings=SETTINGS, grade=fake):
    book = Ledger(tmp_path / "grades.jsonl")
    steps = []
    batch = Batch(settings, book, lambda row, reused: steps.append(reused), grade)
    rows = batch.run(submissions, workers or here())
    book.close()
    return rows, steps


def test_rows_come_in_order_and_each_is_on_disk(tmp_path):
    rows, steps = run(tmp_path, hand_in(b"1", b"2", None, b"0"))
    assert [row.student for row in rows] == [f"student{at}" for at in range(4)]
    assert [row.status for row in rows] == ["graded", "graded", "unreadable", "graded"]
    assert rows[2].note == "gone"
    assert steps == [False] * 4
    kept = {row.student: row for row in read_rows(tmp_path / "grades.jsonl")}
    assert kept == {row.student: row for row in rows}


def test_what_an_earlier_run_did_is_not_done_again(tmp_path):
    run(tmp_path, hand_in(b"1", b"2"))
    rows, steps = run(tmp_path, hand_in(b"1", b"2 changed", b"2"))
    assert steps.count(True) == 1
    assert [row.results["2.1"].points for row in rows] == [1.0, 2.0, 2.0]
    assert run(tmp_path, hand_in(b"1"), settings=Settings(seed=6))[1] == [False]
    assert run(tmp_path, hand_in(b"1"), settings=Settings(seed=6))[1] == [True]


def test_other_checks_grade_again(tmp_path, monkeypatch):
    run(tmp_path, hand_in(b"1"))
    monkeypatch.setattr(batches, "checks_version", lambda notebook: "changed")
    assert run(tmp_path, hand_in(b"1"))[1] == [False]


def test_a_failure_of_ours_is_a_row_and_is_tried_again(tmp_path):
    rows, _ = run(tmp_path, hand_in(b"raise", b"1"))
    assert [row.status for row in rows] == ["grader error", "graded"]
    assert "ZeroDivisionError: ours" in rows[0].note
    assert run(tmp_path, hand_in(b"raise", b"1"))[1].count(True) == 1


def test_no_sandbox_ends_the_run(tmp_path):
    with pytest.raises(CourseError, match="no sandbox"):
        run(tmp_path, hand_in(b"no-sandbox", b"1"))


def test_half_a_line_is_dropped_and_a_strange_file_refused(tmp_path):
    path = tmp_path / "grades.jsonl"
    run(tmp_path, hand_in(b"1", b"2"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    rows, steps = run(tmp_path, hand_in(b"1", b"2"))
    assert steps.count(True) == 1
    assert len(read_rows(path)) == 2
    path.write_bytes(b"hello\n" + whole)
    with pytest.raises(CourseError, match="line 1 is no row of grades"):
        read_rows(path)


def test_one_run_at_a_time_grades_into_a_folder(tmp_path):
    path = tmp_path / "grades.jsonl"
    first = Ledger(path)
    with pytest.raises(CourseError, match="another run is grading into it.*another --out"):
        Ledger(path)
    first.add(row := Graded("a", "n", RowStatus.GRADED))
    first.close([row])
    assert os.listdir(tmp_path) == ["grades.jsonl"]
    path.write_bytes(b"hello\n")
    for _ in range(2):  # a refusal leaves no lock either
        with pytest.raises(CourseError, match="line 1"):
            Ledger(path)


def test_a_process_that_dies_takes_no_neighbour_with_it(tmp_path):
    submissions = hand_in(b"1", b"die", b"2", b"1 b", b"die again", b"2 b")
    with local_workers(2) as workers:
        rows, _ = run(tmp_path, submissions, workers)
    assert [str(row.status) for row in rows] == [
        "graded", "grader error", "graded", "graded", "grader error", "graded",
    ]  # fmt: skip
    assert rows[1].note == batches.DIED
    assert {row.note for row in rows[::2]}.isdisjoint({str(os.getpid())})
    assert not multiprocessing.active_children()


@pytest.mark.skipif(os.name == "nt", reason="no such signal")
def test_one_worker_that_is_told_to_end_ends_no_batch(tmp_path):
    """Somebody cleaned up: what it was at is graded again."""
    told, *others = hand_in(b"terminated", b"1", b"2")
    with local_workers(1) as workers:
        rows, _ = run(tmp_path, [replace(told, origin=str(tmp_path / "told")), *others], workers)
    assert [str(row.status) for row in rows] == ["graded"] * 3
    assert not multiprocessing.active_children()


def test_an_error_while_suspects_are_graded_alone_ends_no_batch(tmp_path):
    batch = Batch(SETTINGS, Ledger(tmp_path / "grades.jsonl"), lambda row, reused: None, fake)
    batch.one_by_one(list(enumerate(hand_in(b"memory", b"1"))), here())
    assert [str(row.status) for row in batch.in_order()] == ["grader error", "graded"]
    assert "MemoryError: here" in batch.rows[0].note
    with pytest.raises(CourseError, match="no sandbox"):
        batch.one_by_one([(2, hand_in(b"no-sandbox")[0])], here())


def test_reading_that_never_ends_ends_its_process(tmp_path, monkeypatch):
    program = (
        "from course_utils.grading import grade_one as one; one.READING_SECONDS = 0.2\n"
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # as in a parser\n"
        "with one.reading_limit():\n    while True: pass"
    )
    run = subprocess.run([sys.executable, "-c", program], timeout=20)
    assert run.returncode == -signal.SIGPROF
    with one.reading_limit():
        pass
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_ctrl_c_keeps_what_is_done_and_leaves_no_process(tmp_path):
    book = Ledger(tmp_path / "grades.jsonl")

    def step(row, reused):
        if row.student == "student1":
            raise KeyboardInterrupt

    batch = Batch(SETTINGS, book, step, fake)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), local_workers(2) as workers:
        batch.run(hand_in(b"1", b"2", b"sleep", b"sleep b", b"sleep c"), workers)
    assert time.monotonic() - start < 15
    assert not multiprocessing.active_children()
    assert {row.student for row in batch.in_order()} >= {"student1"}
    assert {row.student for row in read_rows(tmp_path / "grades.jsonl")} >= {"student1"}


@pytest.mark.skipif(not hasattr(os, "getppid"), reason="no parents here")
def test_workers_of_a_parent_that_was_killed_end():
    program = (
        "import os, time, sys\n"
        "from course_utils.grading.batch import local_workers\n"
        "if __name__ == '__main__':\n"
        "    with local_workers(1) as workers:\n"
        "        print(workers.submit(os.getpid).result(), flush=True)\n"
        "        time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while is_alive(worker):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_few_submissions_are_in_memory_at_once(tmp_path):
    given, done, most = 0, 0, 0

    def endless():
        nonlocal given, most
        for at in range(60):
            given += 1
            most = max(most, given - done)
            yield Submission(f"s{at}", NAME, b"%d" % at, "in")

    def step(row, reused):
        nonlocal done
        done += 1

    Batch(SETTINGS, Ledger(tmp_path / "grades.jsonl"), step, fake).run(endless(), here())
    assert done == 60
    assert most <= here().in_flight + 1


def test_a_real_submission_without_answers_needs_no_sandbox(monkeypatch):
    wrong = grade_one(Submission("a", "x.ipynb", as_bytes({"cells": [{}]}), "in"), SETTINGS)
    assert (wrong.status, wrong.notebook) == (RowStatus.WRONG_NOTEBOOK, "")
    other = Submission("a", NAME, as_bytes(solved("03")), "in")
    row = grade_one(other, replace(SETTINGS, wanted="02_requires_grad"))
    assert (row.status, row.notebook) == (RowStatus.WRONG_NOTEBOOK, "02_requires_grad")
    assert "03_rematerialization" in row.note
    broken = grade_one(Submission("a", NAME, b"{", "in"), SETTINGS)
    assert (broken.status, broken.notebook) == (RowStatus.UNREADABLE, "02_requires_grad")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarm here")
def test_what_takes_too_long_to_read_is_no_fault_of_the_grader(monkeypatch):
    def for_ever(*_):
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                continue

    monkeypatch.setattr(one, "read_submission", for_ever)
    monkeypatch.setattr(one, "READING_SECONDS", 0.2)
    handlers = signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGPROF)
    row = grade_one(Submission("a", NAME, b"{}", "in"), SETTINGS)
    assert (row.status, row.note) == (RowStatus.UNREADABLE, "it takes longer than 0.2 s to read")
    assert handlers == (signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGPROF))
    assert signal.getitimer(signal.ITIMER_PROF) == signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_kernels_have_more_time(monkeypatch):
    given = []
    monkeypatch.setattr(
        "course_utils.grading.sandbox.run.run_job", lambda job, *more: given.append(more)
    )
    one.use_sandbox("a sandbox")
    try:
        for name in ("2.1", "8.4"):
            one.run_in_sandbox(Job("x", (Answer(name, "f", "", "name"),), {}), False)
    finally:
        one.use_sandbox(None)
    assert [limits.exercise_seconds for limits, _ in given] == [30.0, 90.0]


def test_what_we_break_ourselves_is_a_row(monkeypatch):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(one, "read_submission", broken)
    row = grade_one(Submission("a", NAME, b"{}", "in"), SETTINGS)
    assert row.status is RowStatus.GRADER_ERROR
    assert "RuntimeError: a bug (test_grading_batch.py:" in row.note


def test_a_cluster_gives_the_same_rows(tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {
        "n_workers": 1,
        "threads_per_worker": 2,
        "processes": False,
        "dashboard_address": None,
    }
    with (
        distributed.LocalCluster(**options) as cluster,
        cluster_workers(cluster.scheduler_address) as workers,
    ):
        rows, _ = run(tmp_path, hand_in(b"1", b"raise", b"2"), workers)
    assert [str(row.status) for row in rows] == ["graded", "grader error", "graded"]


def test_no_cluster_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(batches, "CONNECT_SECONDS", 1)
    with pytest.raises(CourseError, match="scheduler"), cluster_workers("tcp://127.0.0.1:1"):
        pass
    with pytest.raises(CourseError, match="scheduler"), cluster_workers("nonsense"):
        pass


def test_versions_differ_by_lesson_and_follow_imports(tmp_path):
    versions = {checks_version(name) for name in ("01_measuring_memory", "02_requires_grad")}
    assert len(versions) == 2
    assert checks_version("") == checks_version("99_x") == checks_version("own") == ""


def test_a_version_changes_with_what_the_checks_import(tmp_path):
    root = Path(__file__).parents[1]
    for part in ("checks", "tracing.py", "errors.py", "__init__.py", "ag.py"):
        source, copy = root / "course_utils" / part, tmp_path / "course_utils" / part
        copy.parent.mkdir(exist_ok=True)
        copy.symlink_to(source)
    before = checks_version("02_requires_grad", tmp_path)
    copy = tmp_path / "course_utils" / "ag.py"
    copy.unlink()
    copy.write_text((root / "course_utils" / "ag.py").read_text() + "\nCHANGED = 1\n")
    checks_version.cache_clear()
    assert checks_version("02_requires_grad", tmp_path) != before


def test_the_bar_in_a_log_and_in_a_terminal(capsys):
    with ProgressBar(30, "grading") as bar:
        for at in range(30):
            bar.step(f"student\x1b[2J{at}")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1].startswith("grading [########################] 30/30")
    assert "\x1b" not in "".join(lines)


def test_rows_survive_the_ledger_whatever_is_in_them(tmp_path):
    odd = Graded(
        'a"b,c\n=1', "n", RowStatus.PARTLY, {"1": ExerciseResult("1", "t", 1, 2, "x", flags=("y",))},
        note="\u2028 \u00e9", seed=2**62,
    )  # fmt: skip
    odd.results["1"].measured = {"peak": {"value": float("inf")}}
    book = Ledger(tmp_path / "grades.jsonl")
    book.add(odd)
    book.close([odd, odd])
    assert read_rows(tmp_path / "grades.jsonl") == [odd, odd]
    assert all(json.loads(line) for line in (tmp_path / "grades.jsonl").read_text().splitlines())
