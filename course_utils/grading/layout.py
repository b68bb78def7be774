"""What a folder among the submissions is: one student's, or an export that somebody unpacked there.

Taken for a student's, an export would make one student of a whole class, and everybody in it would be missing.
So whatever a platform has named, one folder down or deeper, speaks for an export. But a student may give
files such names, too: beside folders of students every folder is a student's. Where that may lose somebody
`refuse_unclear` grades nothing: a person says which it is.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.grading import platforms
from course_utils.grading.archives import BadArchive, members
from course_utils.grading.packed import is_notebook

Knows = Callable[..., bool]  # (name, platform): is it somebody on the roster?
MAX_DEPTH, LONGEST = 5, 500  # folders; characters of a path
UPLOADED = re.compile(r"[^_/]+_(?:LATE_)?\d+_\d{3,}_")  # Canvas; not a student's own hw_2_1_draft
ENOUGH = 3  # folders with a notebook of one name: hardly one student's


def nobody(_name: str, _platform: str = "") -> bool:
    """A class without a roster."""
    return False


@dataclass
class Place:
    """The folders of a place: what certainly or perhaps is an export, with its people, and what is a student's."""

    certain: dict[Path, set[str]] = field(default_factory=dict)
    perhaps: dict[Path, set[str]] = field(default_factory=dict)
    plain: list[Path] = field(default_factory=list)

    @property
    def exports(self) -> set[Path]:
        return set() if self.plain else set(self.certain)


def look_at(folders: list[Path], others: list[str], knows: Knows = nobody) -> Place:
    """What a place's folders are. others: the names of what else lies there."""
    place = Place()
    for folder in folders:
        if knows(folder.name) or platforms.owner(f"{folder.name}/x"):
            continue
        sure, maybe = people_in(folder, knows)
        if sure:
            place.certain[folder] = sure
        elif maybe:
            place.perhaps[folder] = maybe
        elif any(has_work(name) for name in names_below(folder)):
            place.plain.append(folder)
    if place.certain or any(platforms.owner(name) for name in others):
        place.certain |= place.perhaps
    return place


def refuse_unclear(where: Path, knows: Knows = nobody, depth: int = 0) -> None:
    """Raises CourseError where a place's folders can be read in two ways, and somebody may be lost."""
    entries = [each for each in listing(where) if not each.name.startswith((".", "__MACOSX"))]
    folders = [each for each in entries if each.is_dir() and not each.is_symlink()]
    others = [each.name for each in entries if each not in folders]
    place = look_at(folders, others, knows)
    if place.certain and place.plain:
        one, who = next((folder.name, sorted(who)) for folder, who in place.certain.items())
        raise CourseError(
            f"{where}: {one}/ looks like an unpacked export ({', '.join(who[:2])}), and {place.plain[0].name}/ "
            "like one student's folder: keep exports apart from students' folders, or give the --roster"
        )
    for folder in place.exports if depth < MAX_DEPTH else ():
        refuse_unclear(folder, knows, depth + 1)
    if len(folders) == len(place.plain) == 1 and not others and is_class(place.plain[0]):
        raise CourseError(
            f"{where}: the only folder in it, {place.plain[0].name}/, holds folders with notebooks of one name, "
            "as of several students: grade that folder itself"
        )


def people_in(folder: Path, knows: Knows) -> tuple[set[str], set[str]]:
    """(people that the names in a folder tell of for certain, or perhaps)."""
    names = list(names_below(folder))
    sure, canvas = set(), {}
    of_gradescope = any(name.endswith(platforms.METADATA) for name in names)
    for name in names:
        for student, is_sure in people_named(name):
            if is_sure or of_gradescope:
                sure.add(student)
            else:
                canvas[student] = student.rpartition("_")[0]
    if len(set(canvas.values())) > 1 or any(knows(student, "canvas") for student in canvas):
        sure |= canvas.keys()
    section = [each for each in listing(folder) if knows(each.stem)]
    if len(section) > 1 or any(each.is_dir() for each in section):
        sure |= {each.stem for each in section}
    return sure, set(canvas) - sure


def people_named(path: str) -> Iterator[tuple[str, bool]]:
    """(whom a platform's name anywhere in a path tells of, whether nobody else would name a file so)."""
    parts = path[:LONGEST].split("/")
    for at, part in enumerate(parts):
        found = platforms.owner("/".join(parts[at:]))
        if found and platforms.MOODLE.fullmatch(part):
            yield found.student, True
        elif found and (platforms.GRADESCOPE.fullmatch(part) or UPLOADED.match(part)):
            yield found.student, False


def has_work(name: str) -> bool:
    return is_notebook(name) or name.lower().endswith(".zip")


def is_class(folder: Path) -> bool:
    """Does it have a folder a student, by the look of it?"""
    inside = [each for each in listing(folder) if each.is_dir() and not each.is_symlink()]
    names = [
        {Path(name).name for name in names_below(each) if is_notebook(name)} for each in inside
    ]
    return any(sum(name in each for each in names) >= ENOUGH for name in set().union(*names))


def names_below(folder: Path, depth: int = 0) -> Iterator[str]:
    """The paths in a folder, from it on; of a ZIP file that no platform has named, what is in it as well."""
    for entry in listing(folder):
        if entry.name.startswith((".", "__MACOSX")) or entry.is_symlink():
            continue
        if entry.is_dir():
            if depth < MAX_DEPTH:
                yield from (f"{entry.name}/{name}" for name in names_below(entry, depth + 1))
            continue
        yield entry.name
        if entry.suffix.lower() == ".zip" and entry.is_file() and not platforms.owner(entry.name):
            try:
                inner = [member.name for member in members(entry)]
            except (BadArchive, OSError):
                continue
            yield from (f"{entry.name}/{name}" for name in inner)


def listing(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def refuse_lost(found: dict[str, set[str]], knows: Knows, called: Callable[[str], str]) -> None:
    """Raises CourseError for an owner with the files of several people: whom platforms, or the roster, name.

    found: of each owner whom neither knows, the paths of what they have.
    """
    for owner, paths in sorted(found.items()):
        parts = {part for each in paths for part in re.split("[/!]", each)[:-1]}
        people = {called(part) for part in parts - {owner} if knows(part)}
        named = dict(each for path in paths for each in people_named(path.replace("!", "/")))
        sure = {student for student, is_sure in named.items() if is_sure}
        canvas = {s.rpartition("_")[0]: s for s in named.keys() - sure if "_" in s}
        for group in (people, sure, set(canvas.values())):
            if len(group) > 1:
                raise CourseError(
                    f"{owner}: one student's, as it lies there, but it names {', '.join(sorted(group)[:3])}: "
                    "put each export, or each student's folder, directly among the submissions; if all of it is "
                    "one student's, rename what is in it, or give the --roster"
                )
