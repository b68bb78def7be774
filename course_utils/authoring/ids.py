"""Ids that stay with a cell when the lesson around it changes.

Answers, checks, predictions and answers in words are named by their exercise. Any other cell is
named by a hash of its text, so a copy needs no second file to tell what its owner edited: a cell
whose text no longer hashes to its id is not the course's any more. Editors add and drop white
space at the end of a cell and change line ends; the hash does not see either.
"""

import hashlib
import re

HASH_LENGTH = 10
ROLES = ("answer", "check", "predict", "written")
ROLE_ID = re.compile(rf"({'|'.join(ROLES)})-\d+-\w+(-\d+)?")


def text_hash(text: str) -> str:
    """The first hex characters of the SHA-256 of a text, line ends and trailing space aside."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n").rstrip()
    return hashlib.sha256(plain.encode()).hexdigest()[:HASH_LENGTH]


def role_id(role: str, exercise: str) -> str:
    """`answer-1-1` for the answer to exercise 1.1."""
    return f"{role}-{exercise.replace('.', '-')}"


def role_in(name: str | None) -> str | None:
    """`answer` of `answer-1-1`; None for an id that names no exercise."""
    match = ROLE_ID.fullmatch(name or "")
    return match.group(1) if match else None


def unique(name: str, taken: set[str]) -> str:
    """The name itself or, where it is taken, with `-2`, `-3`, ... after it; adds it to `taken`."""
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}-{count}"
    taken.add(candidate)
    return candidate


def is_given(text: str, cell_id: str) -> bool:
    """Does the text of a cell still hash to its id?"""
    return re.fullmatch(rf"{text_hash(text)}(-\d+)?", cell_id) is not None
