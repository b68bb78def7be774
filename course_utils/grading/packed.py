"""The submissions in one ZIP file: a platform's export, a folder a student, or one student's own.

Members are read when they are asked for, one at a time, and no student has more than a share: a small
ZIP file may hold a thousand notebooks, each of which would be graded.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from course_utils.grading import platforms
from course_utils.grading.archives import BadArchive, Member, is_noise, members
from course_utils.grading.records import Submission

NOTEBOOK_ENDINGS = (".ipynb", ".ipynb.txt", ".ipynb.json")  # browsers add endings
MAX_NOTEBOOKS, MAX_BYTES = 20, 100 * 10**6  # of one student in one archive


def from_archive(
    source: Path | bytes,
    student: str,
    name: str,
    *,
    is_own: bool,
    is_student: bool = False,
    share: "Share | None" = None,
) -> Iterator[Submission]:
    """The notebooks in a ZIP file: a platform's export, a folder a student, or one student's own.

    Raises BadArchive where it is no ZIP file.
    """
    listed = [member.name for member in members(source)]
    root = common_root(listed)
    submitters = {} if is_student else metadata_in(source, root)
    found, share, others = 0, share or Share(), {}
    for member in members(source):
        inner = member.name.removeprefix(root)
        owner = None if is_student else platforms.owner(inner, submitters)
        if is_student or (owner is None and "/" not in inner and (is_own or not root)):
            who, file_name = student, inner.rpartition("/")[2]
        elif owner:
            who, file_name = owner.student, owner.file_name
        else:
            parts = (inner if "/" in inner else member.name).strip("/").split("/")
            parts = [part for part in parts if part not in ("..", ".")] or [student]
            who, file_name = parts[0] if len(parts) > 1 else student, parts[-1]
        origin = f"{name}!{member.name}"
        if member.name.lower().endswith(".zip") and isinstance(source, Path):
            found += 1
            if share.has_more(who):
                share.notebooks[who] += 1
                inside = in_member(member, who, origin, share)
                yield from (owned(each, owner) for each in inside) if owner else inside
        elif is_notebook(file_name):
            found += 1
            if not share.has_more(who):
                continue
            submission = of_member(member, who, file_name, origin)
            if owner:
                submission = owned(submission, owner)
            yield submission
            if share.is_spent(who, submission.content):
                yield unreadable(who, file_name, origin, share.told)
        elif owner or ("/" in inner and not is_own):
            others.setdefault(who, file_name)
    for who, file_name in others.items():
        if who not in share.notebooks:
            found += 1
            yield unreadable(
                who, file_name, f"{name}!{file_name}", f"no notebook in it: {file_name}"
            )
    if not found:
        yield unreadable(student, name, name, "no notebook in the archive")


def in_member(member: Member, student: str, origin: str, share: "Share") -> Iterator[Submission]:
    """A ZIP file in a ZIP file: one student's own. None deeper."""
    try:
        if member.problem:
            raise BadArchive(member.problem)
        options = {"is_own": True, "is_student": True, "share": share}
        yield from from_archive(member.read(), student, origin, **options)
    except BadArchive as error:
        yield unreadable(student, member.name, origin, str(error))


class Share:
    """What each student may have in one archive; a notebook of a million bytes packs into a thousand."""

    told = f"more than {MAX_NOTEBOOKS} notebooks, or {MAX_BYTES // 10**6} MB, of one student in an archive"

    def __init__(self):
        self.notebooks, self.sizes = Counter(), Counter()

    def is_spent(self, student: str, content: bytes | None) -> bool:
        """Count one; is it the last that may be?"""
        self.notebooks[student] += 1
        self.sizes[student] += len(content or b"")
        return not self.has_more(student)

    def has_more(self, student: str) -> bool:
        return self.notebooks[student] < MAX_NOTEBOOKS and self.sizes[student] < MAX_BYTES


def owned(submission: Submission, owner: platforms.Owner) -> Submission:
    """With what the platform says of it. A file's own time in an export is when it was packed."""
    mark = platforms.LATE if owner.is_late else ""
    return replace(submission, attempt=owner.attempt, handed_in=owner.handed_in, mark=mark)


def metadata_in(source: Path | bytes, root: str) -> dict[str, platforms.Owner]:
    """What a platform says of the submissions beside which it lies; what lies in one is a student's.

    Raises BadArchive where there are two of it.
    """
    wanted = root + platforms.METADATA
    texts = [each.read() for each in members(source) if each.name == wanted and not each.problem]
    if len(texts) > 1:
        raise BadArchive(f"{wanted} is in it more than once")
    return platforms.gradescope_submitters(b"".join(texts).decode("utf-8", "replace"))


def common_root(names: list[str]) -> str:
    """The one folder that all of an archive is in, with its slash; "" if there is none."""
    heads = {name.partition("/")[0] if "/" in name else "" for name in names if not is_noise(name)}
    head = heads.pop() if len(heads) == 1 else ""
    return f"{head}/" if head and platforms.owner(f"{head}/x") is None else ""


def of_member(member: Member, student: str, file_name: str, origin: str) -> Submission:
    try:
        if member.problem:
            raise BadArchive(member.problem)
        return Submission(student, file_name, member.read(), origin)
    except BadArchive as error:
        return unreadable(student, file_name, origin, str(error))


def unreadable(student: str, file_name: str, origin: str, problem: str) -> Submission:
    return Submission(student, file_name, None, origin, problem=problem)


def is_notebook(name: str) -> bool:
    return name.lower().endswith(NOTEBOOK_ENDINGS)
