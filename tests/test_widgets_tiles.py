"""Tiles in motion: its records against fresh runs, and its script against the chip itself."""

import json
import subprocess

import matplotlib.pyplot as plt
import numpy as np
import pytest

from course_utils import flash_plots, tiling_plots
from course_utils.attention.traffic import tiled_matmul_traffic
from course_utils.hierarchy import HBM, SRAM, SRAMOverflow
from course_utils.widgets import base, tiles
from course_utils.widgets.packed_events import pack, unpack
from course_utils.widgets.tile_places import place_matrices
from tests.attention_on_chip import standard_attention, tiled_matmul
from tests.record_tiles import RECORDED, ROOMY, record

DATA = {"tiled_product": tiles.product_data(), "flash_attention": tiles.flash_data()}
LARGEST_DATA_BYTES, LARGEST_SCRIPT_BYTES = 300_000, 30_000


@pytest.fixture
def shown(monkeypatch):
    """What would be shown: script, data, and the table; the figures' alternative texts."""
    calls, texts = [], []
    for module in (tiling_plots, flash_plots):
        monkeypatch.setattr(module, "show_figure", lambda figure, alt: texts.append(alt))

    def show(name, data, figure, rows, **state):
        figure()
        calls.append((name, json.loads(json.dumps(data)), rows))

    monkeypatch.setattr(tiles, "show", show)
    yield calls, texts
    plt.close("all")


def product(matrix_a, matrix_b, program, capacity_bytes=ROOMY, record=True) -> SRAM:
    hbm = HBM()
    A, B = hbm.array(matrix_a, "A"), hbm.array(matrix_b, "B")
    C = hbm.empty((len(matrix_a), matrix_b.shape[1]), name="C")
    with SRAM(capacity_bytes, hbm, record=record) as sram:
        program(sram, A, B, C)
    return sram


def naive(sram, A, B, C):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            sram.store(C[i, j], sram.load(A[i]) @ sram.load(B[:, j]))


def tiled(sram, A, B, C):
    tiled_matmul(sram, A, B, C, 16, 16, 16)


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_stored_is_what_the_programs_do(name):
    stored = json.loads((tiles.TRACES / f"{name}.json").read_text("utf-8"))
    assert stored == json.loads(json.dumps(record(name)))


@pytest.mark.parametrize("name", RECORDED)
def test_a_packed_run_is_the_run_and_moves_its_closed_form(name):
    data = DATA[name]
    for key, formula, run in RECORDED[name]():
        chip = run(ROOMY)
        assert tuple(unpack(data["runs"][key], data["subjects"])) == chip.events
        assert (chip.hbm.bytes_read, chip.hbm.bytes_written) == formula == data["formulas"][key]


def test_single_numbers_can_be_packed_too():
    events = product(np.ones((3, 4)), np.ones((4, 2)), naive).events
    subjects: dict = {}
    assert any(event.block == -1 for event in events)
    assert tuple(unpack(pack(events, subjects), subjects)) == events


@pytest.mark.parametrize("name", DATA)
def test_data_are_plain_and_small_and_every_choice_has_a_run(name):
    data = DATA[name]
    assert len(json.dumps(data)) < LARGEST_DATA_BYTES
    keys = [""]
    for control in data["controls"]:
        values = control.get("options") or control["values"]
        assert control["start"] in map(str, values)
        keys = [f"{key}/{value}".strip("/") for key in keys for value in values]
    assert sorted(keys) == sorted(data["runs"]) and data["capacity"] in data["capacities"]
    assert data["most"] == max(sum(formula) for formula in data["formulas"].values())


def test_the_largest_chip_fits_every_run_and_the_smallest_none():
    for data in DATA.values():
        peaks = [max(e.live_bytes for e in events) for events in tiles._events(data).values()]
        assert min(data["capacities"]) < min(peaks)
        assert max(data["capacities"]) >= max(peaks)


def test_the_script_is_small_enough():
    assert len(base.script("tiles_in_motion").encode()) < LARGEST_SCRIPT_BYTES


def node() -> str:
    """Playwright brings a JavaScript engine along: no browser is needed to try a script's arithmetic."""
    driver = pytest.importorskip("playwright._impl._driver")
    program = driver.compute_driver_executable()
    return str(program[0] if isinstance(program, tuple) else program)


@pytest.mark.parametrize("name", RECORDED)
def test_the_script_overflows_where_the_chip_does_and_counts_as_it_counts(name, tmp_path):
    """The error's own words, or the bytes read and written."""
    data = DATA[name]
    asked = """
      const told = {};
      for (const [key, codes] of Object.entries(data.runs)) for (const capacity of data.capacities) {
        const last = stepsOf(decode(codes, data.subjects), EVERY, capacity).at(-1);
        told[`${key} ${capacity}`] = last.overflow ? inWords(last, capacity) : [last.read, last.written];
      }
      console.log(JSON.stringify(told));
    """
    told = []
    for every in ("false", "true"):
        program = tmp_path / f"{every}.mjs"
        lines = [base.script("tiles_in_motion"), f"const data = {json.dumps(data)};", asked]
        program.write_text("\n".join(lines).replace("EVERY", every), "utf-8")
        run = subprocess.run([node(), program], capture_output=True, text=True, check=True)
        told.append(json.loads(run.stdout))
    assert told[0] == told[1]
    overflows = 0
    for number, (key, formula, run) in enumerate(RECORDED[name]()):
        for capacity in data["capacities"][number % 4 :: 4]:  # each run at some of them
            try:
                run(capacity)
                expected = list(formula)
            except SRAMOverflow as error:
                expected = f"SRAMOverflow: {error}".split(" On chip:")[0]
                overflows += 1
            assert told[0][f"{key} {capacity}"] == expected
    assert 0 < overflows < len(told[0])


@pytest.mark.parametrize(
    "shapes",
    [tiles.PRODUCT, tiles.ATTENTION | tiles.VECTORS, {"Q": (500, 4), "K": (9, 4), "S": (500, 9)}],
)
def test_tiles_are_in_line_with_what_they_meet_and_in_the_picture(shapes):
    layout = place_matrices(shapes)
    places, (wide, high) = layout["places"], layout["size"]
    rows, columns, both = "ABC" if "A" in shapes else ("Q", "K", "S" if "S" in shapes else "scores")
    for side, length, other in (("y", "high", rows), ("x", "wide", columns)):
        assert places[both][side] == places[other][side]
        assert places[both][length] == places[other][length]
    for place in places.values():
        assert 0 <= place["x"] < place["x"] + place["wide"] <= wide
        assert 0 < place["y"] < place["y"] + place["high"] <= high
    assert set(shapes) <= set(places)


def test_the_recorded_ones_have_a_figure_and_a_table_in_their_stead(shown):
    calls, texts = shown
    tiles.step_through_product()
    tiles.step_through_flash()
    assert [name for name, _, _ in calls] == ["tiles_in_motion"] * 2
    assert "moment 8" in texts[0] and "queries outside: 3 tiles of Q" in texts[1]
    assert (
        '<th scope="row">16 x 16</th><td>24</td><td>4</td><td>35,840</td><td>6,144</td>'
        in (calls[0][2])
    )
    assert "keys (Algorithm 1) outside, every key, 8 x 8" in calls[1][2]
    assert calls[1][2].count("<tr>") == 1 + 10 and "10 of the 64 runs" in calls[1][2]


def test_your_own_run_shows_its_arrays_its_chip_and_the_formula_if_there_is_one(shown):
    calls, texts = shown
    chip = product(np.ones((40, 50)), np.ones((50, 60)), tiled, 6_144)
    tiles.tiles_in_motion(chip, "Yours", tiled_matmul_traffic(40, 60, 50, 16, 16))
    tiles.tiles_in_motion(chip)
    data = calls[0][1]
    assert data["arrays"] == {"A": [40, 50], "B": [50, 60], "C": [40, 60]}
    assert data["capacity"] == 6_144 and not data["note"]
    assert data["formulas"] == {"": [chip.hbm.bytes_read, chip.hbm.bytes_written]}
    assert tuple(unpack(data["runs"][""], data["subjects"])) == chip.events
    assert calls[1][1]["formulas"] == {} and calls[1][1]["most"] == chip.hbm.bytes_moved
    assert "Yours" in texts[0]


def test_standard_attention_can_be_stepped_through_as_well(shown):
    hbm = HBM()
    inputs = [hbm.array(np.ones((12, 4)), name) for name in "QKV"]
    outputs = [
        hbm.empty(shape, name=name) for name, shape in zip("SPO", [(12, 12)] * 2 + [(12, 4)])
    ]
    with SRAM(ROOMY, hbm, record=True) as sram:
        standard_attention(sram, *inputs, *outputs, 4, 4, 0.5)
    tiles.tiles_in_motion(sram)
    data = shown[0][0][1]
    assert list(data["arrays"]) == ["Q", "K", "V", "S", "P", "O"]
    assert "scores" not in data["places"] and data["places"]["S"]["label"] == "S"


def test_a_very_long_run_is_cut_and_says_so(shown, monkeypatch):
    monkeypatch.setattr(tiles, "EVENTS_AT_MOST", 10)
    tiles.tiles_in_motion(product(np.ones((3, 4)), np.ones((4, 2)), naive))
    data = shown[0][0][1]
    assert len(list(unpack(data["runs"][""], data["subjects"]))) == 10
    assert data["note"] == "The first 10 events of 30."


def test_an_attention_may_have_an_array_called_a(shown):
    hbm = HBM()
    arrays = {name: hbm.array(np.ones((8, 4)), name) for name in "QKVO"}
    scores = hbm.array(np.zeros((8, 8)), "A")
    with SRAM(ROOMY, hbm, record=True) as sram:
        q, k, v = (sram.load(arrays[name]) for name in "QKV")
        weights = q @ k.T
        sram.store(scores, weights)
        sram.store(arrays["O"], weights @ v)
    tiles.tiles_in_motion(sram)
    data = shown[0][0][1]
    assert {"Q", "K", "O", "scores"} <= set(data["places"]) and "A" not in data["places"]
    assert shown[1]  # its figure


def test_runs_that_cannot_be_drawn_are_refused():
    with pytest.raises(ValueError, match="record=True"):
        tiles.tiles_in_motion(product(np.ones((2, 2)), np.ones((2, 2)), naive, record=False))
    hbm = HBM()
    with SRAM(ROOMY, hbm, record=True) as sram:
        sram.load(hbm.array(np.ones(3), "X"))
    with pytest.raises(ValueError, match="the run moved X"):
        tiles.tiles_in_motion(sram)
