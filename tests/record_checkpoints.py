"""Record what every choice of values to keep comes to, and the best schedules: python -m tests.record_checkpoints

How a choice becomes a schedule, and which schedules are best, is what exercises of lesson 04 ask for. So
that is found out here, and the course carries only the results. A test holds them against fresh ones.
"""

import json
from collections.abc import Iterator
from math import gcd

from course_utils.remat.drops import with_early_drops
from course_utils.remat.exhaustive import exhaustive_optimum, smallest_budget
from course_utils.remat.model import Graph, Schedule
from course_utils.remat.simulate import simulate
from course_utils.widgets.checkpoints import (
    NETWORKS,
    TRACES,
    WAYS,
    choices,
    graph_of,
    pack_schedule,
)


def keeping(graph: Graph, keep: set[str], way: str) -> Schedule:
    """Forward once; what is not in `keep` is discarded after its last reader, and made again when asked for.

    "together": what is made again stays until its last reader. "alone": it goes with the step that asked.
    """
    forward = [name for name, value in graph.values.items() if not value.once]
    order, alive = list(forward), {*keep, forward[-1]}

    def make(name: str) -> None:
        if name not in alive and name not in graph.inputs:
            for read in graph.values[name].reads:
                make(read)
            order.append(name)
            alive.add(name)

    for name, value in graph.values.items():
        if value.once:
            if way == "alone":
                gradients = {other for other in alive if graph.values[other].once}
                alive &= gradients | keep | {forward[-1]}
            make(name)
    return with_early_drops(graph, order)


def sets(graph: Graph) -> Iterator[set[str]]:
    """Every set of choices, in the order of its bits: the first choice is bit 0."""
    names = choices(graph)
    for bits in range(2 ** len(names)):
        yield {name for i, name in enumerate(names) if bits >> i & 1}


def record_network(name: str) -> dict:
    """runs: way -> set -> [peak, time again, values again, schedule]. best: such rows of the best schedules."""
    graph = graph_of(name)
    runs: dict[str, list] = {}
    for way in WAYS:
        schedules = [keeping(graph, keep, way) for keep in sets(graph)]
        runs[way] = [row(graph, schedule) for schedule in schedules]
    best = [row(graph, schedule) for schedule in best_schedules(graph)]
    return {"runs": runs, "all": [each[:2] for each in best], "best": best}


def row(graph: Graph, schedule: Schedule) -> list:
    price = simulate(graph, schedule)
    packed = pack_schedule(graph, schedule)
    return [price.peak_bytes, price.recomputed_time, price.recomputed_values, packed]


def best_schedules(graph: Graph) -> list[Schedule]:
    """The quickest schedule for the smallest budget, and for each at which a quicker one is possible."""
    unit = gcd(
        *(v.nbytes for v in graph.values.values()),
        *(v.workspace_bytes for v in graph.values.values()),
    )
    budget, found = smallest_budget(graph), []
    while not found or found[-1].price.recomputed_time > 0:
        now = exhaustive_optimum(graph, budget)
        if not found or now.price.time < found[-1].price.time:
            found.append(now)
        budget += unit
    return [each.schedule for each in found]


if __name__ == "__main__":
    text = json.dumps({name: record_network(name) for name in NETWORKS}, separators=(",", ":"))
    (TRACES / "checkpoints.json").write_text(text.replace("],[", "],\n[") + "\n", encoding="utf-8")
