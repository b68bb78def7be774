"""The whole program on a GPU that is none: torch's CPU plays it, with a few functions of torch.cuda put in.

Sizes are tiny and the speeds mean nothing. What is tested is that every row has its numbers or a reason, that
one rung's failure costs one row, and that the file is whole at every moment.
"""

import json
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from course_utils.bench import accuracy, files, gn27, gpu, gpu_tests, ladder, report, rungs
from course_utils.bench.configurations import (
    Configuration,
    ladder_configurations,
)
from course_utils.bench.rungs import LADDER, Rung, dense
from course_utils.bench.targets import targets
from course_utils.cli import bench
from course_utils.errors import CourseError
from course_utils.gpu_timing import Ceilings, CpuClock, sdpa
from course_utils.recorded import Measurement, Recorded
from course_utils.triton_here import HAS_TRITON
from tests import bench_fakes

FAST = Ceilings(copy_bytes_per_second=1e30, matmul_flops_per_second=1e30)
LIMITS = {"capability": (9, 0), "memory_bytes": 10**12}
ALL = ("float16", "bfloat16", "float32")


def out_of_memory(q, k, v, causal=False):
    raise torch.OutOfMemoryError("CUDA out of memory")


def wrong(q, k, v, causal=False):
    return dense(q, k, v, causal) * 1.1


class NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        return dense(q, k, v, causal)

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("no backward yet")


def half(q, k, v, causal=False):
    return NoBackward.apply(q, k, v, causal)


RUNGS = (
    Rung("dense", "dense, torch", dense, ALL, capability=(0, 0), bytes_a_score=10),
    Rung("flash", "PyTorch flash", sdpa("math"), ALL),
    Rung("triton", "Triton", dense, ALL, blocks=lambda n, d, itemsize: (16, 16)),
    Rung("cuda_tiles", "CUDA C++, tiles", dense, ALL, has_backward=False, compiles=True),
    Rung("efficient", "half", half, ALL),
    Rung("math", "wrong", wrong, ALL),
    Rung("cudnn", "memory", out_of_memory, ALL),
)


@pytest.fixture
def no_gpu_memory(monkeypatch):
    stats = {"requested_bytes.all.current": 0, "requested_bytes.all.peak": 10**6}
    for name, value in {
        "synchronize": lambda: None,
        "reset_peak_memory_stats": lambda: None,
        "memory_stats": lambda: stats,
        "empty_cache": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)


@pytest.fixture
def cpu_as_gpu(monkeypatch, no_gpu_memory):
    device = SimpleNamespace(
        name="Invented GPU", major=9, minor=0, total_memory=10**11, multi_processor_count=1
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: device)
    monkeypatch.setattr(gpu, "need_gpu", lambda: None)
    monkeypatch.setattr(gpu, "baseline_backend", lambda: "flash")
    monkeypatch.setattr(gpu, "machine_ceilings", lambda clock: FAST)
    monkeypatch.setattr(gpu, "GpuClock", CpuClock)
    monkeypatch.setattr(gpu, "Step", partial(ladder.Step, device="cpu"))
    monkeypatch.setattr(gpu, "LADDER", RUNGS)
    for name in ("SECONDS_EACH", "GN27_SECONDS"):
        monkeypatch.setattr(gpu, name, {True: 0.0, False: 0.0})
    sizes = [Configuration(n, 16, c, tokens=64, width=32) for n in (32, 64) for c in (False, True)]
    monkeypatch.setattr(gpu, "ladder_configurations", lambda quick, dtype: sizes)
    few = [Configuration(32, 64, True, d, tokens=32, width=64) for d in ("bfloat16", "float32")]
    monkeypatch.setattr(gpu, "accuracy_configurations", lambda: few)
    monkeypatch.setattr(gpu, "measure_gn27", partial(gpu.measure_gn27, device="cpu"))
    monkeypatch.setattr(gpu, "run_gpu_tests", lambda: {"passed": 3, "failed": 0, "skipped": 0})
    for name, value in {"BATCH": 1, "HEADS": 2, "N": 32, "D": 16}.items():
        monkeypatch.setattr(gn27, name, value)
    monkeypatch.setattr(gn27, "sdpa", lambda name: dense)


def rows(data, rung, which="forward"):
    return [row for row in data["ladder"] if (row["rung"], row["pass"]) == (rung, which)]


def test_a_whole_run(cpu_as_gpu, tmp_path, capsys):
    out = tmp_path / "new" / "gpu.json"
    data = gpu.measure_gpu(out=out, say=lambda text: None)
    kept = json.loads(out.read_text("utf-8"))
    assert kept == files.rounded(data) and kept["complete"] is True
    assert list(out.parent.iterdir()) == [out]
    assert len(out.read_bytes()) < 200_000

    assert len(kept["ladder"]) == 4 * (2 * 7 - 1)
    for row in rows(kept, "dense") + rows(kept, "dense", "backward") + rows(kept, "cuda_tiles"):
        assert row["ms_low"] <= row["ms"] <= row["ms_high"] and row["repeats"] >= 2
        assert 0 < max(row["errors"]) < 0.02 and row["ratio"] > 0 and row["tflops"] > 0
    assert all(row["ratio"] == 1 for row in rows(kept, "flash"))
    assert [len(row["errors"]) for row in rows(kept, "dense", "backward")] == [3] * 4
    assert not rows(kept, "cuda_tiles", "backward")

    failed = {row["failed"] for row in rows(kept, "math")}
    assert all("wrong values" in text for text in failed) and "ms" not in rows(kept, "math")[0]
    assert all("CUDA out of memory" in row["skipped"] for row in rows(kept, "cudnn"))
    assert all("no backward yet" in row["failed"] for row in rows(kept, "efficient", "backward"))
    assert all("ms" in row for row in rows(kept, "efficient"))

    assert {(row["dtype"], row["rung"]) for row in kept["accuracy"]} >= {("float32", "dense")}
    assert {row["variant"] for row in kept["gn27"]["rows"]} == set(gn27.VARIANTS)
    assert kept["machine"]["gpu"] == "Invented GPU" and kept["tests"]["passed"] == 3
    assert set(kept["versions"]) == {"python", "torch", "triton", "numpy"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", kept["date"])

    table = report.gpu_report(data)
    assert "FAIL" not in table.split("GN-27")[0] or "wrong values" in table
    assert max(map(len, table.splitlines())) < 200 and len(table) < 9000
    assert "3 passed, 0 failed" in table and Recorded(kept).machine_line in table


def test_the_file_is_whole_after_every_size(cpu_as_gpu, monkeypatch, tmp_path):
    """Ctrl-C, or a machine that is taken away: what was measured stays, and says that it is not all."""
    out, sizes = tmp_path / "gpu.json", []

    def interrupted(*args, **kwargs):
        if len(sizes) == 2:
            raise KeyboardInterrupt
        sizes.append(1)
        return ladder.measure(*args, **kwargs)

    monkeypatch.setattr(gpu, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gpu.measure_gpu(out=out, say=lambda text: None)
    kept = json.loads(out.read_text("utf-8"))
    assert kept["complete"] is False and len(kept["ladder"]) == 2 * 13


def test_a_lost_gpu_ends_the_measuring_and_says_so(cpu_as_gpu, monkeypatch, tmp_path):
    def lost(*args, **kwargs):
        raise ladder.GpuLost("after cuda_tiles the GPU answers no more")

    monkeypatch.setattr(gpu, "measure", lost)
    data = gpu.measure_gpu(out=tmp_path / "gpu.json", say=lambda text: None)
    assert data["complete"] is False and "cuda_tiles" in data["stopped"]
    assert data["tests"]["passed"] == 3 and "stopped: after cuda_tiles" in report.gpu_report(data)


def test_a_rung_that_does_not_compile_is_not_called_again(cpu_as_gpu, monkeypatch):
    calls = []

    def no_compiler(q, k, v, causal=False):
        calls.append(1)
        raise OSError("nvcc is not here")

    broken = Rung("cuda_tiles", "CUDA", no_compiler, ALL, has_backward=False, compiles=True)
    monkeypatch.setattr(gpu, "LADDER", (RUNGS[0], broken))
    data = gpu.measure_gpu(with_tests=False, say=lambda text: None)
    assert calls == [1] and "tests" not in data
    assert all("nvcc is not here" in row["skipped"] for row in rows(data, "cuda_tiles"))


def test_sizes_for_which_no_time_is_left_are_named(cpu_as_gpu, monkeypatch):
    monkeypatch.setattr(gpu, "LADDER_SECONDS", {False: -1, True: -1})
    data = gpu.measure_gpu(with_tests=False, say=lambda text: None)
    assert data["ladder"] == [] and len(data["left_out"]) == 4
    assert data["gn27"]["rows"] and data["accuracy"]


def test_a_fresh_ladder_has_the_face_of_a_recorded_one(cpu_as_gpu):
    record = gpu.measure_ladder(say=lambda text: None)
    assert "measured here" in record.machine_line
    assert set(record.ladder(16)) == {rung.name for rung in RUNGS}
    assert record.at("dense", 64, 16).tflops > 0
    assert "wrong values" in record.at("math", 64, 16).reason


# ---------------------------------------------------------------- one size


def step(n=32, causal=False):
    return ladder.Step(Configuration(n, 16, causal, "float32", tokens=64, width=32), "cpu")


def test_impossible_speed_is_no_number(no_gpu_memory):
    slow = Ceilings(copy_bytes_per_second=1.0, matmul_flops_per_second=1.0)
    found = ladder.measure(
        RUNGS[:2], step(), slow, baseline="flash", seconds_each=0.0, clock=CpuClock(), **LIMITS
    )
    assert all("was not done" in row["failed"] and "ms" not in row for row in found)


def test_a_run_of_many_seconds_is_skipped(no_gpu_memory, monkeypatch):
    monkeypatch.setattr(ladder, "TOO_SLOW_SECONDS", -1)
    found = ladder.measure(
        RUNGS[:1], step(), FAST, baseline="flash", seconds_each=0.0, clock=CpuClock(), **LIMITS
    )
    assert all("TooSlow" in row["skipped"] for row in found)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"capability": (7, 5)}, "needs sm_80"),
        ({"memory_bytes": 10**4}, "needs about"),
    ],
)
def test_what_a_machine_lacks_is_said(limits, reason):
    rung = Rung("dense", "dense", dense, ALL, capability=(8, 0), bytes_a_score=10)
    assert reason in rung.why_not(step().configuration, **LIMITS | limits)
    assert rung.why_not(step().configuration, **LIMITS) == ""


def test_errors_are_those_of_the_timed_function(no_gpu_memory):
    found = ladder.measure(
        RUNGS[:1], step(causal=True), FAST, baseline="flash", seconds_each=0.0, clock=CpuClock(),
        **LIMITS,
    )  # fmt: skip
    assert all(0 < error < 1e-6 for row in found for error in row["errors"])


def test_accuracy_is_told_beside_the_trusted_one(no_gpu_memory):
    configuration = Configuration(32, 16, True, "bfloat16", tokens=32, width=32)
    of = ladder.Step(configuration, "cpu")
    found = accuracy.measure_accuracy(RUNGS, of, **LIMITS)
    by_name = {row["rung"]: row for row in found}
    assert by_name["flash"]["ratios"] == [1.0] * 4 and by_name["flash"]["trusted"] == "flash"
    assert len(by_name["triton"]["ratios"]) == 4 and len(by_name["cuda_tiles"]["ratios"]) == 1
    assert "no backward yet" in by_name["efficient"]["failed"] and "o" in by_name["efficient"]
    assert "out of memory" in by_name["cudnn"]["failed"]


# ---------------------------------------------------------------- the real ladder


def test_the_ladder_names_every_rung_once():
    names = [rung.name for rung in LADDER]
    assert len(set(names)) == len(names) == 9
    assert {"dense", "blockwise", "cuda_tiles", "cuda_tensor_cores", "triton"} < set(names)
    assert {"math", "efficient", "flash", "cudnn"} < set(names)


def test_an_older_gpu_has_fewer_rungs():
    size = Configuration(512, 64, False, "float16")
    there = [r.name for r in LADDER if not r.why_not(size, (7, 5), 16 * 10**9)]
    assert there == ["dense", "blockwise", "cuda_tiles", "math", "efficient"]


def test_the_blocks_of_cuda_are_read_from_its_source(monkeypatch, tmp_path):
    (tmp_path / "cuda").mkdir()
    source = tmp_path / "cuda" / "flash.cu"
    source.write_text(
        "int x; static constexpr int block_q = 4096 / D, block_k = 32;  // block_k = 7\n"
    )
    monkeypatch.setattr(rungs, "KERNELS", tmp_path)
    assert rungs.cuda_blocks("flash")(4096, 128, 2) == (32, 32)
    source.write_text("constexpr int block_q = D == 64 ? 128 : 64, block_k = 32;\n")
    with pytest.raises(ValueError):  # a row without traffic is better than a wrong one
        rungs.cuda_blocks("flash")(4096, 128, 2)


@pytest.mark.parametrize("name", ["cuda_tiles", "cuda_tensor_cores", "triton"])
def test_the_sources_blocks_can_be_read(name):
    rung = next(rung for rung in LADDER if rung.name == name)
    if name == "triton" and not HAS_TRITON:
        pytest.skip("needs Triton")
    if not (gpu_tests.ROOT / "course_utils/kernels/cuda").exists():
        pytest.skip("this copy is without CUDA sources")
    assert all(16 <= block <= 256 for d in (64, 128) for block in rung.blocks(4096, d, 2))


def test_traffic_that_could_not_be_counted_fails_a_target():
    data = bench_fakes.record_data()
    data["ladder"][0] |= {"traffic_failed": "ValueError: no such blocks"}
    line = next(line for line in targets(data) if "traffic" in line["what"])
    assert (line["reached"], line["met"]) == (1, False)
    assert Measurement.of(data["ladder"][0]).traffic_failed == "ValueError: no such blocks"
    assert "traffic could not be counted: ValueError" in report.gpu_report(data)
    assert all(
        line["met"] for line in targets(bench_fakes.record_data()) if "traffic" in line["what"]
    )


def test_traffic_is_counted_where_it_can_be():
    n, d = 1024, 64
    size = Configuration(n, d, False)
    counted = {rung.name: rung for rung in LADDER}
    heads = 16 * 32
    assert counted["dense"].forward_traffic(size) == 2 * heads * (4 * n * n + 6 * n * d)
    rung = replace(counted["triton"], blocks=lambda n, d, itemsize: (128, 64))
    tiles = rung.forward_traffic(size)
    assert tiles == heads * (2 * (2 * n * d + 2 * 8 * n * d) + 4 * n)
    causal = rung.forward_traffic(Configuration(n, d, True))
    assert tiles / 2 < causal < tiles
    assert counted["flash"].forward_traffic(size) is None


def test_dense_is_attention():
    q, k, v = torch.randn(3, 1, 2, 20, 8, dtype=torch.double)
    for causal in (False, True):
        right = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        assert torch.allclose(dense(q, k, v, causal), right)
    assert (dense(q, k, v, True, dropout_p=0.5) != right).any()


def test_every_size_has_the_same_tokens_and_the_sizes_of_the_issue():
    sizes = ladder_configurations(quick=False)
    assert {size.n for size in sizes} == {512, 1024, 2048, 4096, 8192, 16384}
    assert all(size.batch * size.n == 16384 and size.heads * size.d == 2048 for size in sizes)
    assert len(sizes) == len(set(sizes)) == 24
    assert {size.n for size in ladder_configurations(quick=True)} == {1024, 4096, 16384}
    flops = {size.flops(False) for size in sizes if size.n == 2048 and not size.causal}
    assert flops == {4.0 * 2048 * 16384 * 2048}


# ---------------------------------------------------------------- targets


def test_targets_are_read_off_the_file():
    lines = {line["what"]: line for line in targets(bench_fakes.record_data())}
    assert lines["Triton forward, N = 4096: times flash"] == {
        "what": "Triton forward, N = 4096: times flash", "wanted": 1.38, "reached": 1.4, "met": True,
    }  # fmt: skip
    assert lines["Triton backward, N = 16384: times flash"]["reached"] == 1.4
    assert lines["Triton backward: extra bytes grow with N to the power"]["reached"] == 1
    assert lines["Triton forward: extra bytes, over 4 N H a sequence"]["met"]
    assert lines["Triton, float32: largest error, times PyTorch's"]["reached"] == 1.3
    assert not lines["CUDA C++ forward, N = 2048: times flash"]["met"]  # it is not in the record
    assert lines["tests on the GPU that failed"]["met"]


@pytest.mark.parametrize("spoil", ["one missing", "one slow", "more memory", "square memory"])
def test_a_target_is_as_good_as_its_worst_row(spoil):
    data = bench_fakes.record_data()
    mine = [row for row in data["ladder"] if row["rung"] == "triton" and row["n"] == 4096]
    before = [line["what"] for line in targets(data) if line["met"]]
    if spoil == "one missing":
        del mine[0]["ratio"]
    elif spoil == "one slow":
        mine[0]["ratio"] = 1.37
    elif spoil == "more memory":
        mine[0]["extra_bytes_a_sequence"] *= 1.01
    else:
        for row in data["ladder"]:
            row["extra_bytes_a_sequence"] = row["n"] ** 2
    after = [line["what"] for line in targets(data) if line["met"]]
    assert set(after) < set(before)


def test_nothing_measured_meets_no_target():
    assert not any(line["met"] for line in targets({}))


# ---------------------------------------------------------------- the tests on the GPU


MARK = ".".join(["pytest", "mark", "gpu"])  # in one piece, this file would be one of them


def test_gpu_tests_are_counted(tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu\n")
    (folder / "test_kernels.py").write_text(
        f"import pytest\npytestmark = {MARK}\n"
        "def test_a(): pass\ndef test_b(): assert 0\n@pytest.mark.skip\ndef test_c(): pass\n"
    )
    (folder / "test_needs_what_is_absent.py").write_text("import jupyter_that_is_not_there\n")
    found = gpu_tests.run_gpu_tests(tmp_path)
    assert (found["passed"], found["failed"], found["skipped"]) == (1, 1, 1)
    assert found["failures"] == ["test_b"] and found["files"] == ["tests/test_kernels.py"]
    assert found["seconds"] > 0 and found["date"].endswith("Z") and "torch" in found["versions"]


def test_gpu_tests_that_cannot_run_say_why(tmp_path):
    assert gpu_tests.run_gpu_tests(tmp_path)["trouble"] == "no tests are marked gpu"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(f"# {MARK}\nimport time\ntime.sleep(60)\n")
    assert "not finished" in gpu_tests.run_gpu_tests(tmp_path, seconds=0.5)["trouble"]


# ---------------------------------------------------------------- the file, the command


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    file = tmp_path / "gpu.json"
    files.write({"a": 1}, file)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(CourseError, match="No space left.*--out"):
        files.write({"a": 2}, file)
    assert json.loads(file.read_text()) == {"a": 1} and list(tmp_path.iterdir()) == [file]


def test_numbers_are_rounded_and_rows_are_lines():
    data = {"x": 1.23456789, "n": 123456789, "bad": float("nan"), "rows": [{"a": 2.0}, {"a": 1e-9}]}
    text = files.as_text(data)
    assert json.loads(text) == {
        "x": 1.235, "n": 123456789, "bad": None, "rows": [{"a": 2}, {"a": 1e-9}]
    }  # fmt: skip
    assert '  {"a": 2},\n' in text and "2.0" not in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_is_one_clear_line():
    with pytest.raises(CourseError, match="needs a CUDA GPU") as refused:
        bench.main(["gpu"])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "quick", "tests", "name"),
    [
        (["gpu"], False, True, "gpu.json"),
        (["gpu", "--no-tests"], False, False, "gpu.json"),
        (["gpu", "--quick"], True, False, "gpu-quick.json"),
        (["gpu", "--quick", "--tests", "--without", "cuda_tiles"], True, True, "gpu-quick.json"),
    ],
)
def test_the_command_passes_its_options_on(
    monkeypatch, tmp_path, capsys, arguments, quick, tests, name
):
    asked = {}

    def measured(**options):
        asked.update(options)
        return bench_fakes.record_data()

    monkeypatch.setattr(gpu, "measure_gpu", measured)
    assert bench.main(arguments, root=tmp_path) == 0
    assert (asked["quick"], asked["with_tests"]) == (quick, tests)
    assert asked["out"] == tmp_path / "benchmarks" / name
    assert asked["without"] == (["cuda_tiles"] if "--without" in arguments else [])
    assert "Invented GPU" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["cpu", "--quick"], ["tpu"], []])
def test_options_that_mean_nothing_are_refused(arguments):
    with pytest.raises(SystemExit) as stopped:
        bench.main(arguments)
    assert stopped.value.code == 2


def test_a_lost_gpu_ends_with_status_1(monkeypatch, tmp_path):
    lost = bench_fakes.record_data() | {"stopped": "the GPU answers no more"}
    monkeypatch.setattr(gpu, "measure_gpu", lambda **options: lost)
    assert bench.main(["gpu"], root=tmp_path) == 1


def test_what_bench_needs_is_on_a_gpu_machine():
    """torch, triton and numpy; neither matplotlib nor anything of Jupyter."""
    import subprocess
    import sys

    program = (
        "import sys; import course_utils.cli.bench, course_utils.bench.gpu, course_utils.bench.cpu, "
        "course_utils.bench.report; print([m for m in ('matplotlib', 'IPython', 'jupytext', 'nbformat', "
        "'scipy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stderr
