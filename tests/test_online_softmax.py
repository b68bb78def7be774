"""A softmax in pieces equals that of the whole row: any blocks, any grouping, any order, any mask.

The pieces are joined by right answers to 5.2 to 5.4; the oracle of the checks and torch are the whole.
"""

import random
from functools import reduce

import numpy as np
import pytest
import torch

from course_utils.checks.online_softmax.oracle import whole_rows
from tests.answers import lesson_05 as answers


def drawn(seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Blocks of random widths; some scores, blocks and rows masked; scores of up to some 10,000."""
    rng = np.random.default_rng(seed)
    rows, d, scale = rng.integers(1, 6), rng.integers(1, 5), 10.0 ** rng.integers(0, 5)
    blocks = []
    for width in rng.integers(1, 7, size=rng.integers(1, 9)):
        scores = scale * rng.standard_normal((rows, width))
        scores[rng.random(scores.shape) < 0.2] = -np.inf
        scores[rng.random(rows) < 0.3] = -np.inf
        blocks.append((scores, rng.standard_normal((width, d))))
    if seed % 3 == 0:
        for scores, _ in blocks:
            scores[0] = -np.inf
    return blocks


def whole(blocks):
    return whole_rows(np.hstack([s for s, _ in blocks]), np.vstack([v for _, v in blocks]))


def tree(parts: list[tuple]) -> tuple:
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2])
        odd = parts[len(parts) // 2 * 2 :]
        parts = [answers.with_a_shift_of_zero(a, b) for a, b in pairs] + odd
    return parts[0]


@pytest.mark.parametrize("seed", range(40))
def test_streams_and_trees_give_the_whole_row(seed):
    blocks = drawn(seed)
    right = whole(blocks)
    with np.errstate(all="ignore"):
        output, logsumexp = answers.sums_until_the_end(iter(blocks))
    np.testing.assert_allclose(output, right.output, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(logsumexp, right.logsumexp, rtol=1e-12)
    parts = [tuple(whole_rows(scores, values)) for scores, values in blocks]
    shuffled = random.Random(seed).sample(parts, len(parts))
    merge = answers.with_a_shift_of_zero
    for joined in (reduce(merge, parts), tree(parts), tree(shuffled), reduce(merge, shuffled)):
        for part, wanted in zip(joined, right):
            np.testing.assert_allclose(part, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("seed", range(10))
def test_the_oracle_agrees_with_torch(seed):
    blocks = drawn(seed)
    scores, values = np.hstack([s for s, _ in blocks]), np.vstack([v for _, v in blocks])
    right, seen = whole(blocks), np.isfinite(scores).any(axis=1)
    theirs = torch.softmax(torch.from_numpy(scores), dim=1).nan_to_num() @ torch.from_numpy(values)
    np.testing.assert_allclose(right.output, theirs.numpy(), rtol=1e-12, atol=1e-12)
    theirs = torch.logsumexp(torch.from_numpy(scores), dim=1).numpy()
    np.testing.assert_allclose(right.logsumexp, theirs, rtol=1e-13)
    assert not right.output[~seen].any() and np.isneginf(right.logsumexp[~seen]).all()
