"""The best schedule of a graph, as a mixed-integer programme, after Jain et al. 2020 (Checkmate).

The values have an order, that of the graph, and the schedule is cut into as many stages. Stage t makes value t
for the first time, as its last step; before that it may make earlier values again, in their order, each at
most once. The unknowns are

    R[t, i]     value i is made in stage t, i <= t
    S[t, i]     value i is alive when stage t begins
    A[t, i, k]  value i is alive in stage t while k is made: R[t, j] of a reader j >= k, or S[t + 1, i]

and the rows say: what is made in a stage finds its reads alive; what is alive at a stage's beginning was
alive or made in the one before; at each step what is alive fits into the budget. For A the paper has an
unknown FREE for each pair of a value and a reader, made of products. A needs none: it is the largest of a few
unknowns, which rows of two terms say. That makes the relaxation tighter, and the proof shorter.

Optimal means: among all such schedules. One that makes values for the first time in another order than the
graph's, or a value twice in one stage, can be better still: `exhaustive` finds those, where it can.
"""

import time as clock
from dataclasses import dataclass
from math import ceil, floor, gcd, inf

import numpy as np

from course_utils.remat.budget import InfeasibleBudget
from course_utils.remat.drops import with_early_drops
from course_utils.remat.model import Graph, Step
from course_utils.remat.simulate import Price, simulate
from course_utils.remat.solver import NO, YES, Linear, Programme, Solution


class NoScheduleInTime(RuntimeError):
    """The solver reached its time limit before it had any schedule: whether there is one is open."""


@dataclass(frozen=True)
class MilpOptimum:
    """A schedule, its price as `simulate` finds it, and how much about it is proven.

    status: "optimal", or "stopped: within 12 % of the optimum" at the time limit. least_time: no schedule
    of those that the programme knows takes less. seconds: what it took to find.
    """

    status: str
    schedule: list[Step]
    price: Price
    least_time: float
    seconds: float


def milp_optimum(graph: Graph, budget_bytes: float, limit_seconds: float = 60) -> MilpOptimum:
    """The quickest schedule with a peak of at most `budget_bytes`, among those that the module names.

    Raises InfeasibleBudget with the smallest budget that works, and NoScheduleInTime.
    """
    start = clock.perf_counter()
    allowed_bytes = budget_bytes
    while True:
        stages = _Stages(graph, allowed_bytes)
        solution = stages.programme.solve(limit_seconds)
        if solution.status == "infeasible":
            smallest_bytes, proven = _smallest(graph, limit_seconds)
            raise InfeasibleBudget(budget_bytes, smallest_bytes, proven)
        if solution.unknowns is None:
            raise NoScheduleInTime(
                f"after {limit_seconds:g} s there is no schedule yet: give it more time or more memory"
            )
        schedule = stages.schedule(solution.unknowns)
        price = simulate(graph, schedule)
        if price.peak_bytes <= budget_bytes:
            break
        allowed_bytes -= price.peak_bytes - budget_bytes  # a rounding of the solver's, at most 1e-6
    least_time = price.time
    if solution.status == "stopped":
        least_time = min(least_time, stages.first_time + max(solution.bound, 0) * stages.time_unit)
    status = "optimal"
    if least_time < price.time:
        gap_percent = ceil(100 * (price.time / least_time - 1)) if least_time else inf
        status = f"stopped: within {gap_percent:g} % of the optimum"
    return MilpOptimum(status, schedule, price, least_time, clock.perf_counter() - start)


def milp_smallest_budget(graph: Graph, limit_seconds: float = 60) -> int:
    """The smallest budget in bytes for which the programme has a schedule. Raises NoScheduleInTime."""
    smallest_bytes, proven = _smallest(graph, limit_seconds)
    if not proven:
        raise NoScheduleInTime(
            f"after {limit_seconds:g} s the smallest budget found is {smallest_bytes:,} bytes, unproven"
        )
    return smallest_bytes


def _smallest(graph: Graph, limit_seconds: float) -> tuple[int, bool]:
    """The smallest peak, by a second programme in which the budget is the unknown; whether it is proven."""
    stages = _Stages(graph, None)
    solution: Solution = stages.programme.solve(limit_seconds)
    order = stages.names  # a schedule that always is one
    if solution.unknowns is not None:
        order = stages.order(solution.unknowns)
    peak_bytes = simulate(graph, with_early_drops(graph, order)).peak_bytes
    return peak_bytes, solution.status == "optimal"


class _Stages:
    """The programme of a graph. Without a budget the peak is an unknown, and all that costs."""

    def __init__(self, graph: Graph, budget_bytes: float | None) -> None:
        self.graph, self.names = graph, _needed(graph)
        self.values = [graph.values[name] for name in self.names]
        self.index = {name: i for i, name in enumerate(self.names)}
        self.reads = [
            sorted({self.index[r] for r in v.reads if r in self.index}) for v in self.values
        ]
        self.readers = [[] for _ in self.values]
        for reader, reads in enumerate(self.reads):
            for i in reads:
                self.readers[i].append(reader)
        self.results = {self.index[name] for name in graph.results}
        self.last_use = self._last_uses()
        self.byte_unit = gcd(*(size for v in self.values for size in (v.nbytes, v.workspace_bytes)))
        self.byte_unit = self.byte_unit or 1
        self.time_unit = (
            _time_unit([v.time for v in self.values]) if budget_bytes is not None else inf
        )
        self.first_time = sum(value.time for value in self.values)
        self.programme = Programme()
        if budget_bytes is None:
            everything = sum(v.nbytes + v.workspace_bytes for v in self.values) / self.byte_unit
            self.budget = self.programme.unknown(1.0, whole=False, at_most=everything)
        else:
            everything = sum(v.nbytes + v.workspace_bytes for v in self.values)
            self.budget = Linear(floor(min(budget_bytes, everything) / self.byte_unit))
        self.made, self.kept = self._made(), self._kept()
        for stage in range(len(self.values)):
            self._write_stage(stage)

    def _last_uses(self) -> list[int]:
        """The last stage in which a value can be of any use."""
        last = list(range(len(self.values)))
        for i in reversed(range(len(self.values))):
            for j in self.readers[i]:
                last[i] = max(last[i], j if self.values[j].once else last[j])
            if i in self.results:
                last[i] = len(self.values)
        return last

    def _made(self) -> dict[tuple[int, int], Linear]:
        made = {}
        for stage in range(len(self.values)):
            for i, value in enumerate(self.values[:stage]):
                useless = value.once or self.last_use[i] < stage
                made[stage, i] = (
                    NO if useless else self.programme.unknown(value.time / self.time_unit)
                )
            made[stage, stage] = YES
        return made

    def _kept(self) -> dict[tuple[int, int], Linear]:
        """Much is settled by the order alone: a gradient is alive from its step to its last reader's."""
        end, kept = len(self.values), {}
        for stage in range(end + 1):
            for i, value in enumerate(self.values[:stage]):
                settled = value.once and all(self.values[j].once for j in self.readers[i])
                if stage == end:
                    kept[stage, i] = YES if i in self.results else NO
                elif settled or self.last_use[i] < stage:
                    kept[stage, i] = YES if self.last_use[i] >= stage else NO
                else:
                    kept[stage, i] = self.programme.unknown()
        return kept

    def _write_stage(self, stage: int) -> None:
        at_most, made = self.programme.at_most, self.made
        alive = {}  # (value, step) -> while the step runs, for steps after the value's own
        for i in range(stage + 1):
            begins = self.kept.get((stage, i), NO)
            stays = self.kept[stage + 1, i]
            there = made[stage, i] + begins
            at_most(there, YES)  # what is alive is not made again
            at_most(stays, there)
            readers = [j for j in self.readers[i] if j <= stage and made[stage, j] is not NO]
            for j in readers:
                at_most(made[stage, j], there)
            if (
                i < stage
            ):  # what is made again or kept is read, or stays: this tightens the relaxation
                at_most(there, sum((made[stage, j] for j in readers), stays))
            for step in range(i + 1):
                alive[i, step] = begins
            for step in reversed(range(i + 1, stage + 1)):
                if step in readers:
                    stays = self._either(made[stage, step], stays)
                alive[i, step] = stays
        for step in range(stage + 1):
            if made[stage, step] is not NO:
                own_bytes = self.values[step].nbytes + self.values[step].workspace_bytes
                held = (own_bytes / self.byte_unit) * made[stage, step]
                for i in range(stage + 1):
                    held += (self.values[i].nbytes / self.byte_unit) * alive[i, step]
                at_most(held, self.budget)

    def _either(self, one: Linear, other: Linear) -> Linear:
        if one is YES or other is YES:
            return YES
        if other is NO:
            return one
        either = self.programme.unknown(whole=False)
        self.programme.at_most(one, either)
        self.programme.at_most(other, either)
        return either

    def order(self, unknowns: np.ndarray) -> list[str]:
        """The values in the order in which the solution makes them."""
        return [self.names[i] for (_, i), made in self.made.items() if made.value(unknowns) > 0.5]

    def schedule(self, unknowns: np.ndarray) -> list[Step]:
        """The solution as a schedule that drops as early as possible."""
        return with_early_drops(self.graph, self.order(unknowns))


def _needed(graph: Graph) -> list[str]:
    """The values that the results depend on, in the order of the graph."""
    needed = set(graph.results)
    for name in reversed(graph.values):
        if name in needed:
            needed.update(graph.values[name].reads)
    return [name for name in graph.values if name in needed]


def _time_unit(times: list[float]) -> float:
    """A unit in which times are whole numbers, if there is a handy one: the solver can then round bounds."""
    if all(float(time).is_integer() for time in times):
        unit = gcd(*(int(time) for time in times)) or 1
        if max(times) / unit <= 10**6:
            return unit
    return max(times) / 1000
