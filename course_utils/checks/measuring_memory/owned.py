"""1.2: the memory that a list of arrays keeps alive, each buffer once."""

import sys
from collections.abc import Iterable

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import say
from course_utils.checks.measuring_memory.payload import not_whole, whole_number
from course_utils.checks.observe import observe

_NAMES = {
    "separate": "arrays that share nothing",
    "one matrix": "a matrix listed twice, and three views of it",
    "copy": "an array and a copy of it",
    "row": "one row of a matrix that no name holds any more",
    "parts": "two parts of a matrix that no name holds any more",
    "stretched": "one number, broadcast to a matrix",
    "copies": "a matrix, and what NumPy copied from it",
    "reshaped": "the reshaped result of arange, and a reversed view of it",
    "mixture": "views of three arrays, in any order",
    "none": "an empty list",
}
_ADDRESSES = (
    "It looks as if the address of the first number told the buffers apart. "
    "A slice may begin in the middle."
)


def _cases(seed: int) -> list[Case]:
    return [Case(name, {"kind": kind, "seed": seed}) for kind, name in _NAMES.items()]


def _arrays(case: Case) -> tuple[list[np.ndarray], int]:
    """The list that the answer gets, and the bytes of the buffers that it keeps alive."""
    rng = np.random.default_rng([case.given["seed"], 12])
    rows, columns = (int(size) for size in rng.choice(np.arange(12, 40), 2, replace=False))
    m = rng.standard_normal((rows, columns))
    match case.given["kind"]:
        case "separate":
            arrays = [
                m,
                np.ones(rows, np.float32),
                np.zeros((columns, 2, 3), np.int16),
                np.array(1.0),
            ]
            return arrays, sum(array.nbytes for array in arrays)
        case "one matrix":
            return [m, m, m[2:5], m.T, m[4:]], m.nbytes
        case "copy":
            return [m, m.copy()], 2 * m.nbytes
        case "row":
            return [m[3]], m.nbytes
        case "parts":
            return [m[7:9, ::2], m[2:5]], m.nbytes
        case "stretched":
            return [np.broadcast_to(m[:1, :1].copy(), (500, 400))], m.itemsize
        case "copies":
            arrays = [m, m[[1, 4]], m.astype(np.float32), m[:, ::2].ravel(), m + 0.0]
            return arrays, sum(array.nbytes for array in arrays)
        case "reshaped":
            grid = np.arange(rows * columns).reshape(rows, columns)
            return [grid[::-1], grid], grid.nbytes
        case "mixture":
            sources = [m, rng.random(rows), np.ones((columns, 5), np.float32)]
            arrays = (
                [s for s in sources[:2]]
                + [s[1:] for s in sources]
                + [s.T[..., ::-1] for s in sources]
            )
            return [arrays[i] for i in rng.permutation(len(arrays))], sum(s.nbytes for s in sources)
        case _:
            return [], 0


def _run(answer, case: Case) -> Observation:
    return observe(answer, _arrays(case)[0])


def _judge(case: Case, seen: Observation) -> Verdict:
    arrays, expected = _arrays(case)
    actual = whole_number(seen.value)
    if actual is None:
        return not_whole(seen.value)
    if actual == expected:
        return passed()
    cause, why = _likely_cause(actual, arrays)
    return failed(cause, f"Expected {say(expected)}, got {say(actual)}. {why}".rstrip())


def _owner(array: np.ndarray) -> np.ndarray:
    return array if array.base is None else array.base


def _once(arrays: Iterable[np.ndarray], keys: Iterable) -> int:
    """Bytes of those arrays whose key did not come before."""
    first = {}
    for array, key in zip(arrays, keys, strict=True):
        first.setdefault(key, array.nbytes)
    return sum(first.values())


def _likely_cause(actual: int, arrays: list[np.ndarray]) -> tuple[str, str]:
    """The first usual mistake that leads to this number."""
    owners = [_owner(array) for array in arrays]
    ids, owner_ids = [id(array) for array in arrays], [id(owner) for owner in owners]
    nbytes = [array.nbytes for array in arrays]
    starts = [array.__array_interface__["data"][0] for array in arrays]
    values = [(array.shape, array.tobytes()) for array in arrays]
    bases = [array for array in arrays if array.base is None]
    mistakes = [
        ("a view's own bytes", _once(arrays, owner_ids),
         "A view was counted with the bytes that it looks at. How much stays alive because of it?"),
        ("the last view's bytes", sum(dict(zip(owner_ids, nbytes, strict=True)).values()),
         "You told the buffers apart. But each counts with the bytes of the array that looks into it last, "
         "and a view may show a part of its buffer, or more than all of it."),
        ("nbytes added up", sum(array.nbytes for array in arrays),
         "That is the sum of all nbytes: a buffer counts as often as someone looks at it."),
        ("objects for buffers", _once(arrays, ids),
         "Each array object counts once, but several of these objects look into one buffer."),
        ("a buffer for each view", sum(owner.nbytes for owner in owners),
         "What each array keeps alive was added up, though some keep the same buffer alive."),
        ("views left out", _once(bases, [id(base) for base in bases]),
         "Views were left out. Their buffer is alive because of them, even where its owner is not "
         "in the list."),
        ("views left out, twice", sum(base.nbytes for base in bases),
         "Views were left out, and an array that is listed twice counts twice."),
        ("addresses for buffers", _once(arrays, starts),
         _ADDRESSES),
        ("addresses for buffers", _once(owners, starts), _ADDRESSES),
        ("equal is not the same", _once(arrays, values),
         "Arrays that are alike, in their numbers or in their size, were taken for one. A copy has "
         "its own memory."),
        ("objects measured", sum(sys.getsizeof(array) for array in arrays),
         "These are the sizes of the Python objects: a view's leaves out the numbers, an owner's "
         "adds a header."),
        ("only the largest", max((owner.nbytes for owner in owners), default=-1),
         "That is the largest buffer alone."),
    ]  # fmt: skip
    for cause, value, why in mistakes:
        if actual == value:
            return cause, why
    why = "Which buffers are alive because of these arrays? Each counts once, and whole."
    return "wrong bytes", why


EXERCISE = Exercise("1.2", "memory that a list of arrays owns", 3, _cases, _run, _judge)
