"""What no kernel may do, whatever it computes: leave its tensors, write an input, leave numbers unstored."""

import numpy as np

from course_utils.checks.core import Case, Observation, Verdict, failed
from course_utils.triton_meter import Launch, Tensor

_OUTSIDE = {
    "read outside": ("out of bounds read", "reads"),
    "write outside": ("out of bounds write", "writes"),
}


def ended(seen: Observation) -> Verdict | None:
    """A kernel that was stopped, or that took its process with it."""
    how = seen.more["ended"]
    if not how:
        return None
    if how.startswith("time"):
        return failed(
            "too slow",
            f"The kernel did not come to its end ({how.partition(': ')[2]}), and was stopped. Does a loop's "
            "counter reach its bound?",
        )
    return failed(
        "crashed",
        f"The process in which your kernel ran has died ({how}). Your notebook has not: on a GPU this would "
        "have been an illegal access.",
    )


def forbidden(case: Case, seen: Observation, launch: Launch) -> Verdict | None:
    """Writes into inputs, then accesses outside of the tensors; the first of a kind is told."""
    found = {fault["kind"]: fault for fault in reversed(seen.more["faults"])}
    if fault := found.get("wrote an input"):
        return failed("changed its input", f"A store goes to {fault['tensor']}, which is only to be read"
                      f"{_at(fault)}.")  # fmt: skip
    if seen.more.get("atomics"):
        return failed("atomic update", "An atomic update adds to what lies in memory, which here is nothing yet. "
                      "Every number is one program's own: tl.store it once, when it is final.")  # fmt: skip
    outside = any(kind in found for kind in _OUTSIDE)
    if outside and seen.more.get("and"):
        return failed("and in a mask", f"`{seen.more['and']}` is not a mask of both conditions: `and` and `or` take "
                      "one of their two sides whole. For tiles, combine with & and |, each side in parentheses, "
                      "and the mask keeps you inside your tensors.")  # fmt: skip
    for kind, (cause, verb) in _OUTSIDE.items():
        if fault := found.get(kind):
            return _outside(fault, cause, verb, launch)
    return None


def _outside(fault: dict, cause: str, verb: str, launch: Launch) -> Verdict:
    if not fault["tensor"]:
        return failed(cause, f"Program {_program(fault)} {verb} at an address that belongs to no tensor"
                      f"{_at(fault)}. Is that a pointer?")  # fmt: skip
    tensor: Tensor = launch.arguments[fault["tensor"]]
    size, name, index = tensor.values.size, fault["tensor"], fault["index"]
    if tensor.row_stride and 0 <= fault["row"] < tensor.values.shape[0]:
        return failed(
            "row stride ignored",
            f"Program {_program(fault)} {verb} between two rows of {name}, which are {tensor.row_stride} "
            f"numbers apart and have {tensor.values.shape[1]}{_at(fault)}. From row to row it is the stride, "
            f"of each tensor its own; and a row ends before the next begins.",
        )
    if tensor.row_stride:
        place = f"row {fault['row']} of {name}, which has {tensor.values.shape[0]} rows"
    elif index < 0:
        place = f"{-index} before the beginning of {name}"
    else:
        place = f"element {index} of {name}, which has {size} (0 to {size - 1})"
    return failed(
        cause,
        f"Program {_program(fault)} {verb} {place}{_at(fault)}. That is {_beyond(fault, size)}; nobody's "
        "memory, or somebody else's. Which lanes of the last block have nothing to do? Their mask is False.",
    )


def _beyond(fault: dict, size: int) -> str:
    index = fault["index"]
    return f"{index - size + 1} past its end" if index >= size else "not its memory"


def not_stored(seen: Observation) -> Verdict | None:
    """Numbers of an output that no program stored."""
    for name, writers in seen.more["writers"].items():
        missing = writers < 0
        if missing.all():
            return failed("nothing stored", f"No program stored anything to {name}.")
        if missing.any():
            at = tuple(map(int, np.argwhere(missing)[0]))
            return failed(
                "numbers left out",
                f"{int(missing.sum())} of the {missing.size} numbers of {name} were never stored, the first "
                f"of them at index {at}.",
            )
    return None


def idle(seen: Observation, launch: Launch) -> Verdict | None:
    """Programs that stored nothing, where each has a part of its own."""
    programs = int(np.prod(launch.grid))
    busy = {int(each) for writers in seen.more["writers"].values() for each in np.unique(writers)}
    missing = sorted(set(range(programs)) - busy)
    if not missing:
        return None
    return failed(
        "programs without work",
        f"The values are right, but {len(missing)} of the {programs} programs stored nothing. They run side by "
        "side: each does its own part, and no other's.",
    )


def order(seen: Observation) -> Verdict | None:
    """Programs that meet in memory: they run in any order, and at the same time."""
    for fault in seen.more["faults"]:
        if fault["kind"] == "stored twice":
            return failed(
                "stored twice",
                f"Two programs store to the same place in {fault['tensor']}, program {_program(fault)} the "
                f"second time{_at(fault)}. Programs run in any order, so one would overwrite the other.",
            )
        if fault["kind"] == "read another program's":
            return failed(
                "order assumed",
                f"Program {_program(fault)} reads from {fault['tensor']} what another program stored"
                f"{_at(fault)}. On a GPU it may not be there yet.",
            )
    return None


def _program(fault: dict) -> str:
    x, y, z = fault["program"]
    return f"({x}, {y}, {z})" if z else f"({x}, {y})"


def _at(fault: dict) -> str:
    return f", at `{fault['line']}`" if fault["line"] else ""
