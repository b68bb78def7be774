"""What Canvas, Moodle and Gradescope import: their columns, and no zero where there is no figure."""

import csv
import json
import zipfile

from course_utils.grading import exports, platforms
from course_utils.grading.feedback import write_feedback
from course_utils.grading.finals import finals
from course_utils.grading.lessons import lessons
from course_utils.grading.policy import Policy
from course_utils.grading.records import RowStatus
from course_utils.grading.roster import read_roster
from tests.test_grading_rows import NOTEBOOK, row

PEOPLE = (
    "student,name,email,canvas_id,sis_id,sis_login,section,moodle_id\n"
    "ada,Ada Lovelace,ada@example.org,4711,s1,ada1,A,12\n"
    "bob,=Bob,bob@example.org,4712,s2,bob1,A,13\n"
    "eve,Eve,eve@example.org,4713,s3,eve1,A,14\n"
)


def exported(tmp_path):
    (tmp_path / "roster.csv").write_text(PEOPLE)
    people = read_roster(tmp_path / "roster.csv")
    rules = Policy(exempt={NOTEBOOK: ["bob"]}, names={NOTEBOOK: "Lesson 2 (99)"})
    ada = row("ada", missed=("2.1",))
    ada.results["2.1"].diagnosis = "Expected 1, got 0.7071."
    graded = [
        ada,
        row("bob"),
        row("eve", status=RowStatus.GRADER_ERROR),
        row("Zed Zebra_77"),
        row("../up"),
    ]
    found = finals(graded, people, rules, lessons())
    exports.write_exports(tmp_path / "import", found, graded, people, rules)
    return tmp_path / "import"


def lines(path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_canvas(tmp_path):
    head, possible, *students = lines(exported(tmp_path) / "canvas.csv")
    assert head == [*exports.CANVAS, "Lesson 2 (99)"]
    assert possible[0].strip() == "Points Possible"
    assert possible[-1] == "13"
    assert ["Ada Lovelace", "4711", "s1", "ada1", "A", "11"] in students
    assert ["'=Bob", "4712", "s2", "bob1", "A", "EX"] in students
    assert not [line for line in students if line[0] == "Eve"], (
        "no figure: a row would erase what is there"
    )
    assert ["Zed Zebra_77", "77", "", "", "", "13"] in students


def test_moodle(tmp_path):
    head, *students = lines(exported(tmp_path) / "moodle" / f"{NOTEBOOK}.csv")
    assert head == exports.MOODLE
    by_name = {line[1]: line for line in students}
    assert by_name["Ada Lovelace"][0] == "Participant 12"
    assert by_name["Ada Lovelace"][3:5] == ["11", "13"]
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(head), (
        "Moodle refuses it without these"
    )
    assert by_name["Zed Zebra"][0] == "Participant 77"
    assert by_name["Eve"][3] == ""


def test_gradescope(tmp_path):
    folder = exported(tmp_path) / "gradescope"
    assert all(folder in path.parents for path in tmp_path.rglob("results.json"))
    ada = json.loads((folder / "ada" / NOTEBOOK / "results.json").read_text())
    assert ada["score"] == 11
    assert [test["score"] for test in ada["tests"]] == [0, 4, 3, 4]
    assert [test["status"] for test in ada["tests"]] == ["failed", "passed", "passed", "passed"]
    assert ada["tests"][0]["output"] == "failed. Expected 1, got #. (`#`: numbers of a hidden case)"
    assert "0.7071" not in json.dumps(ada), "feedback hides them, and so does this"
    eve = json.loads((folder / "eve" / NOTEBOOK / "results.json").read_text())
    assert "score" not in eve
    assert not list((tmp_path / "import").glob("up*"))


def test_moodles_number_is_the_assignments(tmp_path):
    people = read_roster(None)
    origin = "export.zip!Ada Lovelace_990_assignsubmission_file_/02_requires_grad.ipynb"
    graded = [row("ada", origin=origin), row("bob", origin="in/bob/02_requires_grad.ipynb")]
    found = finals(graded, people, Policy(), lessons())
    exports.write_exports(tmp_path, found, graded, people, Policy())
    _, *students = lines(tmp_path / "moodle" / f"{NOTEBOOK}.csv")
    assert [line[0] for line in students] == ["Participant 990", ""]


def test_moodle_takes_the_pages_back_by_the_names_it_gave(tmp_path):
    origin = "export.zip!Ada Lovelace_990_assignsubmission_file_/02_requires_grad.ipynb"
    graded = [row("ada", origin=origin), row("bob", origin="in/bob/02_requires_grad.ipynb")]
    found = finals(graded, read_roster(None), Policy(), lessons())
    made = write_feedback(graded, tmp_path / "feedback", found=found)
    of_whom = {(each.student, each.notebook): path for each, path in zip(graded, made)}
    place = tmp_path / "import"
    exports.write_exports(place, found, graded, read_roster(None), Policy(), of_whom)
    packed = place / "moodle" / f"{NOTEBOOK}_feedback.zip"
    with zipfile.ZipFile(packed) as archive:
        (name,) = archive.namelist()
        assert archive.read(name) == made[0].read_bytes()
    assert name == f"Ada Lovelace_990_assignsubmission_file/feedback_{NOTEBOOK}.html"
    assert platforms.owner(name).student == "Ada Lovelace_990"
    exports.write_exports(place, found, graded[1:], read_roster(None), Policy(), of_whom)
    assert not packed.exists()


def test_results_of_names_that_are_gone_go_too(tmp_path):
    def run(name):
        graded = [row(name)]
        found = finals(graded, read_roster(None), Policy(), lessons())
        exports.write_exports(tmp_path, found, graded, read_roster(None), Policy())

    run("ada_4711")
    run("ada")
    assert [path.name for path in (tmp_path / "gradescope").iterdir()] == ["ada"]
