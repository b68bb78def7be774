"""The mixed-integer programme: optimal in its class, never better than everything, never above a planner."""

import heapq
import random
import time

import pytest

from course_utils.remat.budget import InfeasibleBudget
from course_utils.remat.exhaustive import exhaustive_optimum, smallest_budget
from course_utils.remat.milp import NoScheduleInTime, milp_optimum, milp_smallest_budget
from course_utils.remat.model import Chain, Graph, Value
from course_utils.remat.networks import residual_chain, transformer
from course_utils.remat.simulate import simulate


def best_in_stages(graph: Graph, budget: float) -> float | None:
    """The optimum of the programme's class, by Dijkstra: stage after stage, at each step make, skip or drop."""
    values, names = graph.values, list(graph.values)
    queue, seen, ticket = [(0, 0, 0, 0, frozenset())], set(), 0
    while queue:
        spent, _, stage, step, alive = heapq.heappop(queue)
        if (stage, step, alive) in seen:
            continue
        seen.add((stage, step, alive))
        if stage == len(names):
            if alive.issuperset(graph.results):
                return spent
            continue
        name = names[step]
        value, last = values[name], step == stage
        following = (stage + 1, 0) if last else (stage, step + 1)
        held = sum(values[other].nbytes for other in alive)
        moves = [(spent, stage, step, alive - {other}) for other in alive]
        fits = held + value.nbytes + value.workspace_bytes <= budget
        ready = all(read in alive or read in graph.inputs for read in value.reads)
        if name not in alive and ready and fits and (last or not value.once):
            moves.append((spent + value.time, *following, alive | {name}))
        if not last:
            moves.append((spent, *following, alive))
        for move in moves:
            ticket += 1
            heapq.heappush(queue, (move[0], ticket, *move[1:]))
    return None


def random_step(rng: random.Random, size: int) -> Graph:
    """A small graph with some values that are made once, as a training step has."""
    values: dict[str, Value] = {}
    for i in range(size):
        earlier = [*values, "x"]
        reads = tuple(rng.sample(earlier[-3:], min(len(earlier), rng.randint(1, 2))))
        once = i >= size // 2
        values[f"v{i}"] = Value(rng.randint(1, 5), rng.randint(1, 4), reads, 0, once)
    read = {name for value in values.values() for name in value.reads}
    return Graph(values, tuple(name for name in values if name not in read), ("x",))


def random_chain(rng: random.Random, stages: int) -> Chain:
    return Chain(
        [rng.randint(1, 9) for _ in range(stages)],
        [rng.randint(1, 9) for _ in range(stages + 1)],
        workspace_bytes=[rng.choice((0, 0, 4)) for _ in range(stages)],
    )


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_against_a_search_of_its_class(seed):
    graph = random_step(random.Random(seed), 6)
    smallest = milp_smallest_budget(graph)
    assert best_in_stages(graph, smallest - 1) is None
    assert smallest >= smallest_budget(graph)
    for budget in (smallest, smallest + 1, smallest + 3):
        found = milp_optimum(graph, budget)
        assert found.status == "optimal"
        assert found.price == simulate(graph, found.schedule)
        assert found.price.peak_bytes <= budget
        assert found.price.time == found.least_time == best_in_stages(graph, budget)
        assert found.price.time >= exhaustive_optimum(graph, budget).price.time


@pytest.mark.parametrize("seed", range(12))
def test_on_chains_it_is_the_optimum_or_says_why_not(seed):
    """A chain goes back in one order only, so all that stages forbid is making a value twice in one."""
    rng = random.Random(seed)
    graph = random_chain(rng, rng.randint(2, 6)).graph()
    least = milp_smallest_budget(graph)
    assert least == smallest_budget(graph)
    for budget in (least, least + 2, least + 6):
        found = milp_optimum(graph, budget).price
        assert found.time == exhaustive_optimum(graph, budget).price.time


@pytest.mark.parametrize("seed", range(8))
def test_never_above_the_persistent_plan_of_a_chain(seed):
    from course_utils.remat.planners import persistent_optimum

    rng = random.Random(100 + seed)
    chain = random_chain(rng, 7)
    graph = chain.graph()
    for share in (0, 0.5, 0.8):
        smallest = milp_smallest_budget(graph)
        budget = round(smallest + share * (sum(chain.activation_bytes) - smallest))
        try:
            plan = persistent_optimum(chain, budget)
        except InfeasibleBudget:
            continue
        assert milp_optimum(graph, budget).price.time <= plan.price.time


def forward_bytes(graph: Graph) -> int:
    return sum(value.nbytes for value in graph.values.values() if not value.once)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("share", [0.75, 0.6])
def test_a_residual_graph_of_16_forward_values_is_proven(share):
    """75 % of the bytes of all its forward values; the peak includes gradients and workspace."""
    graph = residual_chain(8, 16, 16).graph()
    assert sum(not value.once for value in graph.values.values()) == 16
    start = time.perf_counter()
    found = milp_optimum(graph, share * forward_bytes(graph), limit_seconds=30)
    assert found.status == "optimal" and found.price.peak_bytes <= share * forward_bytes(graph)
    assert time.perf_counter() - start < 30


def test_the_block_gives_up_scores_before_products():
    graph = transformer(128, 128, 4).graph()
    found = milp_optimum(graph, 0.8 * forward_bytes(graph))
    assert {"scores", "probs"} >= {
        n for n in found.price.recomputed if graph.values[n].nbytes > 10**5
    }
    assert {"scores", "probs"} & set(found.price.recomputed)


def test_a_budget_below_the_smallest_is_refused_and_the_smallest_named():
    graph = Chain.uniform(4).graph()
    with pytest.raises(InfeasibleBudget, match="the smallest budget that one does is 3 bytes"):
        milp_optimum(graph, 2)
    assert milp_optimum(graph, 3).price.peak_bytes == 3


def test_stopping_early_is_told():
    rng = random.Random(5)
    chain = Chain(
        [rng.randint(50, 99) for _ in range(18)], [rng.randint(50, 99) for _ in range(19)]
    )
    graph = chain.graph()
    try:
        found = milp_optimum(graph, 0.5 * sum(chain.activation_bytes), limit_seconds=1)
    except NoScheduleInTime as none:
        assert "no schedule yet" in str(none)
    else:
        assert found.status == "optimal" or found.status.startswith("stopped: within")
        assert graph.least_time <= found.least_time <= found.price.time
        assert found.price.peak_bytes <= 0.5 * sum(chain.activation_bytes)


def test_times_in_seconds_work_as_counts_do():
    chain = Chain((3, 1, 4, 1, 5), (2, 7, 1, 8, 2, 8))
    seconds = Chain([t * 1.3e-4 for t in chain.forward_times], chain.activation_bytes)
    for budget in (20, 24):
        counted = milp_optimum(chain.graph(), budget).price
        timed = milp_optimum(seconds.graph(), budget).price
        assert timed.recomputed_time == pytest.approx(1.3e-4 * counted.recomputed_time)


def test_nothing_to_decide():
    graph = Graph({"a": Value(1, 2, ("x",), once=True)}, ("a",), ("x",))
    assert milp_optimum(graph, 2).schedule == [("compute", "a")]
    with pytest.raises(InfeasibleBudget, match="is 2 bytes"):
        milp_optimum(graph, 1)
