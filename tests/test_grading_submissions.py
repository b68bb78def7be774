"""Collecting what was handed in: folders, exports in ZIPs, and what is wrong with either."""

import io
import os
import struct
import tracemalloc
import zipfile

import pytest

from course_utils.errors import CourseError
from course_utils.grading import archives
from course_utils.grading import packed as packed_up
from course_utils.grading.grade_one import Settings, grade_one
from course_utils.grading.platforms import gradescope_submitters
from course_utils.grading.records import Graded, RowStatus, Submission
from course_utils.grading.submissions import collect
from course_utils.grading.times import read_times, with_times
from tests.grading_helpers import zipped

NB = b'{"cells": []}'
NAME = "02_requires_grad.ipynb"
METADATA = """\
---
submission_1001:
  :submitters:
  - :name: Ada "the first" Lovelace
    :sid: '4711'
    :email: ada@example.org
  :created_at: 2026-05-04 21:00:00.123456789 Z
  :score: 0.0
  :history:
  - :id: 5
    :name: nobody
submission_1002:
  :submitters:
  - :name: Bob
    :sid:
    :email: bob@example.org
  :created_at: 2026-05-05 01:00:00.000000000 Z
"""


def found(place) -> list[tuple[str, str, bytes | None]]:
    return [(each.student, each.file_name, each.content) for each in collect(place)]


def write(place, files: dict[str, bytes]):
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return place


def only(place) -> Submission:
    (submission,) = collect(place)
    return submission


def test_a_folder_a_student(tmp_path):
    place = write(tmp_path, {f"alice/{NAME}": NB, f"bob/deep/er/{NAME}": NB + b" "})
    assert found(place) == [("alice", NAME, NB), ("bob", NAME, NB + b" ")]


def test_what_editors_leave_is_passed_over(tmp_path):
    junk = {f"alice/.ipynb_checkpoints/{NAME}": b"old", "alice/.DS_Store": b"", ".git/x.ipynb": b""}
    place = write(tmp_path, {f"alice/{NAME}": NB, "alice/notes.txt": b"hi", **junk})
    assert [each[0] for each in found(place)] == ["alice"]


def test_a_browsers_ending_and_a_loose_notebook(tmp_path):
    place = write(tmp_path, {f"alice/{NAME}.txt": NB, "carol.ipynb": NB})
    assert found(place) == [("alice", f"{NAME}.txt", NB), ("carol", "carol.ipynb", NB)]


def test_a_student_without_a_notebook_still_comes_out(tmp_path):
    write(tmp_path, {"alice/report.pdf": b"%PDF"})
    (tmp_path / "bob").mkdir()
    problems = {each.student: each.problem for each in collect(tmp_path)}
    assert problems == {
        "alice": "no notebook in it: report.pdf",
        "bob": "no notebook in it, it is empty",
    }


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "giant", "loop"])
def test_what_is_no_plain_file_is_not_opened(tmp_path, kind):
    place = tmp_path / "in"
    (place / "alice").mkdir(parents=True)
    path, secret = place / "alice" / NAME, tmp_path / "secret"
    secret.mkdir()
    (secret / NAME).write_bytes(b"private")
    if kind == "link":
        path.symlink_to(secret / NAME)
    elif kind == "folder link":
        (place / "alice").rmdir()
        (place / "alice").symlink_to(secret)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with open(path, "wb") as file:
            file.truncate(31 * 10**6)
    submission = only(place)
    assert submission.student == "alice"
    assert submission.content is None
    wanted = {"pipe": "not a plain file", "giant": "larger than 30 MB"}.get(kind, "a symbolic link")
    assert submission.problem == wanted


def test_moodle_with_folders_and_flat(tmp_path):
    write(
        tmp_path,
        {
            f"Ada Lovelace_4711_assignsubmission_file_/{NAME}": NB,
            f"Bob O'Neil_12_assignsubmission_file_{NAME}": NB,
        },
    )
    assert found(tmp_path) == [("Ada Lovelace_4711", NAME, NB), ("Bob O'Neil_12", NAME, NB)]
    packed = zipped(
        {p.relative_to(tmp_path).as_posix(): NB for p in tmp_path.rglob("*") if p.is_file()}
    )
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "export.zip").write_bytes(packed)
    assert found(tmp_path / "x") == found(tmp_path / "x" / "export.zip")
    assert {each[0] for each in found(tmp_path / "x")} == {"Ada Lovelace_4711", "Bob O'Neil_12"}


def test_canvas_names_late_marks_and_second_attempts(tmp_path):
    names = [
        "lovelaceada_4711_900_02_requires_grad.ipynb",
        "bobby_LATE_12_901_02_requires_grad-2.ipynb",
    ]
    path = tmp_path / "submissions.zip"
    path.write_bytes(zipped(dict.fromkeys(names, NB)))
    ada, bob = collect(path)
    assert (ada.student, ada.file_name, ada.attempt) == ("lovelaceada_4711", NAME, 1)
    assert (bob.student, bob.file_name, bob.attempt) == ("bobby_12", NAME, 3)


def test_gradescope_says_who_it_is_and_when(tmp_path):
    files = {
        "assignment_9_export/submission_metadata.yml": METADATA.encode(),
        f"assignment_9_export/submission_1001/{NAME}": NB,
        f"assignment_9_export/submission_1002/sub/{NAME}": NB,
        f"assignment_9_export/submission_1003/{NAME}": NB,
    }
    path = tmp_path / "assignment_9_export.zip"
    path.write_bytes(zipped(files))
    write(tmp_path / "un", files)
    for place in (path, tmp_path / "un" / "assignment_9_export"):
        ada, bob, unknown = collect(place)
        assert ada.student == 'Ada "the first" Lovelace_4711'
        assert ada.handed_in.startswith("2026-05-04 21:00:00")
        assert bob.student == "Bob_bob@example.org"
        assert unknown.student == "1003"


def test_gradescope_metadata_takes_no_name_from_elsewhere():
    assert set(gradescope_submitters(METADATA)) == {"1001", "1002"}
    assert gradescope_submitters("not: yaml: [") == {}


def test_zips_of_students(tmp_path):
    (tmp_path / "in").mkdir()
    write(
        tmp_path / "in",
        {
            "alice.zip": zipped({NAME: NB}),
            "bob.zip": zipped({f"homework/{NAME}": NB, "__MACOSX/homework/._x.ipynb": b""}),
            "carol/mine.zip": zipped({f"homework/{NAME}": NB}),
            "dave/broken.zip": b"PK\x03\x04 nothing",
            "erin.7z": b"7z",
        },
    )
    rows = {each.student: each for each in collect(tmp_path / "in")}
    assert [rows[name].content for name in ("alice", "bob", "carol")] == [NB] * 3
    assert "damaged" in rows["dave"].problem
    assert rows["erin"].problem == "an archive, but no ZIP"


def test_a_zip_with_a_folder_a_student_and_zips_in_it(tmp_path):
    path = tmp_path / "all.zip"
    members = {f"all/alice/{NAME}": NB, "all/bob/hand in.zip": zipped({f"x/{NAME}": NB})}
    path.write_bytes(zipped(members))
    assert found(path) == [("alice", NAME, NB), ("bob", NAME, NB)]


@pytest.mark.parametrize(
    "name", ["../../evil.ipynb", "/etc/evil.ipynb", "C:\\evil.ipynb", "a/../../evil.ipynb"]
)
def test_names_that_climb_out_are_refused_and_nothing_is_written(tmp_path, name):
    path = tmp_path / "in" / "mallory.zip"
    path.parent.mkdir()
    path.write_bytes(zipped({name: NB, "good.ipynb": NB}))
    rows = list(collect(path.parent))
    refused = [each for each in rows if each.content is None]
    assert [each.problem for each in refused] == ["its path in the archive is not safe"]
    assert "mallory" in {each.student for each in rows}
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["in", "mallory.zip"]


def special_zip(change) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        info = zipfile.ZipInfo(NAME)
        info.compress_type = zipfile.ZIP_DEFLATED
        change(archive, info)
    return stream.getvalue()


def link(archive, info):
    info.external_attr = 0o120777 << 16
    archive.writestr(info, "/etc/passwd")


def bomb(archive, info):
    archive.writestr(info, b"\0" * 20_000_000)


def giant(archive, info):
    archive.writestr(info, b"\0" * 31_000_000)


@pytest.mark.parametrize(
    "change, problem",
    [(link, "a symbolic link"), (bomb, "like a ZIP bomb"), (giant, "larger than 30 MB")],
)
def test_members_that_must_not_be_read(tmp_path, change, problem):
    (tmp_path / "mallory.zip").write_bytes(special_zip(change))
    submission = only(tmp_path)
    assert submission.content is None
    assert problem in submission.problem


def test_a_header_that_lies_about_the_size(tmp_path, monkeypatch):
    content = bytearray(zipped({NAME: b"x" * 5000}))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", content, content.index(mark) + offset, 10)
    (tmp_path / "mallory.zip").write_bytes(bytes(content))
    submission = only(tmp_path)
    assert submission.content is None or len(submission.content) <= 10
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 100)
    (tmp_path / "mallory.zip").write_bytes(zipped({NAME: b"x" * 101}))
    assert only(tmp_path).content is None


def test_damage_and_passwords_cost_one_member(tmp_path):
    content = bytearray(zipped({NAME: b"x" * 500, "b.ipynb": NB}))
    content[len(NAME) + 32] ^= 0xFF
    (tmp_path / "mallory.zip").write_bytes(bytes(content))
    damaged, good = collect(tmp_path)
    assert "damaged" in damaged.problem
    assert good.content == NB
    content = bytearray(zipped({NAME: NB}))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "mallory.zip").write_bytes(bytes(content))
    assert only(tmp_path).problem == "encrypted in the archive"


def test_a_zip_without_notebooks(tmp_path):
    (tmp_path / "alice.zip").write_bytes(zipped({"a.txt": b""}))
    assert only(tmp_path).problem == "no notebook in the archive"


def test_names_that_are_no_text_can_be_written(tmp_path):
    os.mkdir(os.fsencode(tmp_path) + b"/al\xffice")
    with open(os.fsencode(tmp_path) + b"/al\xffice/02_requires_grad.ipynb", "wb") as file:
        file.write(NB)
    assert only(tmp_path).student.encode() == b"al?ice"


def test_times_come_from_a_table_where_it_is_there(tmp_path):
    def timed(text, called=str):
        (tmp_path / "handed_in.csv").write_text(text)
        students = [("alice", "02_requires_grad"), ("alice", "03_rematerialization"), ("bob", "")]
        rows = [Graded(*each, RowStatus.GRADED) for each in students]
        return [row.handed_in for row in with_times(rows, read_times(tmp_path, called))[0]]

    ten, two = "2026-05-04T10:00", "2026-05-05 14:00"
    assert timed(f"student,handed_in\nalice,{ten}\n") == [ten, ten, ""]
    text = f"student;notebook;handed_in\nalice;;{ten}\nalice;NAME;{two}\nbob;;\n"
    for name in ("03_rematerialization", "03_rematerialization.ipynb", "03"):
        assert timed(text.replace("NAME", name)) == [ten, two, ""]
    assert timed(f"student,notebook,handed_in\nAda_4711,02,{ten}\n", lambda _: "alice") == [
        ten,
        "",
        "",
    ]
    with pytest.raises(CourseError, match="student, handed_in and"):
        timed("who,when\n")
    with pytest.raises(CourseError, match="alice: 'yesterday' is no time"):
        timed("student,handed_in\nalice,yesterday\n")
    (tmp_path / "handed_in.csv").unlink()
    assert read_times(tmp_path) == read_times(tmp_path / "none") == []


def test_bad_places_say_what_to_do(tmp_path):
    with pytest.raises(CourseError, match="no such folder"):
        list(collect(tmp_path / "nowhere"))
    (tmp_path / "x.zip").write_bytes(b"hello")
    with pytest.raises(CourseError, match="give a folder, or a ZIP"):
        list(collect(tmp_path / "x.zip"))


def test_a_small_zip_of_a_thousand_notebooks_is_bounded(tmp_path):
    blank = b" " * 999_000
    (tmp_path / "mallory").mkdir()
    packed = zipped({f"{number}.ipynb": blank for number in range(packed_up.MAX_NOTEBOOKS + 30)})
    assert len(packed) < 200_000
    (tmp_path / "mallory" / "x.zip").write_bytes(packed)
    (tmp_path / "mallory" / "y.zip").write_bytes(zipped({"in.zip": packed}))
    tracemalloc.start()
    seen = [(each.content is None, each.problem) for each in collect(tmp_path)]
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(seen) == packed_up.MAX_NOTEBOOKS + 1 and "more than 20 notebooks" in seen[-1][1]
    assert peak_bytes < 8 * 10**6  # one at a time


def test_many_bytes_of_one_student_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(packed_up, "MAX_BYTES", 1000)
    path = tmp_path / "all.zip"
    names = [*(f"bob/{k}.ipynb" for k in range(9)), "amy/1.ipynb"]
    path.write_bytes(zipped(dict.fromkeys(names, b"x" * 400)))
    seen = [(each.student, each.content is None) for each in collect(path)]
    assert seen == [*[("bob", False)] * 3, ("bob", True), ("amy", False)]


@pytest.mark.parametrize("name", ["alice/hw.zip", "alice.zip"])
def test_a_pipe_named_as_an_archive_does_not_hang(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name)
    assert (only(tmp_path).student, only(tmp_path).problem) == ("alice", "not a plain file")


def test_who_handed_in_something_else_has_a_row(tmp_path):
    names = [
        *("amy/02_requires_grad.ipynb", "amy/figure.png", "bob/mine.pdf"),
        *("ame_1_2_02_requires_grad.ipynb", "ame_1_3_notes.pdf", "bee_4_5_solution.pdf"),
    ]
    path = tmp_path / "class.zip"
    path.write_bytes(zipped(dict.fromkeys(names, NB)))
    rows = {each.student: each.problem for each in collect(path)}
    told = {"bob": "no notebook in it: mine.pdf", "bee_4": "no notebook in it: solution.pdf"}
    assert {name: problem for name, problem in rows.items() if problem} == told
    place = write(tmp_path / "in", {"ame_1_3_notes.pdf": b"", "zoe.pdf": b"", "roster.csv": b""})
    write(place, {"ame_1_2_02_requires_grad.ipynb": NB})
    rows = {each.student: each.problem for each in collect(place)}
    assert rows == {"ame_1": "", "zoe": "not a notebook"}


def test_a_late_mark_is_kept_and_packing_is_no_handing_in(tmp_path):
    names = ["ada_4711_900_02_requires_grad.ipynb", "bob_LATE_12_901_02_requires_grad.ipynb"]
    path = tmp_path / "submissions.zip"
    path.write_bytes(zipped(dict.fromkeys(names, NB)))
    write(tmp_path / "un", dict.fromkeys(names, NB))
    for place in (path, tmp_path / "un"):
        assert [each.mark for each in collect(place)] == ["", "marked late by the platform"]
        assert [each.handed_in for each in collect(place)] == ["", ""]
    row = grade_one(list(collect(path))[1], Settings(seed=1))
    assert "marked late" in row.note


def test_names_move_no_cursor(tmp_path):
    write(tmp_path, {f"al\x1b[2Jice\r/{NAME}": NB})
    assert only(tmp_path).student == "al\ufffd[2Jice\ufffd"
