"""5.1: a softmax of rows that no finite score can break, with -inf for what is masked."""

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import wrong_array
from course_utils.checks.observe import observe
from course_utils.checks.online_softmax.oracle import finite, named_mistake, random

INF = float("inf")


def _cases(seed: int) -> list[Case]:
    def drawn(name: str, rows: int, columns: int, scale: float = 1, dtype: str = "float64") -> Case:
        given = {"rows": rows, "columns": columns, "scale": scale, "dtype": dtype, "seed": seed}
        return Case(name, given)

    def written(name: str, *rows: list[float], dtype: str = "float64") -> Case:
        return Case(name, {"written": rows, "dtype": dtype})

    return [
        drawn("3 rows of 4 scores", 3, 4),
        drawn("2 rows of 1 score", 2, 1),
        written("the row [800, 801]", [800, 801]),
        written("the row [-801, -800]", [-801, -800]),
        written("rows far apart: [1000, 1001] and [-1000, -998]", [1000, 1001], [-1000, -998]),
        drawn("scores of up to 20,000", 6, 9, 1e4),
        drawn("scores of up to 200 in float32", 5, 7, 100, "float32"),
        written("one score masked: [2, -inf, 1]", [2, -INF, 1], [-900, -INF, -901]),
        written("scores of -100,000, one of them masked", [-1e5, -INF, -1e5 - 1], [3, 2, -INF]),
        written("a row with all scores masked", [1, 2, -INF], [-INF, -INF, -INF], [-3, 0, 5]),
        written("the same in float32", [1, 2, -INF], [-INF, -INF, -INF], dtype="float32"),
    ]


def _scores(case: Case) -> np.ndarray:
    if "written" in case.given:
        return np.array(case.given["written"], dtype=case.given["dtype"])
    shape = case.given["rows"], case.given["columns"]
    return (case.given["scale"] * random(case.given["seed"], 1, *shape)).astype(case.given["dtype"])


def _run(answer, case: Case) -> Observation:
    with np.errstate(all="ignore"):  # what a warning would say, the verdict says
        return observe(answer, _scores(case))


def _softmax(scores: np.ndarray, shift) -> np.ndarray:
    weights = np.exp(scores - shift)
    return weights / weights.sum(axis=1, keepdims=True)


def _expected(scores: np.ndarray) -> np.ndarray:
    scores = scores.astype(np.float64)
    weights = np.exp(scores - finite(scores.max(axis=1))[:, None])
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


_ONE_MAXIMUM = (
    "One number was subtracted from every row. It is far above the scores of the other rows, whose "
    "exponentials then all vanish."
)


def _mistakes(scores: np.ndarray):
    """(cause, why, what it gives) of the usual slips, in the order in which they are looked for."""
    own = scores.max(axis=1, keepdims=True)
    plain, of_all = _softmax(scores, 0), _softmax(scores, scores.max())
    if np.isposinf(np.exp(scores)).any():
        yield (
            "no maximum subtracted",
            "This is what exp of the scores themselves gives: it overflows to inf, and inf / inf is nan.",
            [plain],
        )
        yield (
            "nan painted over",
            "The nan of an overflow were replaced by a number. The row had probabilities, and they are "
            "gone.",
            [np.nan_to_num(plain)],
        )
    yield "one maximum for all rows", _ONE_MAXIMUM, [of_all]
    yield "one maximum for all rows", _ONE_MAXIMUM, [np.nan_to_num(of_all)]
    for name, number in (("mean", scores.mean(axis=1)), ("smallest score", scores.min(axis=1))):
        yield (
            f"{name} subtracted",
            f"From each row its {name} was subtracted. A score far above that overflows still.",
            [_softmax(scores, number[:, None])],
        )
    yield (
        "scores clipped",
        "The scores were clipped to where exp is finite. Scores beyond then look equal, and are not.",
        [_softmax(np.clip(scores, -700, 700), 0)],
    )
    yield (
        "along the columns",
        "Each column adds up to 1. Expected: each row.",
        [_softmax(scores.T, scores.T.max(axis=1, keepdims=True)).T],
    )
    yield (
        "not divided by the sum",
        "These are the exponentials; a row of them does not add up to 1.",
        [np.exp(scores - own)],
    )
    yield (
        "logarithm returned",
        "These are the logarithms of the probabilities.",
        [np.log(_softmax(scores, own))],
    )


def _vanished(scores, actual, expected, dtype: str) -> Verdict | None:
    """Rows of low scores that came out empty (0, or 0 / 0), with all the others right."""
    empty = (actual == 0).all(axis=1) | np.isnan(actual).all(axis=1)
    empty &= np.isfinite(scores).any(axis=1)
    rest = wrong_array(actual[~empty], expected[~empty], dtype=dtype)
    if not empty.any() or scores[empty].max() > -700 or scores.max() > 700 or rest is not None:
        return None
    return failed(
        "all underflowed",
        f"In a row with a largest score of {scores[empty].max():.6g} all exponentials came out as 0, and "
        "so did their sum. From where were they counted? Whatever the scores, one of them should be 1.",
    )


def _judge(case: Case, seen: Observation) -> Verdict:
    scores = _scores(case)
    expected, actual = _expected(scores), seen.value
    wrong = wrong_array(actual, expected, dtype=case.given["dtype"])
    if not wrong or wrong.cause not in ("wrong values", "not finite"):
        return wrong or passed()
    masked = np.isneginf(scores).all(axis=1)
    others = wrong_array(actual[~masked], expected[~masked], dtype=case.given["dtype"])
    if masked.any() and others is None:
        if np.isnan(actual[masked]).any():
            return failed(
                "nan from -inf - -inf",
                "The rest is right; the row of only -inf came out as nan. Its maximum is -inf, and "
                "-inf - -inf has no value. By definition its probabilities are zeros.",
            )
        return failed(
            "a masked row not zero",
            f"A row of only -inf came out as {actual[masked][0][:3]}. By definition it is zeros: a "
            "masked score has no share, whatever its neighbours are.",
        )
    if vanished := _vanished(scores, actual, expected, case.given["dtype"]):
        return vanished
    counted = np.where(np.isneginf(scores) & ~masked[:, None], actual, 0).max(initial=0)
    if counted > 0:
        return failed(
            "a masked score counts",
            f"A score of -inf came out with the probability {counted:.3g}, and it must be 0. Does a number "
            "stand for -inf that is not below every score?",
        )
    mistakes = _mistakes(scores.astype(case.given["dtype"]))
    if told := named_mistake((actual,), (expected,), mistakes, case.given["dtype"]):
        return told
    if np.isfinite(actual).all() and wrong.cause == "wrong values":
        if "detour" in wrong.diagnosis and np.array_equal(actual, actual.astype(np.float32)):
            return failed(
                "detour through float32",
                f"Every number here is one of float32, in an array of {actual.dtype}. {wrong.diagnosis}",
            )
        sums = actual.sum(axis=1)
        off = float(np.max(np.abs(sums[~masked] - 1), initial=0.0))
        if 1e-14 < off < 1e-4 and case.given["dtype"] == "float64":
            return failed(
                "sums not 1",
                f"The probabilities of a row add up to 1 only within {off:.1g}. Was something added to "
                "the sum, against a division by zero? With the right shift the sum is at least 1.",
            )
    return wrong


EXERCISE = Exercise("5.1", "softmax of any scores", 2, _cases, _run, _judge)
