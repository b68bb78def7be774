"""The zoo: none above its honest score, none harming its neighbours, nothing left behind."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from course_utils.grading import grade_one as grading
from course_utils.grading.jobs import make_job
from course_utils.grading.judging import judge_runs
from course_utils.grading.lessons import lessons
from course_utils.grading.reading import read_submission
from course_utils.grading.records import Job
from course_utils.grading.sandbox.choose import choose_sandbox, close_sandbox
from course_utils.grading.sandbox.limits import Limits
from course_utils.grading.sandbox.run import run_job
from course_utils.grading.submissions import collect
from tests.zoo import BEASTS, FULL, Beast

LIMITS = Limits(
    exercise_seconds=1.5, memory_bytes=300 * 10**6, files_bytes=20 * 10**6, output_bytes=30 * 10**6
)
WATCHED = ("2.1", "2.3")  # the quick ones: what is not attacked must not notice
RUNNING = [
    each for each in BEASTS if each.kind in ("loops", "bombs", "ends", "forgeries", "meters", "snoops")
]


@pytest.fixture(scope="module")
def sandbox() -> Iterator:
    before = left_behind()
    sandbox = choose_sandbox()
    yield sandbox
    close_sandbox(sandbox)
    new = {kind: found - before[kind] for kind, found in left_behind().items()}
    assert not any(new.values()), new


@pytest.fixture
def grader(sandbox, monkeypatch):
    """`grade_one` with this module's limits, for the watched exercises alone."""

    def run(job, inside_container):
        return run_job(only(job, WATCHED), LIMITS, sandbox)

    monkeypatch.setattr(grading, "run_in_sandbox", run)
    return lambda submission: grading.grade_one(submission, grading.Settings(seed=3))


def only(job: Job, exercises: tuple[str, ...]) -> Job:
    """The job without its other answers."""
    return replace(job, answers=tuple(each for each in job.answers if each.exercise in exercises))


def left_behind() -> dict[str, set]:
    """Processes of sandboxes, control groups and temporary files, of this process."""
    own = f"course_sandbox_{os.getpid()}_".encode()
    processes = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if own in (process / "mountinfo").read_bytes() + (process / "cmdline").read_bytes():
                processes.add(process.name)
        except OSError:
            continue
    groups = {path for path in Path("/sys/fs/cgroup").rglob(f"course-grading-{os.getpid()}-*")}
    files = set(Path(tempfile.gettempdir()).glob(f"{own.decode()}*"))
    return {"processes": processes, "groups": groups, "files": files}


@pytest.mark.parametrize("beast", RUNNING, ids=str)
def test_beast_gets_its_honest_score(beast: Beast, sandbox) -> None:
    reading = read_submission(beast.build(), lessons(), beast.file_name, None)
    watched = (*WATCHED, *beast.points)
    job = only(make_job(beast.name, reading, 3), watched)
    results = judge_runs(job, run_job(job, LIMITS, sandbox))
    told = {each.exercise: (each.status, each.diagnosis, each.flags) for each in results.values()}
    expected = {name: points for name, points in (FULL | beast.points).items() if name in watched}
    assert {name: results[name].points for name in expected} == expected, told
    for exercise, ending in beast.endings.items():
        assert results[exercise].status == ending, told
    if beast.flagged:
        assert any(each.flags for each in results.values()), told


@pytest.mark.parametrize("beast", [each for each in BEASTS if each not in RUNNING], ids=str)
def test_beast_ends_in_a_row(beast: Beast, grader, tmp_path: Path) -> None:
    """From a folder of submissions on: one row, with its status, and no file anywhere else."""
    student = beast.student or "somebody"
    folder = tmp_path / "submissions" / student
    folder.mkdir(parents=True)
    (folder / beast.file_name).write_bytes(beast.build())
    before = sorted(tmp_path.rglob("*"))
    (row,) = [grader(submission) for submission in collect(tmp_path / "submissions")]
    assert str(row.status) == beast.status, row.note
    assert row.student == student
    told = {each.exercise: (each.status, each.diagnosis) for each in row.results.values()}
    if beast.points is None:
        assert not row.results
    else:
        expected = {name: (FULL | beast.points)[name] for name in WATCHED}
        assert {name: row.results[name].points for name in WATCHED} == expected, told
    assert sorted(tmp_path.rglob("*")) == before
    str(row).encode()  # whatever it says can be written down


def test_links_lead_nowhere(grader, tmp_path: Path) -> None:
    """A link in place of a notebook, and in place of a student's folder."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "02_requires_grad.ipynb").write_bytes(BEASTS[0].build())
    submissions = tmp_path / "submissions"
    (submissions / "ann").mkdir(parents=True)
    (submissions / "ann" / "02_requires_grad.ipynb").symlink_to(outside / "02_requires_grad.ipynb")
    (submissions / "bob").symlink_to(outside)
    rows = [grader(submission) for submission in collect(submissions)]
    assert [(row.student, str(row.status)) for row in rows] == [
        ("ann", "unreadable"),
        ("bob", "unreadable"),
    ]


def test_zoo_is_large_enough() -> None:
    assert len(BEASTS) >= 30 and len({each.name for each in BEASTS}) == len(BEASTS)
