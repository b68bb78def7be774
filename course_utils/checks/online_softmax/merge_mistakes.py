"""What the usual slips of a merge give, for one pair of partial results.

The judge of 5.4 compares an answer with them: one that shows the same numbers has very likely made the
same slip, and can be told so by name.
"""

from collections.abc import Iterator

import numpy as np

from course_utils.checks.online_softmax.oracle import Partial, finite


def mistakes(a: Partial, b: Partial) -> Iterator[tuple[str, str, tuple]]:
    """(cause, why, (running_max, normalizer, weighted)) of each; None where that part may be anything."""
    m = np.maximum(a.running_max, b.running_max)
    shift = finite(m)
    fa, fb = np.exp(a.running_max - shift), np.exp(b.running_max - shift)
    normalizer = fa * a.normalizer + fb * b.normalizer
    weighted = fa[:, None] * a.weighted + fb[:, None] * b.weighted
    bare = np.exp(a.running_max - m) + np.exp(b.running_max - m)
    if np.isnan(bare).any():
        yield (
            "nan from -inf - -inf",
            "A row that holds nothing on either side came out as nan: both maxima are -inf, and "
            "-inf - -inf has no value. Nothing merged with nothing is nothing: (-inf, 0, 0).",
            (None, np.where(np.isnan(bare), np.nan, normalizer), None),
        )
    summed = a.weighted + b.weighted
    yield (
        "nothing rescaled",
        "The sums were added as they are. Each counts from its own maximum: bring both to the larger one.",
        (None, a.normalizer + b.normalizer, summed),
    )
    yield (
        "output not rescaled",
        "The normalizers meet at the common maximum, the weighted sums do not: these were added as they are.",
        (None, normalizer, summed),
    )
    yield (
        "sum not rescaled",
        "The weighted sums meet at the common maximum, the normalizers were added as they are.",
        (None, a.normalizer + b.normalizer, weighted),
    )
    for side, part in (
        ("left", fa * a.normalizer + b.normalizer),
        ("right", a.normalizer + fb * b.normalizer),
    ):
        yield (
            "only one side rescaled",
            f"Only the {side} side was brought to the common maximum; the other was added as it is. Either "
            "may have the smaller maximum, and from row to row it may be another.",
            (None, part, None),
        )
    yield (
        "factors exchanged",
        "Each side got the other one's factor: exp(its own maximum - the common one) is meant.",
        (None, fb * a.normalizer + fa * b.normalizer, None),
    )
    yield from _other_origins(a, b, m)
    yield (
        "rescaled the wrong way",
        "The factors are turned round: exp(new - old) where a sum moves from the old maximum to the new.",
        (None, a.normalizer / fa + b.normalizer / fb, None),
    )
    over = np.where(normalizer > 0, normalizer, 1)[:, None]
    yield (
        "normalized too early",
        "`weighted` was divided by the normalizer. It stays a sum until the end: the next merge "
        "would take the mean for a sum.",
        (m, normalizer, weighted / over),
    )
    weighed = (fa * a.normalizer)[:, None] * a.weighted + (fb * b.normalizer)[:, None] * b.weighted
    for given in (weighed, weighed / over):
        yield (
            "sum taken for a mean",
            "`weighted` was multiplied by its normalizer. It is a sum already, and was never divided.",
            (m, normalizer, given),
        )
    for halves in ((None, normalizer / 2, None), (None, normalizer, weighted / 2)):
        yield "averaged", "The two sides were averaged. A sum over both is wanted.", halves


def _other_origins(a: Partial, b: Partial, m: np.ndarray):
    """The sums counted from something else than the larger maximum, and left there or brought to it."""
    smaller = np.minimum(a.running_max, b.running_max)
    yield (
        "smaller maximum taken",
        "The running maximum is the smaller of the two, where the larger is wanted.",
        (smaller, None, None),
    )
    for cause, origin, why in (
        (
            "smaller maximum taken",
            smaller,
            "The sums are counted from the smaller of the two maxima: the other side's factor is above 1, "
            "and overflows where they are far apart.",
        ),
        (
            "one direction only",
            b.running_max,
            "The left side was brought to the right side's maximum. Where that is the smaller one, the "
            "factor is above 1, and overflows where they are far apart.",
        ),
        (
            "one direction only",
            a.running_max,
            "The right side was brought to the left side's maximum. Where that is the smaller one, the "
            "factor is above 1, and overflows where they are far apart.",
        ),
        (
            "counted from 0",
            np.zeros_like(m),
            "The sums were brought to 0, as exp of the scores themselves: that overflows.",
        ),
        (
            "one maximum for all rows",
            np.full_like(m, m.max()),
            "The sums of all rows were brought to one number. A row has a maximum of its own, and may be "
            "far below another one's.",
        ),
    ):
        fa, fb = np.exp(a.running_max - origin), np.exp(b.running_max - origin)
        there = fa * a.normalizer + fb * b.normalizer
        yield cause, why, (None, there, None)
        yield cause, why, (None, there * np.exp(origin - m), None)
