"""What the usual slips of an attention kernel leave in `out` and `logsumexp`, head by head."""

import math
from collections.abc import Iterator

import numpy as np

from course_utils.checks.core import Case, Observation, Verdict, failed
from course_utils.checks.flash_attention.slips import WHY, attention_by_blocks
from course_utils.checks.flash_attention_gpu.attention_inputs import query_blocks
from course_utils.checks.flash_attention_gpu.attention_wanted import Scores, scores
from course_utils.checks.flash_attention_gpu.kernel_task import Mistake, Wanted


def forward_mistakes(case: Case, causal: bool = False) -> Iterator[Mistake]:
    at, scale = scores(case, causal), case.given["scale"]
    block_k = case.given["blocks"][1]
    for slip, why in WHY.items():
        if slip == "divided by d":
            continue  # the scale is given
        factor = 1.0 if slip == "scale forgotten" else scale * at.q.shape[2] ** 0.5
        out = [attention_by_blocks(factor * q, k, v, block_k, slip, at.visible)
               for q, k, v in zip(at.q, at.k, at.v)]  # fmt: skip
        yield slip, why, {"out": np.array(out)}
    if not math.isclose(scale, at.q.shape[2] ** -0.5):
        yield ("scale of your own", "The scale was taken as 1 / sqrt(d). It is given.",
               {"out": _attention(at, at.s * (at.q.shape[2] ** -0.5 / scale))})  # fmt: skip
    yield ("scale twice", "The scale is a factor of the scores once; here it is in twice.",
           {"out": _attention(at, at.s * scale)})  # fmt: skip
    yield ("base 2", "These are powers of 2. exp2(x) is exp(x) only if x is multiplied by log2(e) before.",
           {"out": _attention(at, at.s * math.log(2))})  # fmt: skip
    yield from _tails(at, block_k)
    yield from _heads(at, case)
    yield from _logsumexps(at, scale)


def _attention(at: Scores, s: np.ndarray, v: np.ndarray | None = None) -> np.ndarray:
    top = s.max(axis=-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0.0))
    total = p.sum(axis=-1, keepdims=True)
    return (p / np.where(total > 0, total, 1.0)) @ (at.v if v is None else v)


def _tails(at: Scores, block_k: int) -> Iterator[Mistake]:
    """Keys past the end that take part with a score of 0, and values of 0."""
    for missing in {-at.k.shape[1] % block_k, min(1, -at.k.shape[1] % block_k)} - {0}:
        s = np.pad(at.s, ((0, 0), (0, 0), (0, missing)))
        v = np.pad(at.v, ((0, 0), (0, missing), (0, 0)))
        yield (
            "masked keys count",
            "Keys past the last one take part, as if their score were 0: exp(0 - maximum) is in the sum. A "
            "load that fills up with zeros is right for a product, and the scores need a mask of their own.",
            {"out": _attention(at, s, v)},
        )


def _heads(at: Scores, case: Case) -> Iterator[Mistake]:
    block_k = case.given["blocks"][1]
    if len(at.q) > 1 and at.q.shape[1] < at.k.shape[1]:
        why = "K and V begin h * n_queries rows in for head h here. They have n_keys rows a head."
        k, v = (_heads_apart(x, at.q.shape[1]) for x in (at.k, at.v))
        for s_of, v_of in ((k, v), (k, at.v), (at.k, v)):
            s = case.given["scale"] * at.q @ s_of.swapaxes(1, 2)
            s = s if at.visible is None else np.where(at.visible, s, -np.inf)
            yield "heads mixed", why, {"out": _attention(at, s, v_of)}
    if len(at.q) > 1:
        first = np.broadcast_to
        for name, s, v in (
            ("k", at.q @ first(at.k[:1], at.k.shape).swapaxes(1, 2) * case.given["scale"], at.v),
            ("v", at.s, first(at.v[:1], at.v.shape)),
            ("k and v", at.q @ first(at.k[:1], at.k.shape).swapaxes(1, 2) * case.given["scale"],
             first(at.v[:1], at.v.shape)),
        ):  # fmt: skip
            s = s if at.visible is None else np.where(at.visible, s, -np.inf)
            yield ("heads mixed", f"Every head reads {name} of the first one. Head h begins h * n_keys * d "
                   "numbers after it.", {"out": _attention(at, s, v)})  # fmt: skip
    if block_k == at.q.shape[2]:
        n_keys = at.k.shape[1]
        full = np.pad(at.k, ((0, 0), (0, -n_keys % block_k), (0, 0)))
        tiles = full.reshape(len(at.k), -1, block_k, block_k).swapaxes(2, 3)
        turned = tiles.reshape(full.shape)[:, :n_keys]
        s = case.given["scale"] * at.q @ turned.swapaxes(1, 2)
        s = s if at.visible is None else np.where(at.visible, s, -np.inf)
        yield ("K not transposed", "The scores are Q K^T. Here it is Q K: the tile is square, so nothing "
               "stopped it.", {"out": _attention(at, s)})  # fmt: skip


def _heads_apart(x: np.ndarray, rows: int) -> np.ndarray:
    """x (heads, n, d), as it looks to whoever takes each head to begin `rows` rows after the one before."""
    flat = x.reshape(-1, x.shape[2])
    return np.array([flat[head * rows : head * rows + x.shape[1]] for head in range(len(x))])


def _logsumexps(at: Scores, scale: float) -> Iterator[Mistake]:
    top = at.s.max(axis=-1)
    row_sum = np.exp(at.s - np.where(np.isfinite(top), top, 0.0)[..., None]).sum(axis=-1)
    log = np.log
    for cause, why, twin in (
        ("logsumexp without maximum", "This is log(sum) of exponentials from which the maximum was taken. It "
         "comes back: logsumexp = maximum + log(sum).", log(row_sum)),
        ("maximum for logsumexp", "This is the row's maximum alone. logsumexp = maximum + log(sum).", top),
        ("sum for logsumexp", "This is the sum of the exponentials. logsumexp = maximum + log(sum).", row_sum),
        ("logarithm forgotten", "The sum was added to the maximum, and its logarithm belongs there.",
         top + row_sum),
        ("logsumexp in base 2", "This is the logarithm to base 2. Stored is the natural one: multiply by log(2).",
         at.logsumexp / log(2)),
        ("logsumexp in two bases", "The maximum is in base 2 here, the logarithm of the sum is not, or the "
         "other way round.", top / log(2) + log(row_sum)),
        ("logsumexp in two bases", "The maximum is in base e here, the logarithm of the sum in base 2, or the "
         "other way round.", top + log(row_sum) / log(2)),
        ("maximum without scale", "The maximum is one of scores before they were scaled.",
         top / scale + log(row_sum)),
        ("signs exchanged", "This is maximum - log(sum), and they are added.", top - log(row_sum)),
    ):  # fmt: skip
        yield cause, why, {"logsumexp": twin}


def exchanged_axes(case: Case, seen: Observation, blocks: int) -> Verdict | None:
    """Grid (blocks, heads): which heads' outputs are there when the axes are taken the other way round."""
    heads = case.given["heads"]
    if heads <= blocks:
        return None
    for name, writers in seen.more["writers"].items():
        done = (writers >= 0).reshape(heads, -1)
        met = any(fault["kind"] == "stored twice" for fault in seen.more["faults"])
        if done[:blocks].any() and not done[blocks:].any():
            if met:
                return failed("head ignored", f"All programs store {name} of the same head. Which axis of the "
                              "grid says the head, and where does a head begin?")  # fmt: skip
            return failed(
                "program axes exchanged",
                f"{name} of the last {heads - blocks} heads was never stored. Axis 0 of the grid counts the "
                "blocks, axis 1 the heads.",
            )
    return None


def half_precision(case: Case, seen: Observation, wanted: Wanted) -> Verdict | None:
    """Errors as large as those of float16, where something else explains them no better."""
    if not (seen.more["writers"]["out"] >= 0).all():
        return None
    (o, tolerance), got = wanted["out"], seen.value["out"].astype(np.float64)
    error = np.abs(got - o).max()
    if case.given["dtype"] == "float32" and tolerance < error <= 2.0**-10 * np.abs(o).max():
        return failed("rounded to float16", f"The errors of out, up to {error:.2g}, are those of float16. Inputs are "
                      "float32 here, and so are the probabilities: round to the inputs' type, not to one of "
                      "your own.")  # fmt: skip
    if case.given["kind"] == "one dominates" and tolerance < error <= 2.0**-6:
        return failed("float16 accumulator", f"The errors of out, up to {error:.2g}, are those of sums in float16, "
                      "which has 11 bits: small parts vanish beside a large one. Inputs may be half, accumulators "
                      "are float32.")  # fmt: skip
    return None


def before_forward(case: Case, seen: Observation) -> Verdict | None:
    if (seen.more["writers"]["logsumexp"] < 0).all() and (seen.more["writers"]["out"] >= 0).all():
        return failed("logsumexp not stored", "out is stored, logsumexp is not: a number a row, which the "
                      "backward pass needs.")  # fmt: skip
    return exchanged_axes(case, seen, query_blocks(case))
