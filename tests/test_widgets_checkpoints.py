"""The checkpoint playground's data: against the simulator, real arrays, plans and the exhaustive search."""

import json

import numpy as np
import pytest

from course_utils.checks import record
from course_utils.plots import collect_figures
from course_utils.remat.budget import InfeasibleBudget
from course_utils.remat.execute import execute, matmul_chain
from course_utils.remat.exhaustive import exhaustive_optimum
from course_utils.remat.networks import u_network
from course_utils.remat.plans import plan_schedule
from course_utils.remat.simulate import simulate
from course_utils.widgets import checkpoints
from course_utils.widgets.base import script
from tests.record_checkpoints import record_network, sets

NAMES = list(checkpoints.NETWORKS)
CHAINS = ["equal", "uneven"]


@pytest.fixture(autouse=True)
def own_record(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_STATE", str(tmp_path))
    monkeypatch.delenv("COURSE_SITE", raising=False)


def network_of(name: str) -> dict:
    return checkpoints.playground_data(name)["networks"][0]


def rows_of(name: str) -> list:
    return [row for rows in network_of(name)["runs"].values() for row in rows]


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_record_equals_a_fresh_one(name):
    stored = json.loads((checkpoints.TRACES / "checkpoints.json").read_text("utf-8"))[name]
    assert stored == json.loads(json.dumps(record_network(name)))


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_what_the_simulator_says(name):
    graph = checkpoints.graph_of(name)
    for peak, time, values, packed in rows_of(name):
        price = simulate(graph, checkpoints.unpack_schedule(graph, packed))
        assert (peak, time, values) == (
            price.peak_bytes,
            price.recomputed_time,
            price.recomputed_values,
        )


@pytest.mark.parametrize("name", CHAINS)
def test_every_row_of_a_chain_is_what_real_arrays_take(name):
    graph = checkpoints.graph_of(name)
    unit = 10**6 if name == "uneven" else graph.values["z1"].nbytes
    sizes = [3 if name == "uneven" else 1] + [
        graph.values[f"z{t}"].nbytes // unit for t in range(1, 9)
    ]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 4 * sizes[0]))
    weights = [rng.standard_normal((4 * n, 4 * m)) for n, m in zip(sizes, sizes[1:])]
    chain, functions, _ = matmul_chain(x, weights)
    for peak, _, values, packed in rows_of(name):
        run = execute(
            chain.graph(), functions, checkpoints.unpack_schedule(graph, packed), {"z0": x}
        )
        assert (run.peak_bytes * unit // (4 * 4 * 8), run.recomputed_values) == (peak, values)


def test_every_row_of_the_u_is_what_real_arrays_take():
    graph, network = checkpoints.graph_of("skip"), u_network(levels=2, rows=16, width=4)
    real = {"encode": "encode1", "pool": "pool1", "deep": "encode2", "up": "up1"}
    real |= {"skip": "skip1", "decode": "decode1"}
    real |= {f"d_{name}": f"d_{other}" for name, other in real.items()}
    real["d_encode_weights"] = "d_encode1_weights"
    for peak, _, values, packed in rows_of("skip"):
        steps = checkpoints.unpack_schedule(graph, packed)
        schedule = [(action, real[name]) for action, name in steps]
        run = execute(network.graph(), network.functions(), schedule, network.inputs)
        assert (run.peak_bytes * 8 * 10**6 // (16 * 4 * 8), run.recomputed_values) == (peak, values)


def bracketed(keep: set[str], way: str) -> list:
    """The plan that keeps these of z1 to z7: each stretch that ends with a kept value is a bracket."""

    def alone(stages: list) -> list:
        return [alone(stages[:-1]), stages[-1]] if len(stages) > 1 else stages

    ends = [0, *(t for t in range(1, 8) if f"z{t}" in keep), 8]
    stretches = [[*range(a + 1, b + 1)] for a, b in zip(ends, ends[1:])]
    return [alone(each) for each in stretches] if way == "alone" else stretches


@pytest.mark.parametrize("way", checkpoints.WAYS)
@pytest.mark.parametrize("name", CHAINS)
def test_keeping_values_of_a_chain_is_a_plan_with_brackets(name, way):
    graph = checkpoints.graph_of(name)
    for keep, row in zip(sets(graph), network_of(name)["runs"][way], strict=True):
        price = simulate(graph, plan_schedule(bracketed(keep, way)))
        assert row[:3] == [price.peak_bytes, price.recomputed_time, price.recomputed_values]


def test_the_values_are_those_of_the_lesson():
    """Everything kept, every other one kept, and nothing: 9, 5 + 1 and 8 + 1 values are alive at the peak."""
    together = network_of("equal")["runs"]["together"]
    unit = checkpoints.graph_of("equal").values["z1"].nbytes
    assert [together[bits][0] // unit for bits in (0b1111111, 0b0101010, 0)] == [9, 6, 9]
    assert [together[bits][2] for bits in (0b1111111, 0b0101010, 0)] == [0, 4, 7]
    assert network_of("equal")["runs"]["alone"][0][2] == 7 * 8 // 2


@pytest.mark.parametrize("name", NAMES)
def test_the_stairs_are_attained_and_never_beaten(name):
    network, rows = network_of(name), [row[:2] for row in rows_of(name)]
    assert all(step in rows for step in network["sets"])
    for peak, time in rows:
        assert min(t for p, t in network["sets"] if p <= peak) <= time
        assert min(t for p, t in network["all"] if p <= peak) <= time
    for stairs in (network["sets"], network["all"]):
        assert stairs == sorted(stairs) and [t for _, t in stairs] == sorted(
            (t for _, t in stairs), reverse=True
        )


@pytest.mark.parametrize("name", NAMES)
def test_the_best_of_all_schedules_are_best_just_below_every_stair_too(name):
    graph, stairs = checkpoints.graph_of(name), network_of(name)["all"]
    with pytest.raises(InfeasibleBudget):
        exhaustive_optimum(graph, stairs[0][0] - 1)
    for (_, time), (next_peak, _) in zip(stairs, stairs[1:]):
        assert exhaustive_optimum(graph, next_peak - 1).price.recomputed_time == time
    assert exhaustive_optimum(graph, stairs[-1][0]).price.recomputed_time == stairs[-1][1] == 0


def test_best_schedules_travel_only_when_their_exercise_is_passed(monkeypatch):
    def shown():
        return [bool(n["best"]) for n in checkpoints.playground_data("uneven", "skip")["networks"]]

    record.store("exercises", "4.4", "failed")
    assert shown() == [False, False]
    record.store("exercises", "4.4", "passed")
    assert shown() == [True, False]
    network = network_of("uneven")
    graph = checkpoints.graph_of("uneven")
    assert [row[:2] for row in network["best"]] == network["all"]
    for row in network["best"]:
        price = simulate(graph, checkpoints.unpack_schedule(graph, row[3]))
        assert row[:2] == [price.peak_bytes, price.recomputed_time]
    monkeypatch.setenv("COURSE_SITE", "anywhere")
    assert shown() == [False, False]


def test_a_schedule_that_no_choice_makes_is_not_in_the_data_of_a_page():
    stored = json.loads((checkpoints.TRACES / "checkpoints.json").read_text("utf-8"))["uneven"]
    secret = stored["best"][0][3]
    assert secret not in json.dumps(checkpoints.playground_data("uneven"))
    record.store("exercises", "4.4", "passed")
    assert secret in json.dumps(checkpoints.playground_data("uneven"))


def test_data_and_script_are_small():
    assert len(json.dumps(checkpoints.playground_data(*NAMES))) < 300_000
    assert len(script("checkpoint_playground").encode()) < 30_000


def test_packing_loses_nothing():
    graph = checkpoints.graph_of("skip")
    for row in rows_of("skip"):
        steps = checkpoints.unpack_schedule(graph, row[3])
        assert checkpoints.pack_schedule(graph, steps) == row[3]


def test_an_unknown_network_is_refused_with_those_there_are():
    with pytest.raises(
        ValueError, match="no network 'tree': the playground has equal, uneven, skip"
    ):
        checkpoints.graph_of("tree")


def test_the_figure_in_its_stead_tells_the_stairs():
    with collect_figures() as figures:
        checkpoints._draw(network_of("uneven"))
    assert "best choices: 0.571 at 14, 0.429 at 15" in figures[0]["text/plain"]


def test_the_picture_is_told_in_short_and_in_the_units_of_the_table():
    for network in checkpoints.playground_data(*NAMES)["networks"]:
        told = checkpoints._words(network)
        assert len(told) < 300 and told.count(" %") == 4
        assert checkpoints._percent(network, network["sets"][0][1]) in told
