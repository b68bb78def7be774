"""6.4: standard attention in three passes, whose traffic a formula gives to the byte.

Here are the cases, and what values and an overflow tell; the traffic is judged in `standard_traffic`.
"""

import numpy as np

from course_utils.attention import standard_attention_traffic
from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, wrong_array
from course_utils.checks.tiling.chip import (
    left_empty,
    meter_changed,
    observe_on_chip,
    out_of_sight_on_chip,
    overflow_of,
    own_array,
    refused_crossing,
    unseen,
)
from course_utils.checks.tiling.standard_traffic import wrong_traffic

_TOLERANCE = 1e-9  # scores of 10,000 cost digits


def capacity_of(n_keys: int, d: int, block_q: int, block_k: int) -> int:
    """The exercise's chip, in bytes of float64: four blocks of each kind, and eight rows of scores."""
    return 8 * (4 * (block_q + block_k) * d + 4 * block_q * block_k + 8 * n_keys)


def _cases(seed: int) -> list[Case]:
    def one(n_queries, n_keys, d, block_q, block_k, name: str = "", **more) -> Case:
        shown = (
            f"{n_queries} queries, {n_keys} keys, d = {d}, blocks of {block_q} and {block_k}{name}"
        )
        sizes = (n_queries, n_keys, d, block_q, block_k)
        return Case(shown, {"sizes": sizes, "seed": seed} | more)

    return [
        one(24, 24, 4, 8, 6),
        one(37, 53, 8, 8, 16, ", ragged"),
        one(20, 20, 4, 5, 5, ", scores beyond 1,000", scale=40),
        one(1, 9, 3, 4, 4),
        one(9, 1, 1, 4, 4),
        one(6, 5, 4, 16, 16, ", blocks larger than all"),
        one(256, 1024, 64, 64, 64, ", memory counted", memory=True),  # K is larger than the chip
    ]


def _inputs(case: Case) -> tuple[dict[str, np.ndarray], dict[str, tuple[int, int]]]:
    n_queries, n_keys, d, *_ = case.given["sizes"]
    rng = np.random.default_rng([case.given["seed"], 64, n_queries, n_keys, d])
    size = case.given.get("scale", 1)
    q, k = size * rng.standard_normal((n_queries, d)), size * rng.standard_normal((n_keys, d))
    shapes = {"S": (n_queries, n_keys), "P": (n_queries, n_keys), "O": (n_queries, d)}
    return {"Q": q, "K": k, "V": rng.standard_normal((n_keys, d))}, shapes


def _run(answer, case: Case) -> Observation:
    _, n_keys, d, block_q, block_k = case.given["sizes"]
    out_of_sight = ""
    if case.given.get("memory"):
        small = Case("", {"sizes": (3, 3, 2, 2, 2), "seed": 0})
        out_of_sight = out_of_sight_on_chip(answer, *_inputs(small), 10_000, 2, 2)
    capacity = capacity_of(n_keys, d, block_q, block_k)
    with np.errstate(all="ignore"):
        seen = observe_on_chip(answer, *_inputs(case), capacity, block_q, block_k)
    seen.out_of_sight = out_of_sight
    return seen


def _judge(case: Case, seen: Observation) -> Verdict:
    wrong = _overflow(case, seen) or refused_crossing(seen)
    n_queries, n_keys, d, block_q, block_k = case.given["sizes"]
    room = capacity_of(n_keys, d, block_q, block_k)
    wrong = wrong or meter_changed(seen, room) or _wrong_values(case, seen)
    wrong = wrong or own_array(seen) or wrong_traffic(case, seen)
    if not wrong and case.given.get("memory"):
        wrong = unseen(seen)
    closed = standard_attention_traffic(n_queries, n_keys, d, block_q).bytes_moved
    moved = seen.more.get("bytes_read", 0) + seen.more.get("bytes_written", 0)
    return wrong or passed(
        **{
            "traffic": Measure(moved, "bytes", closed, closed),
            "on chip at most": Measure(seen.peak_bytes, "bytes", room),
        }
    )


def _overflow(case: Case, seen: Observation) -> Verdict | None:
    overflow = overflow_of(seen)
    if overflow is None:
        return None
    operation, told = overflow
    n_queries, n_keys, *_ = case.given["sizes"]
    if f"({n_queries}, {n_keys})" in told:
        return failed(
            "scores whole on chip",
            f"{told} A matrix of {n_queries} x {n_keys} is not to be on chip as a whole: S and P lie in "
            "HBM, a block or a row at a time comes in.",
        )
    for name, rows in (("K", n_keys), ("V", n_keys), ("Q", n_queries)):
        if f"{name}[0:{rows}," in told:
            return failed(
                "a matrix whole on chip",
                f"{told} {name} is there as a whole. Load it by blocks, in every pass anew.",
            )
    return failed(
        "too much on chip",
        f"{told} What is there that this pass does not need at once? A name keeps its block until it "
        "is given another value or deleted, also beyond the loop.",
    )


def _wrong_values(case: Case, seen: Observation) -> Verdict | None:
    inputs, value = _inputs(case)[0], seen.value
    q, k, v = inputs.values()
    unscaled = q @ k.T
    s = unscaled / np.sqrt(q.shape[1])
    p = _softmax(s)
    if np.isnan(value["P"]).all() and close(value["S"], p):
        return failed(
            "P stored into S",
            "S holds the probabilities, and P nothing: the scores are gone. Both have a place of "
            "their own.",
        )
    with np.errstate(all="ignore"):
        naive = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
        twin = value["P"]
        if np.isnan(naive).any() and close(np.nan_to_num(twin), np.nan_to_num(naive)):
            return failed(
                "no maximum subtracted",
                f"Scores up to {s.max():,.0f} occur here, and exp of that is inf. Lesson 05 has the cure.",
            )
    gaps = np.isnan(value["S"])
    if 0 < len(q) < len(k) and gaps[:, len(q) :].all() and not gaps[:, : len(q)].any():
        return failed(
            "keys cut off",
            f"S has {len(k)} columns, and only the first {len(q)} were stored, as many as there are "
            "queries. How many keys there are is another number: K.shape[0].",
        )
    for name, expected in (("S", s), ("P", p), ("O", p @ v)):
        wrong = left_empty(seen, name, "blocks")
        wrong = wrong or wrong_array(value[name], expected, name, tolerance=_TOLERANCE)
        if wrong and wrong.cause == "wrong values":
            return _likely_cause(name, value, unscaled, v) or wrong
        if wrong:
            return wrong
    return None


def _likely_cause(name: str, value, unscaled: np.ndarray, v: np.ndarray) -> Verdict | None:
    s = value["S"]
    if name == "S" and close(s, unscaled):
        return failed("not scaled", "S is Q K^T, without the factor 1 / sqrt(d).")
    if name == "S" and close(s * np.sqrt(v.shape[1]), unscaled / np.sqrt(v.shape[1])):
        return failed("scaled twice", "S is Q K^T / d. The factor is 1 / sqrt(d).")
    if name == "P":
        if close(value["P"], _softmax(s.T).T):
            return failed(
                "softmax down the columns",
                "Every column of P sums to 1. A query's probabilities are a row.",
            )
        weights = np.exp(s - s.max(axis=1, keepdims=True))
        if close(value["P"], weights):
            return failed("not divided by the sum", "The rows of P do not sum to 1.")
        if (np.abs(value["P"].sum(axis=1)) > 1.5).any():
            return failed(
                "softmax of a piece",
                f"A row of P sums to {value['P'].sum(axis=1).max():.3g}: was the softmax taken over a "
                "piece of the row only?",
            )
    if name == "O" and close(value["O"] * len(v), np.ones_like(value["P"]) @ v * len(v)):
        return failed("P not used", "Every row of O is the plain sum of V.")
    return None


def _softmax(s: np.ndarray) -> np.ndarray:
    weights = np.exp(s - s.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


EXERCISE = Exercise("6.4", "standard attention", 4, _cases, _run, _judge, returns_none=True)
