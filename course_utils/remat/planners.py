"""Plans of a chain: by rule, and the best one under a budget.

The rules, periodic segments and halves, look at the number of stages only. The planner looks at times
and sizes, and is a dynamic programme over (first stage, last stage, bytes left). All of them return
plans with brackets (`plans`), so what they come to is always the simulator's word, not theirs.

This module holds what the exercises of lesson 04 ask for: read it after you have solved those.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from course_utils.remat.budget import InfeasibleBudget
from course_utils.remat.model import Chain, Step
from course_utils.remat.plans import Plan, plan_schedule
from course_utils.remat.simulate import Price, simulate


@dataclass(frozen=True)
class PricedPlan:
    """A plan of a chain, its schedule, and what the simulator says of it."""

    plan: Plan
    schedule: list[Step]
    price: Price


def priced(chain: Chain, plan: Plan) -> PricedPlan:
    """A plan with its schedule and its price on this chain."""
    schedule = plan_schedule(plan)
    return PricedPlan(plan, schedule, simulate(chain.graph(), schedule))


def _keep_all(chain: Chain) -> PricedPlan:
    return priced(chain, list(range(1, chain.stages + 1)))


# --- by rule ----------------------------------------------------------------------------------------


def periodic_plan(stages: int, period: int) -> list:
    """Segments of `period` stages, each in a bracket; the last, perhaps shorter, stays open.

    The way back begins with the last segment, so there is little to gain by computing it again.
    """
    if period < 1:
        raise ValueError(f"a segment has at least one stage, not {period}")
    numbers = list(range(1, stages + 1))
    segments = [numbers[start : start + period] for start in range(0, stages, period)]
    return [*segments[:-1], *(segments[-1] if segments else [])]


def sqrt_plan(stages: int) -> list:
    """Segments of about sqrt(stages) stages: about 2 sqrt(stages) equal values alive. (Chen et al. 2016)"""
    return periodic_plan(stages, max(1, round(math.sqrt(stages))))


def halving_plan(stages: int) -> list:
    """The first half in a bracket, the second open, and both again by halves.

    Of equal stages about log2(stages) values are alive; at most stages * log2(stages) / 2 are computed
    again. Binomial splits do better still. (Griewank and Walther 2000)
    """
    return _halves(1, stages)


def _halves(first: int, last: int) -> list:
    if first >= last:
        return list(range(first, last + 1))
    middle = (first + last - 1) // 2
    return [_halves(first, middle), *_halves(middle + 1, last)]


# --- the best, under a budget -----------------------------------------------------------------------


def persistent_optimum(chain: Chain, budget_bytes: int, most_units: int = 1000) -> PricedPlan:
    """The plan with the least recomputed time whose peak is within the budget.

    Least among all plans with brackets. Where no gradient takes more than its activation, that is least
    among all persistent schedules: what such a schedule computes early, while z_c is still there, it may
    as well compute when g_c has taken its place.

    Exact to the byte while the budget is at most `most_units` times the greatest common divisor of all
    sizes. Beyond that, sizes are rounded up to whole parts of the budget, `most_units` of them: the peak
    is within the budget all the same, but a plan that fits by less than those roundings is not seen.

    Raises InfeasibleBudget with the smallest budget that has a plan, which is exact always.
    Time O(T^3 units), memory O(T^2 units). (Griewank and Walther 2000; Beaumont et al. 2019.)
    """
    problem = _Problem(chain)
    if budget_bytes < problem.smallest_bytes:
        raise InfeasibleBudget(budget_bytes, problem.smallest_bytes)
    everything = _keep_all(chain)
    if budget_bytes >= everything.price.peak_bytes:
        return everything
    if budget_bytes > most_units * problem.unit:
        problem = _Problem(chain, unit=math.ceil(budget_bytes / most_units))
        if problem.smallest_bytes > budget_bytes:  # so little room that the roundings take it all
            return priced(chain, smallest_plan(chain))
    units = int(budget_bytes // problem.unit)
    return priced(chain, _Table(problem, units).plan(units))


def persistent_front(chain: Chain) -> list[PricedPlan]:
    """The best plan at each budget at which more bytes buy time, smallest budget first.

    Exact. For chains whose sizes have a large common divisor: the table has a column for each multiple
    of it up to what keeping everything takes.
    """
    problem = _Problem(chain)
    table = _Table(problem, _keep_all(chain).price.peak_bytes // problem.unit)
    times = np.append(np.inf, table.times)
    rounding = 1e-12 * problem.time_to[-1]  # these times are differences of larger ones
    faster = times[1:] < times[:-1] - rounding
    return [priced(chain, table.plan(m)) for m in np.flatnonzero(faster).tolist()]


def smallest_plan(chain: Chain) -> list:
    """A plan whose peak is the least that any persistent schedule has; of its time nothing is promised."""
    problem = _Problem(chain)
    return problem.plan(
        0, problem.last, lambda a, b, _: a + 1 + int(problem.needs_by_first(a, b).argmin())
    )


class _Problem:
    """A chain in units, with its loss as one more stage, T + 1, which reads z_T and makes g_T.

    (a, b] stands for the stages a + 1 to b when z_a and g_b are there. What they need is counted beyond
    z_a. `needs[a, b]` is the least with which they can be done at all.
    """

    def __init__(self, chain: Chain, unit: int = 0):
        sizes = [*chain.activation_bytes[1:], *chain.gradient_bytes, *chain.workspace_bytes]
        self.unit = unit or math.gcd(*sizes) or 1

        def rounded_up(sizes: Sequence[int], *more: int) -> np.ndarray:
            return np.array([*(-(-size // self.unit) for size in sizes), *more], dtype=np.int64)

        self.last = chain.stages + 1
        self.z = rounded_up(chain.activation_bytes, 0)
        self.g = rounded_up(chain.gradient_bytes, 0)  # nothing comes back to the loss
        self.backward = self.g[:-1] + self.g[1:] + rounded_up(chain.workspace_bytes, 0)
        self.time_to = np.cumsum([0, *chain.forward_times, 0])
        # forward from z_a to z_c: two values at a time, and only one at the first step
        self.forward = [
            np.maximum.accumulate(self.z[a + 1 :] + np.append(0, self.z[a + 1 : -1]))
            for a in range(self.last)
        ]
        self.needs = np.zeros((self.last + 1, self.last + 1), dtype=np.int64)
        for a, b in self.inside_first():
            self.needs[a, b] = self.backward[a] if b == a + 1 else self.needs_by_first(a, b).min()

    @property
    def smallest_bytes(self) -> int:
        """The least peak that a plan can have."""
        return int(self.needs[0, self.last]) * self.unit

    def inside_first(self) -> Iterator[tuple[int, int]]:
        """All (a, b], each after those inside it."""
        for length in range(1, self.last + 1):
            for a in range(self.last + 1 - length):
                yield a, a + length

    def needs_by_first(self, a: int, b: int) -> np.ndarray:
        """What (a, b] needs when the first value that it keeps is z_c, for c from a + 1 to b - 1."""
        between = slice(a + 1, b)
        forward = self.forward[a][: b - a - 1] + self.g[b]
        after = self.z[between] + self.needs[between, b]
        return np.max([forward, after, self.needs[a, between]], axis=0)

    def plan(self, a: int, b: int, choose: Callable[[int, int, int], int], units: int = 0) -> list:
        """The plan of (a, b] when `choose(a, b, units)` says which value is kept first."""
        items = []
        while b > a + 1:
            c = choose(a, b, units)
            items.append(c if c == a + 1 else self.plan(a, c, choose, units))
            a, units = c, units - self.z[c]
        return [*items, b] if b < self.last else items  # the loss has no place in a plan


class _Table:
    """The least time of computing forward in (a, b] with m units, for all a, b, and m up to `units`.

    (a, b] with one stage takes none. Else some z_c is the first that is kept, and the time is
    time(a + 1 to c) + least(c, b, m - z_c) + least(a, c, m).
    """

    def __init__(self, problem: _Problem, units: int):
        self.problem, shape = problem, (problem.last + 1, problem.last + 1, units + 1)
        self.after = np.full(shape, np.inf)  # [b, c, m]: least(c, b, m - z_c)
        self.before = np.full(shape, np.inf)  # [a, c, m]: time(a + 1 to c) + least(a, c, m)
        room = np.empty(shape[1:])
        for a, b in problem.inside_first():
            fits = problem.needs[a, b]
            if b == a + 1:
                least = np.zeros(max(0, units + 1 - fits))
            else:
                least = self._by_first(a, b, fits, out=room).min(axis=0)
            if not least.size:
                continue
            z_a = problem.z[a] if a else 0
            self.before[a, b, fits:] = least + (problem.time_to[b] - problem.time_to[a])
            self.after[b, a, fits + z_a :] = least[: max(0, least.size - z_a)]
        self.times = self.after[problem.last, 0] - problem.time_to[-1]  # z_0 takes nothing

    def _by_first(self, a: int, b: int, least_units: int, out: np.ndarray | None = None):
        """The time of (a, b] for each first value kept, c, and each m from `least_units` on."""
        inside = slice(a + 1, b)
        after, before = self.after[b, inside, least_units:], self.before[a, inside, least_units:]
        times = np.add(after, before, out=None if out is None else out[: b - a - 1, least_units:])
        forward = self.problem.forward[a][: b - a - 1] + self.problem.g[b]
        for row in np.flatnonzero(forward > least_units):
            times[row, : forward[row] - least_units] = np.inf
        return times

    def plan(self, units: int) -> list:
        """The best plan of the chain with this many units."""

        def choose(a: int, b: int, m: int) -> int:
            return a + 1 + int(self._by_first(a, b, m)[:, 0].argmin())

        return self.problem.plan(0, self.problem.last, choose, units)
