"""The zoo: none above its honest score, none harming its neighbours, nothing left behind."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from course_utils.grading import grade_one as grading
from course_utils.grading.feedback import feedback_page
from course_utils.grading.jobs import make_job
from course_utils.grading.judging import judge_runs
from course_utils.grading.lessons import lessons
from course_utils.grading.reading import read_submission
from course_utils.grading.records import Graded, Job, RowStatus
from course_utils.grading.sandbox.choose import choose_sandbox
from course_utils.grading.sandbox.limits import Limits
from course_utils.grading.sandbox.run import run_job
from course_utils.grading.submissions import collect
from tests import zoo
from tests.zoo import BEASTS, FULL, Beast

LIMITS = Limits(
    exercise_seconds=5, memory_bytes=300 * 10**6, files_bytes=20 * 10**6, output_bytes=30 * 10**6
)
ROOM = {"08": {"memory_bytes": 10**9}}  # Triton takes some
WATCHED = ("2.1", "2.3")  # the quick ones: what is not attacked must not notice
RUNNING = [each for each in BEASTS if each.kind in zoo.RUNNING]


@pytest.fixture(scope="module")
def sandbox() -> Iterator:
    before = left_behind()
    sandbox = choose_sandbox()
    yield sandbox
    shutil.rmtree(sandbox.course, ignore_errors=True)
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


def with_cases(job: Job, most: int, exercises: Iterable[str]) -> Job:
    """The job with some exercises' first cases alone: each beast takes its time for all."""
    return replace(job, cases=job.cases | {name: job.cases[name][:most] for name in exercises})


def seconds(beast: Beast) -> float:
    """How long the sandbox waits: not long for what never ends, longer than a busy machine takes for all else."""
    if "too slow" in beast.endings.values():
        return 1.0
    return 1.5 if beast.kind == "bombs" else 20.0


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
    watched = (*(WATCHED if beast.lesson == "02" else ()), *beast.points)
    job = only(make_job(beast.name, reading, 3), watched)
    if beast.kind not in (
        "bombs",
        "ends",
    ):  # the others leave a neighbour as much time and room as ever
        job = with_cases(job, 2, set(WATCHED) & set(watched) - set(beast.points))
    if beast.lesson == "08":  # a kernel's meter takes its time to start
        job = with_cases(job, 2, beast.points)
    limits = replace(LIMITS, **ROOM.get(beast.lesson, {}), exercise_seconds=seconds(beast))
    results = judge_runs(job, run_job(job, limits, sandbox))
    told = {each.exercise: (each.status, each.diagnosis, each.flags) for each in results.values()}
    expected = {name: points for name, points in (FULL | beast.points).items() if name in watched}
    assert {name: results[name].points for name in expected} == expected, told
    for exercise, ending in beast.endings.items():
        assert results[exercise].status == ending, told
    if beast.flagged:
        assert any(each.flags for each in results.values()), told
    if beast.whispers:
        (exercise,) = beast.points
        seed = str(job.cases[exercise][0].given["seed"])
        row = Graded("somebody", reading.notebook, RowStatus.GRADED, results)
        assert seed in results[exercise].diagnosis and seed not in feedback_page(row)


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
