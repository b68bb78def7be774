"""The memory timeline's data: what the script reads, and the stored record of the three engines."""

import numpy as np
import pytest

from course_utils.timeline import UNNAMED, trace_lines
from course_utils.tracing import PEAK_TOLERANCE_BYTES
from course_utils.widgets.base import script
from course_utils.widgets.memory import recorded_engines, timeline_data
from tests.record_engines import ENGINES, LAYERS, ROWS, WIDTH, record_engines

ACTIVATION = ROWS * WIDTH * 8


@pytest.fixture(scope="module")
def fresh():
    return record_engines()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_stored_record_equals_a_fresh_one(engine, fresh):
    (stored,) = recorded_engines(engine)
    for step, now in zip(stored.steps, fresh[engine], strict=True):
        assert (step.label, step.blocks, step.current_bytes) == (
            now["label"],
            now["blocks"],
            now["current_bytes"],
        )
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
    }


def test_several_programs_have_names_and_a_step_can_be_left_out():
    lines = trace_lines(program), trace_lines(program)
    assert [e["name"] for e in timeline_data(*lines)["engines"]] == ["program 1", "program 2"]
    titled = timeline_data(*lines, titles=["x", "y"], skip=["del a"])["engines"]
    assert [e["name"] for e in titled] == ["x", "y"]
    assert [len(e["steps"]) for e in titled] == [3, 3]


def test_what_comes_back_keeps_the_label_under_which_it_was_first_there():
    (remat,) = timeline_data(*recorded_engines("rematerialized"))["engines"]
    back = remat["steps"][11]  # backward of Z3: Z1 and Z2 came back, and Z2 has been read
    assert back["label"] == "backward of Z3"
    made = {block["name"]: block["made"] for block in back["blocks"] if block["name"] != UNNAMED}
    assert made["Z1"] == "Z1 = X W1"


def test_the_script_is_small():
    assert len(script("memory_timeline").encode()) < 30_000
