"""What the answers of lesson 05 are held against: whole rows at once, in float64.

A row whose scores are all -inf has no largest score and nothing to sum. The lesson defines its
probabilities and its output as zeros, and its partial result as (-inf, 0, 0).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from course_utils.checks.core import Verdict, failed
from course_utils.checks.judging import close, wrong_array


class Partial(NamedTuple):
    """What rows of scores and their values come to, relative to the rows' own maxima."""

    running_max: np.ndarray  # (rows,)
    normalizer: np.ndarray  # (rows,)  sum of exp(score - running_max)
    weighted: np.ndarray  # (rows, d)  sum of exp(score - running_max) * value

    @property
    def output(self) -> np.ndarray:
        """The weighted mean of the values, zeros for a row without scores: (rows, d)."""
        return self.weighted / np.where(self.normalizer > 0, self.normalizer, 1)[:, None]

    @property
    def logsumexp(self) -> np.ndarray:
        """log of the sum of exp(score), -inf for a row without scores: (rows,)."""
        with np.errstate(divide="ignore"):
            return finite(self.running_max) + np.log(self.normalizer)


def finite(running_max: np.ndarray) -> np.ndarray:
    """The maxima, with 0 for -inf: something that every score can be measured from."""
    return np.where(np.isneginf(running_max), 0, running_max)


def whole_rows(scores: np.ndarray, values: np.ndarray) -> Partial:
    """scores (rows, C), values (C, d), in any precision: the partial result of all of them, in float64."""
    scores, values = scores.astype(np.float64), values.astype(np.float64)
    running_max = scores.max(axis=1)
    weights = np.exp(scores - finite(running_max)[:, None])
    return Partial(running_max, weights.sum(axis=1), weights @ values)


def alike(actual, twin: np.ndarray, dtype: str = "float64") -> bool:
    """Whether `actual` shows what a mistake gives: inf and nan in the same places, the rest close."""
    if not isinstance(actual, np.ndarray | np.generic) or actual.dtype.kind != "f":
        return False
    actual, twin = np.asarray(actual), np.asarray(twin)
    if actual.shape != twin.shape:
        return False
    for kind in (np.isnan, np.isposinf, np.isneginf):
        if not np.array_equal(kind(actual), kind(twin)):
            return False
    seen = np.isfinite(twin)
    # looser than for right answers: two ways to the same mistake need not round alike
    return close(actual[seen], twin[seen], tolerance=1e-8 if dtype == "float64" else 1e-3)


def named_mistake(actual: tuple, expected: tuple, mistakes: Iterable, dtype="float64"):
    """The verdict on the first mistake that gives what was seen (and not what is right), or None.

    mistakes: (cause, why, parts); a part that is None may be anything.
    """
    with np.errstate(all="ignore"):
        for cause, why, parts in mistakes:
            told = [k for k, part in enumerate(parts) if part is not None]
            if all(alike(actual[k], parts[k], dtype) for k in told) and not all(
                alike(np.asarray(expected[k]), parts[k], dtype) for k in told
            ):
                return failed(cause, why)
    return None


def wrong_with_infinities(actual, expected: np.ndarray, what: str, dtype: str) -> Verdict | None:
    """As `wrong_array`, for a result in which -inf belongs in places."""
    if not isinstance(actual, np.ndarray) or actual.shape != expected.shape:
        return wrong_array(actual, expected, what, dtype)
    if actual.dtype.kind == "f":
        if np.isnan(actual).any():
            return failed("nan", f"Of {what}, {int(np.isnan(actual).sum())} elements are nan.")
        inf, right = ~np.isfinite(actual), ~np.isfinite(expected)
        if not np.array_equal(inf, right) or not np.array_equal(actual[inf], expected[right]):
            at = int(np.argmax(inf != right)) if (inf != right).any() else int(np.argmax(inf))
            return failed(
                "wrong at infinity",
                f"Expected {what} to be {expected.flat[at]:.6g} in row {at}, got {actual.flat[at]:.6g}.",
            )
    seen = np.isfinite(expected)
    return wrong_array(
        np.where(seen, actual, 0).astype(actual.dtype), np.where(seen, expected, 0), what, dtype
    )


def parts_of(value, names: tuple[str, ...]) -> Verdict | None:
    """Whether an answer returned a tuple (or list) with one item for each name."""
    if isinstance(value, list | tuple) and len(value) == len(names):
        return None
    got = type(value).__name__
    if isinstance(value, list | tuple):
        got = f"{got} of {len(value)}"
    return failed(
        "wrong type", f"Expected a tuple of {len(names)}, ({', '.join(names)}), got {got}."
    )


def random(seed: int, stream: int, *shape: int) -> np.ndarray:
    """Normal numbers in float64, the same for the same seed, stream and shape."""
    return np.random.default_rng([seed, 5, stream, *shape]).standard_normal(shape)
