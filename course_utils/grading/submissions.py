"""Everything that was handed in, one submission at a time: folders, loose notebooks, exports in ZIPs.

    SUBMISSIONS/<student>/<NN_topic>.ipynb       a folder a student
    SUBMISSIONS/export.zip, or export.zip itself a platform's export, or a folder a student in a ZIP

Nothing that was handed in is passed over in silence: what cannot be read comes out as a submission
with a problem, and so ends in a row. Contents are read when they are asked for, so that a
thousand submissions are never in memory at once.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.grading import platforms
from course_utils.grading.archives import BadArchive
from course_utils.grading.cells import MAX_FILE_BYTES
from course_utils.grading.packed import Share, from_archive, is_notebook, owned, unreadable
from course_utils.grading.policy import moment
from course_utils.grading.records import Graded, Submission

OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".gz", ".tgz", ".xz", ".bz2")
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
MAX_DEPTH = 5
DOCUMENTS = (".pdf", ".py", ".doc", ".docx", ".odt", ".pages", ".html", ".htm", ".png", ".jpg")
TIMES = "handed_in.csv"  # where the files themselves do not tell
TIMED = ("student", "notebook", "handed_in")


def collect(place: Path) -> Iterator[Submission]:
    """Every submission in a folder or a ZIP file, by student. Raises CourseError for neither.

    What is hidden (.name, __MACOSX) is an editor's or a system's, and passed over.
    """
    if place.is_dir():
        yield from map(readable, from_folder(place))
    elif place.is_file():
        try:
            found = from_archive(place, place.stem, place.name, is_own=False)
            yield from map(readable, found)
        except BadArchive as error:
            raise CourseError(f"{place}: {error}; give a folder, or a ZIP file") from None
    else:
        raise CourseError(f"{place}: there is no such folder or ZIP file")


def readable(found: Submission) -> Submission:
    """The same with names that can be written: a file system's may hold bytes that are no text."""
    names = {part: tidy(getattr(found, part)) for part in ("student", "file_name", "origin")}
    return replace(found, **names)


def tidy(name: str) -> str:
    """A name without half characters and without what moves a terminal's cursor."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", name.encode("utf-8", "replace").decode())


def from_folder(place: Path) -> Iterator[Submission]:
    metadata = place / platforms.METADATA
    submitters: dict[str, platforms.Owner] = {}
    handed_in, others = set(), {}
    if metadata.is_file() and not metadata.is_symlink():
        submitters = platforms.gradescope_submitters(metadata.read_text("utf-8", "replace"))
    for entry in listing(place):
        owner = platforms.owner(f"{entry.name}/x", submitters)
        if entry.name.startswith((".", "__MACOSX")):
            continue
        if entry.is_symlink():
            yield unreadable(student_of(entry.name), entry.name, str(entry), "a symbolic link")
        elif entry.is_dir():
            student = owner.student if owner else entry.name
            when = owner.handed_in if owner else ""
            yield from from_student(entry, student, when)
        elif is_notebook(entry.name):
            owner = platforms.owner(entry.name)
            if owner is None:
                handed_in.add(student_of(entry.name))
                yield of_file(entry, student_of(entry.name), entry.name)
            else:
                handed_in.add(owner.student)
                yield owned(of_file(entry, owner.student, owner.file_name), owner)
        elif entry.suffix.lower() == ".zip":
            owner = platforms.owner(entry.name)
            student = owner.student if owner else entry.stem
            yield from one_archive(entry, student, entry.name)
        elif entry.name.lower().endswith(OTHER_ARCHIVES):
            yield unreadable(
                student_of(entry.name), entry.name, str(entry), "an archive, but no ZIP"
            )
        elif owner := platforms.owner(entry.name):
            others.setdefault(owner.student, entry)
        elif entry.suffix.lower() in DOCUMENTS:
            others.setdefault(student_of(entry.name), entry)
    for student, entry in others.items():
        if student not in handed_in:
            yield unreadable(student, entry.name, str(entry), "not a notebook")


def from_student(folder: Path, student: str, handed_in: str = "") -> Iterator[Submission]:
    """The notebooks of one student's folder; a submission with a problem where there is none."""
    found, others, share = 0, [], Share()
    for path in files_below(folder):
        name = path.relative_to(folder).as_posix()
        if is_notebook(path.name):
            found += 1
            yield replace(of_file(path, student, path.name), handed_in=handed_in)
        elif path.suffix.lower() == ".zip" and not path.is_symlink():
            found += 1
            for each in one_archive(path, student, name, share=share):
                yield replace(each, handed_in=handed_in or each.handed_in)
        else:
            others.append(name)
    if not found:
        what = "no notebook in it" + (f": {', '.join(others[:3])}" if others else ", it is empty")
        yield unreadable(student, "", str(folder), what)


def one_archive(
    path: Path, student: str, name: str, share: Share | None = None
) -> Iterator[Submission]:
    """What is in a ZIP file on disk; a submission with a problem where it is none. A pipe is not opened.

    share: what is left to a student, if the archive lies in their folder.
    """
    is_student = share is not None
    try:
        if not path.is_file():
            raise BadArchive("not a plain file")
        yield from from_archive(
            path, student, name, is_own=True, is_student=is_student, share=share
        )
    except (BadArchive, OSError) as error:
        yield unreadable(student, name, str(path), str(error))


def files_below(folder: Path, depth: int = 0) -> Iterator[Path]:
    """The files in a folder and its folders, in order; links are given, but not followed."""
    for entry in listing(folder):
        if entry.name.startswith((".", "__MACOSX")):
            continue
        if entry.is_dir() and not entry.is_symlink():
            if depth < MAX_DEPTH:
                yield from files_below(entry, depth + 1)
        else:
            yield entry


def listing(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def of_file(path: Path, student: str, file_name: str) -> Submission:
    """A notebook on disk. A link, a pipe or a giant is not opened."""
    try:
        if path.is_symlink():
            return unreadable(student, file_name, str(path), "a symbolic link")
        if not path.is_file():
            return unreadable(student, file_name, str(path), "not a plain file")
        if path.stat().st_size > MAX_FILE_BYTES:
            large = f"larger than {MAX_FILE_BYTES // 10**6} MB"
            return unreadable(student, file_name, str(path), large)
        return Submission(student, file_name, path.read_bytes(), str(path))
    except OSError as error:
        return unreadable(student, file_name, str(path), error.strerror or "cannot be opened")


def student_of(file_name: str) -> str:
    """A loose file's owner: its name without endings."""
    return file_name.partition(".")[0] or file_name


def handed_in_times(place: Path) -> dict[tuple[str, str], str]:
    """Times from PLACE/handed_in.csv: student, notebook (empty: all of theirs), ISO time; {} without it.

    Raises CourseError where it is no such table, or a time is none.
    """
    path = place / TIMES
    if not path.is_file() or path.is_symlink():
        return {}
    try:
        text = path.read_bytes().decode("utf-8-sig")
        delimiter = max(",;\t", key=text.partition("\n")[0].count)  # as some spreadsheets write it
        table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
        if not {"student", "handed_in"} <= set(table.fieldnames or ()):
            raise KeyError
        rows = [{name: (row.get(name) or "").strip() for name in TIMED} for row in table]
    except (OSError, KeyError, UnicodeDecodeError, csv.Error):
        told = f"a CSV file in UTF-8 with {', '.join(TIMED)} is needed"
        raise CourseError(f"{path}: {told}") from None
    for row in rows:
        if row["handed_in"] and moment(row["handed_in"]) is None:
            told = f"{row['student']}: {row['handed_in']!r} is no time, such as 2026-05-04T21:00"
            raise CourseError(f"{path}: {told}")
    return {
        (row["student"], row["notebook"].removesuffix(".ipynb")): row["handed_in"]
        for row in rows
        if row["handed_in"]
    }


def with_times(
    rows: Iterable[Graded], times: dict[tuple[str, str], str], called: Callable[[str], str]
) -> list[Graded]:
    """The rows, with the table's times where it has one. `called`: a student's name in the roster."""
    ours = {(called(student), notebook): when for (student, notebook), when in times.items()}
    found = []
    for row in rows:
        names = (row.notebook, row.notebook[:2], "")  # 02_requires_grad, 02, all of theirs
        when = [ours[row.student, name] for name in names if (row.student, name) in ours]
        found.append(replace(row, handed_in=when[0]) if when else row)
    return found
