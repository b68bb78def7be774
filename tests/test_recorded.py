"""Kept measurements are read as they were written, and what is not there is said."""

import json
import subprocess
import sys

import pytest

from course_utils.errors import CourseError
from course_utils.recorded import FOLDER, Recorded, recorded
from tests import bench_fakes


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "gpu.json").write_text(json.dumps(bench_fakes.record_data()), "utf-8")
    return tmp_path


def test_machine_versions_and_date_come_in_one_line(folder):
    record = recorded("gpu", folder)
    line = "Invented GPU, torch 2, triton 3, recorded 2001-02-03"
    assert (record.machine_line, str(record)) == (line, line)
    assert Recorded(record.data, is_fresh=True).machine_line.endswith("measured here 2001-02-03")


def test_the_ladder_comes_by_rung_and_size(folder):
    ladder = recorded("gpu", folder).ladder(d=128, causal=True)
    assert list(ladder) == list(bench_fakes.RUNGS)
    assert list(ladder["triton"]) == [2048, 4096, 8192, 16384]
    m = ladder["triton"][4096]
    assert (m.rung, m.n, m.d, m.causal, m.passes) == ("triton", 4096, 128, True, "forward")
    assert m.ratio == 1.4 and m.errors == (0.002,) and m.reason == ""
    assert ladder["dense"][16384].reason.startswith("needs about")


def test_passes_are_apart(folder):
    record = recorded("gpu", folder)
    assert "cuda_tiles" not in record.ladder(64, False, "backward")
    forward, backward = (record.at("triton", 4096, passes=p) for p in ("forward", "backward"))
    assert len(forward.errors) == 1 and len(backward.errors) == 3


def test_the_rest_has_names_too(folder):
    record = recorded("gpu", folder)
    assert (record.matmul_tflops, record.copy_tb_per_second) == (800, 4)
    assert record.gn27_row("flash")["runtime_ratio"] == 5 and record.gn27["sizes"]["n"] == 1024
    assert record.tests["passed"] == 7 and record.baseline == "flash"
    assert record.accuracy[0]["ratios"] == [1.0, 1.1, 1.2, 1.3] and record.targets == []


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda r: r.at("tritn", 4096), "there are: dense, cuda_tiles, triton, flash"),
        (lambda r: r.at("triton", 999), "but at 2048, 4096, 8192, 16384"),
        (lambda r: r.gn27_row("cudnn"), "not measured for 'cudnn'"),
    ],
)
def test_what_was_not_measured_is_said(folder, ask, says):
    with pytest.raises(CourseError, match=says):
        ask(recorded("gpu", folder))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            None,
            "there are no measurements in benchmarks/gpu.json; make them with: python course.py",
        ),
        ("{", "can't be read"),
        ("[]", "not of schema"),
        ('{"schema": 99}', "not of schema"),
    ],
)
def test_a_file_that_is_not_there_or_broken_gets_one_clear_line(tmp_path, text, says):
    if text is not None:
        (tmp_path / "gpu.json").write_text(text)
    with pytest.raises(CourseError, match=says) as error:
        recorded("gpu", tmp_path)
    assert "\n" not in str(error.value)


def test_reading_loads_nothing_heavy():
    program = (
        "import sys, course_utils.recorded; "
        "print([m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stderr


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_what_is_kept_is_real_and_complete(kind):
    """If there is a file, it was written by a full run on a machine that is named."""
    if not (FOLDER / f"{kind}.json").exists():
        pytest.skip("nothing was recorded as yet")
    record = recorded(kind)
    assert record.machine and "Invented" not in record.machine
    assert record.data["command"] == f"python course.py bench {kind}"
    assert (FOLDER / f"{kind}.json").stat().st_size < 200_000
    if kind == "gpu":
        assert record.data["complete"] and not record.data["quick"]
        assert "left_out" not in record.data, "no time was left for some sizes: run it again"
        assert record.tests["failed"] == 0 and record.tests["passed"] > 0
    else:
        assert {row["rung"] for row in record.data["rows"]} == {"dense", "blockwise"}
