"""5.4: the merge of two partial results, in any grouping and any order.

A case is an expression such as ((0, 1), 2): leaf k stands for the partial result of block k. The answer
is called once for each pair, innermost first, and its results go back into it.
"""

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.observe import observe
from course_utils.checks.online_softmax.merge_mistakes import mistakes
from course_utils.checks.online_softmax.oracle import (
    Partial,
    named_mistake,
    parts_of,
    random,
    whole_rows,
    wrong_with_infinities,
)

_NAMES = ("running_max", "normalizer", "weighted")
_ROWS, _D = 4, 3
INF = float("inf")


def _cases(seed: int) -> list[Case]:
    def one(name: str, expression: tuple, widths: tuple = (4, 4), **more) -> Case:
        given = {"expression": expression, "widths": widths, "seed": seed, "rows": _ROWS} | more
        return Case(name, given)

    empty, seven = "nothing", (3, 1, 4, 2, 5, 2, 3)
    apart = (0, 7, -6, 4, 2, -3, 1)
    tree = (((0, 1), (2, 3)), ((4, 5), 6))
    return [
        one("two blocks, each with the larger scores in two rows", (0, 1), row_lift=(4, -4, 3, -3)),
        one("two blocks, the larger scores in the second", (0, 1), lift=(0, 3)),
        one("two blocks, the larger scores in the first", (0, 1), lift=(3, 0)),
        one("blocks of 6 and 2 scores", (0, 1), (6, 2)),
        one("a single row", (0, 1), (2, 3), rows=1),
        one("scores about 1,000 on either side", (0, 1), lift=(1000, 1001)),
        one("scores of -10,000 and 10,000", (0, 1), lift=(-1e4, 1e4)),
        one("scores of 10,000 and -10,000", (0, 1), lift=(1e4, -1e4)),
        one("rows far apart", (0, 1), row_lift=(5000, 0, -5000, 0), lift=(0, 0.5)),
        one("float32", (0, 1), lift=(60, -40), dtype="float32"),
        one("with nothing on the left", (empty, 0), (4,)),
        one("with nothing on the right", (0, empty), (4,)),
        one("nothing with nothing", (empty, empty), (4,)),
        one("a block masked for some rows", (0, 1), dark=[(0, 0), (1, 2)]),
        one("a row masked in both blocks", (0, 1), dark=[(0, 1), (1, 1)]),
        one("the same in float32", (0, 1), dark=[(0, 1), (1, 1)], dtype="float32"),
        one("three blocks, from the left", ((0, 1), 2), (3, 2, 4), lift=(0, 5, 2)),
        one("three blocks, from the right", (0, (1, 2)), (3, 2, 4), lift=(0, 5, 2)),
        one("a tree of seven blocks", tree, seven, lift=apart),
        one("the same tree, mirrored, parts of it masked", _mirrored(tree), seven, lift=apart,
            dark=[(0, 0), (1, 0), (2, 1), (3, 1), (6, 2)]),
    ]  # fmt: skip


def _mirrored(expression):
    if isinstance(expression, list | tuple):
        return tuple(_mirrored(part) for part in reversed(expression))
    return expression


def _leaf(case: Case, leaf) -> tuple[np.ndarray, np.ndarray]:
    """The scores (rows, c) and values (c, d) of a leaf, in float64; "nothing" has c = 0."""
    given = case.given
    if leaf == "nothing":
        return np.zeros((given["rows"], 0)), np.zeros((0, _D))
    scores = random(given["seed"], 300 + leaf, given["rows"], given["widths"][leaf])
    scores = scores + given.get("lift", (0,) * 9)[leaf]
    if leaf == 0:
        scores += np.reshape(given.get("row_lift", (0,) * given["rows"]), (-1, 1))
    for block, row in given.get("dark", ()):
        if block == leaf:
            scores[row] = -INF
    return scores, random(given["seed"], 400 + leaf, given["widths"][leaf], _D)


def _partial(case: Case, expression) -> Partial:
    """The right partial result of a leaf or of a whole expression."""
    leaves = _leaves(expression)
    scores = np.hstack([_leaf(case, leaf)[0] for leaf in leaves])
    values = np.vstack([_leaf(case, leaf)[1] for leaf in leaves])
    if scores.shape[1] == 0:
        rows = case.given["rows"]
        return Partial(np.full(rows, -INF), np.zeros(rows), np.zeros((rows, _D)))
    return whole_rows(scores, values)


def _leaves(expression) -> list:
    if isinstance(expression, list | tuple):
        return [leaf for part in expression for leaf in _leaves(part)]
    return [expression]


def _run(answer, case: Case) -> Observation:
    with np.errstate(all="ignore"):
        return _evaluated(answer, case, case.given["expression"])


def _evaluated(answer, case: Case, expression) -> Observation:
    if not isinstance(expression, list | tuple):
        dtype = case.given.get("dtype", "float64")
        return Observation(tuple(part.astype(dtype) for part in _partial(case, expression)))
    sides = [_evaluated(answer, case, part) for part in expression]
    for side in sides:
        if side.error is not None or side.changed_input or side.value is None:
            return side
    return observe(answer, *(side.value for side in sides))


def _judge(case: Case, seen: Observation) -> Verdict:
    expression, dtype = case.given["expression"], case.given.get("dtype", "float64")
    if wrong := parts_of(seen.value, _NAMES):
        return wrong
    expected = _partial(case, expression)
    for name, actual, wanted in zip(_NAMES, seen.value, expected):
        if wrong := wrong_with_infinities(actual, wanted, name, dtype):
            break
    else:
        return passed()
    if wrong.cause not in ("wrong values", "not finite", "nan", "wrong at infinity"):
        return wrong
    nothing = np.isneginf(expected.running_max)
    if wrong.cause == "wrong at infinity" and np.isfinite(seen.value[0][nothing]).any():
        return failed(
            "maximum of nothing",
            "A row that holds nothing came out with a finite maximum. It would win against later "
            "maxima that are below it: only -inf never does.",
        )
    sides = [_partial(case, part) for part in expression]
    told = named_mistake(tuple(seen.value), expected, mistakes(*sides), dtype)
    if told:
        return told
    if len(_leaves(expression)) > 2:
        return failed(
            "depends on the grouping",
            f"Pairs came out right, but not {case.name}: {wrong.diagnosis} A result of a merge goes "
            "into the next one, on either side.",
        )
    return wrong


EXERCISE = Exercise("5.4", "a merge in any order", 3, _cases, _run, _judge)
