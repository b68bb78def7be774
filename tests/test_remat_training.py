"""The rule from a forward graph to a training step, and the three networks that go by it."""

import numpy as np
import pytest
import torch

from course_utils.remat.drops import with_early_drops
from course_utils.remat.execute import execute
from course_utils.remat.milp import milp_optimum
from course_utils.remat.model import Chain
from course_utils.remat.networks import residual_chain, transformer, u_network
from course_utils.remat.simulate import simulate
from course_utils.remat.training import Operation, training_graph
from course_utils.tracing import PEAK_TOLERANCE_BYTES, Trace

# every array has at least 256 KiB, as NumPy keeps temporaries below
NETWORKS = {
    "residual": lambda: residual_chain(4, 512, 96),
    "u": lambda: u_network(3, 8192, 64),
    "one level of a u": lambda: u_network(1, 1024, 64),
    "transformer": lambda: transformer(192, 192, 3),
}


def test_a_chain_is_the_chains_graph():
    chain = Chain((3, 1, 4), (5, 9, 2, 6))
    operations = {
        f"z{t}": Operation(
            chain.forward_times[t - 1],
            chain.activation_bytes[t],
            (f"z{t - 1}",),
            {f"z{t - 1}": (f"z{t - 1}",)},
            weights=True,
        )
        for t in (1, 2, 3)
    }
    ours, theirs = training_graph(operations, {"z0": 5}, wanted=("z0",)), chain.graph()
    renamed = {name.replace("d_z", "g"): value for name, value in ours.values.items()}
    assert list(renamed) == list(theirs.values)
    for name, value in theirs.values.items():
        mine = renamed[name]
        assert {read.replace("d_z", "g") for read in mine.reads} == set(value.reads)
        assert (mine.time, mine.nbytes, mine.workspace_bytes, mine.once) == (
            value.time,
            value.nbytes,
            value.workspace_bytes,
            value.once,
        )
    assert [name.replace("d_z", "g") for name in ours.results] == list(theirs.results)


def test_weights_of_the_first_layer_get_a_step_without_bytes():
    graph = training_graph({"z1": Operation(3, 5, ("x",), {"x": ("x",)}, weights=True)}, {"x": 4})
    step = graph.values["d_z1_weights"]
    assert (step.time, step.nbytes, step.reads, step.once) == (3, 0, ("d_z1", "x"), True)
    assert graph.results == ("d_z1_weights",)


def test_a_second_share_is_workspace_unless_a_sum_hands_it_on():
    def product(read):
        return Operation(2, 7, (read,), {read: (read,)}, weights=True)

    def total(a, b):
        return Operation(1, 7, (a, b), {a: (), b: ()}, is_sum=True)

    both = {"a": product("x"), "b": product("a"), "c": product("a"), "d": total("b", "c")}
    assert training_graph(both, {"x": 7}).values["d_a"].workspace_bytes == 7
    handed = {"a": product("x"), "b": product("a"), "c": total("a", "b")}
    assert training_graph(handed, {"x": 7}).values["d_a"].workspace_bytes == 0


def test_a_value_that_the_loss_does_not_depend_on_gets_no_gradient():
    product = Operation(2, 7, ("x",), {"x": ("x",)}, weights=True)
    graph = training_graph({"a": product, "b": product}, {"x": 7})
    assert "d_a" not in graph.values and "d_b" in graph.values


def test_impossible_shares_are_refused():
    with pytest.raises(ValueError, match="the share of a for x reads what a does not know"):
        training_graph({"a": Operation(1, 1, ("x",), {"x": ("b",)})}, {"x": 1})
    with pytest.raises(ValueError, match="a has weights, so it must send its gradient to one"):
        training_graph(
            {"a": Operation(1, 1, ("x", "y"), {"x": (), "y": ()}, weights=True)}, {"x": 1, "y": 1}
        )


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("share", [None, 0.75])
def test_predicted_peak_is_counted_and_traced(name, share):
    network = NETWORKS[name]()
    graph, functions = network.graph(), network.functions()
    schedule = with_early_drops(graph, list(graph.values))
    if share and name != "one level of a u":
        keep_all_bytes = simulate(graph, schedule).peak_bytes
        schedule = milp_optimum(graph, share * keep_all_bytes).schedule
    price = simulate(graph, schedule)
    with Trace() as trace:
        run = execute(graph, functions, schedule, network.inputs)
        traced_bytes = trace.snapshot().peak_bytes
    assert abs(traced_bytes - price.peak_bytes) <= PEAK_TOLERANCE_BYTES
    assert run.recomputed_values == price.recomputed_values
    no_workspace = simulate(_without_workspace(graph), schedule)
    assert run.peak_bytes == no_workspace.peak_bytes  # the executor sees no workspace


def _without_workspace(graph):
    from dataclasses import replace

    values = {name: replace(value, workspace_bytes=0) for name, value in graph.values.items()}
    return replace(graph, values=values)


@pytest.mark.parametrize("name", ["residual", "u", "transformer"])
def test_every_function_takes_what_the_model_says(name):
    """Byte by byte: each value's size and workspace, one step at a time."""
    network = NETWORKS[name]()
    graph, functions = network.graph(), network.functions()
    there, before_bytes = dict(network.inputs), 0
    with Trace() as trace:
        for value_name, value in graph.values.items():
            read = [there[each] for each in value.reads]
            trace.restart_peak()
            there[value_name] = functions[value_name](*read)
            stats = trace.snapshot()
            held_bytes = stats.current_bytes - before_bytes
            assert held_bytes == max(value.nbytes, 1), value_name  # NumPy's empty array has 1
            taken = before_bytes + value.nbytes + value.workspace_bytes
            assert abs(stats.peak_bytes - taken) <= PEAK_TOLERANCE_BYTES, value_name
            before_bytes = stats.current_bytes


def _torch_forward(name, network, weights, x):
    if name == "residual":
        for k in range(1, len(weights) + 1):
            x = x + torch.tanh(x @ weights[f"f{k}"])
        return x
    if name == "u":
        skips = []
        for k in (1, 2, 3):
            x = torch.tanh(x @ weights[f"encode{k}"])
            skips.append(x)
            x = x.reshape(-1, 4, x.shape[1]).mean(1) if k < 3 else x
        for k in (2, 1):
            x = torch.tanh((x.repeat_interleave(4, 0) + skips[k - 1]) @ weights[f"decode{k}"])
        return x
    tokens, width = x.shape
    y = torch.nn.functional.layer_norm(x, (width,))
    q, k, v = ((y @ weights[n]).reshape(tokens, 3, -1).transpose(0, 1) for n in "qkv")
    context = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    x = x + context.transpose(0, 1).reshape(tokens, width) @ weights["proj"]
    y = torch.nn.functional.layer_norm(x, (width,))
    return x + torch.tanh(y @ weights["up"]) @ weights["down"]


@pytest.mark.parametrize("name", ["residual", "u", "transformer"])
def test_gradients_are_torchs(name):
    network = NETWORKS[name]()
    graph = network.graph()
    budget_bytes = 0.75 * simulate(graph, with_early_drops(graph, list(graph.values))).peak_bytes
    schedule = milp_optimum(graph, budget_bytes).schedule
    run = execute(graph, network.functions(), schedule, network.inputs)
    ((input_name, array),) = network.inputs.items()
    x = torch.from_numpy(array).requires_grad_()
    weights = {n: torch.from_numpy(w).requires_grad_() for n, w in network.weights.items()}
    (0.5 * _torch_forward(name, network, weights, x).square().sum()).backward()
    for weight_name, weight in weights.items():
        theirs = weight.grad.numpy()
        error = np.abs(network.weight_gradients[weight_name] - theirs).max()
        assert error <= 1e-11 * np.abs(theirs).max(), weight_name
    if network.wanted:
        theirs = x.grad.numpy()
        assert np.abs(run.results[f"d_{input_name}"] - theirs).max() <= 1e-11 * abs(theirs).max()


def test_shapes_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="3 heads do not share 10 columns"):
        transformer(6, 10, 3)
    with pytest.raises(ValueError, match="6 rows cannot be quartered"):
        u_network(levels=2, rows=6, width=4)
