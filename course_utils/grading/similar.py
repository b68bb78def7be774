"""Answers that are nearly the same, as a hint to look at, never as a verdict.

Winnowing (Schleimer, Wilkerson and Aiken 2003, the idea behind MOSS): an answer becomes a row of
tokens, without comments and with every name alike, so that renaming changes nothing; every run of
RUN tokens is hashed, and of each WINDOW of hashes the smallest is kept. Two answers are compared by
the fingerprints they share. What the course gave (the stub), and what many in the class wrote, says
nothing and is taken out. Short answers are not compared: there honest ones are alike.

The same text, comments and names included, is said however many wrote it, and so is the text that the course
itself publishes in solutions/.
"""

import hashlib
import io
import keyword
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

from course_utils.authoring.files import ROOT, stored_notebook
from course_utils.authoring.outline import BEGIN, END
from course_utils.grading.records import Graded

RUN, WINDOW = 8, 4  # tokens; hashes. Every run of 11 tokens that two answers share is found
FEWEST_TOKENS = 40  # of an answer that is compared
FEWEST_SHARED = 5  # fingerprints
ENOUGH = 0.6  # of the smaller one's fingerprints
MANY, FEWEST_MANY = 0.2, 4  # of the class, and no fewer: what more share is common knowledge
PUBLISHED = 0.95  # of an answer's fingerprints that the published solution has, too
SILENT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
# Since Python 3.12 an f-string is several tokens, since 3.14 a t-string as well; before, it is one.
IN_PARTS = {
    getattr(tokenize, f"{kind}STRING_{part}", None): step
    for kind in "FT"
    for part, step in (("START", 1), ("END", -1))
}


@dataclass(frozen=True)
class Pair:
    """Two students whose answers to one exercise are nearly the same, or all who have one text."""

    notebook: str
    exercise: str
    students: tuple[str, ...]
    share: float  # of the smaller answer's fingerprints that the other has too
    same_text: bool  # comments and names included: nobody writes that twice


def near_identical(graded: Iterable[Graded], root: Path = ROOT) -> list[Pair]:
    """The pairs to look at, those of the same text first, then by share. One answer a student."""
    found = []
    for (notebook, exercise), sources in by_exercise(graded).items():
        given = fingerprints(tokens(answer_of("notebooks", notebook, exercise, root)))
        found += compare(notebook, exercise, sources, given)
    return sorted(found, key=lambda pair: (not pair.same_text, -pair.share, pair.students))


def like_published(graded: Iterable[Graded], root: Path = ROOT) -> list[Pair]:
    """Who has the answer that stands in solutions/, or one that differs from it in names alone."""
    found = []
    for (notebook, exercise), sources in by_exercise(graded).items():
        published = answer_of("solutions", notebook, exercise, root)
        solution, given = (
            tokens(published),
            tokens(answer_of("notebooks", notebook, exercise, root)),
        )
        own = fingerprints(solution) - fingerprints(given)
        if len(solution) < FEWEST_TOKENS or len(own) < FEWEST_SHARED:
            continue
        for student, source in sorted(sources.items()):
            marks = fingerprints(tokens(source)) - fingerprints(given)
            shared = len(marks & own) / max(len(marks), len(own))
            same = written_alike(source) == written_alike(published)
            if same or shared >= PUBLISHED:
                found.append(Pair(notebook, exercise, (student,), shared, same))
    return sorted(found, key=lambda pair: (not pair.same_text, pair.students, pair.exercise))


def by_exercise(graded: Iterable[Graded]) -> dict[tuple[str, str], dict[str, str]]:
    """{(notebook, exercise): {student: source}}, in order; the last answer of each."""
    latest: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for row in graded:
        for exercise, source in row.sources.items():
            latest[row.notebook, exercise][row.student] = source
    return dict(sorted(latest.items()))


def compare(notebook: str, exercise: str, sources: dict[str, str], given: set[int]) -> list[Pair]:
    """The near-identical pairs of one exercise, by what both have and few others do."""
    read = {student: tokens(source) for student, source in sources.items()}
    prints = {s: fingerprints(t) - given for s, t in read.items() if len(t) >= FEWEST_TOKENS}
    texts: dict[str, list[str]] = defaultdict(list)
    for student in sorted(prints):
        if len(prints[student]) >= FEWEST_SHARED:
            texts["\n".join(written_alike(sources[student]))].append(student)
    firsts = prints.keys() - {student for mine in texts.values() for student in mine[1:]}
    groups = [mine for mine in texts.values() if len(mine) > 1]
    pairs = [Pair(notebook, exercise, tuple(mine), 1.0, True) for mine in groups]
    spread = Counter(mark for marks in prints.values() for mark in marks)
    most = max(FEWEST_MANY, int(MANY * len(prints)))
    rare = {s: {m for m in marks if spread[m] <= most} for s, marks in prints.items()}
    owners: dict[int, list[str]] = defaultdict(list)
    for student in sorted(rare):
        for mark in rare[student]:
            owners[mark].append(student)
    shared = Counter(pair for names in owners.values() for pair in combinations(names, 2))
    for (one, other), count in shared.items():
        share = count / min(len(rare[one]), len(rare[other]))
        if count >= FEWEST_SHARED and share >= ENOUGH and {one, other} <= firsts:
            pairs.append(Pair(notebook, exercise, (one, other), share, False))
    return pairs


def tokens(source: str) -> list[str]:
    """The tokens of a program, names and texts all alike; [] where it cannot be read."""
    found, depth = [], 0  # of f-strings, which are one text each, as they were before 3.12
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            step = IN_PARTS.get(token.type, 0)
            found += ["text"] * (step == 1 and depth == 0)
            depth += step
            if step or depth or token.type in SILENT:
                continue
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
                found.append("name")
            else:
                found.append("text" if token.type == tokenize.STRING else token.string)
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # what was read before the fault is still compared
    return found


def fingerprints(row: list[str]) -> set[int]:
    """The winnowed hashes of a row of tokens."""
    runs = ["\x00".join(row[at : at + RUN]) for at in range(len(row) - RUN + 1)]
    hashes = [int.from_bytes(hashlib.blake2b(r.encode(), digest_size=8).digest()) for r in runs]
    windows = [hashes[at : at + WINDOW] for at in range(max(1, len(hashes) - WINDOW + 1))]
    return {min(window) for window in windows if window}


def written_alike(source: str) -> list[str]:
    """A program as it was typed, blanks, empty lines and the course's own markers apart."""
    lines = [" ".join(line.split()) for line in source.splitlines()]
    return [line for line in lines if line not in ("", BEGIN, END)]


@cache
def answer_of(folder: str, notebook: str, exercise: str, root: Path) -> str:
    """An exercise's cell: in notebooks/ the stub, in solutions/ the answer. Empty where it is not here."""
    try:
        cells = stored_notebook(root / folder / f"{notebook}.ipynb")["cells"]
    except (OSError, ValueError):
        return ""
    wanted = {"role": "answer", "exercise": exercise}.items()
    given = [c["source"] for c in cells if wanted <= c["metadata"].get("course", {}).items()]
    return "\n".join(given)
