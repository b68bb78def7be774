"""The best schedule of a small graph, found by trying everything: the judge of all cleverer planners.

A schedule is a walk through sets of alive values. The cheapest walk is found by A* search, which gives up
no schedule that the model allows: values may be made in any order, kept or not, and made again as often as
it pays. What makes it quick enough for chains of ten stages and graphs of a dozen forward values:

- what nobody can read any more is dropped at once; anything else only when there is no room for the next
  value, and then no more than needed. Dropping later is always possible, so nothing is lost;
- a state is left aside if one with the same steps backward done, at least the same values alive, and no
  more time spent was there already;
- the time that remains is at least that of the values which would be needed with unlimited memory.

It holds every state that it saw: for larger graphs see `milp`.
"""

import heapq
from dataclasses import dataclass
from functools import cache
from itertools import count
from math import gcd

from course_utils.remat.budget import InfeasibleBudget
from course_utils.remat.drops import with_early_drops
from course_utils.remat.model import Graph, Step
from course_utils.remat.simulate import Price, simulate


class SearchTooLarge(RuntimeError):
    """The search has seen as many states as it was allowed, and has no answer."""


@dataclass(frozen=True)
class Optimum:
    """A schedule than which none is quicker within its budget, and its price as `simulate` finds it."""

    schedule: list[Step]
    price: Price


def exhaustive_optimum(graph: Graph, budget_bytes: float, most_states: int = 10**6) -> Optimum:
    """The quickest of all schedules whose peak is at most `budget_bytes`.

    Raises InfeasibleBudget, with the smallest budget for which there is a schedule, and SearchTooLarge
    when more than `most_states` states were seen.
    """
    search = _Search(graph)
    order = search.best_order(budget_bytes, most_states)
    if order is None:
        raise InfeasibleBudget(budget_bytes, search.smallest_budget(most_states))
    return _priced(graph, order)


def smallest_budget(graph: Graph, most_states: int = 10**6) -> int:
    """The smallest budget in bytes for which the graph has any schedule, however slow. Exact."""
    return _Search(graph).smallest_budget(most_states)


def _priced(graph: Graph, order: list[str]) -> Optimum:
    schedule = with_early_drops(graph, order)
    return Optimum(schedule, simulate(graph, schedule))


class _Search:
    """A graph with its values as bits. A state is (alive, done): `done` has the bits of `once` values made."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.names = graph, list(graph.values)
        bit = {name: 1 << i for i, name in enumerate(self.names)}
        values = graph.values.values()
        self.nbytes = [value.nbytes for value in values]
        self.extra = [value.nbytes + value.workspace_bytes for value in values]
        self.time = [value.time for value in values]
        self.reads = [sum(bit[r] for r in set(value.reads) if r in bit) for value in values]
        self.once = sum(bit[name] for name, value in graph.values.items() if value.once)
        self.results = sum(bit[name] for name in set(graph.results))
        self.readable = cache(self._readable)
        self.needed = cache(self._needed)
        self.size_of = cache(lambda alive: sum(self.nbytes[i] for i in _bits(alive)))

    def _readable(self, done: int) -> tuple[int, int]:
        """What may still be computed when the values `done` are, and what may still be read or is a result."""
        may = self.results & ~done
        for i in reversed(range(len(self.names))):
            if may >> i & 1:
                may |= self.reads[i] & ~done
        kept = self.results
        for i in _bits(may):
            kept |= self.reads[i]
        return may, kept

    def _needed(self, alive: int, done: int) -> float | None:
        """The time that is needed at least from here. None when a value is gone for good."""
        need, total = self.results & ~alive, 0
        for i in reversed(range(len(self.names))):
            if need >> i & 1:
                if done >> i & 1:
                    return None
                total += self.time[i]
                need |= self.reads[i] & ~alive
        return total

    def moves(self, alive: int, done: int, budget: float):
        """(index computed, state) for what can be computed next, after dropping as little as that takes."""
        may, held = self.readable(done)[0], self.size_of(alive)
        for i in _bits(may & ~alive):
            if self.reads[i] & ~alive:
                continue
            missing = held + self.extra[i] - budget
            now_done = done | (self.once & 1 << i)
            kept = self.readable(now_done)[1]
            drops = [0]
            if missing > 0:
                free = [j for j in _bits(alive & ~self.reads[i]) if self.nbytes[j] > 0]
                drops = _least_sets(free, self.nbytes, missing)
            for drop in drops:
                after = (alive & ~drop | 1 << i) & kept, now_done
                if missing <= 0 and self._is_safe(i, alive, after[0]):
                    yield i, after, True
                    return
                yield i, after, False

    def _is_safe(self, i: int, alive: int, after: int) -> bool:
        """A step backward that fits, and frees as many bytes of gradients as it makes, can go first."""
        if not self.once >> i & 1:
            return False
        freed = self.size_of(alive & ~after & self.once & self.reads[i])
        return freed >= self.nbytes[i] * (after >> i & 1)

    def best_order(
        self, budget: float, most_states: int, any_order: bool = False
    ) -> list[str] | None:
        """The values in the order in which to compute them. `any_order`: the first that is found."""
        ticket = count()  # of equal states the newest first: straight on
        queue = [(self.needed(0, 0), 0, 0, 0, 0, None)]
        settled: dict[int, list[tuple[int, float]]] = {}
        while queue:
            _, _, spent, alive, done, path = heapq.heappop(queue)
            if not self.results & ~alive:
                return _walked(path, self.names)
            there = settled.setdefault(done, [])
            if any(not alive & ~more and cost <= spent for more, cost in there):
                continue
            there.append((alive, 0 if any_order else spent))
            if next(ticket) > 2 * most_states:
                raise SearchTooLarge(
                    f"after {most_states:,} states there is no answer: the graph is too large for this"
                )
            found = list(self.moves(alive, done, budget))
            for i, (now, now_done), safe in found:
                if found[-1][2] and not safe:
                    continue
                rest = self.needed(now, now_done)
                if rest is None:
                    continue
                cost = 0 if any_order else spent + self.time[i]
                first = -now_done.bit_count() if any_order else cost + rest
                state = (first, -next(ticket), cost, now, now_done, (path, i))
                heapq.heappush(queue, state)
        return None

    def smallest_budget(self, most_states: int) -> int:
        """By halving the interval between what the widest step takes and what a found schedule takes."""
        unit = gcd(*self.nbytes, *self.extra) or 1
        needed = self.readable(0)[0]
        low = max((self.extra[i] + self.size_of(self.reads[i]) for i in _bits(needed)), default=0)
        everything = sum(self.extra)
        order = self.best_order(everything, most_states, any_order=True)
        high = _priced(self.graph, order).price.peak_bytes
        while low < high:
            middle = low + (high - low) // unit // 2 * unit
            order = self.best_order(middle, most_states, any_order=True)
            if order is None:
                low = middle + unit
            else:
                high = _priced(self.graph, order).price.peak_bytes
        return high


def _bits(mask: int):
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _least_sets(free: list[int], nbytes: list[int], missing: float):
    """Every set of these values that frees `missing` bytes, and of which no value could stay."""
    free = sorted(free, key=lambda j: -nbytes[j])
    rest = [0] * (len(free) + 1)
    for k in reversed(range(len(free))):
        rest[k] = rest[k + 1] + nbytes[free[k]]

    def choose(k: int, chosen: int, still: float):
        if still <= 0:
            yield chosen
        elif rest[k] >= still:
            # largest first: the last one taken is the smallest, and without it too little is freed
            yield from choose(k + 1, chosen | 1 << free[k], still - nbytes[free[k]])
            yield from choose(k + 1, chosen, still)

    yield from choose(0, 0, missing)


def _walked(path, names: list[str]) -> list[str]:
    order = []
    while path is not None:
        path, i = path
        order.append(names[i])
    return order[::-1]
