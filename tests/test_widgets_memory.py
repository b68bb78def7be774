"""The memory timeline's data: what the script reads, and the stored record of the three engines."""

import numpy as np
import pytest

from course_utils import ag
from course_utils.timeline import UNNAMED, Timeline, trace_lines
from course_utils.tracing import PEAK_TOLERANCE_BYTES
from course_utils.widgets.base import script
from course_utils.widgets.memory import _words, recorded_engines, timeline_data
from tests.record_engines import ENGINES, LAYERS, ROWS, WIDTH, answers, record_engines

ACTIVATION = ROWS * WIDTH * 8


@pytest.fixture(scope="module")
def fresh():
    return record_engines()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_stored_record_equals_a_fresh_one(engine, fresh):
    (stored,) = recorded_engines(engine)
    for step, now in zip(stored.steps, fresh[engine], strict=True):
        for word in ("label", "blocks", "current_bytes", "buffers", "made"):
            assert getattr(step, word) == now[word]
        assert {name: tuple(shape) for name, shape in step.shapes.items()} == now["shapes"]
        assert abs(step.peak_bytes - now["peak_bytes"]) <= PEAK_TOLERANCE_BYTES


def test_all_engines_are_asked_at_the_same_moments():
    eager, lazy, remat = (
        [step.label for step in line.steps] for line in recorded_engines(*ENGINES)
    )
    assert eager == lazy == remat
    assert len(eager) == 2 * (LAYERS + 1)


def test_each_engine_holds_what_its_lesson_says():
    eager, lazy, remat = recorded_engines(*ENGINES)
    held = [
        [round(s.current_bytes / ACTIVATION) for s in line.steps] for line in (eager, lazy, remat)
    ]
    assert held[0] == [2, 4, 6, 8, 10, 12, *[12] * 8]
    assert held[1] == [1, 2, 3, 4, 5, 6, 6, *[7] * 7]
    assert held[2] == [1, 1, 1, 2, 2, 2, 1, 4, 3, 2, 2, 3, 2, 2]
    peaks = [round(line.peak_bytes / ACTIVATION) for line in (eager, lazy, remat)]
    assert peaks == [13, 9, 6]


def test_every_array_is_large_enough_to_be_measured():
    assert min(ACTIVATION, WIDTH * WIDTH * 8) >= 256 * 1024


def program():
    a = np.ones(100_000)
    b = a + 1
    del a
    return b


def test_the_script_reads_blocks_that_add_up_with_who_made_them():
    (engine,) = timeline_data(trace_lines(program), title="t")["engines"]
    assert engine["name"] == ""
    assert [[block["name"] for block in step["blocks"]] for step in engine["steps"]] == [
        ["a"],
        ["a", "b"],
        ["b"],
        ["b"],
    ]
    for step in engine["steps"]:
        assert sum(block["bytes"] for block in step["blocks"]) == step["current"] <= step["peak"]
    assert engine["steps"][2]["blocks"][0] == {
        "name": "b",
        "bytes": 800_000,
        "shape": "100000",
        "made": "b = a + 1",
        "state": "",
    }


def test_several_programs_have_names_and_a_step_can_be_left_out():
    lines = trace_lines(program), trace_lines(program)
    assert [e["name"] for e in timeline_data(*lines)["engines"]] == ["program 1", "program 2"]
    titled = timeline_data(*lines, titles=["x", "y"], skip=["del a"])["engines"]
    assert [e["name"] for e in titled] == ["x", "y"]
    assert [len(e["steps"]) for e in titled] == [3, 3]


def test_what_comes_back_is_a_new_buffer_made_by_the_step_that_asked():
    (remat,) = timeline_data(*recorded_engines("rematerialized"))["engines"]
    back = remat["steps"][11]  # backward of Z3: Z1 and Z2 came back, and Z2 has been read
    assert back["label"] == "backward of Z3"
    blocks = {block["name"]: block for block in back["blocks"] if block["name"] != UNNAMED}
    assert (blocks["Z1"]["made"], blocks["Z1"]["state"]) == ("backward of Z3", "again")


def rebound():
    x = np.ones(100_000)
    x = x + 1
    return x


def in_place():
    x = np.ones(100_000)
    x += 1
    return x


def second(function):
    """The second step of a program, by what the widget says of its x."""
    step = timeline_data(trace_lines(function))["engines"][0]["steps"][1]
    (x,) = step["blocks"]
    return x["name"], x["made"], x["state"], step["gone"]


def test_a_name_given_to_another_array_is_a_new_block_and_in_place_is_none():
    assert second(rebound) == ("x", "x = x + 1", "new", ["the old x"])
    assert second(in_place) == ("x", "x = np.ones(100_000)", "", [])


def test_what_was_there_before_the_first_step_is_not_new_and_a_note_says_who_made_what():
    with Timeline() as timeline:
        y = np.ones(100_000)
        timeline.note("forward", y=y)
        gradient = np.zeros(50_000)
        timeline.mark("sum", y=y, gradient=gradient)
        gradient = gradient + 1
        timeline.note("sum", gradient=gradient)
        timeline.mark("layer 9", y=y, gradient=gradient)
    data = timeline_data(timeline, moment="before")
    told = [
        [(block["name"], block["made"], block["state"]) for block in step["blocks"]] + step["gone"]
        for step in data["engines"][0]["steps"]
    ]
    assert told == [
        [("y", "forward", ""), ("gradient", "sum", "new")],
        [("y", "forward", ""), ("gradient", "sum", "new"), "the old gradient"],
    ]
    assert data["moment"] == "before"


def test_on_the_way_back_of_lesson_03_a_checkpoint_is_old_and_a_gradient_the_work_of_its_step():
    names = ("rematerialize", "remat_matmul", "forward_in_segments")
    rematerialize, matmul, forward = answers("03_rematerialization", *names)
    rng = np.random.default_rng(3)
    x = ag.RematTensor(rng.standard_normal((600, 64)))
    weights = [ag.RematTensor(rng.standard_normal((64, 64)), requires_grad=True) for _ in range(4)]
    with Timeline(before={"x": x.value, "w": [w.grad for w in weights]}) as timeline:
        nodes = forward(x, weights, [1], matmul)
        loss = ag.remat_sum(nodes[-1])
        loss.grad = np.array(1.0)

        def arrays():
            values = {f"Y{i}": y.value for i, y in enumerate(nodes)}
            return values | {f"dY{i}": y.grad for i, y in enumerate(nodes)} | {"dL": loss.grad}

        timeline.note("forward", arrays())
        for label, node in zip(["sum", "layer 3", "layer 2"], [loss, *nodes[::-1]], strict=False):
            rematerialize(node)
            timeline.mark(label, arrays())
            node._backward()
            timeline.note(label, arrays())
    told = [
        ({block["name"]: (block["made"], block["state"]) for block in step["blocks"]}, step["gone"])
        for step in timeline_data(timeline)["engines"][0]["steps"]
    ]
    kept = {"Y1": ("forward", "")}
    assert told == [
        (kept | {"dL": ("forward", ""), "Y2": ("sum", "new"), "Y3": ("sum", "new")}, []),
        (kept | {"dY3": ("sum", "new"), "Y2": ("sum", "")}, ["dL", "Y3"]),
        (kept | {"dY2": ("layer 3", "new")}, ["Y2", "dY3"]),
    ]


def test_an_argument_that_is_counted_was_there_before():
    def function(x):
        y = x + 1
        del x
        return y

    (engine,) = timeline_data(trace_lines(function, np.ones(100_000), count=["x"]))["engines"]
    first = {
        block["name"]: (block["made"], block["state"]) for block in engine["steps"][0]["blocks"]
    }
    assert first == {"x": ("", ""), "y": ("y = x + 1", "new")}


def test_the_script_is_small():
    assert len(script("memory_timeline").encode()) < 30_000


def test_the_figure_in_its_stead_is_told_in_short():
    told = _words(timeline_data(*recorded_engines("lazy"), titles=["lazy"]))
    assert len(told) < 300 and "lazy: 14 steps, at most 28.3 MB, in step 9." in told
