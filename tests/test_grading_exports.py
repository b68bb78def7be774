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
        row("Zed Zebra_77", origin="Zed Zebra_77_assignsubmission_file_/02_requires_grad.ipynb"),
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
    assert "Zed Zebra_77" not in {line[0] for line in students}, "the roster does not know them"


def test_moodle(tmp_path):
    head, *students = lines(exported(tmp_path) / "moodle" / f"{NOTEBOOK}.csv")
    assert head == exports.MOODLE
    by_name = {line[1]: line for line in students}
    assert by_name["Ada Lovelace"][0] == "Participant 12"
    assert by_name["Ada Lovelace"][3:5] == ["11", "13"]
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(head), (
        "Moodle refuses it without these"
    )
    assert set(by_name) == {"Ada Lovelace", "'=Bob", "Eve"}
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


def written(tmp_path, graded, people=None):
    people = people or read_roster(None)
    found = finals(graded, people, Policy(), lessons())
    exports.write_exports(tmp_path, found, graded, people, Policy())
    _, *sheet = lines(tmp_path / "moodle" / f"{NOTEBOOK}.csv")
    _, _, *canvas = lines(tmp_path / "canvas.csv")
    return {line[1]: line[0] for line in sheet}, {line[0]: line[1] for line in canvas}


def test_moodles_number_is_the_assignments(tmp_path):
    (tmp_path / "roster.csv").write_text(PEOPLE)
    origin = "export.zip!Ada Lovelace_990_assignsubmission_file_/02_requires_grad.ipynb"
    graded = [row("ada", origin=origin), row("bob", origin="in/bob/02_requires_grad.ipynb")]
    sheet, _ = written(tmp_path / "x", graded, read_roster(tmp_path / "roster.csv"))
    assert sheet == {"Ada Lovelace": "Participant 990", "'=Bob": "Participant 13"}


def test_a_number_goes_into_the_file_of_the_platform_that_gave_it(tmp_path):
    graded = [
        row("Max Huang_7034", origin="x.zip!Max Huang_7034_assignsubmission_file_/02.ipynb"),
        row("huangmax_5034", origin="in/c/huangmax_5034_900_02_requires_grad.ipynb"),
        row("Ada_4711", origin="export/submission_88/02_requires_grad.ipynb"),
        row(
            "zoe", origin="in/zoe/huangmax_5034_900_02_requires_grad.ipynb"
        ),  # a name of her own making
        row("carl_12", origin="in/carl_12/02_requires_grad.ipynb"),
    ]
    sheet, canvas = written(tmp_path, graded)
    assert sheet == {"Max Huang": "Participant 7034", "Ada": "", "zoe": "", "carl": ""}
    assert canvas == {"huangmax_5034": "5034", "Ada_4711": "", "zoe": "", "carl_12": ""}


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
