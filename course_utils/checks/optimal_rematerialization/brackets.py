"""Plans that a student returned: read as lists of whole numbers, or refused in words; then priced.

Shared by 4.2, 4.3 and 4.4. What comes back from an answer may be anything, so nothing here trusts it: a
list may hold itself, or be nested a thousand deep.
"""

import operator
from collections import Counter

import numpy as np

from course_utils.checks.core import Verdict, failed
from course_utils.remat.model import Chain
from course_utils.remat.plans import plan_schedule, stages_of
from course_utils.remat.simulate import Price, simulate

_DEEPEST = 150
_MOST_ITEMS = 20_000


class NoPlan(Exception):
    """What was returned is no plan of the chain. Holds the verdict that says why."""

    def __init__(self, cause: str, diagnosis: str):
        super().__init__(diagnosis)
        self.verdict: Verdict = failed(cause, diagnosis)


def read_plan(value: object, stages: int) -> list:
    """A plan of the chain as lists of ints. Raises NoPlan with a verdict where it is none."""
    try:
        return _plan_of(value, stages)
    except NoPlan:
        if _holds_a_plan(value, stages):
            raise NoPlan(
                "more than the plan",
                f"What was returned has {len(value)} items, and one of them is a plan of all "
                f"{stages} stages. Return the plan alone.",
            ) from None
        raise


def _holds_a_plan(value: object, stages: int) -> bool:
    for item in value if type(value) in (list, tuple) and 2 <= len(value) <= 3 else ():
        try:
            _plan_of(item, stages)
        except NoPlan:
            continue
        return True
    return False


def _plan_of(value: object, stages: int) -> list:
    if not _is_list(value):
        raise NoPlan("wrong type", f"Expected a plan, a list, got {type(value).__name__}.")
    left = [_MOST_ITEMS]
    plan = _read(value, 0, left)
    named = list(stages_of(plan))
    expected = list(range(1, stages + 1))
    if named == expected:
        return plan
    told = f"The plan of {stages} stages names [{_few(named, 20)}]."
    if named == list(range(stages)):
        raise NoPlan("counted from 0", f"{told} Stages are counted from 1.")
    if missing := sorted(set(expected) - set(named)):
        raise NoPlan(
            "stages missing",
            f"{told} Missing: {_few(missing)}. A plan names every stage, in a bracket or not.",
        )
    if len(named) > len(expected):
        twice = sorted(
            {t for t, count in Counter(named).items() if count > 1} | (set(named) - set(expected))
        )
        raise NoPlan("stages too many", f"{told} Too many: {_few(twice)}. Each is named once.")
    raise NoPlan("stages out of order", f"{told} Expected them in their order, 1 to {stages}.")


def _is_list(value: object) -> bool:
    """A list or the like, and no subclass with an iteration of its own."""
    return type(value) in (list, tuple, range) or (type(value) is np.ndarray and value.ndim > 0)


def _few(numbers: list[int], most: int = 6) -> str:
    told = (str(n) if n.bit_length() < 64 else f"about 2**{n.bit_length()}" for n in numbers[:most])
    return ", ".join(told) + (", ..." if len(numbers) > most else "")


def _read(value, depth: int, left: list[int]) -> list:
    if depth > _DEEPEST:
        raise NoPlan(
            "nested too deeply",
            f"The brackets are nested more than {_DEEPEST} deep. Each bracket in a bracket is one more "
            "time that what is inside is computed.",
        )
    items = []
    for item in value:
        left[0] -= 1
        if left[0] < 0:
            raise NoPlan("stages too many", f"The plan has more than {_MOST_ITEMS} items.")
        if _is_list(item):
            items.append(_read(item, depth + 1, left))
            continue
        try:
            if isinstance(item, bool | np.bool_):
                raise TypeError
            items.append(int(operator.index(item)))
        except Exception:  # __index__ may be the student's own
            raise NoPlan(
                "wrong type",
                "A plan holds whole numbers and lists of them. One item is of type "
                f"{type(item).__name__}.",
            ) from None
    return items


def price_of(chain: Chain, plan: list) -> Price:
    """What a plan comes to on this chain."""
    return simulate(chain.graph(), plan_schedule(plan))


def periodic(stages: int, period: int) -> list:
    """Segments of this many stages, each in a bracket, but the last."""
    numbers = list(range(1, stages + 1))
    segments = [numbers[start : start + period] for start in range(0, stages, period)]
    return [*segments[:-1], *segments[-1]]
