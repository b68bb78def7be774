"""Recorded runs of the counting memory as lists of small integers, for a widget to carry along.

An `Event` in full takes some 150 bytes of JSON, and a widget with sliders holds dozens of runs of hundreds of
events. But few of them differ: the same tiles come by again and again. So what is concerned (a tile, or a
temporary) is listed once, as a subject, and an event is one number that says what happened to which. Blocks
are numbered in the order in which they were made, so that a number is needed only to look back.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from course_utils.hierarchy import Event

__all__ = ["KINDS", "Subject", "pack", "unpack"]

KINDS = ("load", "allocate", "free", "store")


class Subject(NamedTuple):
    """What an event concerns: a window of an HBM array, or (box is empty) what an operation made."""

    name: str
    box: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]
    nbytes: int


def pack(events: Iterable[Event], subjects: dict[Subject, int]) -> list[int]:
    """Events as integers; new subjects are added to `subjects`, each with its number.

    4 s + 0: subject s is loaded. 4 s + 1: it is allocated. 4 s + 3, then a: it is stored, from the block
    made a blocks ago (0: a single number, from no block). 4 a + 2: the block made a blocks ago is freed.
    """
    codes, made = [], 0
    for event in events:
        kind = KINDS.index(event.kind)
        if event.kind == "free":
            codes.append(4 * (made - event.block) + kind)
            continue
        subject = Subject(event.name, event.box, event.shape, event.nbytes)
        codes.append(4 * subjects.setdefault(subject, len(subjects)) + kind)
        if event.kind == "store":
            codes.append(made - event.block if event.block >= 0 else 0)
        else:
            made += 1
    return codes


def unpack(codes: Iterable[int], subjects: Iterable) -> Iterator[Event]:
    """The events again. subjects: in the order of their numbers; lists, as JSON has them, will do."""
    known = [
        Subject(name, tuple(map(tuple, box)), tuple(shape), nbytes)
        for name, box, shape, nbytes in subjects
    ]
    blocks: list[Subject] = []
    live_bytes, rest = 0, iter(codes)
    for code in rest:
        number, kind = divmod(code, len(KINDS))
        block = len(blocks)
        if KINDS[kind] == "free":
            block -= number
            subject = blocks[block]
            live_bytes -= subject.nbytes
        else:
            subject = known[number]
            if KINDS[kind] == "store":
                ago = next(rest)
                block = block - ago if ago else -1
            else:
                blocks.append(subject)
                live_bytes += subject.nbytes
        name, box, shape, nbytes = subject
        yield Event(KINDS[kind], block, name, box, shape, nbytes, live_bytes)
