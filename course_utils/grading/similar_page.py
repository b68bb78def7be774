"""Answers that are alike, on the class report: who with whom, and who has the published one. Hints, both of them."""

from collections import defaultdict
from collections.abc import Iterable

from course_utils.grading import pages
from course_utils.grading.similar import Pair

PAIRS, FEW_NAMES = 40, 4


def pairs_part(pairs: list[Pair], who: dict[str, str]) -> list[str]:
    """Nearly identical answers, as a hint."""
    rows = [
        [together([who.get(each, pages.person(each)) for each in pair.students]),
         pages.text(pair.exercise), f"{100 * pair.share:.0f} %",
         "the same text" if pair.same_text else "names or comments differ"]
        for pair in pairs[:PAIRS]
    ]  # fmt: skip
    if not rows:
        return []
    more = f" {len(pairs) - PAIRS} more are not shown." if len(pairs) > PAIRS else ""
    return [
        "<h2>Nearly the same answers</h2>",
        "<p>A hint, not a verdict: two people who were taught together, or who both read a book, write "
        f"alike. Read them before you say anything.{more}</p>",
        pages.table(["students~", "exercise", "shared#", "text|"], rows),
    ]


def together(people: list[str]) -> str:
    """Who they are, in HTML; of many, how many, and who on a click."""
    names = ", ".join(people)
    if len(people) <= FEW_NAMES:
        return names
    return f"<details><summary>{len(people)} students</summary>{names}</details>"


def same_part(published: Iterable[Pair], who: dict[str, str]) -> list[str]:
    """Answers that are the course's own, by student."""
    found: dict[str, list[str]] = defaultdict(list)
    for pair in published:
        text = "" if pair.same_text else " (names or comments differ)"
        found[pair.students[0]].append(f"{pair.exercise}{text}")
    if not found:
        return []
    return [
        "<h2>As in the published solutions</h2>",
        "<p>A hint as well: these answers are what stands in <code>solutions/</code>, up to names and "
        "comments. Short answers, which many write like this, are not compared.</p>",
        pages.table(
            ["student", "exercises~"],
            [
                [who[student], pages.text(", ".join(told))]
                for student, told in sorted(found.items())
            ],
        ),
    ]
