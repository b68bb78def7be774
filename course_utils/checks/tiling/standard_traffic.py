"""What standard attention moved, judged matrix by matrix.

Blocks, loop order and passes are fixed, so every matrix has its own count, and the one that is off tells
which loop is the wrong way round.
"""

from course_utils.attention import standard_attention_traffic
from course_utils.checks.core import Case, Observation, Verdict, failed
from course_utils.checks.judging import say


def wrong_traffic(case: Case, seen: Observation) -> Verdict | None:
    n_queries, n_keys, d, block_q, block_k = case.given["sizes"]
    passes, inner = -(-n_queries // block_q), -(-n_keys // block_k)
    times_read = {"Q": 1, "K": passes, "V": passes, "S": 1, "P": 1, "O": 0}
    times_written = {"S": 1, "P": 1, "O": 1}
    sizes = {"Q": n_queries * d, "K": n_keys * d, "V": n_keys * d, "O": n_queries * d}
    sizes |= {"S": n_queries * n_keys, "P": n_queries * n_keys}
    read = {name: seen.more["read"][name] / (8 * sizes[name]) for name in times_read}
    written = {name: seen.more["written"][name] / (8 * sizes[name]) for name in times_written}
    closed = standard_attention_traffic(n_queries, n_keys, d, block_q)
    totals = seen.more["bytes_read"], seen.more["bytes_written"]
    if (read, written, totals) == (times_read, times_written, tuple(closed)):
        return None
    off = _differences(read, times_read, "read") + _differences(written, times_written, "written")
    told = (
        f"Read {say(seen.more['bytes_read'])}, expected {say(closed.bytes_read)}; written "
        f"{say(seen.more['bytes_written'])}, expected {say(closed.bytes_written)}: {'; '.join(off)}. "
    )
    for name in "SP":
        if read[name] < 1:
            return failed(
                "a pass left out",
                f"{told}What a pass leaves in HBM, the next one loads from there. (That it need not is "
                "what lesson 07 is about.)",
            )
    by_block_k = -(-n_queries // block_k)
    if read["K"] == read["V"] == by_block_k != passes and read["Q"] == written["O"] == 1:
        return failed(
            "block_k for queries",
            f"{told}That is what blocks of {block_k} queries give. Queries come in blocks of block_q = "
            f"{block_q}, and keys and values in blocks of block_k = {block_k}.",
        )
    if min(read["K"], read["V"]) < passes:
        if read["Q"] == inner > 1 or written["O"] > 1:
            return failed(
                "loops the other way",
                f"{told}The loop over blocks of queries is the outer one: a block of Q, or of O, stays "
                "while the keys and the values pass by.",
            )
        return failed(
            "a matrix whole on chip",
            f"{told}Here it fits, but the exercise wants the keys and the values by blocks: all of them "
            "pass by each block of queries.",
        )
    if read["Q"] > 1:
        cause, why = "Q loaded again", "A block of Q can stay while all keys pass by."
    elif written["O"] > 1 or read["O"]:
        cause, why = "O stored too often", "A block of O can stay on chip until it is complete."
    elif read["K"] > passes or read["V"] > passes:
        cause, why = (
            "keys come by too often",
            "Once for a whole block of queries is enough, in pass 1 and in pass 3.",
        )
    elif read["S"] > 1 or written["S"] > 1:
        cause, why = "S moved too often", "A row that is on chip can be used more than once."
    else:
        cause, why = "wrong traffic", "The exercise fixes what each pass moves."
    return failed(cause, told + why)


def _differences(actual: dict, expected: dict, done: str) -> list[str]:
    return [
        f"{name} {done} {_times(actual[name])}, expected {_times(times)}"
        for name, times in expected.items()
        if actual[name] != times
    ]


def _times(number: float) -> str:
    return "once" if number == 1 else "never" if number == 0 else f"{number:.4g} times"
