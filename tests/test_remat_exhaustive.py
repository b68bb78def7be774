"""The exhaustive search against a plainer one: every subset, every step, no cleverness at all."""

import heapq
import random

import pytest

from course_utils.remat.budget import InfeasibleBudget
from course_utils.remat.exhaustive import SearchTooLarge, exhaustive_optimum, smallest_budget
from course_utils.remat.model import Chain, Graph, Value
from course_utils.remat.simulate import simulate


def plain_search(graph: Graph, budget_bytes: float) -> float | None:
    """The least time of any schedule, by Dijkstra over (alive, made): one compute or one drop a step."""
    values = graph.values
    queue, seen, ticket = [(0, 0, frozenset(), frozenset())], set(), 0
    while queue:
        time, _, alive, made = heapq.heappop(queue)
        if (alive, made) in seen:
            continue
        seen.add((alive, made))
        if alive.issuperset(graph.results):
            return time
        held = sum(values[name].nbytes for name in alive)
        steps = [(time, alive - {name}, made) for name in alive]
        for name, value in values.items():
            fits = held + value.nbytes + value.workspace_bytes <= budget_bytes
            ready = all(read in alive or read in graph.inputs for read in value.reads)
            if name not in alive and name not in made and fits and ready:
                now_made = made | {name} if value.once else made
                steps.append((time + value.time, alive | {name}, now_made))
        for now, now_alive, now_made in steps:
            ticket += 1
            heapq.heappush(queue, (now, ticket, now_alive, now_made))
    return None


def random_graph(rng: random.Random, size: int) -> Graph:
    values = {}
    for i in range(size):
        earlier = [*values, "x"]
        reads = tuple(rng.sample(earlier, min(len(earlier), rng.randint(1, 2))))
        values[f"v{i}"] = Value(
            rng.randint(0, 5),
            rng.randint(0, 4),
            reads,
            rng.choice((0, 0, 2)),
            once=rng.random() < 0.4,
        )
    results = {f"v{size - 1}", *rng.sample(list(values), rng.randint(0, 1))}
    return Graph(values, tuple(results), ("x",))


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_against_the_plain_search(seed):
    rng = random.Random(seed)
    graph = random_graph(rng, rng.randint(2, 7))
    smallest = smallest_budget(graph)
    assert plain_search(graph, smallest - 1) is None
    for budget in (smallest, smallest + 1, smallest + 3, 1000):
        found = exhaustive_optimum(graph, budget)
        assert found.price == simulate(graph, found.schedule)
        assert found.price.peak_bytes <= budget
        assert found.price.time == plain_search(graph, budget)


@pytest.mark.parametrize("seed", range(25))
def test_random_chains_against_the_plain_search(seed):
    rng = random.Random(seed)
    stages = rng.randint(1, 4)
    chain = Chain(
        [rng.randint(1, 9) for _ in range(stages)],
        [rng.randint(1, 9) for _ in range(stages + 1)],
        workspace_bytes=[rng.choice((0, 0, 4)) for _ in range(stages)],
    )
    graph = chain.graph()
    smallest = smallest_budget(graph)
    assert plain_search(graph, smallest - 1) is None
    for budget in (smallest, smallest + 2, smallest + 7):
        assert exhaustive_optimum(graph, budget).price.time == plain_search(graph, budget)


def test_a_step_backward_goes_first_only_where_nothing_is_lost():
    """d_b frees the gradient d_c and lets a be dropped; but e must be made first, while a is still there."""
    values = {
        "a": Value(9, 3, ("x",)),
        "b": Value(1, 1, ("a",)),
        "e": Value(1, 1, ("a",)),
        "d_c": Value(0, 2, ("b",), once=True),
        "d_b": Value(1, 2, ("d_c", "b"), once=True),
        "d_a": Value(1, 2, ("d_b", "e"), once=True),
    }
    graph = Graph(values, ("d_a",), ("x",))
    for budget in range(smallest_budget(graph), 12):
        assert exhaustive_optimum(graph, budget).price.time == plain_search(graph, budget)


def test_enough_memory_means_no_recomputation():
    graph = Chain((3, 1, 4, 1, 5), (2, 7, 1, 8, 2, 8)).graph()
    found = exhaustive_optimum(graph, 10**6)
    assert found.price.recomputed == {} and found.price.time == graph.least_time


def test_a_budget_below_the_smallest_is_refused_and_the_smallest_named():
    graph = Chain.uniform(4).graph()
    with pytest.raises(
        InfeasibleBudget, match="the smallest budget that one does is 3 bytes"
    ) as no:
        exhaustive_optimum(graph, 2.5)
    assert no.value.smallest_bytes == smallest_budget(graph) == 3
    assert exhaustive_optimum(graph, 3).price.peak_bytes == 3


def test_a_graph_too_large_says_so():
    with pytest.raises(SearchTooLarge, match="after 50 states there is no answer"):
        exhaustive_optimum(Chain.uniform(12).graph(), 5, most_states=50)


def test_ten_stages_are_practical():
    """States, not seconds: what is counted does not depend on the machine."""
    rng = random.Random(10)
    chain = Chain([rng.randint(1, 9) for _ in range(10)], [rng.randint(1, 9) for _ in range(11)])
    graph = chain.graph()
    for budget in (smallest_budget(graph), smallest_budget(graph) * 3 // 2):
        exhaustive_optimum(graph, budget, most_states=5000)
