"""Everything that was handed in, one submission at a time: folders, loose notebooks, exports in ZIPs.

    SUBMISSIONS/<student>/<NN_topic>.ipynb       a folder a student
    SUBMISSIONS/export.zip, or export.zip itself a platform's export, or a folder a student in a ZIP
    SUBMISSIONS/<export>/...                     an export that was unpacked there (layout tells which)

Nothing that was handed in is passed over in silence: what cannot be read comes out as a submission
with a problem, and so ends in a row. Contents are read when they are asked for, so that a
thousand submissions are never in memory at once.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.grading import layout, platforms
from course_utils.grading.archives import BadArchive
from course_utils.grading.cells import MAX_FILE_BYTES
from course_utils.grading.layout import MAX_DEPTH, Knows, listing, nobody
from course_utils.grading.packed import Share, from_archive, is_notebook, owned, unreadable
from course_utils.grading.records import Submission

OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".gz", ".tgz", ".xz", ".bz2")
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
DOCUMENTS = (".pdf", ".py", ".doc", ".docx", ".odt", ".pages", ".html", ".htm", ".png", ".jpg")


def collect(place: Path, knows: Knows = nobody) -> Iterator[Submission]:
    """Every submission in a folder or a ZIP file, by student. Raises CourseError for neither.

    What is hidden (.name, __MACOSX) is an editor's or a system's, and passed over. `knows`: is a name, as a
    platform has it, on the roster?
    """
    if place.is_dir():
        yield from map(readable, from_folder(place, knows))
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


def from_folder(place: Path, knows: Knows = nobody, depth: int = 0) -> Iterator[Submission]:
    metadata = place / platforms.METADATA
    submitters: dict[str, platforms.Owner] = {}
    handed_in, others = set(), {}
    if metadata.is_file() and not metadata.is_symlink():
        submitters = platforms.gradescope_submitters(metadata.read_text("utf-8", "replace"))
    entries = [each for each in listing(place) if not each.name.startswith((".", "__MACOSX"))]
    folders = [each for each in entries if each.is_dir() and not each.is_symlink()]
    loose = [each.name for each in entries if each not in folders]
    exports = layout.look_at(folders, loose, knows).exports if depth < MAX_DEPTH else set()
    for entry in entries:
        owner = platforms.owner(f"{entry.name}/x", submitters)
        if entry.is_symlink():
            yield unreadable(student_of(entry.name), entry.name, str(entry), "a symbolic link")
        elif entry in exports:
            yield from from_folder(entry, knows, depth + 1)
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
            if owner is None:
                yield from one_archive(entry, entry.stem, entry.name)
            else:  # a student's own: the platform has named it
                inside = one_archive(entry, owner.student, entry.name, share=Share())
                yield from (owned(each, owner) for each in inside)
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
            for each in one_archive(path, student, f"{folder.name}/{name}", share=share):
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
