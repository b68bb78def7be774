"""Answers that run on the two-level memory: how they are called, and what is noted of them.

Here the traffic is the answer's own doing, so it is counted for each array. tracemalloc runs beside the
memory's own meter: an array that an answer makes in plain NumPy lies in neither memory, and shows as bytes
that nobody accounts for. What the memory refuses is no accident either but a mistake with a name.
"""

from collections.abc import Callable, Mapping

import numpy as np

from course_utils.checks.core import Observation, Verdict, failed
from course_utils.checks.judging import say
from course_utils.checks.observe import describe_error, find_out_of_sight
from course_utils.hierarchy import (
    HBM,
    SRAM,
    UNSEEN_TOLERANCE_BYTES,
    SRAMOverflow,
    WrongMemory,
    run_metered,
)


def observe_on_chip(
    answer: Callable,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, tuple[int, ...]],
    capacity_bytes: int,
    *args,
) -> Observation:
    """Call `answer(sram, *inputs, *outputs, *args)`, all arrays in HBM, outputs in the inputs' dtype.

    value: the outputs as NumPy arrays, by name. peak_bytes: on chip. more: "read" and "written", bytes
    by array; "bytes_read", "bytes_written", all of them; "unseen_bytes"; "own_hbm_bytes", of arrays that
    the answer made in HBM; or, where the memory refused something, "refused": (kind, message, the
    answer's line).
    """
    hbm = HBM()
    arrays = {name: hbm.array(values, name) for name, values in inputs.items()}
    dtype = next(iter(inputs.values())).dtype
    arrays |= {name: hbm.empty(shape, dtype, name) for name, shape in outputs.items()}
    sram = SRAM(capacity_bytes, hbm)
    try:
        run = run_metered(sram, lambda chip: answer(chip, *arrays.values(), *args))
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # even exit() must not end the student's kernel
        error = describe_error(problem, answer)
        if isinstance(problem, SRAMOverflow | WrongMemory):
            return Observation({}, more={"refused": (error.kind, error.message, error.line)})
        return Observation(error=error)
    more = {
        "read": {name: array.bytes_read for name, array in arrays.items()},
        "written": {name: array.bytes_written for name, array in arrays.items()},
        "bytes_read": run.bytes_read,
        "bytes_written": run.bytes_written,
        "unseen_bytes": run.unseen_bytes,
        "own_hbm_bytes": run.hbm_peak_bytes,
    }
    value = {name: arrays[name].numpy() for name in outputs}
    changed = any(more["written"][name] for name in inputs)
    return Observation(value, run.peak_bytes, more=more, changed_input=changed)


def out_of_sight_on_chip(answer: Callable, inputs, outputs, capacity_bytes: int, *args) -> str:
    """As `find_out_of_sight`, on a small problem. It warms the answer up, too."""
    hbm = HBM()
    arrays = [hbm.array(values, name) for name, values in inputs.items()]
    arrays += [hbm.empty(shape, name=name) for name, shape in outputs.items()]
    with SRAM(capacity_bytes, hbm) as sram:
        return find_out_of_sight(answer, sram, *arrays, *args)


def overflow_of(seen: Observation) -> tuple[str, str] | None:
    """(the operation that did not fit, how it is told), or None."""
    kind, message, line = seen.more.get("refused", ("", "", ""))
    if kind != "SRAMOverflow":
        return None
    at = f" at `{line}`" if line else ""
    return message.partition(" needs ")[0], f"The chip overflows{at}: {message}"


def refused_crossing(seen: Observation) -> Verdict | None:
    """A value that was computed with off chip, or was to leave the chip uncounted."""
    kind, message, line = seen.more.get("refused", ("", "", ""))
    if kind != "WrongMemory":
        return None
    at = f"At `{line}`: " if line else ""
    if "open already" in message:
        return failed(
            "opened twice",
            f"{at}{message} Whoever calls your function has opened the chip for it.",
        )
    return failed("across uncounted", f"{at}{message}")


def left_empty(seen: Observation, name: str, pieces: str = "tiles") -> Verdict | None:
    """HBM's space for results holds nan until something is stored there."""
    gaps = np.isnan(seen.value[name])
    if not seen.more["written"][name]:
        return failed(
            f"{name} left empty",
            f"Nothing was ever stored to {name}. sram.store takes results there.",
        )
    if not gaps.any():
        return None
    complete = ~gaps
    if not complete.any():
        return failed("not finite", f"What was stored to {name} is nan throughout.")
    rows, columns = np.flatnonzero(complete.any(axis=1)), np.flatnonzero(complete.any(axis=0))
    inner = complete[: rows[-1] + 1, : columns[-1] + 1]
    if inner.all():
        return failed(
            f"last {pieces} missing",
            f"{name} is complete up to {inner.shape[0]} x {inner.shape[1]} and has {gaps.shape[0]} x "
            f"{gaps.shape[1]} elements: the ragged {pieces} at the end were never stored.",
        )
    return failed(
        f"gaps in {name}", f"Of {name}, {int(gaps.sum())} of {gaps.size} elements are nan."
    )


def own_array(seen: Observation) -> Verdict | None:
    """An array in HBM beside those that were given."""
    own_bytes = seen.more["own_hbm_bytes"]
    if not own_bytes:
        return None
    return failed(
        "array of its own",
        f"Your code made arrays of its own in HBM, {say(own_bytes)} at most. All that is to be stored has "
        "its place already, and a way to a further array and back is traffic as well.",
    )


def meter_changed(seen: Observation, capacity_bytes: int) -> Verdict | None:
    """Counts that no run can leave behind, whatever it computes."""
    sums = [sum(seen.more[way].values()) for way in ("read", "written")]
    is_sound = seen.peak_bytes <= capacity_bytes
    is_sound &= sums[0] <= seen.more["bytes_read"] and sums[1] <= seen.more["bytes_written"]
    if is_sound:
        return None
    return failed(
        "meter changed",
        f"The memory's counts contradict each other: {seen.peak_bytes:,} bytes were on a chip of "
        f"{capacity_bytes:,}, and of {sums[0]:,} read and {sums[1]:,} written by array the totals have "
        f"{seen.more['bytes_read']:,} and {seen.more['bytes_written']:,}. Leave them to the memory.",
    )


def unseen(seen: Observation) -> Verdict | None:
    """Memory that neither HBM nor SRAM accounts for."""
    unseen_bytes = seen.more["unseen_bytes"]
    if unseen_bytes <= UNSEEN_TOLERANCE_BYTES:
        return None
    return failed(
        "memory out of sight",
        f"Python held {say(unseen_bytes)} more than both memories account for: numbers were kept in "
        "lists or plain arrays, which lie neither on chip nor off. There is sram.zeros for that.",
    )
