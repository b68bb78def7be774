"""Whose work it is: what a platform wrote decides, and nothing that a student chose."""

import zipfile
from pathlib import Path

import pytest

from course_utils.errors import CourseError
from course_utils.grading.exports import moodle_folder
from course_utils.grading.submissions import collect
from tests.grading_helpers import zipped

NAME = "02_requires_grad.ipynb"
ANNS, EVES = b"ann's", b"eve's"


def metadata(**people: tuple[str, str, str]) -> bytes:
    """Gradescope's: by submission, name, number and year."""
    return "".join(
        f"{submission}:\n  :submitters:\n  - :name: {name}\n    :sid: '{sid}'\n"
        f"  :created_at: {year}-01-01 00:00:00 -0700\n"
        for submission, (name, sid, year) in people.items()
    ).encode()


REAL = metadata(submission_101=("Ann", "11", "2026"), submission_102=("Eve", "13", "2026"))
FORGED = metadata(submission_101=("Eve", "13", "2020"), submission_102=("Eve", "13", "2020"))
EXPORT = {
    f"export/submission_101/{NAME}": ANNS,
    f"export/submission_102/{NAME}": EVES,
    "export/submission_102/submission_metadata.yml": FORGED,
    "export/submission_metadata.yml": REAL,
}
OWN = zipped(  # a student's own archive that looks like everybody's
    {
        "submission_metadata.yml": FORGED,
        f"submission_101/{NAME}": EVES,
        f"annames_11_91_{NAME}": EVES,
        f"Ann Ames_11_assignsubmission_file_/{NAME}": EVES,
        f"ann/{NAME}": EVES,
    }
)


def whose(place: Path) -> list[tuple]:
    return [(each.student, each.content, each.handed_in[:4]) for each in collect(place)]


def put(tmp_path: Path, members: dict[str, bytes], unpacked: bool) -> Path:
    """The members as a ZIP file, or as a folder."""
    if not unpacked:
        (tmp_path / "export.zip").write_bytes(zipped(members))
        return tmp_path / "export.zip"
    for name, content in members.items():
        path = tmp_path / "all" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "all"


@pytest.mark.parametrize("unpacked", [False, True])
def test_gradescopes_table_is_the_one_beside_the_submissions(tmp_path, unpacked):
    place = put(tmp_path, EXPORT, unpacked)
    place = place / "export" if unpacked else place
    assert whose(place) == [("Ann_11", ANNS, "2026"), ("Eve_13", EVES, "2026")]


def test_two_tables_in_one_place_are_refused(tmp_path):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive, pytest.warns(UserWarning):
        for content in (REAL, FORGED):
            archive.writestr("export/submission_metadata.yml", content)
        archive.writestr(f"export/submission_101/{NAME}", ANNS)
    with pytest.raises(CourseError, match="more than once"):
        list(collect(path))


@pytest.mark.parametrize("unpacked", [False, True])
def test_moodles_own_name_stands_before_a_students(tmp_path, unpacked):
    chosen = f"Ann Ames_4711_assignsubmission_file_{NAME}"
    members = {
        chosen: ANNS,
        f"Eve Evil_13_assignsubmission_file_{chosen}": EVES,
        f"Flo Folder_14_assignsubmission_file_/{chosen}": EVES,
        f"Gus Deep_15_assignsubmission_file_/Ann Ames_4711_assignsubmission_file_/{NAME}": EVES,
    }
    place = put(tmp_path, members, unpacked)
    assert whose(place) == [
        ("Ann Ames_4711", ANNS, ""),
        ("Eve Evil_13", EVES, ""),
        ("Flo Folder_14", EVES, ""),
        ("Gus Deep_15", EVES, ""),
    ]
    numbers = [moodle_folder(each.origin)["number"] for each in collect(place)]
    assert numbers == ["4711", "13", "14", "15"]


@pytest.mark.parametrize("unpacked", [False, True])
@pytest.mark.parametrize(
    "name, student",
    [
        ("evileve_LATE_13_92_mine.zip", "evileve_13"),
        ("Eve Evil_13_assignsubmission_file_/mine.zip", "Eve Evil_13"),
        ("eve/mine.zip", "eve"),
    ],
)
def test_a_students_own_archive_is_nobody_elses(tmp_path, unpacked, name, student):
    """It may look like any platform's export: it stays theirs, with the time and mark that theirs has."""
    honest = "annames_11_91_" if name.startswith("evil") else "ann/"
    place = put(tmp_path, {f"{honest}{NAME}": ANNS, name: OWN}, unpacked)
    ann, *eves = sorted(collect(place), key=lambda each: each.content)
    assert (ann.student, ann.content) == (
        "annames_11" if name.startswith("evil") else "ann",
        ANNS,
    )
    assert {(each.student, each.handed_in, each.content) for each in eves} == {(student, "", EVES)}
    assert len(eves) == 4
    assert all(bool(each.mark) is ("LATE" in name) for each in eves)


def test_a_students_own_archive_has_gradescopes_time(tmp_path):
    members = EXPORT | {"export/submission_102/mine.zip": OWN}
    for place in (put(tmp_path, members, False), put(tmp_path, members, True) / "export"):
        assert set(whose(place)) == {("Ann_11", ANNS, "2026"), ("Eve_13", EVES, "2026")}


def test_a_folder_a_student_has_no_owners_below(tmp_path):
    members = {
        f"ann/{NAME}": ANNS,
        f"eve/submission_101/{NAME}": EVES,
        f"eve/annames_11_91_{NAME}": EVES,
        f"eve/Ann Ames_11_assignsubmission_file_/{NAME}": EVES,
        "eve/submission_metadata.yml": FORGED,
    }
    for unpacked in (False, True):
        assert set(whose(put(tmp_path, members, unpacked))) == {
            ("ann", ANNS, ""),
            ("eve", EVES, ""),
        }
