"""The cost model: what it refuses, what it counts, and that real arrays come out as it predicts."""

import numpy as np
import pytest

from course_utils.remat.execute import execute, matmul_chain
from course_utils.remat.model import Chain, Graph, Value
from course_utils.remat.plans import plan_schedule, stages_of
from course_utils.remat.simulate import InvalidSchedule, simulate
from course_utils.tracing import PEAK_TOLERANCE_BYTES, Trace

PLANS = [
    [1, 2, 3, 4, 5, 6],
    [[1, 2, 3], 4, 5, 6],
    [[1, 2, 3], [4, 5, 6]],
    [[[1, 2], 3], 4, 5, 6],
    [[1, [2, 3, 4]], 5, 6],
    [[[[1, 2], 3], 4], [5, 6]],
    [[1, 2, 3, 4, 5, 6]],
    [[[[[[1], 2], 3], 4], 5], 6],
]


def two_values() -> Graph:
    return Graph({"a": Value(3, 10, ("x",)), "b": Value(5, 20, ("a",), once=True)}, ("b",), ("x",))


# --- graphs and chains ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "results", "words"),
    [
        ({"a": Value(1, 1, ("b",))}, ("a",), "a reads b, which no value before it is"),
        ({"x": Value(1, 1)}, ("x",), "two values called x"),
        ({"a": Value(-1, 1)}, ("a",), "negative"),
        ({"a": Value(1, -1)}, ("a",), "negative"),
        ({"a": Value(1, 1, workspace_bytes=-1)}, ("a",), "negative"),
        ({"a": Value(1, 1)}, ("b",), "the result b is not among the values"),
    ],
)
def test_a_graph_that_cannot_be_is_refused(values, results, words):
    with pytest.raises(ValueError, match=words):
        Graph(values, results, inputs=("x",))


def test_least_time_counts_every_value_once():
    assert two_values().least_time == 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"activation_bytes": [1, 1]}, "2 stages need 3 activation_bytes, got 2"),
        ({"gradient_bytes": [1]}, "need 3 gradient_bytes, got 1"),
        ({"backward_times": [1]}, "need 2 backward_times, got 1"),
        ({"workspace_bytes": [1, 2, 3]}, "need 2 workspace_bytes, got 3"),
    ],
)
def test_a_chain_says_which_list_has_the_wrong_length(options, words):
    with pytest.raises(ValueError, match=words):
        Chain([1, 1], **{"activation_bytes": [1, 1, 1], **options})


def test_what_a_chain_takes_when_it_is_not_told():
    chain = Chain([1, 2], [3, 4, 5])
    assert chain.backward_times == (2, 4)
    assert chain.gradient_bytes == (3, 4, 5)
    assert chain.workspace_bytes == (0, 0)
    assert chain.stages == 2


def test_the_graph_of_a_chain():
    graph = Chain([1, 2], [3, 4, 5], [7, 8], [6, 7, 8], [1, 2]).graph()
    assert list(graph.values) == ["z1", "z2", "g2", "g1", "g0"]
    assert graph.values["z2"] == Value(2, 5, ("z1",))
    assert graph.values["g2"] == Value(0, 8, ("z2",), once=True)
    assert graph.values["g1"] == Value(8, 7, ("z1", "g2"), 2, once=True)
    assert graph.values["g0"] == Value(7, 6, ("z0", "g1"), 1, once=True)
    assert (graph.inputs, graph.results) == (("z0",), ("g0",))


def test_uniform_chains_with_and_without_gradients():
    assert Chain.uniform(3, nbytes=2).gradient_bytes == (2,) * 4
    assert Chain.uniform(3, gradients=False).gradient_bytes == (0,) * 4


# --- the simulator ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ([("compute", "c")], "step 0: there is no value 'c' to compute"),
        ([("drop", "a")], "step 0: a is dropped, but it is not alive"),
        ([("compute", "b")], "step 0: b reads a, which was not computed yet"),
        ([("compute", "a"), ("compute", "a")], "step 1: a is computed, but it is alive already"),
        (
            [("compute", "a"), ("drop", "a"), ("compute", "b")],
            "step 2: b reads a, which was dropped",
        ),
        ([("compute", "a"), ("drop", "a"), ("drop", "a")], "step 2: a is dropped"),
        (
            [("compute", "a"), ("compute", "b"), ("drop", "b"), ("compute", "b")],
            "step 3: b is computed a second time",
        ),
        ([("keep", "a")], "step 0: a step computes or drops, it does not 'keep'"),
        ([("compute", "a")], "at the end the result b is not alive"),
        ([], "at the end the result b is not alive"),
    ],
)
def test_a_schedule_that_breaks_a_rule_is_found_out_with_its_step(schedule, words):
    with pytest.raises(InvalidSchedule, match=words):
        simulate(two_values(), schedule)


def test_price_by_hand():
    graph = Chain([2, 3], [9, 4, 5], workspace_bytes=[0, 6]).graph()
    schedule = [
        ("compute", "z1"), ("compute", "z2"), ("drop", "z1"), ("compute", "g2"), ("drop", "z2"),
        ("compute", "z1"), ("compute", "g1"), ("drop", "g2"), ("drop", "z1"), ("compute", "g0"),
    ]  # fmt: skip
    price = simulate(graph, schedule)
    # z1; z1 z2; the same; z2 g2; the same; g2 z1; z1 g2 g1 and workspace; without it; z1 g1; g1 g0
    assert price.alive_bytes == (4, 9, 9, 10, 10, 9, 19, 13, 8, 13)
    assert (price.peak_bytes, price.peak_step) == (19, 6)
    assert price.recomputed == {"z1": 1} and price.recomputed_values == 1
    assert price.time == 2 + 3 + 0 + 2 + 6 + 4 and price.recomputed_time == 2


def test_an_empty_graph_costs_nothing():
    price = simulate(Graph({}, ()), [])
    assert (price.peak_bytes, price.time, price.alive_bytes) == (0, 0, ())


# --- plans ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [[2, 1], [1, 3], [1, [1, 2]], [0, 1], [[1], [3]]])
def test_a_plan_names_every_stage_once_in_order(plan):
    with pytest.raises(ValueError, match="a plan names the stages 1 to"):
        plan_schedule(plan)


def test_schedule_of_a_bracket_by_hand():
    assert plan_schedule([[1, 2], 3]) == [
        ("compute", "z1"), ("compute", "z2"), ("drop", "z1"), ("compute", "z3"),
        ("compute", "g3"), ("drop", "z3"),
        ("compute", "g2"), ("drop", "g3"), ("drop", "z2"),
        ("compute", "z1"), ("compute", "g1"), ("drop", "g2"), ("drop", "z1"),
        ("compute", "g0"), ("drop", "g1"),
    ]  # fmt: skip


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_bracket_of_k_stages_costs_all_but_its_last_value_again(plan):
    def again(items) -> int:
        """A bracket runs all its stages but those of its last item; then its inner brackets' turn comes."""
        brackets = [item for item in items if not isinstance(item, int)]
        count = {id(b): len(list(stages_of(b))) - len(list(stages_of(b[-1:]))) for b in brackets}
        return sum(count[id(b)] + again(b) for b in brackets)

    price = simulate(Chain.uniform(6).graph(), plan_schedule(plan))
    assert price.recomputed_values == again(plan)


def test_a_bracket_around_one_stage_and_around_the_last_of_a_bracket_change_nothing():
    assert plan_schedule([[1], [2, 3], [4]]) == plan_schedule([1, [2, 3], 4])
    assert plan_schedule([[1, [2, 3]], 4]) == plan_schedule([[1, 2, 3], 4])


@pytest.mark.parametrize(("stages", "period"), [(100, 1), (100, 10), (100, 25), (400, 20)])
def test_equal_stages_without_gradients(stages, period):
    """Checkpoints and the inside of one segment: AD1-23 has two more, its input and the segment's end."""
    plan = [list(range(i, i + period)) for i in range(1, stages + 1, period)]
    price = simulate(Chain.uniform(stages, gradients=False).graph(), plan_schedule(plan))
    assert price.peak_bytes == max(stages // period - 1 + period - 1, stages * (period == 1))
    assert price.recomputed_values == stages - stages // period


# --- the executor -----------------------------------------------------------------------------------

WIDTHS = (128, 192, 72, 160, 96, 224, 88)  # times 512 rows of float64: 288 KiB to 896 KiB


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((512, WIDTHS[0]))
    weights = [rng.standard_normal((n, m)) / n**0.5 for n, m in zip(WIDTHS, WIDTHS[1:])]
    return x, weights


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_predicted_is_counted_is_traced(network, plan):
    x, weights = network
    chain, functions, _ = matmul_chain(x, weights)
    schedule = plan_schedule(plan)
    price = simulate(chain.graph(), schedule)
    with Trace() as trace:
        run = execute(chain.graph(), functions, schedule, {"z0": x})
        traced_bytes = trace.snapshot().peak_bytes
    assert price.peak_bytes == run.peak_bytes
    assert 0 <= traced_bytes - run.peak_bytes <= PEAK_TOLERANCE_BYTES
    assert price.recomputed_values == run.recomputed_values
    assert price.recomputed == {name: n - 1 for name, n in run.made.items() if n > 1}


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_every_plan_has_the_same_gradients(network, plan):
    x, weights = network
    chain, functions, gradients = matmul_chain(x, weights)
    run = execute(chain.graph(), functions, plan_schedule(plan), {"z0": x})
    z = [x]
    for w in weights:
        z.append(z[-1] @ w)
    g = np.ones_like(z[-1])
    for value, w, gradient in zip(z[-2::-1], weights[::-1], gradients[::-1]):
        np.testing.assert_array_equal(gradient, value.T @ g)
        g = g @ w.T
    np.testing.assert_array_equal(run.results["g0"], g)


def test_the_executor_stops_where_a_value_is_missing(network):
    x, weights = network
    chain, functions, _ = matmul_chain(x, weights)
    with pytest.raises(KeyError):
        execute(chain.graph(), functions, [("compute", "z2")], {"z0": x})
    with pytest.raises(KeyError):
        execute(chain.graph(), functions, [("drop", "z2")], {"z0": x})


def test_the_matmul_chain_tells_its_sizes(network):
    x, weights = network
    chain, _, gradients = matmul_chain(x, weights)
    assert chain.activation_bytes == tuple(512 * width * 8 for width in WIDTHS)
    assert chain.forward_times == (1,) * 6
    assert [g.shape for g in gradients] == [w.shape for w in weights]
