"""Answers to lesson 05."""

import math
from functools import reduce

import numpy as np

from tests.answers import right, wrong

# --- 5.1 softmax of any scores ---------------------------------------------------------------------


@right("5.1")
def shift_of_masked_rows_is_zero(scores):
    largest = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


@right("5.1")
def row_by_row(scores):
    probabilities = np.zeros_like(scores)
    for row, out in zip(scores, probabilities):
        if row.max() > -np.inf:
            weights = np.exp(row - row.max())
            out[:] = weights / weights.sum()
    return probabilities


@right("5.1")
def only_where_something_is_seen(scores):
    seen = np.isfinite(scores).any(axis=1)
    probabilities = np.zeros(scores.shape, scores.dtype)
    weights = np.exp(scores[seen] - np.max(scores[seen], axis=1)[:, None])
    probabilities[seen] = weights / np.sum(weights, axis=1)[:, None]
    return probabilities


@right("5.1")
def nan_only_in_masked_rows(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.nan_to_num(weights / weights.sum(-1, keepdims=True))


@right("5.1")
def through_logsumexp(scores):
    largest = np.maximum(scores.max(axis=1), np.finfo(scores.dtype).min)[:, None]
    with np.errstate(divide="ignore"):
        log_sum = np.log(np.exp(scores - largest).sum(axis=1, keepdims=True))
    return np.exp(scores - largest - np.maximum(log_sum, 0))


@wrong("5.1", cause="no maximum subtracted")
def as_printed_in_rows(scores):
    weights = np.exp(scores)
    return weights / weights.sum(axis=1, keepdims=True)


@wrong("5.1", cause="nan painted over")
def paints_over_nan(scores):
    weights = np.exp(scores)
    return np.nan_to_num(weights / weights.sum(axis=1, keepdims=True))


@wrong("5.1", cause="one maximum for all rows")
def one_maximum(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum(axis=1, keepdims=True)


@wrong("5.1", cause="scores clipped")
def clips(scores):
    weights = np.exp(np.clip(scores, -700, 700))
    return weights / weights.sum(axis=1, keepdims=True)


@wrong("5.1", cause="sums not 1")
def epsilon_against_zero(scores):
    largest = np.nan_to_num(scores.max(axis=1, keepdims=True), neginf=0)
    weights = np.exp(scores - largest)
    return weights / (weights.sum(axis=1, keepdims=True) + 1e-9)


@wrong("5.1", cause="nan from -inf - -inf")
def no_thought_of_masked_rows(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@wrong("5.1", cause="nan from -inf - -inf")
def a_sentinel_for_float64_only(scores):
    largest = np.maximum(scores.max(axis=1, keepdims=True), -1e300).astype(scores.dtype)
    weights = np.exp(scores - largest)
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


@wrong("5.1", cause="a masked row not zero")
def masks_with_a_large_number(scores):
    scores = np.maximum(scores, -1e9).astype(scores.dtype)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@wrong("5.1", cause="raised an error")
def vectors_against_columns(scores):
    weights = np.exp(scores - scores.max(axis=1))
    return weights / weights.sum(axis=1)


@wrong("5.1", cause="along the columns")
def along_the_columns(scores):
    weights = np.exp(scores - scores.max(axis=0))
    return weights / weights.sum(axis=0)


@wrong("5.1", cause="wrong type")
def returns_the_lectures_pair(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    normalizer = weights.sum(axis=1, keepdims=True)
    return weights / normalizer, normalizer


@wrong("5.1", cause="changed its input")
def works_in_place(scores):
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


@wrong("5.1", cause="wrong dtype")
def float64_always(scores):
    scores = scores.astype(float)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.nan_to_num(weights / weights.sum(axis=1, keepdims=True))


@wrong("5.1", cause="all underflowed")
def never_counts_from_below_zero(scores):
    weights = np.exp(scores - np.maximum(scores.max(axis=1, keepdims=True), 0))
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


@wrong("5.1", cause="all underflowed")
def never_counts_from_below_minus_thousand(scores):
    weights = np.exp(scores - np.maximum(scores.max(axis=1, keepdims=True), -1000))
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


@wrong("5.1", cause="a masked score counts")
def masks_with_ten_thousand_below(scores):
    return nan_only_in_masked_rows(
        np.where(np.isneginf(scores), -1e4, scores).astype(scores.dtype)
    ) * np.isfinite(scores).any(axis=1, keepdims=True)


@wrong("5.1", cause="detour through float32")
def saves_memory_on_the_way(scores):
    return shift_of_masked_rows_is_zero(scores.astype(np.float32)).astype(scores.dtype)


@wrong("5.1", cause="mean subtracted")
def counts_from_the_mean(scores):
    weights = np.exp(scores - scores.mean(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@wrong("5.1", cause="nan from -inf - -inf")
def looks_at_the_first_row_only(scores):
    if np.isneginf(scores[0]).all():
        return np.vstack([np.zeros_like(scores[:1]), no_thought_of_masked_rows(scores[1:])])
    return no_thought_of_masked_rows(scores)


# --- 5.2 the second block --------------------------------------------------------------------------


@right("5.2")
def back_to_sums(output, normalizer, running_max, scores, values):
    new_max = max(running_max, scores.max())
    weights = np.exp(scores - new_max)
    old = np.exp(running_max - new_max) * normalizer
    total = old + weights.sum()
    return (old * output + weights @ values) / total, total, new_max


@right("5.2")
def two_softmaxes_weighed(output, normalizer, running_max, scores, values):
    m2 = np.max(scores)
    p2 = np.exp(scores - m2)
    n2 = p2.sum()
    m = np.maximum(running_max, m2)
    n1, n2s = normalizer * np.exp(running_max - m), n2 * np.exp(m2 - m)
    share = n1 / (n1 + n2s)
    return share * output + (1 - share) * (p2 / n2 @ values), n1 + n2s, m


@right("5.2")
def one_score_at_a_time(output, normalizer, running_max, scores, values):
    for score, value in zip(scores, values):
        new_max = max(running_max, score)
        new = normalizer * math.exp(running_max - new_max) + math.exp(score - new_max)
        output = (
            output * (normalizer * math.exp(running_max - new_max) / new)
            + value * math.exp(score - new_max) / new
        )
        normalizer, running_max = new, new_max
    return output, normalizer, running_max


@right("5.2")
def through_logarithms(output, normalizer, running_max, scores, values):
    old = running_max + np.log(normalizer)
    new = np.logaddexp(old, np.logaddexp.reduce(scores))
    new_max = max(running_max, max(scores))
    output = output * np.exp(old - new) + np.exp(scores - new) @ values
    return [output, np.exp(new - new_max), new_max]


@wrong("5.2", cause="maxima ignored")
def lectures_formula(output, normalizer, running_max, scores, values):
    weights = np.exp(scores - scores.max())
    n2 = weights.sum()
    o = (normalizer * output + weights @ values) / (normalizer + n2)
    return o, normalizer + n2, max(running_max, scores.max())


@wrong("5.2", cause="blocks weighed alike")
def equal_sizes_only(output, normalizer, running_max, scores, values):
    m2 = scores.max()
    weights = np.exp(scores - m2)
    n2 = weights.sum()
    m = max(running_max, m2)
    normalizer = normalizer * np.exp(running_max - m) + n2 * np.exp(m2 - m)
    return (output + weights @ values / n2) / 2, normalizer, m


@wrong("5.2", cause="sum not rescaled")
def lecture_slides_sum(output, normalizer, running_max, scores, values):
    new_max = max(running_max, scores.max())
    weights = np.exp(scores - new_max)
    new = normalizer + weights.sum()
    old = output * normalizer / new * np.exp(running_max - new_max)
    return old + weights @ values / new, new, new_max


@wrong("5.2", cause="output not rescaled")
def rescales_the_sum_only(output, normalizer, running_max, scores, values):
    new_max = max(running_max, scores.max())
    weights = np.exp(scores - new_max)
    new = normalizer * np.exp(running_max - new_max) + weights.sum()
    return (normalizer * output + weights @ values) / new, new, new_max


@wrong("5.2", cause="old output not weighted")
def takes_the_mean_for_a_sum(output, normalizer, running_max, scores, values):
    new_max = max(running_max, scores.max())
    weights, rescale = np.exp(scores - new_max), np.exp(running_max - new_max)
    new = normalizer * rescale + weights.sum()
    return (rescale * output + weights @ values) / new, new, new_max


@wrong("5.2", cause="maximum of the block alone")
def newest_maximum(output, normalizer, running_max, scores, values):
    new_max = scores.max()
    weights, rescale = np.exp(scores - new_max), np.exp(running_max - new_max)
    new = normalizer * rescale + weights.sum()
    return (normalizer * rescale * output + weights @ values) / new, new, new_max


@wrong("5.2", cause="not divided by the sum")
def leaves_the_sum(output, normalizer, running_max, scores, values):
    new_max = max(running_max, scores.max())
    weights, rescale = np.exp(scores - new_max), np.exp(running_max - new_max)
    new = normalizer * rescale + weights.sum()
    return normalizer * rescale * output + weights @ values, new, new_max


@wrong("5.2", cause="second block alone")
def forgets_the_first(output, normalizer, running_max, scores, values):
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum(), weights.sum(), scores.max()


@wrong("5.2", cause="wrong type")
def output_alone(output, normalizer, running_max, scores, values):
    new_max = max(running_max, scores.max())
    weights, rescale = np.exp(scores - new_max), np.exp(running_max - new_max)
    new = normalizer * rescale + weights.sum()
    return (normalizer * rescale * output + weights @ values) / new


def from_elsewhere(block, old_factor, new_max, origin):
    """Both parts counted from `origin`, however that is chosen."""
    output, normalizer, scores, values = block
    weights = np.exp(scores - origin)
    total = old_factor * normalizer + weights.sum()
    return (old_factor * normalizer * output + weights @ values) / total, total, new_max


@wrong("5.2", cause="rescaled the wrong way")
def new_minus_old(output, normalizer, running_max, scores, values):
    m, block = max(running_max, scores.max()), (output, normalizer, scores, values)
    return from_elsewhere(block, np.exp(m - running_max), m, m)


@wrong("5.2", cause="old maximum kept")
def never_moves_the_maximum(output, normalizer, running_max, scores, values):
    return from_elsewhere((output, normalizer, scores, values), 1, running_max, running_max)


@wrong("5.2", cause="old maximum kept")
def moves_the_maximum_afterwards(output, normalizer, running_max, scores, values):
    m, block = max(running_max, scores.max()), (output, normalizer, scores, values)
    output, total, _ = from_elsewhere(block, 1, running_max, running_max)
    return output, total * np.exp(running_max - m), m


@wrong("5.2", cause="counted from 0")
def everything_from_zero(output, normalizer, running_max, scores, values):
    m, block = max(running_max, scores.max()), (output, normalizer, scores, values)
    return from_elsewhere(block, np.exp(running_max), m, 0)


@wrong("5.2", cause="counted from 0")
def from_zero_and_back(output, normalizer, running_max, scores, values):
    output, total, m = everything_from_zero(output, normalizer, running_max, scores, values)
    return output, total * np.exp(-m), m


@wrong("5.2", cause="new block not rescaled")
def trusts_the_new_block(output, normalizer, running_max, scores, values):
    m, block = max(running_max, scores.max()), (output, normalizer, scores, values)
    return from_elsewhere(block, np.exp(running_max - m), m, scores.max())


@wrong("5.2", cause="factors exchanged")
def each_with_the_others_factor(output, normalizer, running_max, scores, values):
    m, own = max(running_max, scores.max()), scores.max()
    block = output, normalizer, scores, values
    return from_elsewhere(block, np.exp(own - m), m, own + m - running_max)


# --- 5.3 any number of blocks ----------------------------------------------------------------------


def stream(
    blocks,
    *,
    rescale_sum=True,
    rescale_output=True,
    of_block=False,
    shift_of=lambda m: np.where(np.isneginf(m), 0, m),
):
    """The honest loop, and what the wrong answers below leave out of it."""
    running_max = None
    for scores, values in blocks:
        if running_max is None:
            running_max = np.full(len(scores), -np.inf, scores.dtype)
            normalizer = np.zeros(len(scores), scores.dtype)
            weighted = np.zeros((len(scores), values.shape[1]), scores.dtype)
        new_max = scores.max(axis=1)
        if not of_block:
            new_max = np.maximum(running_max, new_max)
        shift = shift_of(new_max).astype(scores.dtype)
        weights, factor = np.exp(scores - shift[:, None]), np.exp(running_max - shift)
        normalizer = normalizer * (factor if rescale_sum else 1) + weights.sum(axis=1)
        weighted = weighted * (factor[:, None] if rescale_output else 1) + weights @ values
        running_max = new_max
    return running_max, normalizer, weighted


def close_off(running_max, normalizer, weighted):
    output = weighted / np.where(normalizer == 0, 1, normalizer)[:, None]
    return output, running_max + np.log(normalizer)


@right("5.3")
def sums_until_the_end(blocks):
    return close_off(*stream(blocks))


@right("5.3")
def normalized_at_every_step(blocks):
    blocks = iter(blocks)
    scores, values = next(blocks)
    running_max = scores.max(axis=1)
    safe = np.maximum(running_max, np.finfo(scores.dtype).min)
    weights = np.exp(scores - safe[:, None])
    normalizer = weights.sum(axis=1)
    output = weights @ values / np.maximum(normalizer, 1e-30)[:, None]
    for scores, values in blocks:
        new_max = np.maximum(running_max, scores.max(axis=1))
        safe = np.maximum(new_max, np.finfo(scores.dtype).min)
        weights = np.exp(scores - safe[:, None])
        old = np.exp(running_max - safe) * normalizer
        normalizer = old + weights.sum(axis=1)
        output = (old[:, None] * output + weights @ values) / np.maximum(normalizer, 1e-30)[:, None]
        running_max = new_max
    return output, running_max + np.log(normalizer)


@right("5.3")
def logsumexp_as_the_only_state(blocks):
    output, logsumexp = 0, -np.inf
    for scores, values in blocks:
        new = np.logaddexp(logsumexp, np.logaddexp.reduce(scores, axis=1))
        from_here = np.where(np.isneginf(new), 0, new)
        old = np.exp(logsumexp - from_here)[:, None] * output
        output = old + np.exp(scores - from_here[:, None]) @ values
        logsumexp = new
    return output, logsumexp


@right("5.3")
def in_place(blocks):
    output = None
    for scores, values in blocks:
        largest = scores.max(axis=1, keepdims=True)
        if output is None:
            running_max = np.full_like(largest, -np.inf)
            normalizer = np.zeros_like(largest)
            output = np.zeros((len(scores), values.shape[1]), scores.dtype)
        new_max = np.maximum(running_max, largest)
        factor = np.exp(np.where(np.isneginf(running_max), -np.inf, running_max - new_max))
        weights = scores - np.where(np.isneginf(new_max), 0, new_max)
        np.exp(weights, out=weights)
        normalizer *= factor
        normalizer += weights.sum(axis=1, keepdims=True)
        output *= factor
        output += weights @ values
        running_max = new_max
        del scores, values
    seen = normalizer[:, 0] > 0
    output[seen] /= normalizer[seen]
    with np.errstate(divide="ignore"):
        return output, (np.log(normalizer) + running_max)[:, 0]


@right("5.3")
def row_by_row_of_a_block(blocks):
    state = None
    for scores, values in blocks:
        if state is None:
            state = [(-np.inf, 0.0, np.zeros(values.shape[1])) for _ in scores]
        for i, (m, total, o) in enumerate(state):
            new = max(m, scores[i].max())
            if new == -np.inf:
                continue
            weights = np.exp(scores[i] - new)
            state[i] = (
                new,
                total * np.exp(m - new) + weights.sum(),
                o * np.exp(m - new) + weights @ values,
            )
    output = np.array([o / total if total else o for _, total, o in state])
    lse = np.array([m + np.log(total) if total else -np.inf for m, total, _ in state])
    return output.astype(scores.dtype), lse.astype(scores.dtype)


@right("5.3")
def a_history_of_maxima(blocks):
    maxima = []

    def noted():
        for scores, values in blocks:
            maxima.append(float(scores.max()))
            yield scores, values

    return close_off(*stream(noted()))


@wrong("5.3", cause="nothing rescaled")
def no_rescaling(blocks):
    return close_off(*stream(blocks, rescale_sum=False, rescale_output=False))


@wrong("5.3", cause="nothing rescaled")
def every_block_from_its_own_maximum(blocks):
    return close_off(*stream(blocks, rescale_sum=False, rescale_output=False, of_block=True))


@wrong("5.3", cause="output not rescaled")
def rescales_the_normalizer_only(blocks):
    return close_off(*stream(blocks, rescale_output=False))


@wrong("5.3", cause="sum not rescaled")
def rescales_the_output_only(blocks):
    return close_off(*stream(blocks, rescale_sum=False))


@wrong("5.3", cause="maximum of the block alone")
def block_maximum(blocks):
    return close_off(*stream(blocks, of_block=True))


@wrong("5.3", cause="mean taken for a sum")
def divides_in_the_loop(blocks):
    output, running_max, normalizer = 0, -np.inf, 0
    for scores, values in blocks:
        new_max = np.maximum(running_max, scores.max(axis=1))
        weights, factor = np.exp(scores - new_max[:, None]), np.exp(running_max - new_max)
        normalizer = factor * normalizer + weights.sum(axis=1)
        output = (factor[:, None] * output + weights @ values) / normalizer[:, None]
        running_max = new_max
    return output, running_max + np.log(normalizer)


@wrong("5.3", cause="normalized twice")
def normalizes_in_the_loop_and_after(blocks):
    blocks = list(blocks)
    output, logsumexp = normalized_at_every_step(blocks)
    normalizer = stream(blocks)[1]
    return output / np.where(normalizer == 0, 1, normalizer)[:, None], logsumexp


@wrong("5.3", cause="not divided by the sum")
def never_divides(blocks):
    running_max, normalizer, weighted = stream(blocks)
    return weighted, running_max + np.log(normalizer)


@wrong("5.3", cause="nan from -inf - -inf")
def no_guard(blocks):
    return close_off(*stream(blocks, shift_of=lambda m: m))


@wrong("5.3", cause="nan from -inf - -inf")
def a_shift_for_float64_only(blocks):
    return close_off(*stream(blocks, shift_of=lambda m: np.maximum(m, -1e300)))


@wrong("5.3", cause="0 / 0 in a masked row")
def no_guard_at_the_end(blocks):
    running_max, normalizer, weighted = stream(blocks)
    return weighted / normalizer[:, None], running_max + np.log(normalizer)


@wrong("5.3", cause="no maximum subtracted")
def plain_exponentials(blocks):
    normalizer, weighted = 0, 0
    for scores, values in blocks:
        weights = np.exp(scores)
        normalizer, weighted = normalizer + weights.sum(axis=1), weighted + weights @ values
    return weighted / normalizer[:, None], np.log(normalizer)


@wrong("5.3", cause="maximum left out of logsumexp")
def log_of_the_normalizer(blocks):
    running_max, normalizer, weighted = stream(blocks)
    return close_off(running_max, normalizer, weighted)[0], np.log(normalizer)


@wrong("5.3", cause="blocks weighed alike")
def mean_of_the_blocks(blocks):
    outputs, sums = [], []
    for block in blocks:
        output, logsumexp = close_off(*stream([block]))
        outputs.append(output)
        sums.append(logsumexp)
    return np.mean(outputs, axis=0), np.logaddexp.reduce(sums)


@wrong("5.3", cause="grows with the blocks")
def collects_the_blocks(blocks):
    blocks = list(blocks)
    whole = [(np.hstack([s for s, _ in blocks]), np.vstack([v for _, v in blocks]))]
    return close_off(*stream(whole))


@wrong("5.3", cause="grows with the blocks")
def collects_outputs(blocks):
    parts = [stream([block]) for block in blocks]
    whole_max = np.max([m for m, _, _ in parts], axis=0)
    safe = np.where(np.isneginf(whole_max), 0, whole_max)
    normalizer = sum(np.exp(m - safe) * total for m, total, _ in parts)
    weighted = sum(np.exp(m - safe)[:, None] * o for m, _, o in parts)
    return close_off(whole_max, normalizer, weighted)


@wrong("5.3", cause="grows with the blocks")
def two_passes(blocks):
    kept = [(scores, values) for scores, values in blocks]
    largest = np.max([scores.max(axis=1) for scores, _ in kept], axis=0)
    safe = np.where(np.isneginf(largest), 0, largest)[:, None]
    normalizer = sum(np.exp(scores - safe).sum(axis=1) for scores, _ in kept)
    weighted = sum(np.exp(scores - safe) @ values for scores, values in kept)
    return close_off(largest, normalizer, weighted)


@wrong("5.3", cause="wrong dtype")
def right_in_float64_only(blocks):
    running_max, normalizer, weighted = stream(
        (s.astype(float), v.astype(float)) for s, v in blocks
    )
    return close_off(running_max, normalizer, weighted)


@wrong("5.3", cause="raised an error")
def asks_for_the_length(blocks):
    return close_off(*stream(blocks[k] for k in range(len(blocks))))


@wrong("5.3", cause="changed its input")
def subtracts_in_place(blocks):
    def shifted():
        for scores, values in blocks:
            scores -= 1
            yield scores, values

    output, logsumexp = close_off(*stream(shifted()))
    return output, logsumexp + 1


def from_a_start(blocks, start=-np.inf, keep_zero=False, guarded=True):
    """The loop with another beginning, or with 0 kept where nothing was seen."""
    running_max = None
    for scores, values in blocks:
        if running_max is None:
            running_max = np.full(len(scores), start, scores.dtype)
            normalizer, weighted = (
                np.zeros_like(running_max),
                np.zeros_like(scores[:, :1] * values[0]),
            )
        new_max = np.maximum(running_max, scores.max(axis=1))
        if keep_zero:
            new_max[np.isneginf(new_max)] = 0
        weights, factor = np.exp(scores - new_max[:, None]), np.exp(running_max - new_max)
        normalizer = normalizer * factor + weights.sum(axis=1)
        weighted = weighted * factor[:, None] + weights @ values
        running_max = new_max
    if guarded:
        return close_off(running_max, normalizer, weighted)
    return weighted / normalizer[:, None], running_max + np.log(normalizer)


@right("5.3")
def starts_very_low(blocks):
    return from_a_start(blocks, -1e30)


@right("5.3")
def peeks_at_the_first_block(blocks):
    blocks = iter(blocks)
    first = next(blocks)
    return close_off(*stream(block for part in ([first], blocks) for block in part))


@wrong("5.3", cause="maximum starts at 0")
def starts_at_zero(blocks):
    return from_a_start(blocks, 0)


@wrong("5.3", cause="maximum starts at 0")
def starts_at_zero_unguarded(blocks):
    return from_a_start(blocks, 0, guarded=False)


@wrong("5.3", cause="maximum starts too high")
def starts_at_minus_ten_thousand(blocks):
    return from_a_start(blocks, -1e4)


@wrong("5.3", cause="0 kept for -inf")
def keeps_the_zero(blocks):
    return from_a_start(blocks, keep_zero=True)


@wrong("5.3", cause="nan painted over")
def cleans_up_at_the_end(blocks):
    running_max, normalizer, weighted = stream(blocks, shift_of=lambda m: m)
    logsumexp = running_max + np.log(normalizer)
    output = np.nan_to_num(weighted / normalizer[:, None])
    return output, np.where(np.isnan(logsumexp), -np.inf, logsumexp)


@wrong("5.3", cause="one maximum for all rows")
def one_number_for_all_rows(blocks):
    running_max, normalizer, weighted = -np.inf, 0, 0
    for scores, values in blocks:
        new_max = max(running_max, scores.max())
        shift = 0 if new_max == -np.inf else new_max
        weights, factor = np.exp(scores - shift), np.exp(running_max - shift)
        normalizer = factor * normalizer + weights.sum(axis=1)
        weighted = factor * weighted + weights @ values
        running_max = new_max
    output, logsumexp = close_off(running_max, normalizer, weighted)
    return output.astype(scores.dtype), logsumexp.astype(scores.dtype)


@wrong("5.3", cause="first block alone")
def returns_inside_the_loop(blocks):
    for block in blocks:
        return close_off(*stream([block]))


@wrong("5.3", cause="gone through twice")
def largest_first_then_the_sums(blocks):
    largest = reduce(np.maximum, (scores.max(axis=1) for scores, _ in blocks))
    normalizer, weighted = 0, 0
    for scores, values in blocks:
        weights = np.exp(scores - largest[:, None])
        normalizer, weighted = normalizer + weights.sum(axis=1), weighted + weights @ values
    return weighted / normalizer[:, None], largest + np.log(normalizer)


_results = {}


@wrong("5.3", cause="same array each call")
def reuses_its_results(blocks):
    output, logsumexp = sums_until_the_end(blocks)
    kept = _results.setdefault((output.shape, output.dtype), (output.copy(), logsumexp.copy()))
    kept[0][:], kept[1][:] = output, logsumexp
    return kept


# --- 5.4 a merge in any order ----------------------------------------------------------------------


@right("5.4")
def with_a_shift_of_zero(a, b):
    (m1, l1, o1), (m2, l2, o2) = a, b
    m = np.maximum(m1, m2)
    shift = np.where(np.isneginf(m), 0, m)
    f1, f2 = np.exp(m1 - shift), np.exp(m2 - shift)
    return m, f1 * l1 + f2 * l2, f1[:, None] * o1 + f2[:, None] * o2


@right("5.4")
def nan_is_nothing(a, b):
    m = np.maximum(a[0], b[0])
    with np.errstate(invalid="ignore"):
        factors = [np.nan_to_num(np.exp(side[0] - m)) for side in (a, b)]
    normalizer = sum(f * side[1] for f, side in zip(factors, (a, b)))
    return m, normalizer, sum(f[:, None] * side[2] for f, side in zip(factors, (a, b)))


@right("5.4")
def a_row_at_a_time(a, b):
    merged = []
    for m1, l1, o1, m2, l2, o2 in zip(*a, *b):
        if m1 < m2:
            m1, l1, o1, m2, l2, o2 = m2, l2, o2, m1, l1, o1
        factor = np.exp(m2 - m1) if m2 > -np.inf else 0
        merged.append((m1, l1 + factor * l2, o1 + factor * o2))
    dtype = a[2].dtype
    return [np.array(part).astype(dtype) for part in zip(*merged)]


@right("5.4")
def by_a_fold_over_sides(a, b):
    def brought_to(side, m):
        factor = np.where(side[1] > 0, np.exp(side[0] - m), 0).astype(m.dtype)
        return factor * side[1], factor[:, None] * side[2]

    m = reduce(np.maximum, (a[0], b[0]))
    left, right_side = brought_to(a, m), brought_to(b, m)
    return m, left[0] + right_side[0], left[1] + right_side[1]


@wrong("5.4", cause="nothing rescaled")
def adds(a, b):
    return np.maximum(a[0], b[0]), a[1] + b[1], a[2] + b[2]


@wrong("5.4", cause="output not rescaled")
def forgets_weighted(a, b):
    m, normalizer, _ = with_a_shift_of_zero(a, b)
    return m, normalizer, a[2] + b[2]


@wrong("5.4", cause="sum not rescaled")
def forgets_the_normalizer(a, b):
    m, _, weighted = with_a_shift_of_zero(a, b)
    return m, a[1] + b[1], weighted


@wrong("5.4", cause="normalized too early")
def divides_already(a, b):
    m, normalizer, weighted = with_a_shift_of_zero(a, b)
    return m, normalizer, weighted / np.where(normalizer == 0, 1, normalizer)[:, None]


@wrong("5.4", cause="one direction only")
def assumes_a_growing_maximum(a, b):
    factor = np.exp(a[0] - b[0])
    return b[0], factor * a[1] + b[1], factor[:, None] * a[2] + b[2]


@wrong("5.4", cause="rescaled the wrong way")
def inverts_the_factors(a, b):
    m = np.maximum(a[0], b[0])
    f1, f2 = np.exp(m - a[0]), np.exp(m - b[0])
    return m, f1 * a[1] + f2 * b[1], f1[:, None] * a[2] + f2[:, None] * b[2]


@wrong("5.4", cause="averaged")
def equal_shares(a, b):
    m, normalizer, weighted = with_a_shift_of_zero(a, b)
    return m, normalizer / 2, weighted / 2


@wrong("5.4", cause="nan from -inf - -inf")
def forgets_nothing(a, b):
    m = np.maximum(a[0], b[0])
    f1, f2 = np.exp(a[0] - m), np.exp(b[0] - m)
    return m, f1 * a[1] + f2 * b[1], f1[:, None] * a[2] + f2[:, None] * b[2]


@wrong("5.4", cause="nan from -inf - -inf")
def a_floor_for_float64_only(a, b):
    running_max = np.maximum(a[0], b[0])
    m = np.maximum(running_max, -1e300).astype(running_max.dtype)
    f1, f2 = np.exp(a[0] - m), np.exp(b[0] - m)
    return running_max, f1 * a[1] + f2 * b[1], f1[:, None] * a[2] + f2[:, None] * b[2]


@wrong("5.4", cause="maximum of nothing")
def a_low_number_for_nothing(a, b):
    m = np.maximum(np.maximum(a[0], b[0]), -1e30).astype(a[0].dtype)
    f1, f2 = np.exp(a[0] - m), np.exp(b[0] - m)
    return m, f1 * a[1] + f2 * b[1], f1[:, None] * a[2] + f2[:, None] * b[2]


def brought_to(a, b, origin, running_max):
    """Both sides counted from `origin`."""
    f1, f2 = np.exp(a[0] - origin), np.exp(b[0] - origin)
    return running_max, f1 * a[1] + f2 * b[1], f1[:, None] * a[2] + f2[:, None] * b[2]


@wrong("5.4", cause="only one side rescaled")
def brings_the_left_only(a, b):
    m = np.maximum(a[0], b[0])
    return brought_to(a, (m, *b[1:]), m, m)


@wrong("5.4", cause="only one side rescaled")
def brings_the_right_only(a, b):
    m = np.maximum(a[0], b[0])
    return brought_to((m, *a[1:]), b, m, m)


@wrong("5.4", cause="smaller maximum taken")
def takes_the_minimum(a, b):
    m = np.minimum(a[0], b[0])
    return brought_to(a, b, m, m)


@wrong("5.4", cause="smaller maximum taken")
def from_the_right_side_and_back(a, b):
    m = np.maximum(a[0], b[0])
    _, normalizer, weighted = brought_to(a, b, b[0], m)
    back = np.where(a[0] > b[0], np.exp(b[0] - m), 1).astype(m.dtype)
    return m, normalizer * back, weighted * back[:, None]


@wrong("5.4", cause="counted from 0")
def from_zero(a, b):
    m = np.maximum(a[0], b[0])
    _, normalizer, weighted = brought_to(a, b, 0, m)
    return m, normalizer * np.exp(-m), weighted * np.exp(-m)[:, None]


@wrong("5.4", cause="one maximum for all rows")
def one_number_for_all(a, b):
    return brought_to(a, b, max(a[0].max(), b[0].max()), np.maximum(a[0], b[0]))


@wrong("5.4", cause="factors exchanged")
def exchanges_the_factors(a, b):
    m = np.maximum(a[0], b[0])
    f1, f2 = np.exp(b[0] - m), np.exp(a[0] - m)
    return m, f1 * a[1] + f2 * b[1], f1[:, None] * a[2] + f2[:, None] * b[2]


@wrong("5.4", cause="sum taken for a mean")
def weighs_the_sums(a, b):
    m = np.maximum(a[0], b[0])
    l1, l2 = np.exp(a[0] - m) * a[1], np.exp(b[0] - m) * b[1]
    return m, l1 + l2, (l1[:, None] * a[2] + l2[:, None] * b[2]) / (l1 + l2)[:, None]


@wrong("5.4", cause="maximum of nothing")
def zero_for_the_maximum_of_nothing(a, b):
    m, normalizer, weighted = with_a_shift_of_zero(a, b)
    return np.where(np.isneginf(m), 0, m), normalizer, weighted


@wrong("5.4", cause="changed its input")
def merges_in_place(a, b):
    m, normalizer, weighted = with_a_shift_of_zero(a, b)
    a[0][...], a[1][...], a[2][...] = m, normalizer, weighted
    return a


@wrong("5.4", cause="wrong type")
def returns_the_output(a, b):
    m, normalizer, weighted = with_a_shift_of_zero(a, b)
    return weighted / normalizer[:, None]


# --- 5.5 attention row by row ----------------------------------------------------------------------


def softmax(row):
    weights = np.exp(row - row.max())
    return weights / weights.sum()


@right("5.5")
def one_row_at_a_time(q, k, v, causal=False):
    output = np.empty((len(q), v.shape[1]))
    for t in range(len(q)):
        end = t + 1 if causal else len(k)
        output[t] = softmax(k[:end] @ q[t]) @ v[:end]
    return output


@right("5.5")
def rows_collected(q, k, v, causal=False):
    rows = []
    for t, query in enumerate(q):
        scores = query @ k.T
        if causal:
            scores[t + 1 :] = -np.inf
        rows.append(softmax(scores) @ v)
    return np.array(rows)


@right("5.5")
def sixteen_rows_at_a_time(q, k, v, causal=False):
    output = np.zeros((q.shape[0], v.shape[1]))
    for start in range(0, len(q), 16):
        scores = q[start : start + 16] @ k.T
        if causal:
            ahead = np.arange(len(k)) > np.arange(start, start + len(scores))[:, None]
            scores = np.where(ahead, -np.inf, scores)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        output[start : start + 16] = weights @ v / weights.sum(axis=1, keepdims=True)
    return output


@right("5.5")
def a_mask_for_every_row(q, k, v, causal=False):
    columns, keys = np.arange(len(k)), np.ascontiguousarray(k.T)
    output = np.zeros_like(v)
    for t in range(len(q)):
        scores = np.where(causal & (columns > t), -np.inf, q[t] @ keys)
        output[t, :] = np.einsum("c,cd->d", softmax(scores), v)
    return output


@right("5.5")
def streamed_over_blocks_of_keys(q, k, v, causal=False):
    output = np.zeros_like(v)
    for start in range(0, len(q), 32):
        rows = np.arange(start, min(start + 32, len(q)))

        def blocks(rows=rows):
            for first in range(0, len(k), 64):
                scores = q[rows] @ k[first : first + 64].T
                ahead = np.arange(first, first + scores.shape[1]) > rows[:, None]
                yield np.where(causal & ahead, -np.inf, scores), v[first : first + 64]

        output[rows] = close_off(*stream(blocks()))[0]
    return output


@right("5.5")
def all_rows_over_blocks_of_keys(q, k, v, causal=False):
    def blocks():
        rows = np.arange(len(q))[:, None]
        for first in range(0, len(k), 16):
            scores = q @ k[first : first + 16].T
            if causal:
                scores[np.arange(first, first + scores.shape[1]) > rows] = -np.inf
            yield scores, v[first : first + 16]

    return normalized_at_every_step(blocks())[0]


def in_tiles(q, k, v, causal, size, *, from_tile=False, whole_only=False, one_maximum=False):
    """Rows in tiles of `size`, and what the wrong answers below do to them."""
    output = np.zeros((len(q), v.shape[1]))
    last = len(q) // size * size if whole_only and len(q) > size else len(q)
    for start in range(0, last, size):
        scores = q[start : start + size] @ k.T
        if causal:
            rows = np.arange(len(scores)) + (0 if from_tile else start)
            scores[np.arange(len(k)) > rows[:, None]] = -np.inf
        largest = scores.max() if one_maximum else scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - largest)
        output[start : start + size] = weights @ v / weights.sum(axis=1, keepdims=True)
    return output


@right("5.5")
def sixty_four_rows_at_a_time(q, k, v, causal=False):
    return in_tiles(q, k, v, causal, 64)


@wrong("5.5", cause="last rows left out")
def whole_tiles_only(q, k, v, causal=False):
    return in_tiles(q, k, v, causal, 32, whole_only=True)


@wrong("5.5", cause="last rows left out")
def whole_large_tiles_only(q, k, v, causal=False):
    return in_tiles(q, k, v, causal, 128, whole_only=True)


@wrong("5.5", cause="mask counts from the block")
def a_mask_of_the_tile(q, k, v, causal=False):
    return in_tiles(q, k, v, causal, 16, from_tile=True)


@wrong("5.5", cause="one maximum for several rows")
def one_maximum_of_a_tile(q, k, v, causal=False):
    return in_tiles(q, k, v, causal, 16, one_maximum=True)


def row_wise(q, k, v, weights_of):
    """weights_of(scores, t) makes a row's weights."""
    output = np.zeros((len(q), v.shape[1]))
    for t in range(len(q)):
        weights = weights_of(k @ q[t], t)
        output[t] = weights @ v / weights.sum()
    return output


@wrong("5.5", cause="maximum before the mask")
def maximum_of_the_whole_row(q, k, v, causal=False):
    def weights_of(scores, t):
        weights = np.exp(scores - scores.max())
        weights[t + 1 if causal else len(k) :] = 0
        return weights

    return row_wise(q, k, v, weights_of)


@wrong("5.5", cause="maximum not below 0")
def maximum_of_zero_at_least(q, k, v, causal=False):
    def weights_of(scores, t):
        scores[t + 1 if causal else len(k) :] = -np.inf
        return np.exp(scores - scores.max(initial=0))

    return row_wise(q, k, v, weights_of)


@wrong("5.5", cause="masked with a number")
def masks_with_minus_ten_thousand(q, k, v, causal=False):
    def weights_of(scores, t):
        scores[t + 1 if causal else len(k) :] = -1e4
        return np.exp(scores - scores.max())

    return row_wise(q, k, v, weights_of)


@wrong("5.5", cause="masked with a number")
def lowers_by_ten_thousand(q, k, v, causal=False):
    def weights_of(scores, t):
        scores[t + 1 if causal else len(k) :] -= 1e4
        return np.exp(scores - scores.max())

    return row_wise(q, k, v, weights_of)


@wrong("5.5", cause="grows as the square")
def dense(q, k, v, causal=False):
    scores = q @ k.T
    if causal:
        scores[~np.tri(len(q), dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ v / weights.sum(axis=1, keepdims=True)


@wrong("5.5", cause="grows as the square")
def rows_kept(q, k, v, causal=False):
    rows = [softmax(k[: t + 1 if causal else None] @ query) for t, query in enumerate(q)]
    return np.array([row @ v[: len(row)] for row in rows])


@wrong("5.5", cause="grows as the square")
def a_full_mask(q, k, v, causal=False):
    mask = np.tri(len(q), dtype=bool) if causal else np.ones((len(q), len(q)), dtype=bool)
    output = np.empty_like(v)
    for t in range(len(q)):
        output[t] = softmax(np.where(mask[t], k @ q[t], -np.inf)) @ v
    return output


@wrong("5.5", cause="too many rows at once")
def large_blocks_of_rows(q, k, v, causal=False):
    output = np.empty_like(v)
    for start in range(0, len(q), 256):
        scores = q[start : start + 256] @ k.T
        if causal:
            scores[np.arange(len(k)) > np.arange(start, start + len(scores))[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        output[start : start + 256] = weights @ v / weights.sum(axis=1, keepdims=True)
    return output


@wrong("5.5", cause="mask ignored")
def never_masks(q, k, v, causal=False):
    return np.array([softmax(k @ query) @ v for query in q])


@wrong("5.5", cause="mask off by one")
def sees_one_ahead(q, k, v, causal=False):
    ends = [t + 2 if causal else len(k) for t in range(len(q))]
    return np.array([softmax(k[:end] @ query) @ v[:end] for query, end in zip(q, ends)])


@wrong("5.5", cause="mask off by one")
def misses_its_own_token(q, k, v, causal=False):
    output = np.zeros_like(v)
    for t in range(len(q)):
        scores = k @ q[t]
        if causal:
            scores[t:] = -np.inf
        output[t] = softmax(scores) @ v
    return output


@wrong("5.5", cause="masked after the sum")
def masks_probabilities(q, k, v, causal=False):
    output = np.zeros_like(v)
    for t in range(len(q)):
        p = softmax(k @ q[t])
        if causal:
            p[t + 1 :] = 0
        output[t] = p @ v
    return output


@wrong("5.5", cause="masked with 0")
def masks_with_zero(q, k, v, causal=False):
    output = np.zeros_like(v)
    for t in range(len(q)):
        scores = k @ q[t]
        if causal:
            scores[t + 1 :] = 0
        output[t] = softmax(scores) @ v
    return output


@wrong("5.5", cause="scaled scores")
def scales_by_habit(q, k, v, causal=False):
    return one_row_at_a_time(q / np.sqrt(q.shape[1]), k, v, causal)


@wrong("5.5", cause="no maximum subtracted")
def no_maximum(q, k, v, causal=False):
    output = np.zeros_like(v)
    for t in range(len(q)):
        end = t + 1 if causal else len(k)
        weights = np.exp(k[:end] @ q[t])
        output[t] = weights @ v[:end] / weights.sum()
    return output


@wrong("5.5", cause="not divided by the sum")
def lectures_simple_case(q, k, v, causal=False):
    return np.array([np.exp(k @ query) @ v for query in q])


@wrong("5.5", cause="queries and keys exchanged")
def columns_for_rows(q, k, v, causal=False):
    return one_row_at_a_time(k, q, v, causal)


@wrong("5.5", cause="wrong shape")
def shape_of_the_queries(q, k, v, causal=False):
    output = np.zeros(q.shape)
    for t in range(len(q)):
        end = t + 1 if causal else len(k)
        row = softmax(k[:end] @ q[t]) @ v[:end]
        output[t, : len(row)] = row
    return output
