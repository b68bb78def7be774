"""From an order of computations to a schedule: every value goes as soon as nobody will read it again.

A planner has to decide what is computed, and in which order. When to drop then has one best answer, the
same for all planners: right after the last reading before the value is made again, or ever. No schedule
with these computations has a lower peak.
"""

from collections.abc import Iterable, Sequence

from course_utils.remat.model import Graph, Step


def with_early_drops(graph: Graph, order: Sequence[str]) -> list[Step]:
    """The schedule that computes these values in this order and drops each as early as it can.

    A value that stands in `order` twice is dropped in between, as soon as its last reader before the
    second time has run. A value that nobody reads is dropped at once, unless it is a result.
    """
    dropped_after: list[list[str]] = [[] for _ in order]
    wanted: set[str] = set(graph.results)  # who is still read later, seen from the end
    for position in reversed(range(len(order))):
        name = order[position]
        if name not in wanted:
            dropped_after[position].append(name)
        wanted.discard(name)
        for read in dict.fromkeys(graph.values[name].reads):
            if read not in wanted and read not in graph.inputs:
                dropped_after[position].append(read)
                wanted.add(read)
    schedule: list[Step] = []
    for name, drops in zip(order, dropped_after):
        schedule.append(("compute", name))
        schedule += [("drop", other) for other in drops]
    return schedule


def computations(schedule: Iterable[Step]) -> list[str]:
    """The values that a schedule computes, in its order."""
    return [name for action, name in schedule if action == "compute"]
