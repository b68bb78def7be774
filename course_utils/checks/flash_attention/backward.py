"""7.5: the backward pass, which forms the probabilities again from logsumexp, block by block."""

import math

import numpy as np

from course_utils.attention import dense_attention, dense_attention_backward
from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.flash_attention.chip import (
    ITEM,
    Arrays,
    attention_inputs,
    grows,
    hidden_memory,
    moved,
    normal,
    out_of_sight,
    run_program,
    stopped,
    unfilled,
)
from course_utils.checks.flash_attention.slips import blocks
from course_utils.checks.judging import close, say, wrong_array

D, BLOCK = 32, 32
CAPACITY_BYTES = 24 * BLOCK * D * ITEM  # 24 tiles of 32 x 32: 196,608 bytes
_LENGTHS = (500, 756)  # alike in how their last blocks are cut
_NAMES = ("dQ", "dK", "dV")


def _cases(seed: int) -> list[Case]:
    def one(name: str, n_queries: int, n_keys: int, d: int, *blocks: int) -> Case:
        given = {"n_queries": n_queries, "n_keys": n_keys, "d": d, "blocks": blocks, "size": 1}
        return Case(name, given | {"seed": seed})

    n = _LENGTHS[0]
    return [
        one("24 queries, 24 keys, d = 5, blocks of 8", 24, 24, 5, 8, 8),
        one("blocks that do not divide: 10 queries by 4, 13 keys by 5", 10, 13, 3, 4, 5),
        one("one query, 7 keys, d = 1", 1, 7, 1, 4, 3),
        one("traffic: n = 240, d = 8, blocks of 24 queries and 40 keys", 240, 240, 8, 24, 40),
        one(f"on chip: {n} queries and keys, d = {D}, blocks of {BLOCK}", n, n, D, BLOCK, BLOCK),
    ]


def _inputs(case: Case) -> Arrays:
    inputs = attention_inputs(case)
    o, logsumexp = dense_attention(*inputs.values())
    return inputs | {"O": o, "dO": normal(case, *o.shape, stream=4), "logsumexp": logsumexp}


def _outputs(case: Case) -> Arrays:
    inputs = attention_inputs(case)
    return {f"d{name}": np.zeros(array.shape) for name, array in inputs.items()}


def _run(answer, case: Case) -> Observation:
    sizes = case.given["blocks"]
    if case.given["n_queries"] != _LENGTHS[0]:
        return run_program(answer, _inputs(case), _outputs(case), 10**6, *sizes)
    small = Case("", case.given | {"n_queries": 5, "n_keys": 5, "d": 2})
    hidden = out_of_sight(answer, _inputs(small), _outputs(small), 2, 3)
    seen = run_program(answer, _inputs(case), _outputs(case), CAPACITY_BYTES, *sizes)
    if seen.error is None and not seen.more.get("stopped"):
        n = _LENGTHS[1]
        twice = Case("", case.given | {"n_queries": n, "n_keys": n})
        longer = run_program(answer, _inputs(twice), _outputs(twice), CAPACITY_BYTES, *sizes)
        if longer.error is not None or longer.more.get("stopped"):
            return longer
        seen.more["peaks"] = [seen.peak_bytes, longer.peak_bytes]
    seen.out_of_sight = hidden
    return seen


def _expected(case: Case) -> Arrays:
    inputs = _inputs(case)
    gradients = dense_attention_backward(*(inputs[name] for name in ("Q", "K", "V", "dO")))
    return dict(zip(_NAMES, gradients))


def _mistakes(case: Case):
    """(cause, why, gradients) of the usual slips; a gradient that the slip leaves right is not there."""
    q, k, v, o, grad_o, logsumexp = _inputs(case).values()
    scale, s = q.shape[1] ** -0.5, q @ k.T * q.shape[1] ** -0.5
    p = np.exp(s - logsumexp[:, None])
    grad_p = grad_o @ v.T
    row_dot = (grad_o * o).sum(axis=1, keepdims=True)
    grad_s = p * (grad_p - row_dot)
    yield ("scale forgotten", "Scores are scale * Q K^T, so the scale is a factor of this gradient too.",
           {"dQ": grad_s @ k, "dK": grad_s.T @ q})  # fmt: skip
    yield ("scale twice", "The scale is a factor of dQ and dK once; here it is in twice.",
           {"dQ": scale**2 * grad_s @ k, "dK": scale**2 * grad_s.T @ q})  # fmt: skip
    for cause, why, wrong_s in (
        ("row sums left out", "dS is P * dP here. A row of P always sums to 1, and for that the sum of "
         "P * dP over the row is subtracted from dP: D.", p * grad_p),
        ("P left out", "dS is dP - D here, without the factor P.", grad_p - row_dot),
        ("P minus D", "dS was formed with P where dP belongs: P * (P - D). The derivative for P comes from "
         "dO and V.", p * (p - row_dot)),
        ("D added", "D was added to dP. It is subtracted.", p * (grad_p + row_dot)),
        ("D of the block", "D is a sum over the whole row, and here over the block's own keys. It is also "
         "sum(dO * O), which needs no other block.", _with_own_sums(p, grad_p, case.given["blocks"][1])),
    ):  # fmt: skip
        yield cause, why, {"dQ": scale * wrong_s @ k, "dK": scale * wrong_s.T @ q}
    unscaled = np.exp(q @ k.T - logsumexp[:, None])
    wrong_s = unscaled * (grad_p - row_dot)
    yield ("scores without scale", "P was formed again from scores without the scale: not the same P as in "
           "the forward pass.",
           {"dV": unscaled.T @ grad_o, "dQ": scale * wrong_s @ k, "dK": scale * wrong_s.T @ q})  # fmt: skip
    own = np.exp(s - s.max(axis=1, keepdims=True))
    for not_p in (own, np.exp(s)):
        yield ("P not normalized", "These probabilities do not sum to 1. exp(score - logsumexp) does: "
               "logsumexp is the maximum and the sum in one number.", {"dV": not_p.T @ grad_o})  # fmt: skip
    yield ("divided by logsumexp", "exp(score) was divided by logsumexp, which is the logarithm of the sum. "
           "Subtract it from the score.", {"dV": (np.exp(s) / logsumexp[:, None]).T @ grad_o})  # fmt: skip
    yield ("softmax of the block", "P was normalized by the sum over the block's own keys. A row's sum goes "
           "over all keys, and logsumexp has it.",
           {"dV": _softmax_by_blocks(s, case.given["blocks"][1]).T @ grad_o})  # fmt: skip
    if q.shape[0] > 1:
        yield ("dK and dV exchanged", "This array holds the other one's gradient.",
               {"dV": scale * grad_s.T @ q, "dK": p.T @ grad_o})  # fmt: skip
    last_q, last_k = (range(0, n, b)[-1] for n, b in zip(s.shape, case.given["blocks"]))
    yield ("not accumulated", "Only the last block's share is there. Every pair of blocks adds to its "
           "queries' dQ and to its keys' dK and dV.",
           {"dQ": scale * grad_s[:, last_k:] @ k[last_k:],
            "dK": scale * grad_s[last_q:].T @ q[last_q:],
            "dV": p[last_q:].T @ grad_o[last_q:]})  # fmt: skip


def _with_own_sums(p, grad_p, block_k: int) -> np.ndarray:
    grad_s = np.empty_like(p)
    for keys in blocks(p.shape[1], block_k):
        sums = (p[:, keys] * grad_p[:, keys]).sum(axis=1, keepdims=True)
        grad_s[:, keys] = p[:, keys] * (grad_p[:, keys] - sums)
    return grad_s


def _softmax_by_blocks(s, block_k: int) -> np.ndarray:
    p = np.empty_like(s)
    for keys in blocks(s.shape[1], block_k):
        own = np.exp(s[:, keys] - s[:, keys].max(axis=1, keepdims=True))
        p[:, keys] = own / own.sum(axis=1, keepdims=True)
    return p


def _judge(case: Case, seen: Observation) -> Verdict:
    expected = _expected(case)
    wrong = stopped(case, seen) or unfilled(seen, _outputs(case), expected)
    if wrong:
        return wrong
    for name in ("dV", "dQ", "dK"):  # dV needs P alone: what is wrong there is wrong in all
        wrong = wrong_array(seen.value[name], expected[name], what=name)
        if wrong is None:
            continue
        for cause, why, gradients in _mistakes(case):
            twin = gradients.get(name)
            if twin is None or close(twin, expected[name]):
                continue
            if close(seen.value[name], twin):
                return failed(cause, f"In {name}: {why}")
        return wrong
    return _judge_traffic(case, seen) if case.name.startswith(("traffic", "on chip")) else passed()


def allowed_numbers(n: int, d: int, block_q: int, block_k: int) -> int:
    """The exercise's budget for n queries and keys, in numbers: 8 n d + T n (5 d + 2) with equal blocks.

    The keys' way (FlashAttention, Algorithm 4): K, V, dK, dV cross once; for each of the T blocks of keys
    come Q, O, dO, dQ (d each) and logsumexp, and dQ goes back: 4 n d + T n (5 d + 1). Two passes, one for
    dQ with the queries outside, one for dK and dV: K and V come by once for each block of queries, and
    Q, O, dO and logsumexp for each block of keys, besides what crosses once. Either may form D once, store
    it, and load it in place of O. What is not within it is a single pass with the queries outside, where
    dK and dV travel: T n 6 d.
    """
    by_queries, by_keys = math.ceil(n / block_q), math.ceil(n / block_k)
    return 8 * n * d + 2 * n * d * by_queries + by_keys * n * (3 * d + 2)


def _likely_excess(seen: Observation, n: int, block_k: int, matrix_bytes: int) -> tuple[str, str]:
    reads, writes = seen.more["reads"], seen.more["writes"]
    if writes["dK"] > matrix_bytes:
        times = f"dK was stored {writes['dK'] / matrix_bytes:.3g} times over. "
        if reads["K"] > matrix_bytes:
            return "dK and dV travel", times + (
                "With the queries outside, dK and dV go out and in at each step. Turned round, only dQ does."
            )
        return "dK and dV travel", times + (
            "Its block stays the same in the inner loop, and so can stay on chip."
        )
    if reads["K"] <= matrix_bytes and reads["Q"] > math.ceil(n / block_k) * matrix_bytes:
        return "too much traffic", (
            f"Q came by {reads['Q'] / matrix_bytes:.3g} times, and the keys have {math.ceil(n / block_k)} "
            "blocks. Do your blocks of keys have block_k rows?"
        )
    return "too much traffic", (
        "Which array comes by in the inner loop, although it stays the same there?"
    )


def _judge_traffic(case: Case, seen: Observation) -> Verdict:
    if wrong := hidden_memory(case, seen):
        return wrong
    if "peaks" in seen.more and (wrong := grows("n", _LENGTHS, seen.more["peaks"])):
        return wrong
    n, d, (block_q, block_k) = case.given["n_queries"], case.given["d"], case.given["blocks"]
    allowed_bytes = allowed_numbers(n, d, block_q, block_k) * ITEM
    cause, likely = _likely_excess(seen, n, block_k, n * d * ITEM)
    least_bytes = (8 * n * d + n) * ITEM  # five matrices and logsumexp in, three matrices out
    total_bytes = seen.more["read"] + seen.more["written"]
    measure, wrong = moved(
        "moved", total_bytes, allowed_bytes, least_bytes, cause,
        f"{say(total_bytes)} crossed, and {say(allowed_bytes)} are enough. {likely}",
    )  # fmt: skip
    if n != _LENGTHS[0]:
        return wrong or passed()
    on_chip = {"most on chip": Measure(seen.peak_bytes, "bytes", CAPACITY_BYTES)}
    return wrong or passed(**measure, **on_chip)


EXERCISE = Exercise(
    "7.5", "backward, by forming P again", 4, _cases, _run, _judge,
    returns_none=True, optional=True,
)  # fmt: skip
