"""7.1: Algorithm 1, the loop over keys outside: values, the running state, and every byte that crosses."""

import numpy as np

from course_utils.attention import dense_attention, forward_error_bound, keys_outside_traffic
from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.flash_attention.chip import (
    ITEM,
    Arrays,
    attention_inputs,
    grows,
    hidden_memory,
    moved,
    out_of_sight,
    run_program,
    stopped,
    unfilled,
)
from course_utils.checks.flash_attention.slips import named_slip
from course_utils.checks.judging import close, say, wrong_array

CAPACITY_BYTES = 196_608  # 24,576 numbers
D, BLOCK_Q, BLOCK_K = 32, 16, 96  # half of what Algorithm 1 prints for this chip
_LENGTHS = (600, 984)  # alike in how their last blocks are cut


def _cases(seed: int) -> list[Case]:
    def one(name: str, n_queries: int, n_keys: int, d: int, *blocks: int, size: float = 1) -> Case:
        given = {"n_queries": n_queries, "n_keys": n_keys, "d": d, "blocks": blocks, "size": size}
        return Case(name, given | {"seed": seed})

    n = _LENGTHS[0]
    return [
        one("24 queries, 24 keys, d = 4, blocks of 8", 24, 24, 4, 8, 8),
        one("blocks that do not divide: 9 queries by 4, 14 keys by 5", 9, 14, 3, 4, 5),
        one("one query, 7 keys, d = 1", 1, 7, 1, 4, 3),
        one("scores of 10,000", 24, 30, 8, 8, 10, size=70),
        one(f"on chip: {n} queries and keys, d = {D}", n, n, D, BLOCK_Q, BLOCK_K),
    ]


def _outputs(case: Case) -> Arrays:
    n_queries, d = case.given["n_queries"], case.given["d"]
    sums, maxima = np.zeros(n_queries), np.full(n_queries, -np.inf)
    return {"O": np.zeros((n_queries, d)), "row_sums": sums, "row_maxima": maxima}


def _is_measured(case: Case) -> bool:
    return case.given["n_queries"] == _LENGTHS[0]


def _run(answer, case: Case) -> Observation:
    sizes = case.given["blocks"]

    def at_length(n_queries: int, n_keys: int, *blocks: int, d: int = 0) -> tuple:
        at = {"n_queries": n_queries, "n_keys": n_keys, "d": d or case.given["d"]}
        resized = Case("", case.given | at)
        return attention_inputs(resized), _outputs(resized)

    if not _is_measured(case):
        return run_program(answer, attention_inputs(case), _outputs(case), 10**6, *sizes)
    hidden = out_of_sight(answer, *at_length(5, 5, d=2), 2, 3)
    seen = run_program(answer, attention_inputs(case), _outputs(case), CAPACITY_BYTES, *sizes)
    if seen.error is None and not seen.more.get("stopped"):
        n = _LENGTHS[1]
        longer = run_program(answer, *at_length(n, n), CAPACITY_BYTES, *sizes)
        if longer.error is not None or longer.more.get("stopped"):
            return longer
        seen.more["peaks"] = [seen.peak_bytes, longer.peak_bytes]
    seen.out_of_sight = hidden
    return seen


def _judge(case: Case, seen: Observation) -> Verdict:
    inputs = attention_inputs(case)
    q, k, v = inputs.values()
    o, logsumexp = dense_attention(q, k, v)
    s = q @ k.T / q.shape[1] ** 0.5
    row_max = s.max(axis=1)
    expected = {"O": o, "row_sums": np.exp(logsumexp - row_max), "row_maxima": row_max}
    wrong = stopped(case, seen) or unfilled(seen, _outputs(case), expected)
    if wrong:
        return wrong
    tolerance = max(1e-10, 2 * forward_error_bound(q, k, v))
    if not close(seen.value["O"], o, tolerance=tolerance):
        if not np.isfinite(seen.value["O"]).all():
            return failed("not finite", _why_not_finite(seen.value["O"]))
        found = named_slip(seen.value["O"], q, k, v, case.given["blocks"][1])
        return found or wrong_array(seen.value["O"], o, "O", tolerance=tolerance)
    for name in ("row_maxima", "row_sums"):
        wrong = wrong_array(seen.value[name], expected[name], name, tolerance=tolerance)
        if wrong:
            return failed(
                "wrong state",
                f"O is right, but {name} is not what Algorithm 1 leaves there: the largest score of each "
                f"row, and the sum of exp(score - that). {wrong.diagnosis}",
            )
    return _judge_traffic(case, seen, inputs) if _is_measured(case) else passed()


def _why_not_finite(o: np.ndarray) -> str:
    return (
        f"{int((~np.isfinite(o)).sum())} elements of O are inf or nan. exp of a large score overflows, "
        "unless the row's largest score so far is subtracted first; and -inf - (-inf) is nan."
    )


def _judge_traffic(case: Case, seen: Observation, inputs: Arrays) -> Verdict:
    n, d, (block_q, block_k) = case.given["n_queries"], case.given["d"], case.given["blocks"]
    if wrong := hidden_memory(case, seen) or grows("n", _LENGTHS, seen.more["peaks"]):
        return wrong
    reads = seen.more["reads"]
    for name in ("K", "V"):
        passes = reads[name] / inputs[name].nbytes
        if passes > 1:
            return failed(
                "keys loaded again",
                f"{name} crossed {passes:.3g} times, and in Algorithm 1 each block of K and V is loaded "
                "once: it stays on chip while all the queries come by. Where does its `load` stand?",
            )
    whole = keys_outside_traffic(n, n, d, block_q, block_k)
    skipped_bytes = (
        n * (d + 2) * ITEM
    )  # the state at the very start is known: it need not be loaded
    read, wrong = moved(
        "read", seen.more["read"], whole.bytes_read, whole.bytes_read - skipped_bytes,
        "read too much",
        f"{say(seen.more['read'])} were read, and Algorithm 1 reads {say(whole.bytes_read)}: K and V once, "
        "and for each block of keys all of Q, O, sums and maxima.",
    )  # fmt: skip
    if wrong and wrong.cause == "better than possible":
        return failed(
            "another algorithm",
            f"Only {say(seen.more['read'])} were read. With the loop over keys outside, Q and the state come "
            f"by once for each block of keys, {say(whole.bytes_read)} in all.",
            **read,
        )
    written, wrong_writes = moved(
        "written", seen.more["written"], whole.bytes_written, whole.bytes_written,
        "written too much",
        f"{say(seen.more['written'])} were written, and Algorithm 1 writes {say(whole.bytes_written)}: O, "
        "sums and maxima once for each block of keys.",
    )  # fmt: skip
    if wrong_writes and wrong_writes.cause == "better than possible":
        wrong_writes = failed("another algorithm", "O, sums and maxima are written once for each block of "
                              "keys in Algorithm 1. Here less was written.", **written)  # fmt: skip
    on_chip = {"most on chip": Measure(seen.peak_bytes, "bytes", CAPACITY_BYTES)}
    return wrong or wrong_writes or passed(**read, **written, **on_chip)


EXERCISE = Exercise("7.1", "Algorithm 1, forward", 4, _cases, _run, _judge, returns_none=True)
