"""A program on the two-level memory: what it did there, and what is wrong with any such program.

Both meters run beside the answer: the simulation counts what crosses and what is on chip, tracemalloc
sees what an answer keeps in lists and plain arrays. An error of the memories themselves (a tile that does
not fit, a value that leaves the chip uncounted) is no accident of the answer's but what the exercise is
about, so it is noted here for `judge`, which says what was too large.
"""

import math
from collections.abc import Sequence

import numpy as np

from course_utils.checks.core import Case, Measure, Observation, Verdict, failed
from course_utils.checks.judging import over_budget, say
from course_utils.checks.observe import describe_error, find_out_of_sight
from course_utils.hierarchy import HBM, SRAM, UNSEEN_TOLERANCE_BYTES, run_metered

ITEM = 8  # bytes of a number in float64
_OF_THE_MEMORIES = ("SRAMOverflow", "WrongMemory", "Released")
Arrays = dict[str, np.ndarray]


def normal(case: Case, *shape: int, stream: int = 0) -> np.ndarray:
    """Normal numbers in float64, the same for the same case, shape and stream."""
    return np.random.default_rng([case.given["seed"], stream, *shape]).standard_normal(shape)


def attention_inputs(case: Case, **changed) -> Arrays:
    """Q (n_queries, d), K and V (n_keys, d). `size` is the size of Q's and K's numbers.

    `first_score`, where it is given, is the score of the first query with the first key.
    """
    given = case.given | changed
    n_queries, n_keys, d, size = given["n_queries"], given["n_keys"], given["d"], given["size"]
    q, k = size * normal(case, n_queries, d, stream=1), size * normal(case, n_keys, d, stream=2)
    if "first_score" in given:
        k[0] = given["first_score"] * d**0.5 * q[0] / (q[0] @ q[0])
    return {"Q": q, "K": k, "V": normal(case, n_keys, d, stream=3)}


def run_program(
    answer, inputs: Arrays, outputs: Arrays, capacity_bytes: int, *sizes: int
) -> Observation:
    """Call `answer(sram, *inputs, *outputs, *sizes)` under both meters.

    `outputs` are as they lie in HBM at the start. Observed: what they hold afterwards; in `more` the
    bytes read and written, in all and of each array, the most on chip, what no memory accounts for, and
    what new arrays the answer made in HBM.
    """
    hbm = HBM()
    sram = SRAM(capacity_bytes, hbm)
    arrays = {name: hbm.array(values, name) for name, values in (inputs | outputs).items()}
    before_bytes = hbm.live_bytes
    try:
        with np.errstate(all="ignore"):  # what a warning would say, the verdict says
            run = run_metered(sram, lambda sram: answer(sram, *arrays.values(), *sizes))
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        error = describe_error(problem, answer)
        if error.kind not in _OF_THE_MEMORIES:
            return Observation(error=error)
        more = {"stopped": error.kind, "message": error.message, "line": error.line}
        more |= {"what": getattr(problem, "what", ""), "shape": getattr(problem, "shape", ())}
        return Observation(value={}, more=more)
    more = {
        "returned": run.value is not None,
        "read": run.bytes_read,
        "written": run.bytes_written,
        "reads": {name: array.bytes_read for name, array in arrays.items()},
        "writes": {name: array.bytes_written for name, array in arrays.items()},
        "peak": run.peak_bytes,
        "unseen": run.unseen_bytes,
        "new in HBM": hbm.peak_bytes - before_bytes,
    }
    changed = not all(np.array_equal(arrays[name].numpy(), inputs[name]) for name in inputs)
    value = {name: arrays[name].numpy() for name in outputs}
    return Observation(value, run.peak_bytes, more=more, changed_input=changed)


def out_of_sight(answer, inputs: Arrays, outputs: Arrays, *sizes: int) -> str:
    """`find_out_of_sight` on small arrays; it warms the answer up for the meters as well."""
    hbm = HBM()
    arrays = [hbm.array(values, name) for name, values in (inputs | outputs).items()]
    with np.errstate(all="ignore"):
        return find_out_of_sight(answer, SRAM(10**6, hbm), *arrays, *sizes)


def stopped(case: Case, seen: Observation) -> Verdict | None:
    """One of the memories refused: which rule was broken, and by what."""
    kind, message = seen.more.get("stopped"), seen.more.get("message", "")
    if not kind:
        return None
    at = f" at `{seen.more['line']}`" if seen.more["line"] else ""
    if kind == "SRAMOverflow":
        cause, likely = _too_large(case, seen.more["what"], seen.more["shape"])
        return failed(cause, f"The chip is full{at}: {message} {likely}".rstrip())
    if "leaves the chip" in message:
        return failed(
            "left the chip uncounted",
            f"On-chip numbers were put into a plain array{at}. Memory that is neither on the chip nor in "
            "HBM does not exist on a machine, least of all for a whole matrix of scores. What you need "
            "again stays on chip (`sram.zeros`), or is computed again.",
        )
    return failed("wrong memory", f"{kind}{at}: {message}")


def _too_large(case: Case, what: str, shape: tuple[int, ...]) -> tuple[str, str]:
    """A cause and a likely reason, by what did not fit."""
    n_queries, n_keys = case.given["n_queries"], case.given["n_keys"]
    loading = what.startswith("loading")
    if loading and shape and shape[0] in (n_queries, n_keys) and shape[0] > 1:
        return "loaded whole", "That is a whole array. Load a block of it, as in K[keys]."
    if not loading and math.prod(shape) >= n_queries * n_keys:
        return (
            "scores formed whole",
            "That is all of S, a number for every pair of query and key: what FlashAttention never forms.",
        )
    if not loading and len(shape) == 2 and shape[0] == n_queries and shape[1] != n_keys:
        return (
            "all rows at once",
            f"It has {n_queries:,} rows, as many as there are queries: is your block all of them? Count what "
            "is on chip for one row; the room divided by that is a block.",
        )
    if not loading and len(shape) == 2 and case.given["d"] != min(shape) and n_keys in shape:
        return (
            "whole rows of scores",
            "Those are all scores of a whole block, across all blocks of the other.",
        )
    return (
        "does not fit",
        "Which of these values are still needed, and are your blocks small enough?",
    )


def unfilled(seen: Observation, outputs: Arrays, expected: Arrays) -> Verdict | None:
    """Rows of an output that are as they were at the start."""
    for name, wanted in expected.items():
        if np.isnan(outputs[name]).any() and seen.more["writes"][name] >= wanted.nbytes:
            continue  # stored everywhere: a nan there is the answer's own
        same = (seen.value[name] == outputs[name]) | (
            np.isnan(seen.value[name]) & np.isnan(outputs[name])
        )
        untouched = same & (outputs[name] != wanted)
        rows = np.flatnonzero(untouched.reshape(len(wanted), -1).all(axis=1))
        if len(rows) == len(wanted):
            told = (
                " Your function returned something: results belong into the arrays, by sram.store."
            )
            return failed(
                "nothing stored",
                f"{name} is as it was at the start: nothing was stored to it."
                + (told if seen.more["returned"] else ""),
            )
        if len(rows):
            return failed(
                "rows left out",
                f"{len(rows)} of the {len(wanted)} rows of {name} were never stored, the first of them row "
                f"{rows[0]}. The last block may be smaller than the others.",
            )
    return None


def hidden_memory(case: Case, seen: Observation) -> Verdict | None:
    """Memory in Python's own lists and arrays, or scores parked in HBM."""
    scores_bytes = case.given["n_queries"] * case.given["n_keys"] * ITEM
    if seen.more["unseen"] > UNSEEN_TOLERANCE_BYTES:
        return failed(
            "memory beside the chip",
            f"Python took {say(seen.more['unseen'])} that lie neither on the chip nor in HBM: numbers kept "
            "in lists or plain arrays. (All the scores would take "
            f"{say(scores_bytes)}.)",
        )
    made_bytes = seen.more["new in HBM"]
    if made_bytes >= scores_bytes / 2:
        return failed(
            "scores in HBM",
            f"The program made arrays of {say(made_bytes)} in HBM, and the scores take "
            f"{say(scores_bytes)}. That is standard attention: each score crosses twice and more.",
        )
    longest = max(case.given["n_queries"], case.given["n_keys"])
    if made_bytes > longest * (case.given["d"] + 8) * ITEM:  # one more matrix and some vectors
        return failed(
            "too much in HBM",
            f"The program made arrays of {say(made_bytes)} in HBM, more than one as large as Q. The results "
            "have their places already, and beside them a number or two a row are enough.",
        )
    return None


def grows(name: str, sizes: Sequence[int], peaks_bytes: Sequence[int]) -> Verdict | None:
    """What is on chip must not depend on the length of the sequence."""
    if peaks_bytes[1] <= 1.01 * peaks_bytes[0]:
        return None
    return failed(
        "grows with n",
        f"With {name} = {sizes[0]:,} the program had {say(peaks_bytes[0])} on chip at most, with "
        f"{sizes[1]:,} it had {say(peaks_bytes[1])}. On the next longer sequence it will not fit: what "
        "lies on chip whole, and could come in blocks?",
    )


def moved(name: str, value: int, at_most: int, at_least: int, cause: str, why: str) -> tuple:
    """(measure by name, verdict or None): bytes that crossed, between what is allowed and what is possible."""
    measure = Measure(value, "bytes", at_most, at_least)
    return {name: measure}, over_budget(name, measure, cause, why)
