"""Exports that were unpacked in one folder: everybody in them is found, or nothing is graded."""

import pytest

from course_utils.cli import grade as command
from course_utils.errors import CourseError
from course_utils.grading.roster import Roster, read_roster
from course_utils.grading.submissions import collect
from tests.grading_helpers import zipped
from tests.test_grading_submissions import METADATA, NAME, NB, write

CANVAS = ("amesmax_5001_90001_02_requires_grad.ipynb", "burnsmax_5002_90002_02_requires_grad.ipynb")
MOODLE = [
    f"{who}_assignsubmission_file_/06_tiling.ipynb" for who in ("Max Cole_7003", "Z\u00f6e_7005")
]


def students(place, **options) -> list[str]:
    return [each.student for each in collect(place, **options)]


def people(tmp_path, names: str) -> Roster:
    (tmp_path / "roster.csv").write_text(f"student\n{names}")
    return read_roster(tmp_path / "roster.csv")


def test_unpacked_exports_side_by_side(tmp_path):
    files = [f"CS577-L6-4711/{name}" for name in MOODLE] + [f"submissions/{n}" for n in CANVAS]
    write(tmp_path, dict.fromkeys(files, NB))
    assert students(tmp_path) == ["Max Cole_7003", "Z\u00f6e_7005", "amesmax_5001", "burnsmax_5002"]
    (tmp_path / "deeper").mkdir()
    for each in ("CS577-L6-4711", "submissions"):
        (tmp_path / each).rename(tmp_path / "deeper" / each)
    assert len(set(students(tmp_path))) == 4
    write(tmp_path, {CANVAS[0]: NB + b" "})  # one more, loose
    assert len(students(tmp_path)) == 5


def test_an_export_of_gradescope_and_zips_one_folder_down(tmp_path):
    inside = "assignment_9_export/"
    files = {f"{inside}submission_{n}/{NAME}": NB for n in (1001, 1002)}
    write(tmp_path / "g", {**files, f"{inside}submission_metadata.yml": METADATA.encode()})
    ada, bob = collect(tmp_path / "g")
    assert (ada.student, bob.student) == ('Ada "the first" Lovelace_4711', "Bob_bob@example.org")
    assert ada.handed_in.startswith("2026-05-04")
    write(tmp_path / "z", {"moodle/L6.zip": zipped(dict.fromkeys(MOODLE, NB))})
    assert students(tmp_path / "z") == ["Max Cole_7003", "Z\u00f6e_7005"]


def test_a_students_own_names_make_no_export(tmp_path):
    names = ["alice/hw_2_1_draft.ipynb", "alice/hw_3_1_draft.ipynb", "bob/submission_2/02.ipynb"]
    write(tmp_path, dict.fromkeys([*names, "carl/carl_4711_900_02.ipynb"], NB))
    assert students(tmp_path) == ["alice", "alice", "bob", "carl"]


def test_what_can_be_read_in_two_ways_is_refused(tmp_path):
    write(tmp_path, {f"L6/{MOODLE[0]}": NB, f"alice/{NAME}": NB})
    with pytest.raises(
        CourseError, match=r"L6/ looks like an unpacked .* and alice/ like one stud"
    ):
        command.count(tmp_path, Roster())
    assert students(tmp_path) == ["L6", "alice"], "nobody's name but a folder's own"
    known = people(tmp_path / "L6", "alice\n")
    assert students(tmp_path, knows=known.knows) == ["Max Cole_7003", "alice"]
    write(tmp_path / "one", {f"class/{who}/{NAME}": NB for who in ("a", "b", "c")})
    with pytest.raises(
        CourseError, match="the only folder in it, class/, .* grade that folder itself"
    ):
        command.count(tmp_path / "one", Roster())
    assert students(tmp_path / "one" / "class") == ["a", "b", "c"]


def test_a_roster_finds_its_people_one_folder_down(tmp_path):
    known = people(tmp_path, "ada\nbob\nzoe\n")
    place = write(tmp_path / "in", {f"section 1/ada/{NAME}": NB, f"section 1/bob/{NAME}": NB})
    assert students(place, knows=known.knows) == ["ada", "bob"]
    (place / "all.zip").write_bytes(
        zipped({f"s2/ada/{NAME}": NB, f"s2/bob/{NAME}": NB, "x.txt": b""})
    )
    with pytest.raises(
        CourseError, match="s2: one student's, as it lies there, but it names ada, bob"
    ):
        command.count(place, known)
    (place / "all.zip").unlink()
    assert command.count(place, known) == 2


def test_several_exports_in_one_zip_lose_nobody(tmp_path):
    files = [f"CS577-L6/{name}" for name in MOODLE] + [f"canvas/{name}" for name in CANVAS]
    write(tmp_path, {"all.zip": zipped(dict.fromkeys(files, NB))})
    try:
        found = students(tmp_path)
        command.count(tmp_path, Roster())
    except CourseError as problem:
        assert "one student's, as it lies there, but it names" in str(problem)
    else:
        assert len(set(found)) == 4
