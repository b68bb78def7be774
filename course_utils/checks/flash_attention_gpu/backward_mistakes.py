"""What the usual slips of a backward kernel leave in dq, dk and dv, head by head."""

from collections.abc import Iterator

import numpy as np

from course_utils.checks.core import Case
from course_utils.checks.flash_attention_gpu.attention_inputs import backward_inputs
from course_utils.checks.flash_attention_gpu.attention_wanted import scores
from course_utils.checks.flash_attention_gpu.kernel_task import Mistake


def backward_mistakes(case: Case) -> Iterator[Mistake]:
    """What every slip leaves; a gradient that it leaves right is not named."""
    at, scale = scores(case), case.given["scale"]
    grad_o = backward_inputs(case)["do"].astype(np.float64)
    row_dot = (grad_o * at.o).sum(axis=-1, keepdims=True)
    dp = grad_o @ at.v.swapaxes(1, 2)
    logsumexp = at.logsumexp[..., None]

    def gradients(ds: np.ndarray, factor: float = scale) -> dict[str, np.ndarray]:
        return {"dq": factor * ds @ at.k, "dk": factor * ds.swapaxes(1, 2) @ at.q}

    def from_p(p: np.ndarray) -> dict[str, np.ndarray]:
        return gradients(p * (dp - row_dot)) | {"dv": p.swapaxes(1, 2) @ grad_o}

    ds = at.p * (dp - row_dot)
    yield ("scale forgotten", "Scores are scale * Q K^T, so the scale is a factor of this gradient too.",
           gradients(ds, 1.0))  # fmt: skip
    yield ("scale twice", "The scale is a factor of dQ and dK once; here it is in twice.",
           gradients(ds, scale**2))  # fmt: skip
    for cause, why, wrong in (
        ("row sums left out", "dS is P * dP here. row_dot is subtracted from dP, as a row of P sums to 1.",
         at.p * dp),
        ("P left out", "dS is dP - row_dot here, without the factor P.", dp - row_dot),
        ("row_dot added", "row_dot was added to dP. It is subtracted.", at.p * (dp + row_dot)),
        ("P minus row_dot", "dS was formed with P where dP belongs: P * (P - row_dot).", at.p * (at.p - row_dot)),
        ("P for dS", "This gradient was formed from P, and dS belongs there.", at.p),
    ):  # fmt: skip
        yield cause, why, gradients(wrong)
    yield ("scores without scale", "P was formed again from scores without the scale: not the P of the forward "
           "pass.", from_p(np.exp(at.s / scale - logsumexp)))  # fmt: skip
    top = at.s.max(axis=-1, keepdims=True)
    for p in (np.exp(at.s - top), np.exp(at.s)):
        yield ("P not normalized", "These probabilities do not sum to 1. exp(score - logsumexp) does: "
               "logsumexp is the maximum and the sum in one number.", from_p(p))  # fmt: skip
    for p in (np.exp2(at.s - logsumexp), np.exp2(at.s / np.log(2) - logsumexp)):
        yield ("base 2", "exp2 takes its argument in base 2: scores and logsumexp both times log2(e).",
               from_p(p))  # fmt: skip
    yield ("divided by logsumexp", "exp(score) was divided by logsumexp, which is a logarithm. Subtract it from "
           "the score.", from_p(np.exp(at.s) / logsumexp))  # fmt: skip
    yield ("dK and dV exchanged", "This tensor holds the other one's gradient.",
           {"dv": gradients(ds)["dk"], "dk": from_p(at.p)["dv"]})  # fmt: skip
    yield from _tails(case, at, grad_o, row_dot)
    yield from _last_blocks(case, at, grad_o, ds)
    if len(at.q) > 1:
        first = np.broadcast_to(at.k[:1], at.k.shape)
        yield ("heads mixed", "Every head reads the first one's tensors here. Head h begins h * n * d numbers "
               "after it.", {"dq": scale * ds @ first})  # fmt: skip


def _tails(case: Case, at, grad_o, row_dot) -> Iterator[Mistake]:
    """Keys or queries past the end that take part: zeros, whose P is exp(0 - 0) or exp(0 - logsumexp)."""
    why = "Queries past the last one take part: a row of zeros still has P = exp(0 - logsumexp). Mask P."
    missing = -at.q.shape[1] % case.given["blocks"][0]
    if missing:
        dv = (
            at.p.swapaxes(1, 2) @ grad_o
        )  # zeros in dO leave dV right; a row_dot of no meaning does not
        yield "masked queries count", why, {"dv": dv + missing}


def _last_blocks(case: Case, at, grad_o, ds) -> Iterator[Mistake]:
    scale, (block_q, block_k) = case.given["scale"], case.given["blocks"]
    (n_queries, n_keys) = at.s.shape[1:]
    rows = slice(range(0, n_queries, block_q)[-1], n_queries)
    keys = slice(range(0, n_keys, block_k)[-1], n_keys)
    accumulated = "Only the last block's share is there. Every block in the loop adds to the sum."
    yield ("not accumulated", accumulated,
           {"dq": scale * ds[:, :, keys] @ at.k[:, keys],
            "dk": scale * ds[:, rows].swapaxes(1, 2) @ at.q[:, rows],
            "dv": at.p[:, rows].swapaxes(1, 2) @ grad_o[:, rows]})  # fmt: skip
    whole_rows, whole_keys = n_queries // block_q * block_q, n_keys // block_k * block_k
    if whole_rows < n_queries or whole_keys < n_keys:
        yield ("last block left out", "The last block, which is smaller than the others, had no part in it.",
               {"dq": scale * ds[:, :, :whole_keys] @ at.k[:, :whole_keys],
                "dk": scale * ds[:, :whole_rows].swapaxes(1, 2) @ at.q[:, :whole_rows],
                "dv": at.p[:, :whole_rows].swapaxes(1, 2) @ grad_o[:, :whole_rows]})  # fmt: skip
