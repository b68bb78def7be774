"""course.py grade from end to end, in this machine's sandbox: real submissions, real rows."""

import csv
import datetime
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from course_utils.cli import grade as command
from course_utils.errors import CourseError
from course_utils.grading import batch, publishing, telling
from course_utils.grading.ledger import Ledger
from course_utils.grading.platforms import LATE
from course_utils.grading.policy import Policy
from course_utils.grading.records import Graded, RowStatus
from course_utils.grading.roster import COLUMNS, Roster, read_roster
from course_utils.grading.times import Time
from tests.grading_helpers import (
    ROOT,
    as_bytes,
    code,
    colab,
    handed_out,
    solved,
    stripped,
    with_answer,
    zipped,
)

NAME = "02_requires_grad.ipynb"
GRADE = [sys.executable, "-m", "course_utils.cli", "grade"]
HEAD = "student,notebook,status,2.1,2.2,2.3,2.4,total,max_total,seed,checks_version"


@pytest.fixture(scope="session", autouse=True)
def sandbox():
    from course_utils.grading.sandbox.choose import choose_sandbox

    try:
        choose_sandbox()
    except CourseError as problem:
        pytest.skip(str(problem))


def hand_in(place: Path, contents: dict[str, bytes]) -> Path:
    for student, content in contents.items():
        path = place / student / NAME
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    return place


def run(*arguments, seconds: float = 110, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*GRADE, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        **options,
    )


def rows(out: Path) -> dict[str, dict[str, str]]:
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


LOOP = "def lazy_add_backward(x, y, output):\n    import os\n    os._exit(3)"


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """A class with one of each kind, graded once."""
    place = tmp_path_factory.mktemp("class")
    classmates = {
        "alice": as_bytes(solved()),
        "colab": as_bytes(colab(solved())),
        "crash": as_bytes(with_answer("2.3", LOOP)),
        "untouched": as_bytes(handed_out()),
        "=cmd|'calc'!A0": as_bytes(stripped(with_answer("2.1", "def matmul_backward(x"))),
        "cut": as_bytes(solved())[:3000],
        "other": as_bytes(solved("03")),
    }
    hand_in(place / "in", classmates)
    (place / "in" / "zip.zip").write_bytes(zipped({f"home/{NAME}": as_bytes(solved())}))
    (place / "in" / "nobody").mkdir()
    (place / "roster.csv").write_text("student,name\nalice,Alice A\nabsent,Abs Ent\n")
    options = ["--notebook", "02", "--roster", place / "roster.csv", "--seed", 11]
    return place, run(place / "in", "--out", place / "out", *options)


def test_every_submission_has_its_row(graded):
    place, done = graded
    assert done.returncode == 0, done.stderr
    found = rows(place / "out")
    status = {name: (row["status"], row["total"]) for name, row in found.items()}
    assert status == {
        "alice": ("graded", "13"),
        "colab": ("graded", "13"),
        "zip": ("graded", "13"),
        "crash": ("partly", "10"),
        "untouched": ("graded", "0"),
        "'=cmd|'calc'!A0": ("graded", "11"),
        "cut": ("unreadable", "0"),
        "other": ("wrong notebook", "0"),
        "nobody": ("unreadable", "0"),
        "absent": ("missing", "0"),
    }
    assert {row["seed"] for row in found.values()} == {"11"}
    head = (place / "out" / "grades.csv").read_text().partition("\n")[0]
    assert head == HEAD


def test_details_say_why(graded):
    place, _ = graded
    lines = (place / "out" / "grades.jsonl").read_text().splitlines()
    details = {line["student"]: line for line in map(json.loads, lines)}
    untouched = details["untouched"]["results"].values()
    assert {result["status"] for result in untouched} == {"not attempted"}
    assert details["crash"]["results"]["2.3"]["status"] == "crashed"
    assert details["crash"]["results"]["2.4"]["points"] == 4
    assert "this is 03_rematerialization" in details["other"]["note"]
    assert details["alice"]["content_hash"] != details["colab"]["content_hash"]


def test_what_else_is_written(graded):
    place, done = graded
    out = place / "out"
    assert (out / "feedback" / "alice" / "02_requires_grad.html").is_file()
    assert (out / "report.html").is_file()
    assert "Alice A" in (out / "import" / "canvas.csv").read_text()
    assert (out / "final.csv").is_file()
    assert stat.S_IMODE((out / "seed.txt").stat().st_mode) == 0o600
    assert sorted(path.name for path in place.iterdir()) == ["in", "out", "roster.csv"]
    assert "10 rows, 10 students: 5 graded" in done.stdout
    assert "4 to be looked at" in done.stdout, "as many as the report lists"


def test_a_second_run_grades_only_what_changed(graded, monkeypatch, capsys):
    place, _ = graded
    out, before = place / "out", rows(place / "out")
    for name in ("cut", "other"):  # these are read anew each time, which takes a worker
        (place / "in" / name / NAME).unlink()
    monkeypatch.setattr(batch.Workers, "submit", lambda *_: pytest.fail("graded again"))
    options = ["--out", str(out), "--notebook", "02", "--roster", str(place / "roster.csv")]
    assert command.main([str(place / "in"), *options, "--compare", str(out)]) == 0
    assert "1 grade changed:\n  other" in capsys.readouterr().out
    assert "other,02_requires_grad,,0,0" in (out / "changes.csv").read_text()
    assert command.main([str(place / "in"), *options]) == 0
    assert not (out / "changes.csv").exists(), "of a comparison that was not made"
    after = rows(out)
    assert after.pop("other")["status"] == "unreadable"
    assert after == {name: row for name, row in before.items() if name != "other"}


def test_a_run_that_is_interrupted_goes_on(tmp_path):
    notebooks = {}
    for number in range(8):  # untouched, so that they are quick
        notebook = handed_out()
        notebook["cells"].append(code(f"# {number}"))
        notebooks[f"s{number}"] = as_bytes(notebook)
    hand_in(tmp_path / "in", notebooks)
    out = tmp_path / "out"
    arguments = [*GRADE, str(tmp_path / "in"), "--out", str(out), "--workers", "1"]
    process = subprocess.Popen(
        arguments, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    for line in process.stderr:
        if " 2/8" in line:
            process.send_signal(signal.SIGINT)
            break
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "it goes on" in said
    assert not (out / "grades.csv").exists()  # nor would one of an earlier run be changed
    kept = (out / "grades.jsonl").read_text().splitlines()
    assert 2 <= len(kept) < 8
    seed = (out / "seed.txt").read_text()
    again = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert again.returncode == 0, again.stderr
    assert len(rows(out)) == 8
    assert (out / "seed.txt").read_text() == seed
    assert set(kept) <= set((out / "grades.jsonl").read_text().splitlines())


def test_an_interruption_leaves_the_tables_as_they_were(graded, tmp_path, monkeypatch):
    place, _ = graded
    shutil.copytree(place / "out", tmp_path / "out")
    before = (tmp_path / "out" / "grades.csv").read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(batch.Batch, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        command.main([str(place / "in"), "--out", str(tmp_path / "out"), "--notebook", "02"])
    assert (tmp_path / "out" / "grades.csv").read_bytes() == before


def test_thirty_submissions_and_none_leaves_anything_behind(tmp_path, monkeypatch):
    """The batch's own process stays as small as it was: memory, open files, children."""
    rng = random.Random(3)
    wrong = "def matmul_backward(x, w, output):\n    x.grad = w.grad = 0\n"
    for number in range(30):
        notebook = with_answer("2.1", wrong) if number % 3 else handed_out()
        for cell in notebook["cells"]:
            if cell["id"] in ("answer-2-2", "answer-2-3", "answer-2-4"):  # one is enough
                cell.update(cell_type="markdown", source="", metadata={}, id=f"x{cell['id']}")
        notebook["cells"].append(code(f"x = {rng.random()}"))
        hand_in(tmp_path / "in", {f"s{number:02}": as_bytes(notebook)})
    seen = []

    def step(bar, student, reused):
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        seen.append((resident, len(os.listdir("/proc/self/fd"))))

    monkeypatch.setattr("course_utils.grading.progress_bar.ProgressBar.step", step)
    before = groups_and_folders()
    out = tmp_path / "out"
    assert command.main([str(tmp_path / "in"), "--out", str(out), "--workers", "2"]) == 0
    assert len(rows(out)) == len(seen) == 30
    assert {row["total"] for row in rows(out).values()} == {"0"}
    assert seen[-1][0] - seen[9][0] < 4 * 10**6 and seen[-1][1] <= seen[9][1]
    assert groups_and_folders() <= before


def groups_and_folders() -> set[Path]:
    """Control groups and course folders of this process's graders."""
    groups = Path("/sys/fs/cgroup").rglob(f"course-grading-{os.getpid()}-*")
    return {*groups, *Path(tempfile.gettempdir()).glob(f"course_sandbox_{os.getpid()}_*")}


@pytest.fixture(scope="module")
def every_lesson(tmp_path_factory) -> dict[tuple[str, str], dict[str, str]]:
    """Each lesson's solution and its untouched notebook, graded in one batch, the slowest first."""
    place = tmp_path_factory.mktemp("all")
    for number, path in enumerate(sorted((ROOT / "notebooks").glob("*.ipynb"), reverse=True)):
        for kind, make in (("full", solved), ("none", handed_out)):
            folder = place / "in" / f"{number:02}-{kind}"
            folder.mkdir(parents=True)
            (folder / path.name).write_bytes(as_bytes(make(path.name[:2])))
    done = run(place / "in", "--out", place / "out", "--seed", 5, seconds=900)
    assert done.returncode == 0, done.stderr
    with open(place / "out" / "grades.csv", encoding="utf-8", newline="") as file:
        found = {(row["student"][3:], row["notebook"]): row for row in csv.DictReader(file)}
    for line in (place / "out" / "grades.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        flags = [flag for result in row["results"].values() for flag in result["flags"]]
        found[row["student"][3:], row["notebook"]]["flags"] = flags
    return found


@pytest.mark.timeout(600)  # the first one waits for all of them, on a machine that may be busy
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_solution_is_worth_all_and_an_untouched_notebook_nothing(every_lesson, path):
    full, none = (every_lesson[student, path.stem] for student in ("full", "none"))
    assert (full["status"], full["total"]) == ("graded", full["max_total"])
    assert (none["status"], none["total"]) == ("graded", "0")
    assert full["flags"] == none["flags"] == []  # nothing that a person should look at


def test_nothing_half_after_a_kill(tmp_path):
    hand_in(tmp_path / "in", {f"s{k}": as_bytes(solved()) for k in range(6)})
    out = tmp_path / "out"
    arguments = [*GRADE, str(tmp_path / "in"), "--out", str(out), "--workers", "1"]
    process = subprocess.Popen(
        arguments, cwd=ROOT, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL
    )
    for line in process.stderr:
        if " 1/6" in line:
            break
    process.kill()
    process.communicate(timeout=30)
    assert not (out / "grades.csv").exists()
    assert [json.loads(line) for line in (out / "grades.jsonl").read_text().splitlines()]
    deadline = time.monotonic() + 30
    while leftovers := [pid for pid in sandboxes() if pid]:
        assert time.monotonic() < deadline, leftovers
        time.sleep(0.2)


def sandboxes() -> list[int]:
    """Processes of a grader whose parent is gone: orphans of spawn, or their sandboxes."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == 1 and b"multiprocessing" in words and os.getpid() != int(path.name):
            found.append(int(path.name))
    return found


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["nowhere", "--out", "{out}"], "there is no such folder or ZIP file"),
        (["{in}", "--out", "{in}/x"], "lies among the submissions"),
        (["{in}", "--out", "{in}"], "lies among the submissions"),
        (["{in}", "--out", "{out}", "--notebook", "77"], "no lesson '77'"),
        (["{in}", "--out", "{out}", "--policy", "{in}/none.toml"], "cannot be read"),
        (["{in}", "--out", "{out}", "--roster", "{in}/none.csv"], "cannot be read"),
        (["{in}", "--out", "{out}", "--compare", "{in}"], "no grades.jsonl there"),
        (["{in}", "--out", "{out}"], "no notebooks in it"),
        (["{file}", "--out", "{out}"], "not a ZIP file"),
        (["{in}", "--out", "{file}"], "--out"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_one_clear_line(tmp_path, arguments, said):
    (tmp_path / "in").mkdir()
    (tmp_path / "file").write_text("hello")
    places = {name: tmp_path / name for name in ("in", "out", "file")}
    filled = [argument.format(**places) for argument in arguments]
    with pytest.raises(CourseError) as problem:
        command.main(filled)
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


def test_bad_options_end_with_status_2(tmp_path):
    done = run(tmp_path, "--out", tmp_path.parent / "out", "--seed", "-1")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    done = run(tmp_path / "none", "--out", tmp_path / "out")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_seed_file_that_holds_none(tmp_path):
    (tmp_path / "seed.txt").write_text("a secret")
    with pytest.raises(CourseError, match="holds no seed"):
        command.seed_of(tmp_path, None)
    assert command.seed_of(tmp_path, 5) == 5
    assert command.seed_of(tmp_path, None) == 5


def test_a_typing_error_in_written_points_is_told_before_anything_is_graded(tmp_path, monkeypatch):
    hand_in(tmp_path / "in", {"ada": b"{}"})
    (tmp_path / "out").mkdir()
    head = "student,notebook,question,points,comment,answer,note\n"
    (tmp_path / "out" / "written.csv").write_text(f"{head}ada,02_requires_grad,2.w,1 pt,,x,\n")
    monkeypatch.setattr(command, "workers_for", lambda *_: pytest.fail("graded"))
    with pytest.raises(CourseError, match="'1 pt' is no number of points"):
        command.main([str(tmp_path / "in"), "--out", str(tmp_path / "out")])


def test_what_rules_cannot_be_applied_to_is_told():
    due = {"02_requires_grad": datetime.datetime(2026, 5, 4, tzinfo=datetime.UTC)}
    on_it = {"ada": dict.fromkeys(COLUMNS, ""), "bob": dict.fromkeys(COLUMNS, "")}
    best = [Graded(s, "02_requires_grad", RowStatus.GRADED, origin="x") for s in ("ada", "eve")]
    best[0].note = LATE
    untimed, late, strangers = telling.about_names_and_times(best, Policy(due=due), Roster(on_it))
    assert "2 submissions of 2 students, with a due date" in untimed and "handed_in.csv" in untimed
    assert late.startswith("LATE in the platform's name, and no time") and "ada (02)" in late
    assert strangers == "1 not on the roster: eve"
    best[1].handed_in, penalty = "2026-05-06T10:00", {"penalty_per_day": 0.1}
    rules = Policy(due=due, late=Policy().late | penalty)
    told = telling.about_names_and_times(best, rules, Roster())
    assert told[2:] == ["late, and worth less: eve (02)"]
    assert telling.about_names_and_times(best, Policy(), Roster()) == []
    times = [Time("ada", "", "", "x"), Time("zoe", "02", "", "x")]
    told = telling.about_names_and_times(best, Policy(), Roster(), best, times)
    assert told == ["handed_in.csv has 1 for which nothing is here: zoe"]


def published(out: Path, graded, rules=None, **options):
    return publishing.publish(out, graded, rules or Policy(), Roster(), **options)


def test_answers_in_words_that_nobody_has_read_are_told(tmp_path):
    said = {"2.w": "Because nobody reads it."}
    graded = [
        Graded(s, "02_requires_grad", RowStatus.GRADED, written=said, origin="x") for s in "ab"
    ]
    _, told = published(tmp_path, graded, Policy(points={"2.w": 2.0}))
    assert told == ["2 answers in words have no points yet (written.csv): totals are provisional"]
    assert told[0] in (tmp_path / "report.html").read_text()
    assert published(tmp_path, graded)[1] == [
        "2 answers in words have no points yet (written.csv); they would be a bonus"
    ]
    sheet = tmp_path / "written.csv"
    sheet.write_text(sheet.read_text("utf-8-sig").replace("2.w,,", "2.w,1,"))
    assert published(tmp_path, graded)[1] == []


def test_nothing_of_an_earlier_run_stays_in_a_folder(tmp_path):
    lesson, other = "02_requires_grad", "06_tiling"
    moodle = "Max_7_assignsubmission_file_/x.ipynb"
    both = [Graded("Max_7", name, RowStatus.GRADED, origin=moodle) for name in (lesson, other)]
    published(tmp_path, both)
    assert (tmp_path / "import" / "moodle" / f"{other}_feedback.zip").is_file()
    published(tmp_path, both[:1])
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert f"{lesson}.html" in names and not [name for name in names if other in name]
    published(tmp_path, both[:1], with_finals=False)
    assert not list((tmp_path / "import").rglob("*.*")) and not (tmp_path / "final.csv").exists()


def test_one_lesson_into_a_folder_with_others_is_refused(tmp_path, monkeypatch):
    hand_in(tmp_path / "in", {"ada": b"{}"})
    out = tmp_path / "out"
    out.mkdir()
    Ledger(out / "grades.jsonl").close([Graded("ada", "06_tiling", RowStatus.GRADED)])
    monkeypatch.setattr(command, "workers_for", lambda *_: pytest.fail("graded"))
    arguments = [str(tmp_path / "in"), "--out", str(out), "--notebook"]
    with pytest.raises(CourseError, match="holds 06_tiling of an earlier run.*use another --out"):
        command.main([*arguments, "02"])
    publishing.refuse_mixed(out, "06_tiling")
    publishing.refuse_mixed(out, None)


def test_a_number_of_moodles_finds_no_canvas_id(tmp_path):
    (tmp_path / "roster.csv").write_text("student,canvas_id,moodle_id\nada,7034,1\nbob,5,7\n")
    people = read_roster(tmp_path / "roster.csv")
    names = ["Max Huang_7034_assignsubmission_file_/02.ipynb", "x_7034_900_02.ipynb"]
    for name in names:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
    found = [each.student for each in command.handed_in(tmp_path / "in", people)]
    assert found == ["Max Huang_7034", "ada"]
