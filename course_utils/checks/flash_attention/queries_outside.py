"""7.3: queries outside, in blocks that the answer chooses: graded on traffic, for chips of several shapes."""

import math

import numpy as np

from course_utils.attention import (
    dense_attention,
    forward_error_bound,
    keys_outside_traffic,
    queries_outside_traffic,
)
from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.flash_attention.chip import (
    ITEM,
    Arrays,
    attention_inputs,
    hidden_memory,
    moved,
    out_of_sight,
    run_program,
    stopped,
    unfilled,
)
from course_utils.checks.flash_attention.slips import named_slip
from course_utils.checks.judging import close, say, wrong_array

CAPACITY_BYTES = 786_432  # 98,304 numbers: as many as an A100's 192 KiB hold in fp16
OTHER_CAPACITY_BYTES = 65_536  # a second chip: sizes that fit the first alone must fail there
_SMALL = {"n_queries": 5, "n_keys": 7, "d": 2}


def _cases(seed: int) -> list[Case]:
    def one(name: str, n_queries: int, n_keys: int, d: int, size: float = 1, **more) -> Case:
        given = {"n_queries": n_queries, "n_keys": n_keys, "d": d, "size": size, "seed": seed}
        return Case(name, given | more)

    other = {"capacity": OTHER_CAPACITY_BYTES}
    return [
        one("100 queries, 70 keys, d = 16", 100, 70, 16),
        one("one query, 50 keys, d = 1", 1, 50, 1),
        one("60 queries, one key, d = 8", 60, 1, 8),
        one("scores of 10,000", 90, 300, 8, size=70),
        one("traffic: n = 1,024, d = 64", 1024, 1024, 64, traffic=True),
        one("traffic: n = 512, d = 128", 512, 512, 128, traffic=True),
        one("traffic: n = 1,200, d = 64", 1200, 1200, 64, traffic=True),
        one(f"on a chip of {OTHER_CAPACITY_BYTES:,} bytes: n = 256, d = 16", 256, 256, 16, **other),
    ]


def outputs(case: Case) -> Arrays:
    """O and logsumexp as they lie in HBM at the start: without a number in them."""
    n_queries, d = case.given["n_queries"], case.given["d"]
    return {"O": np.full((n_queries, d), np.nan), "logsumexp": np.full(n_queries, np.nan)}


def _run(answer, case: Case) -> Observation:
    hidden = ""
    if case.given.get("traffic"):
        small = Case("", case.given | _SMALL)
        hidden = out_of_sight(answer, attention_inputs(small), outputs(small))
    capacity_bytes = case.given.get("capacity", CAPACITY_BYTES)
    seen = run_program(answer, attention_inputs(case), outputs(case), capacity_bytes)
    seen.out_of_sight = hidden
    return seen


def printed_blocks(numbers_on_chip: int, d: int) -> tuple[int, int]:
    """(block_q, block_k) as Algorithm 1 prints them: min(ceil(M / 4d), d) and ceil(M / 4d) (E5-79)."""
    block_k = math.ceil(numbers_on_chip / (4 * d))
    return min(block_k, d), block_k


def allowed_bytes(n_queries: int, n_keys: int, d: int) -> int:
    """What Algorithm 1 moves with its printed blocks on this chip: the exercise's budget."""
    blocks = printed_blocks(CAPACITY_BYTES // ITEM, d)
    return keys_outside_traffic(n_queries, n_keys, d, *blocks).bytes_moved


def why_not_finite(q: np.ndarray, k: np.ndarray) -> str:
    if np.abs(q @ k.T).max(initial=0.0) < 700:  # exp of any of these is finite, scaled or not
        return "No score here is too large for exp. But -inf - (-inf) is nan, and so is 0 / 0."
    return (
        "exp of a large score overflows, unless the row's largest score so far is subtracted; and "
        "-inf - (-inf) is nan."
    )


def _possible_blocks(case: Case) -> list[int]:
    """Sizes of the keys' blocks that an answer may have: given ones, or all that are likely."""
    n_keys = case.given["n_keys"]
    likely = range(1, 129) if n_keys <= 300 else (1, 2, 4, 8, 16, 32, 64, 128)
    sizes = [case.given["blocks"][1]] if "blocks" in case.given else [8, 16, 32, *likely]
    return list(dict.fromkeys(min(size, n_keys) for size in [*sizes, 1, n_keys]))


def wrong_values(case: Case, seen: Observation, visible=None) -> Verdict | None:
    """O and logsumexp against the dense oracle, the usual slips first."""
    inputs = attention_inputs(case)
    q, k, v = inputs.values()
    o, logsumexp = dense_attention(q, k, v, mask=visible)
    tolerance = max(1e-10, 2 * forward_error_bound(q, k, v))
    actual = seen.value["O"]
    if not close(actual, o, tolerance=tolerance):
        if not np.isfinite(actual).all():
            return failed(
                "not finite",
                f"{int((~np.isfinite(actual)).sum())} elements of O are inf or nan, the first in row "
                f"{np.argwhere(~np.isfinite(actual))[0][0]}. {why_not_finite(q, k)}",
            )
        for block_k in _possible_blocks(case):
            if found := named_slip(actual, q, k, v, block_k, visible):
                return found
        return wrong_array(actual, o, "O", tolerance=tolerance)
    wrong = wrong_array(seen.value["logsumexp"], logsumexp, "logsumexp", tolerance=tolerance)
    if wrong is None:
        return None
    row_max = np.where(visible if visible is not None else True, q @ k.T, -np.inf).max(axis=1)
    row_max = row_max / q.shape[1] ** 0.5
    for given, what in (
        (np.exp(logsumexp - row_max), "the sum of exp(score - maximum)"),
        (logsumexp - row_max, "the logarithm of the sum, without the maximum"),
        (row_max, "the maximum alone"),
        (row_max + np.exp(logsumexp - row_max), "the maximum plus the sum, without a logarithm"),
        (row_max * np.exp(logsumexp - row_max), "the maximum times the sum"),
    ):
        if close(seen.value["logsumexp"], given):
            return failed("not the logsumexp", f"O is right, but logsumexp holds {what}.")
    return failed("not the logsumexp", f"O is right, but logsumexp is not: it is log(sum(exp(score))) of "
                  f"each row. {wrong.diagnosis}")  # fmt: skip


def stored_once(seen: Observation) -> Verdict | None:
    """Each output crosses once in this order of the loops: it is final when its block is done."""
    for name, values in seen.value.items():
        times = seen.more["writes"][name] / values.nbytes
        if times > 1:
            return failed(
                "output stored too often",
                f"{name} was stored {times:.3g} times over. With the queries outside, a block of it stays on "
                "chip until it is final. When is that?",
            )
    return None


def _judge(case: Case, seen: Observation) -> Verdict:
    wrong = stopped(case, seen)
    if wrong and case.given.get("capacity") and seen.more.get("stopped") == "SRAMOverflow":
        return failed(
            "made for one chip",
            f"Here the chip has {OTHER_CAPACITY_BYTES:,} bytes, and the blocks do not fit. Choose their "
            f"sizes from sram.capacity_bytes and the shapes. {wrong.diagnosis}",
        )
    if not wrong:
        inputs = attention_inputs(case)
        o, logsumexp = dense_attention(*inputs.values())
        expected = {"O": o, "logsumexp": logsumexp}
        wrong = unfilled(seen, outputs(case), expected) or wrong_values(case, seen)
    if wrong or not case.given.get("traffic"):
        return wrong or passed()
    if wrong := hidden_memory(case, seen) or stored_once(seen):
        return wrong
    n_queries, n_keys, d = (case.given[name] for name in ("n_queries", "n_keys", "d"))
    passes = seen.more["reads"]["K"] / inputs["K"].nbytes
    allowed = allowed_bytes(n_queries, n_keys, d)
    least = queries_outside_traffic(n_queries, n_keys, d, n_queries, n_keys).bytes_moved
    total_bytes = seen.more["read"] + seen.more["written"]
    measure, wrong = moved(
        "moved", total_bytes, allowed, least,
        "too much traffic",
        f"{say(total_bytes)} crossed, and {say(allowed)} are allowed. K came by {passes:.3g} times: once "
        "for each block of queries. Of the two block sizes, which one decides that, and what does a row of "
        "its block take on chip?",
    )  # fmt: skip
    on_chip = {"most on chip": Measure(seen.peak_bytes, "bytes", CAPACITY_BYTES)}
    return wrong or passed(**measure, **on_chip)


EXERCISE = Exercise("7.3", "queries outside", 3, _cases, _run, _judge, returns_none=True)
