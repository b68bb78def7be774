"""5.2: the second block of a row joins what was left of the first: the lecture's exercise, made safe."""

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, passed
from course_utils.checks.judging import wrong_array
from course_utils.checks.observe import observe
from course_utils.checks.online_softmax.oracle import named_mistake, parts_of, random

_NAMES = ("output", "normalizer", "running_max")


def _cases(seed: int) -> list[Case]:
    def one(name: str, first: int, second: int, d: int, high: tuple, scale: float = 1.0) -> Case:
        given = {"sizes": (first, second), "d": d, "high": high, "scale": scale, "seed": seed}
        return Case(name, given)

    return [
        one("the larger score in the second block", 5, 5, 3, (1, 5)),
        one("the larger score in the first block", 5, 5, 3, (5, 1)),
        one("blocks of 7 and 2 scores", 7, 2, 3, (0, 0.5)),
        one("blocks of one score", 1, 1, 2, (0.5, 0)),
        one("scores about 800", 6, 4, 3, (800, 801)),
        one("the first block 2,000 higher than the second", 4, 6, 2, (1000, -1000)),
        one("the second block 2,000 higher than the first", 4, 6, 2, (-1000, 1000)),
    ]


def _blocks(case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    """[(scores (C,), values (C, d)), ...] of the two blocks."""
    blocks = []
    for k, (size, high) in enumerate(zip(case.given["sizes"], case.given["high"])):
        scores = case.given["scale"] * random(case.given["seed"], 2 + k, size)
        scores = scores - scores.max() + high
        blocks.append((scores, random(case.given["seed"], 4 + k, size, case.given["d"])))
    return blocks


def _one_block(scores: np.ndarray, values: np.ndarray) -> tuple:
    """(output (d,), normalizer, running_max) of a single block."""
    largest = scores.max()
    weights = np.exp(scores - largest)
    return weights @ values / weights.sum(), weights.sum(), largest


def _run(answer, case: Case) -> Observation:
    (scores, values), second = _blocks(case)
    with np.errstate(all="ignore"):
        return observe(answer, *_one_block(scores, values), *second)


def _mistakes(case: Case):
    """(cause, why, (output, normalizer, running_max)) of the usual slips."""
    (s1, v1), (s2, v2) = _blocks(case)
    (o1, n1, m1), (o2, n2, m2) = _one_block(s1, v1), _one_block(s2, v2)
    m = max(m1, m2)
    a, b = np.exp(m1 - m), np.exp(m2 - m)
    n = a * n1 + b * n2
    right = (a * n1 * o1 + b * n2 * o2) / n
    yield (
        "new block not rescaled",
        "The old part is brought to the common maximum. The new block still counts from its own.",
        ((a * n1 * o1 + n2 * o2) / (a * n1 + n2), None, None),
    )
    yield (
        "maxima ignored",
        "The two normalizers were added as they are. Each counts from the maximum of its own block: "
        "they are sums in different units.",
        ((n1 * o1 + n2 * o2) / (n1 + n2), None, None),
    )
    yield (
        "blocks weighed alike",
        "Both blocks count one half. That is right only where they have the same sum of exponentials.",
        ((o1 + o2) / 2, None, None),
    )
    yield (
        "blocks added",
        "The two outputs were added, without weights.",
        (o1 + o2, None, None),
    )
    yield (
        "sum not rescaled",
        "The output is brought to the new maximum, the old normalizer is not: it still counts from "
        "the old one.",
        (None, n1 + b * n2, m),
    )
    yield (
        "sum not rescaled",
        "The old normalizer still counts from the old maximum, the new part from the new one.",
        ((a * n1 * o1 + b * n2 * o2) / (n1 + b * n2), n1 + b * n2, m),
    )
    yield (
        "output not rescaled",
        "The normalizer is right. In the output, the first block's share still counts from its own "
        "maximum, not from the common one.",
        ((n1 * o1 + b * n2 * o2) / n, n, m),
    )
    yield (
        "old output not weighted",
        "`output` is a mean already: it was divided by `normalizer`. To add to the sum that it came "
        "from, that has to be undone.",
        ((a * o1 + b * n2 * o2) / n, n, m),
    )
    yield (
        "not divided by the sum",
        "This is the sum of exponentials times values. The output is its share of the normalizer.",
        (right * n, n, m),
    )
    yield (
        "second block alone",
        "This is the second block's result; the first one has no share in it.",
        (o2, None, None),
    )
    yield (
        "factors exchanged",
        "Each part got the other one's factor: exp(its own maximum - the common one) is meant.",
        ((b * n1 * o1 + a * n2 * o2) / (b * n1 + a * n2), b * n1 + a * n2, None),
    )
    yield (
        "rescaled the wrong way",
        "The factor is turned round: exp(new - old) where a sum moves from the old maximum to the new. "
        "It has an exponent above 0.",
        ((n1 / a * o1 + b * n2 * o2) / (n1 / a + b * n2), n1 / a + b * n2, None),
    )
    yield from _other_origins(case, m)


def _other_origins(case: Case, m: float):
    """Everything counted from something else than the larger maximum m: the rule is no exponent above 0."""
    (s1, v1), (s2, v2) = _blocks(case)
    o1, n1, m1 = _one_block(s1, v1)
    for cause, origin, why in (
        (
            "old maximum kept",
            m1,
            "Everything is counted from `running_max`, the old maximum. Where the new block's is larger, "
            "exp(score - running_max)",
        ),
        (
            "maximum of the block alone",
            s2.max(),
            "Everything is counted from the second block's maximum. Where the first one's is larger, "
            "exp(old - new)",
        ),
        ("counted from 0", 0.0, "Everything is counted from 0. exp of a large score"),
    ):
        if origin == m:
            continue
        f, weights = np.exp(m1 - origin), np.exp(s2 - origin)
        total = f * n1 + weights.sum()
        why += (
            " has an exponent above 0, and grows without bound. From where is no exponent above 0?"
        )
        yield cause, why, (None, total, None)
        yield cause, why, ((f * n1 * o1 + weights @ v2) / total, None, None)


def _judge(case: Case, seen: Observation) -> Verdict:
    (s1, v1), (s2, v2) = _blocks(case)
    expected = _one_block(np.hstack([s1, s2]), np.vstack([v1, v2]))
    if wrong := parts_of(seen.value, _NAMES):
        return wrong
    actual = [_as_float(part) for part in seen.value]
    for name, part, wanted in zip(_NAMES, actual, expected):
        wrong = wrong_array(part, np.asarray(wanted), name)
        if wrong:
            break
    else:
        return passed()
    if wrong.cause in ("wrong values", "not finite"):
        return named_mistake(actual, expected, _mistakes(case)) or wrong
    return wrong


def _as_float(part):
    """A Python number as NumPy's; a whole number is a number too."""
    if isinstance(part, np.integer | np.floating):
        return part.astype(np.float64)
    if isinstance(part, int | float) and not isinstance(part, bool):
        return np.float64(part if abs(part) < 1e300 else np.inf)  # an int may be larger than that
    return part


EXERCISE = Exercise("5.2", "the second block", 2, _cases, _run, _judge)
