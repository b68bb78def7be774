"""What a lesson's notebook says about itself: its title, its sections, its exercises, how long it takes."""

import re
from dataclasses import dataclass
from html import unescape

ROW = re.compile(r"^\|[^|]*\| *\[[^\]]*\]\(notebooks/(\w+)\.ipynb\) *\| *(.+?) *\|$", re.M)


@dataclass(frozen=True)
class Exercise:
    """An exercise, as the cell of its check describes it."""

    id: str
    title: str
    points: int
    minutes: int
    difficulty: str
    optional: bool


@dataclass(frozen=True)
class Lesson:
    """A lesson on the site: `stem` names its page; `promise` says what a student will do in it."""

    stem: str
    title: str
    promise: str
    minutes: int | None  # of its core, with the reading
    exercises: tuple[Exercise, ...]

    @property
    def number(self) -> str:
        return self.stem.partition("_")[0]

    @property
    def points(self) -> int:
        """Of the core."""
        return sum(exercise.points for exercise in self.exercises if not exercise.optional)


def lesson(stem: str, notebook: dict, promises: dict[str, str]) -> Lesson:
    """A lesson's description; promises: from `promises`, else the lesson's first paragraph is taken."""
    opening = notebook["cells"][0]["source"] if notebook["cells"] else ""
    paragraphs = [" ".join(part.split()) for part in opening.split("\n\n")]
    title = paragraphs[0].removeprefix("# ").strip()
    first = paragraphs[1] if len(paragraphs) > 1 else ""
    found = re.search(r"about (\d+) minutes", " ".join(paragraphs))
    checks = [cell["metadata"].get("course", {}) for cell in notebook["cells"]]
    return Lesson(
        stem,
        re.sub(r"^\d\d ", "", title) or stem,
        promises.get(stem, first),
        int(found[1]) if found else None,
        tuple(_exercise(check) for check in checks if check.get("role") == "check"),
    )


def _exercise(check: dict) -> Exercise:
    return Exercise(
        check["exercise"],
        check.get("title", ""),
        check.get("points", 0),
        check.get("minutes", 0),
        check.get("difficulty", ""),
        check.get("optional", False),
    )


def promises(readme: str) -> dict[str, str]:
    """What "you will" do in each lesson: the rows of the README's table, by the notebook's name."""
    rows = ROW.findall(readme)
    return {stem: text[:1].upper() + text[1:] + "." for stem, text in rows}


def slug(heading: str, taken: set[str]) -> str:
    """An anchor for a heading; no two are alike on a page."""
    words = re.findall(r"[a-z0-9]+", unescape(re.sub(r"<[^>]+>", "", heading)).lower())
    base = name = "-".join(words)[:60].strip("-") or "section"
    count = 1
    while name in taken:
        count += 1
        name = f"{base}-{count}"
    taken.add(name)
    return name
