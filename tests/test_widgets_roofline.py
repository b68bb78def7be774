"""The roofline's data against lesson 06's own functions and the memory that counts, and what a record becomes."""

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from course_utils.authoring.source import read_lesson
from course_utils.hierarchy import HBM, SRAM
from course_utils.widgets import base, roofline
from course_utils.widgets.roofline import DS, NS, OPERATIONS, record_data, roofline_data
from tests.attention_on_chip import standard_attention

LESSON = Path(__file__).parents[1] / "solutions" / "06_tiling.py"
ROOFS = {"a laptop": (1e11, 1e10), "A100": (312e12, 1935e9)}


@pytest.fixture(scope="module")
def lesson():
    """attention_intensity and matmul_cost as lesson 06 has them, by name."""
    names = {"math": math}
    for cell in read_lesson(LESSON).cells:
        if "def attention_intensity" in cell.text or "def matmul_cost" in cell.text:
            exec(cell.text, names)
    return names


def grid(data, name):
    """(n, d, operations a number) of an operation's whole grid."""
    (found,) = [each for each in data["operations"] if each["name"] == OPERATIONS[name].name]
    for d, row in zip(data["ds"], found["grid"], strict=True):
        for n, value in zip(data["ns"], row, strict=True):
            yield n, d, value


@pytest.mark.parametrize("itemsize", [2, 4])
def test_the_grid_holds_lesson_06s_intensities(lesson, itemsize):
    data = roofline_data(ROOFS, {}, ("product", "scores", "kernels"))
    for n, d, value in grid(data, "kernels"):
        right = lesson["attention_intensity"](n, d, itemsize=itemsize)
        assert value / itemsize == pytest.approx(right, rel=1e-4)
    for name in ("product", "scores"):
        for n, d, value in grid(data, name):
            flops, moved = lesson["matmul_cost"](n, n, n if name == "product" else d, itemsize)
            assert value / itemsize == pytest.approx(flops / moved, rel=1e-4)
    assert (data["ns"], data["ds"]) == (list(NS), list(DS))


def test_standard_attention_moves_what_the_memory_counts():
    n, d = 128, 16
    rng, hbm = np.random.default_rng(0), HBM()
    q, k, v = (hbm.array(rng.standard_normal((n, d))) for _ in range(3))
    s, p, o = hbm.empty((n, n)), hbm.empty((n, n)), hbm.empty((n, d))
    with SRAM(10**6, hbm) as sram:
        standard_attention(sram, q, k, v, s, p, o, roofline.BLOCK, 32, d**-0.5)
    assert OPERATIONS["standard"].cost(n, d) == (4 * n * n * d, hbm.bytes_moved // 8)


def test_flash_does_as_many_operations_a_byte_as_a_block_has_queries():
    for d in DS:
        assert OPERATIONS["flash"].intensity(2**17, d) / 2 == pytest.approx(
            roofline.BLOCK, rel=1e-2
        )
        assert OPERATIONS["flash"].intensity(4096, d) > OPERATIONS["standard"].intensity(4096, d)


def test_points_stand_under_the_first_roof():
    data = roofline_data(ROOFS, {"1 column": (0.5, 4e9)}, ("product",))
    assert [roof["measured"] for roof in data["roofs"]] == [
        [{"name": "1 column", "at": 0.5, "flops": 4e9}], []
    ]  # fmt: skip
    assert (data["ns"][data["start"][0]], data["ds"][data["start"][1]]) == (4096, 64)
    assert len(json.dumps(data, allow_nan=False)) < 20_000


def row(n, d, tflops, traffic=None, reason="", passes="forward", causal=False):
    return SimpleNamespace(
        n=n, d=d, tflops=tflops, ms=2.0, traffic_bytes=traffic, reason=reason, passes=passes, causal=causal
    )  # fmt: skip


def a_record(rows):
    """The face of `course_utils.recorded.Recorded`, over rung -> rows."""

    def ladder(d=64, causal=False, passes="forward"):
        wanted = (d, causal, passes)
        return {
            rung: {m.n: m for m in each if (m.d, m.causal, m.passes) == wanted}
            for rung, each in rows.items()
        }

    return SimpleNamespace(
        machine="a GPU", machine_line="a GPU, recorded some day", matmul_tflops=800.0,
        copy_tb_per_second=4.0, titles={rung: rung.title() for rung in rows},
        measurements=[m for each in rows.values() for m in each], ladder=ladder,
    )  # fmt: skip


RECORD = a_record(
    {
        "dense": [row(1024, 64, 100.0, 8 * 10**9), row(4096, 64, 0.0, reason="too large")],
        "flash": [row(1024, 64, 300.0), row(4096, 64, 320.0), row(512, 64, 1.0, passes="backward")],
        "triton": [row(4096, 128, 400.0, 10**10), row(2048, 64, 1.0, causal=True)],
    }
)


def test_a_record_becomes_rungs_by_size():
    data = record_data(RECORD)
    assert (data["ns"], data["ds"]) == ([1024, 4096], [64, 128])
    assert data["roofs"] == [{"name": "a GPU", "flops": 8e14, "bytes": 4e12, "measured": []}]
    dense, flash = data["rungs"]["1024/64"]
    assert dense == {"name": "Dense", "at": 25.0, "flops": 1e14}  # 1e14 * 0.002 s / 8e9 bytes
    assert flash == {"name": "Flash", "at": None, "flops": 3e14}
    assert data["rungs"]["4096/64"][0]["reason"] == "too large"
    assert [each["name"] for each in data["rungs"]["4096/128"]] == ["Triton"]
    assert data["source"] == "a GPU, recorded some day"


def test_a_record_without_rows_still_has_its_roof():
    data = record_data(a_record({}))
    assert (data["ns"], data["ds"], data["rungs"], data["start"]) == ([4096], [64], {}, [0, 0])


@pytest.fixture
def shown(monkeypatch):
    bundles = []
    monkeypatch.setattr(base, "display", lambda bundle, **_: bundles.append(bundle))
    monkeypatch.setenv("COURSE_STATIC", "1")
    yield bundles
    assert not plt.get_fignums(), "a figure was left open"


def test_lesson_06s_figure_and_table_stand_in_its_place(shown):
    points = {"1 column": (0.5, 4e9)}
    roofline.move_under_roofs(ROOFS, points, {"attention": 18.7}, "A title")
    (bundle,) = shown
    assert "A title" in bundle["text/plain"] and "attention: intensity 18.7" in bundle["text/plain"]
    assert len(re.findall("<tr>", bundle["text/html"])) == 1 + 3 * 3
    assert "<td>18.5</td><td>0.1 TFLOP/s</td><td>35.9 TFLOP/s</td>" in bundle["text/html"]


def test_a_records_own_figure_stands_in_its_place(shown):
    drawn = []

    def figure(record):
        drawn.append(record)
        roofline.tiling_plots.roofline({"a GPU": (8e14, 4e12)}, {"x": (1, 1e12)})

    roofline.rungs_under_roof(RECORD, figure)
    assert drawn == [RECORD]
    text = shown[0]["text/html"]
    assert "<td>unknown</td><td>measured: 320 TFLOP/s</td>" in text and "too large" in text


def test_its_script_is_small():
    assert len(base.script("roofline").encode()) < 30_000
