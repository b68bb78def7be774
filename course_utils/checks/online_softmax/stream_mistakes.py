"""What the usual slips of a streamed softmax give: each is the honest loop with one thing wrong.

The judge of 5.3 runs them on the blocks of a case. An answer that shows the same numbers has very
likely made the same slip, and can be told so by name.
"""

from collections.abc import Iterator

import numpy as np

from course_utils.checks.online_softmax.oracle import Partial, finite

Blocks = list[tuple[np.ndarray, np.ndarray]]


def streamed(
    blocks: Blocks,
    *,
    rescale_sum: bool = True,
    rescale_output: bool = True,
    maximum: str = "running",
    guarded: bool = True,
    start: float = -np.inf,
) -> Partial:
    """The loop over blocks, with its flaws as options.

    maximum: "running" (right), "block" (that of the block alone), "one" (for all rows), "none" (0),
    "kept" (a 0 that stands for -inf is kept). start: what the running maximum begins with.
    guarded: False lets -inf - -inf become nan.
    """
    rows, d = len(blocks[0][0]), blocks[0][1].shape[1]
    running_max = np.full(rows, 0.0 if maximum == "none" else start)
    normalizer, weighted = np.zeros(rows), np.zeros((rows, d))
    for scores, values in blocks:
        of_block = scores.max(axis=1)
        larger = np.maximum(running_max, of_block)
        new_max = {
            "running": larger,
            "block": of_block,
            "one": np.full(rows, larger.max()),
            "none": running_max,
            "kept": finite(larger),
        }[maximum]
        shift = finite(new_max) if guarded else new_max
        weights, factor = np.exp(scores - shift[:, None]), np.exp(running_max - shift)
        normalizer = (factor * normalizer if rescale_sum else normalizer) + weights.sum(axis=1)
        weighted = (factor[:, None] * weighted if rescale_output else weighted) + weights @ values
        running_max = new_max
    return Partial(running_max, normalizer, weighted)


def _means_as_sums(blocks: Blocks) -> np.ndarray:
    """Normalized after every block, and rescaled as if it had not been: (rows, d)."""
    states = [streamed(blocks[: k + 1]) for k in range(len(blocks))]
    output = states[0].output
    for old, new, (scores, values) in zip(states, states[1:], blocks[1:]):
        shift = finite(new.running_max)
        added = np.exp(scores - shift[:, None]) @ values
        factor = np.exp(old.running_max - shift)[:, None]
        output = (factor * output + added) / np.where(new.normalizer > 0, new.normalizer, 1)[
            :, None
        ]
    return output


def mistakes(blocks: Blocks) -> Iterator[tuple[str, str, tuple]]:
    """(cause, why, (output, logsumexp)) of each; None where that part may be anything."""
    right = streamed(blocks)
    log_sum = np.log(right.normalizer)
    no_division = right.weighted / right.normalizer[:, None]
    if not np.isfinite(no_division).all():
        yield (
            "0 / 0 in a masked row",
            "A row of only -inf has the sum 0. Its output is defined as zeros, and 0 / 0 is nan.",
            (no_division, None),
        )
    kept = streamed(blocks, maximum="kept")
    for output in (kept.output, kept.weighted / kept.normalizer[:, None]):
        yield (
            "0 kept for -inf",
            "A row whose scores all lie far below 0 came out as if it held none. Where its maximum was "
            "-inf, a 0 took its place and was kept: later scores below 0 can't move it.",
            (output, None),
        )
    bare = streamed(blocks, guarded=False)
    if np.isnan(bare.normalizer).any():
        yield (
            "nan from -inf - -inf",
            "Where a row has met no score but -inf, its maximum is -inf, and -inf - -inf is nan; what "
            "nan is added to stays nan, whatever comes later.",
            (bare.weighted / bare.normalizer[:, None], None),
        )
        yield (
            "nan painted over",
            "Rows that became nan at a block of only -inf were set to 0 in the end. Their later blocks held "
            "scores, and these are lost.",
            (np.nan_to_num(bare.weighted / bare.normalizer[:, None]), None),
        )
    for maximum in ("running", "block"):
        neither = streamed(blocks, rescale_sum=False, rescale_output=False, maximum=maximum)
        yield (
            "nothing rescaled",
            "Sums that were counted from different maxima were added. When the maximum moves, what "
            "was summed before must be brought to the new one.",
            (neither.output, None),
        )
    for maximum in ("running", "block"):
        half = streamed(blocks, rescale_output=False, maximum=maximum)
        yield (
            "output not rescaled",
            "The sum of exponentials follows the maximum, the sum of values does not: its old part "
            "still counts from an older maximum.",
            (half.output, None),
        )
    yield (
        "sum not rescaled",
        "The output follows the maximum, the sum of exponentials does not: its old part still counts "
        "from an older maximum.",
        (streamed(blocks, rescale_sum=False).output, None),
    )
    alone = streamed(blocks, maximum="block", guarded=False)
    yield (
        "maximum of the block alone",
        "Everything is counted from the newest block's maximum. Where that is far below an older one, "
        "exp(old - new) overflows.",
        (alone.weighted / alone.normalizer[:, None], None),
    )
    if any(np.isposinf(np.exp(scores)).any() for scores, _ in blocks):
        naive = streamed(blocks, maximum="none")
        yield (
            "no maximum subtracted",
            "This is what exp of the scores themselves gives, and it overflows.",
            (naive.weighted / naive.normalizer[:, None], None),
        )
    low = "A row of low scores came out as if it held none: its exponentials all vanished. "
    for cause, why, flawed in (
        (
            "maximum starts at 0",
            "The running maximum starts at 0 and stays there. What is the largest of no scores?",
            streamed(blocks, start=0.0),
        ),
        (
            "one maximum for all rows",
            "One number is subtracted in all rows, and it is far above the scores of this one.",
            streamed(blocks, maximum="one"),
        ),
        (
            "maximum starts too high",
            "The running maximum starts at a number that this row's scores are far below.",
            streamed(blocks, start=-1e4),
        ),
    ):
        yield cause, low + why, (flawed.output, None)
        yield cause, low + why, (flawed.weighted / flawed.normalizer[:, None], None)
    yield (
        "normalized twice",
        "The output was divided by the sum of exponentials once more than it should be.",
        (right.output / right.normalizer[:, None], None),
    )
    yield (
        "not divided by the sum",
        "This is the sum of exponentials times values. At the end it must be divided by their sum.",
        (right.weighted, None),
    )
    yield (
        "mean taken for a sum",
        "An output that was divided already was carried on like a sum: before more is added to it, the "
        "division has to be undone.",
        (_means_as_sums(blocks), None),
    )
    means = [streamed([block]).output for block in blocks]
    yield (
        "blocks weighed alike",
        "Every block counts the same. A block counts by its sum of exponentials.",
        (sum(means) / len(means), None),
    )
    yield (
        "first block alone",
        "This is the result of the first block only. Does the loop end too soon, at a `return` inside it?",
        (means[0], None),
    )
    yield (
        "last block left out",
        "This is the result without the last block.",
        (streamed(blocks[:-1] or blocks).output, None),
    )
    yield "last block alone", "This is the result of the last block only.", (means[-1], None)
    yield (
        "maximum left out of logsumexp",
        "The output is right. The logarithm of the sum counts from the maximum; logsumexp counts from 0.",
        (right.output, log_sum),
    )
    yield (
        "logarithm missing",
        "The output is right. In the place of logsumexp stands the sum, without its logarithm.",
        (right.output, right.normalizer),
    )
    yield (
        "maximum for logsumexp",
        "The output is right. In the place of logsumexp stands the maximum alone.",
        (right.output, right.running_max),
    )
