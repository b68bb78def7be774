"""7.4: causal attention. The mask shows in the values, the blocks that it makes needless in the traffic."""

import numpy as np

from course_utils.attention import causal_mask, dense_attention, queries_outside_traffic
from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.flash_attention.chip import (
    ITEM,
    attention_inputs,
    hidden_memory,
    moved,
    out_of_sight,
    run_program,
    stopped,
    unfilled,
)
from course_utils.checks.flash_attention.queries_outside import (
    outputs,
    stored_once,
    wrong_values,
)
from course_utils.checks.judging import close, say

CAPACITY_BYTES = 393_216  # 49,152 numbers


def _cases(seed: int) -> list[Case]:
    def one(name: str, n: int, d: int, *blocks: int, size: float = 1, **more) -> Case:
        given = {"n_queries": n, "n_keys": n, "d": d, "blocks": blocks, "size": size, "seed": seed}
        return Case(name, given | {"capacity": 10**6, "traffic": "capacity" in more} | more)

    return [
        one("n = 24, d = 4, blocks of 8 and 8", 24, 4, 8, 8),
        one("n = 23, d = 4, blocks of 5 queries and 3 keys", 23, 4, 5, 3),
        one("n = 23, d = 4, blocks of 3 queries and 7 keys", 23, 4, 3, 7),
        one("n = 1, d = 3", 1, 3, 4, 4),
        one("n = 9, d = 3, one block for all", 9, 3, 16, 16),
        one("scores of 10,000", 60, 8, 8, 10, size=70, first_score=-20_000.0),
        one("traffic: n = 1,000, d = 64, blocks of 64 and 32", 1000, 64, 64, 32, capacity=CAPACITY_BYTES),
        one("traffic: n = 500, d = 32, blocks of 40 and 70", 500, 32, 40, 70, capacity=CAPACITY_BYTES),
    ]  # fmt: skip


def _run(answer, case: Case) -> Observation:
    hidden, sizes = "", case.given["blocks"]
    if case.given["traffic"]:
        small = Case("", case.given | {"n_queries": 7, "n_keys": 7, "d": 2})
        hidden = out_of_sight(answer, attention_inputs(small), outputs(small), 2, 3)
    seen = run_program(
        answer, attention_inputs(case), outputs(case), case.given["capacity"], *sizes
    )
    seen.out_of_sight = hidden
    return seen


def _masks(n: int, block_q: int, block_k: int):
    """(cause, why, visible, first row to compare) of the usual other masks."""
    query, key = np.arange(n)[:, None], np.arange(n)[None, :]
    q_number, k_number = query // block_q, key // block_k
    right = key <= query
    rows_stop, keys_stop = (
        np.minimum((q_number + 1) * block_q, n),
        np.minimum((k_number + 1) * block_k, n),
    )
    beyond = "A query was allowed to see {}. Query i sees keys 0 to i."
    numbers = (
        "The numbers of the blocks were compared, as if both kinds had the same size. Compare the positions "
        "of queries and keys."
    )
    early = (
        "Blocks were skipped that a later query of the block still sees. A block of keys is hidden only "
        "if it begins after the last query."
    )
    return [
        ("whole blocks only", "Blocks of keys were skipped or taken whole. The block that the diagonal "
         "crosses holds visible and hidden keys.", k_number * block_k <= rows_stop - 1, 0),
        ("no mask", "Every query sees every key here.", key >= 0, 0),
        ("mask off by one", "No query sees its own key here. Query i sees keys 0 to i.", key < query, 1),
        ("mask off by one", beyond.format("the key after its own"), key <= query + 1, 0),
        ("mask turned round", "Every query sees the keys from its own on. Query i sees keys 0 to i.",
         key >= query, 0),
        ("block numbers compared", numbers, (k_number <= q_number) & right, 0),
        ("block numbers compared", numbers, np.where(k_number == q_number, right, k_number < q_number), 0),
        ("block numbers compared", numbers, np.where(k_number == q_number, right, True), 0),
        ("visible blocks skipped", early, right & (k_number * block_k <= q_number * block_q), 0),
        ("visible blocks skipped", early, right & (keys_stop <= rows_stop), 0),
        ("position within the block", "The mask compares places inside the two blocks. Add where each "
         "block begins.", key % block_k <= query % block_q, 0),
    ]  # fmt: skip


def _mask_slip(actual: np.ndarray, case: Case) -> Verdict | None:
    """Which other mask leads to this output, with hidden blocks loaded or skipped."""
    q, k, v = attention_inputs(case).values()
    n, d = q.shape
    block_q, block_k = case.given["blocks"]
    right = causal_mask(n, n)
    scores = q @ k.T / d**0.5
    last = np.minimum((np.arange(n) // block_q + 1) * block_q, n) - 1  # each block's last query
    needed = np.arange(n)[None, :] // block_k <= last[:, None] // block_k
    for loaded in (needed, np.ones_like(needed)):
        if found := _hidden_scores_slip(actual, scores, v, right, loaded):
            return found
        for cause, why, visible, first_row in _masks(n, block_q, block_k):
            seen = visible & loaded
            twin = dense_attention(q, k, v, mask=seen)[0]
            if not (seen == right).all() and close(actual[first_row:], twin[first_row:]):
                return failed(cause, why)
    return None


def _hidden_scores_slip(actual, scores, v, right, loaded) -> Verdict | None:
    """Hidden scores of loaded blocks that take part after all, by their value or by the maximum."""
    # among small scores -100 is as good as -inf; among large ones 0 was found out before
    for hidden in (0.0,) if np.abs(scores).max() < 100 else (-100.0, -1e3, -1e4):
        taken = np.where(loaded, np.where(right, scores, hidden), -np.inf)
        p = np.exp(taken - taken.max(axis=1, keepdims=True))
        if not close(actual, (p / p.sum(axis=1, keepdims=True)) @ v):
            continue
        if hidden == 0:
            return failed(
                "masked scores are zero",
                "A hidden score was set to 0. exp(0) is 1, so the key takes part. Which score has an "
                "exponential of 0?",
            )
        return failed(
            "hidden scores finite",
            "Hidden scores were set to a number that is not low enough: visible ones of this case are as "
            f"low as {scores[right].min():,.0f}. Which score is below all others?",
        )
    p = np.exp(
        np.where(loaded, scores, -np.inf)
        - scores.max(axis=1, keepdims=True, where=loaded, initial=-np.inf)
    )
    with np.errstate(all="ignore"):
        if close(actual, (right * p / p.sum(axis=1, keepdims=True)) @ v):
            return failed(
                "hidden keys in the sum",
                "Hidden keys have no part in P V here, but their exponentials are in the sum by which it "
                "is divided.",
            )
    nan_rows = ~np.isfinite(actual).all(axis=1)
    above = np.where(loaded, scores, -np.inf).max(axis=1) - np.where(right, scores, -np.inf).max(
        axis=1
    )
    if nan_rows.any() and np.isfinite(scores).all() and (above[nan_rows] > 700).all():
        return failed(
            "maximum of hidden scores",
            "In the rows that are nan a hidden score is the largest by far. Where it was taken for the "
            "maximum, the exponentials of all visible scores came out as 0, and 0 / 0 is nan. Mask before "
            "the maximum.",
        )
    return None


def _judge(case: Case, seen: Observation) -> Verdict:
    n, d, (block_q, block_k) = case.given["n_queries"], case.given["d"], case.given["blocks"]
    wrong = stopped(case, seen)
    if wrong:
        return wrong
    inputs = attention_inputs(case)
    o, logsumexp = dense_attention(*inputs.values(), causal=True)
    wrong = unfilled(seen, outputs(case), {"O": o, "logsumexp": logsumexp})
    if not wrong and (wrong := wrong_values(case, seen, causal_mask(n, n))):
        wrong = _mask_slip(seen.value["O"], case) or wrong
    if wrong or not case.given["traffic"]:
        return wrong or passed()
    if wrong := hidden_memory(case, seen) or stored_once(seen):
        return wrong
    allowed = queries_outside_traffic(n, n, d, block_q, block_k, causal=True)
    full = queries_outside_traffic(n, n, d, block_q, block_k)
    likely = (
        "Those are all blocks of K and V, for every block of queries. "
        if seen.more["read"] >= full.bytes_read
        else ""
    )
    read, wrong = moved(
        "read", seen.more["read"], allowed.bytes_read, 3 * n * d * ITEM,
        "hidden blocks loaded",
        f"{say(seen.more['read'])} were read, and {say(allowed.bytes_read)} are enough. {likely}A block of "
        "keys which begins after the last of these queries is hidden from all of them: it need not cross.",
    )  # fmt: skip
    written = {"written": Measure(seen.more["written"], "bytes", n * (d + 1) * ITEM)}
    on_chip = {"most on chip": Measure(seen.peak_bytes, "bytes", CAPACITY_BYTES)}
    return wrong or passed(**read, **written, **on_chip)


EXERCISE = Exercise(
    "7.4", "causal, and no more than needed", 3, _cases, _run, _judge, returns_none=True
)
