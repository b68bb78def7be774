"""Attention by blocks of keys as students get it wrong: for verdicts that name the mistake.

Every row of queries goes its own way, so all of them are computed at once, block of keys after block of
keys. Without a slip this is what the exercises ask for.
"""

from collections.abc import Iterator

import numpy as np

from course_utils.checks.core import Verdict, failed
from course_utils.checks.judging import close

WHY = {
    "scale forgotten": "These are the values without the factor 1 / sqrt(d) on the scores.",
    "divided by d": "The scores were divided by d, and not by its square root.",
    "output not rescaled": "When a row's maximum rises, what was summed up before counts against the new "
    "one. The sum was rescaled by that, and the output was not.",
    "sum not rescaled": "When a row's maximum rises, what was summed up before counts against the new one. "
    "The output was rescaled by that, and the sum was not.",
    "nothing rescaled": "When a row's maximum rises, the sum and the output gathered so far belong to the "
    "old one. Here they were added to as they were.",
    "maximum of the block": "Each block's exponentials were taken against its own maximum. All of a row's "
    "must count against one and the same, the largest so far.",
    "block's factor left out": "P V was taken against the block's own maximum, and the factor exp(block's "
    "maximum - new maximum) is missing on it. The sum has it.",
    "block's factor not on the sum": "The exponentials were taken against the block's own maximum. The "
    "output was corrected by exp(block's maximum - new maximum), and the sum was not.",
    "sum left out": "This is what the recursion gives when the old sum is missing as a factor: an output "
    "that was divided by its sum must be multiplied by it before anything is added.",
    "old sum lost": "In the new sum stands exp(old maximum - new maximum) by itself, without the old sum "
    "that it belongs to.",
    "old values lost": "In the new sum stands exp(old maximum - new maximum) without the old sum, and in the "
    "new output the old output is missing where its factor stands.",
    "keys counted by queries": "Only as many keys took part as there are queries. The keys' blocks cover "
    "len(K), the queries' blocks len(Q).",
    "never normalized": "These are the outputs before the division by the sum of the exponentials.",
    "normalized twice": "The outputs were divided by their sums twice.",
    "last block dropped": "The keys of the last block, which is smaller than the others, had no part in it.",
    "only the last block": "This is attention to the last block of keys alone.",
}
_NORMALIZED_AT_EACH_STEP = ("sum left out", "old sum lost", "old values lost")


def blocks(size: int, block: int) -> Iterator[slice]:
    """Slices that cover a size, the last one perhaps smaller."""
    return (slice(start, min(start + block, size)) for start in range(0, size, block))


def attention_by_blocks(q, k, v, block_k: int, slip: str = "", visible=None) -> np.ndarray:
    """The output (n_queries, d), with this slip of `WHY` in it."""
    scale = {"scale forgotten": 1.0, "divided by d": 1 / q.shape[1]}.get(slip, q.shape[1] ** -0.5)
    if slip == "keys counted by queries":
        k, v = k[: len(q)], v[: len(q)]
    o, row_sum = np.zeros((len(q), v.shape[1])), np.zeros(len(q))
    row_max = np.full(len(q), -np.inf)
    for keys in blocks(len(k), block_k):
        if slip == "last block dropped" and keys.stop - keys.start < block_k:
            break
        s = scale * (q @ k[keys].T)
        if visible is not None:
            s = np.where(visible[:, keys], s, -np.inf)
        new_max = np.maximum(row_max, s.max(axis=1))
        against = s.max(axis=1) if slip == "maximum of the block" else new_max
        p = np.exp(s - _finite(against)[:, None])
        kept = kept_output = np.exp(row_max - _finite(new_max))
        if slip in ("nothing rescaled", "sum not rescaled"):
            kept = np.ones(len(q))
        if slip in ("nothing rescaled", "output not rescaled"):
            kept_output = np.ones(len(q))
        if slip == "only the last block":
            kept = kept_output = np.zeros(len(q))
        p_output = p_sum = p
        own = np.exp(s - _finite(s.max(axis=1))[:, None])
        if slip == "block's factor left out":
            p_output = own
        if slip == "block's factor not on the sum":
            p_sum = own
        new_sum = kept * (1.0 if slip in ("old sum lost", "old values lost") else row_sum)
        new_sum = new_sum + p_sum.sum(axis=1)
        if slip in _NORMALIZED_AT_EACH_STEP:
            before = kept if slip == "sum left out" else kept * row_sum
            if slip == "old values lost":
                o = np.ones_like(o)
            o = (before[:, None] * o + p_output @ v[keys]) / _positive(new_sum)[:, None]
        else:
            o = kept_output[:, None] * o + p_output @ v[keys]
        row_sum, row_max = new_sum, new_max
    if slip == "never normalized" or slip in _NORMALIZED_AT_EACH_STEP:
        return o
    o /= _positive(row_sum)[:, None]
    return o / _positive(row_sum)[:, None] if slip == "normalized twice" else o


def named_slip(actual, q, k, v, block_k: int, visible=None, first_row: int = 0) -> Verdict | None:
    """The slip that leads to this output, if one does. Rows before `first_row` are not looked at."""
    for slip, why in WHY.items():
        with np.errstate(all="ignore"):
            twin = attention_by_blocks(q, k, v, block_k, slip, visible)
        if np.isfinite(twin).all() and close(actual[first_row:], twin[first_row:]):
            return failed(slip, why)
    return None


def _finite(row_max: np.ndarray) -> np.ndarray:
    return np.where(row_max == -np.inf, 0.0, row_max)


def _positive(row_sum: np.ndarray) -> np.ndarray:
    return np.where(row_sum > 0, row_sum, 1.0)
