"""1.3: rows normalized in the memory they lie in."""

import numpy as np

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, over_budget, peak, say, wrong_array
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory

_MEASURED_ROWS = {"float64": 32_768, "float32": 65_536}  # a vector of these is 256 KiB


def _cases(seed: int) -> list[Case]:
    def one(
        name: str, n: int, d: int, dtype: str = "float64", look: str = "whole", stream: int = 0
    ) -> Case:
        given = {"shape": (n, d), "dtype": dtype, "look": look, "seed": seed, "stream": stream}
        return Case(name, given)

    return [
        one("4 x 4", 4, 4),
        one("4 x 4 again, with other numbers", 4, 4, stream=1),
        one("5 x 3, float32", 5, 3, "float32"),
        one("3 x 6, each row once", 3, 6),
        one("6 x 1", 6, 1),
        one("x is a transposed matrix, 5 x 4", 5, 4, look="transposed"),
        one("memory: 32,768 x 16", _MEASURED_ROWS["float64"], 16),
        one("memory: 65,536 x 12, float32", _MEASURED_ROWS["float32"], 12, "float32"),
        one(
            "memory: x is every second column of a matrix, 32,768 x 10",
            _MEASURED_ROWS["float64"],
            10,
            look="columns",
        ),
    ]


def _whole_and_x(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """The array that owns the memory, and x, which looks at it or is it. No row sums to nearly 0."""
    (n, d), look = case.given["shape"], case.given["look"]
    rng = np.random.default_rng([case.given["seed"], 13, case.given["stream"], n, d])
    numbers = rng.uniform(0.5, 1.5, (n, 2 * d if look == "columns" else d))
    numbers[:, 0] *= -0.25
    numbers = numbers.astype(case.given["dtype"])
    if look == "transposed":
        whole = np.ascontiguousarray(numbers.T)
        return whole, whole.T
    return numbers, numbers[:, ::2] if look == "columns" else numbers


def _run(answer, case: Case) -> Observation:
    whole, x = _whole_and_x(case)
    if case.given["shape"][0] < min(_MEASURED_ROWS.values()):
        seen = observe(answer, x, inputs_may_change=True)
    else:
        small = Case("", case.given | {"shape": (3, 2)})
        out_of_sight = find_out_of_sight(answer, _whole_and_x(small)[1])  # warms the answer up, too
        seen = observe_memory(answer, x, inputs_may_change=True)
        seen.out_of_sight = out_of_sight
    if seen.error is None:
        seen.more["returned"] = (
            seen.value if isinstance(seen.value, np.ndarray) and seen.value is not x else None
        )
        seen.value, seen.more["whole"] = x, whole
    return seen


def _judge(case: Case, seen: Observation) -> Verdict:
    whole, before = _whole_and_x(case)
    dtype, x = case.given["dtype"], seen.value
    exact = before.astype(np.float64)
    expected = exact / exact.sum(axis=1, keepdims=True)
    wrong = _untouched(seen, before, expected, dtype) or _known_mistake(case, x, exact)
    wrong = wrong or wrong_array(x, expected, what="x", dtype=dtype)
    if (
        not wrong
        and case.given["look"] == "columns"
        and not np.array_equal(seen.more["whole"][:, 1::2], whole[:, 1::2])
    ):
        wrong = failed(
            "wrote beside x",
            "x is a view of a larger matrix, and numbers that are not x's were changed.",
        )
    if wrong or seen.peak_bytes is None:
        return wrong or passed()
    return _judge_memory(case, seen, before)


def _untouched(
    seen: Observation, before: np.ndarray, expected: np.ndarray, dtype: str
) -> Verdict | None:
    if expected.shape[1] == 1 or not np.array_equal(seen.value, before):
        return None
    if close(seen.more["returned"], expected, dtype):
        return failed(
            "returned a new array",
            "The values are right, but they are in a new array that was returned. x itself is as it "
            "was.",
        )
    return failed(
        "x untouched",
        "x is as it was: other memory was written. `x = ...` only lets the name mean another array, "
        "and some methods return a copy where a view is not possible.",
    )


def _known_mistake(case: Case, x: np.ndarray, before: np.ndarray) -> Verdict | None:
    (n, d), dtype = before.shape, case.given["dtype"]
    mistakes = [
        ("columns for rows", lambda: before / before.sum(axis=0),
         "Now the columns sum to 1. Which axis does a row's sum run along?"),
        ("one sum for all", lambda: before / before.sum(),
         "Now the whole matrix sums to 1. Every row has its own sum."),
        ("absolute values summed", lambda: before / np.abs(before).sum(axis=1, keepdims=True),
         "Each row was divided by the sum of its absolute values. Here some numbers are negative."),
        ("divided by the norm", lambda: before / np.sqrt((before**2).sum(axis=1, keepdims=True)),
         "Each row was divided by its Euclidean norm. Its sum was asked for."),
        ("divided by the largest", lambda: before / before.max(axis=1, keepdims=True),
         "Each row was divided by its largest number. Its sum was asked for."),
        ("sum of changed numbers", lambda: _column_by_column(before),
         "The first column is right and later ones are not: a row's sum was taken again after part "
         "of the row had changed."),
        ("sums along the wrong axis", lambda: before / before.sum(axis=1) if n == d else np.empty(0),
         "The sums are right, but column j was divided by the sum of row j. With a square matrix "
         "the shapes cannot warn you: in which axis should the n sums lie?"),
    ]  # fmt: skip
    right = before / before.sum(axis=1, keepdims=True)
    if x.shape != before.shape or close(x, right, dtype):
        return None
    for cause, twin, why in mistakes:
        if close(x, twin(), dtype):
            return failed(cause, why)
    if close(x, before * (x[:, :1] / before[:, :1]), dtype):
        sums = x.sum(axis=1)
        worst = int(np.argmax(np.abs(sums - 1)))
        return failed(
            "not its own sum",
            f"Each row was divided by one number, but not always by its sum: row {worst} of {n} now "
            f"sums to {sums[worst]:.9g}.",
        )
    return None


def _column_by_column(before: np.ndarray) -> np.ndarray:
    """What becomes of x when each column is divided by sums of rows that have changed already."""
    x = before.copy()
    for column in range(x.shape[1]):
        x[:, column] /= x.sum(axis=1)
    return x


def _judge_memory(case: Case, seen: Observation, before: np.ndarray) -> Verdict:
    # A second vector, of reciprocals, is plain style; both may be of float64 beside a float32 x;
    # NumPy has small buffers of its own. No lower bound: a loop over rows needs next to nothing.
    within = peak(seen.peak_bytes, 3 * len(before) * 8)
    name = f"peak beside x, {case.given['dtype']}{', a view' * (case.given['look'] != 'whole')}"
    ratio = seen.peak_bytes / before.nbytes
    cause = "a second matrix" if ratio > 0.9 else "over budget"
    why = (
        f"x is right, but on the way {say(seen.peak_bytes)} beside x were alive: {ratio:.1f} times "
        "x itself. Something "
        + ("as large as x" if ratio > 0.9 else "larger than a vector")
        + " was built before it was written into x."
    )
    wrong = over_budget(name, within, cause, why)
    if not wrong and seen.more["returned"] is None and seen.held_bytes > 0:
        held = Measure(seen.held_bytes, "bytes", at_most=0)
        wrong = failed(
            "kept after the return",
            f"x is right, but {say(seen.held_bytes)} are still alive after the return. "
            "What refers to them?",
            **{"held afterwards": held},
        )
    return wrong or passed(**{name: within})


EXERCISE = Exercise("1.3", "normalize rows in place", 3, _cases, _run, _judge, returns_none=True)
