"""course.py bench gpu: climb the ladder on the GPU at hand, and keep what was measured.

The file is written again after every step, whole each time: a run that is cut short leaves what it had, and
says so. What matters most comes first, and the ladder stops early enough for the rest to be done.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch

from course_utils.bench import files
from course_utils.bench.accuracy import (
    accuracy_configurations,
    exact_arithmetic,
    measure_accuracy,
)
from course_utils.bench.configurations import (
    TOKENS,
    WIDTH,
    Configuration,
    ladder_configurations,
)
from course_utils.bench.gn27 import measure_gn27
from course_utils.bench.gpu_tests import run_gpu_tests
from course_utils.bench.ladder import GpuLost, Step, measure, words
from course_utils.bench.rungs import LADDER, Rung
from course_utils.bench.targets import targets
from course_utils.errors import CourseError
from course_utils.gpu_timing import GpuClock, baseline_backend, machine_ceilings
from course_utils.recorded import Recorded

LADDER_SECONDS = {False: 240, True: 60}  # by quick: no size of the ladder begins later than this
SECONDS_EACH = {False: 0.2, True: 0.06}  # of a rung and pass, at one size
GN27_SECONDS = {False: 0.5, True: 0.1}
CONVENTIONS = (
    "flops: 4 n^2 d a head, half of it when causal, backward 2.5 times, for every rung; of_matmul: part of the "
    "measured rate of a matrix product (8192, bf16); ms: median of interleaved runs, a tenth below ms_low, a "
    "tenth above ms_high, L2 flushed; forward without autograd; ratio: times as fast as the baseline in the same "
    "run; extra_bytes: most alive besides the results, forward as for training; errors: relative to float64 by "
    "norm, on two heads, of o or of dq, dk, dv; traffic_bytes: what the blocks load and store, some of it from L2"
)


class Program:
    """One run: its rungs, its clock, the data so far, and where they go."""

    def __init__(self, rungs: Sequence[Rung], quick: bool, out: Path | None, say: Callable):
        self.rungs, self.quick, self.out, self._say = list(rungs), quick, out, say
        self.start = time.monotonic()
        command = "python course.py bench gpu" + " --quick" * quick
        self.data = files.header("gpu", command) | {"quick": quick, "complete": False}
        self.clock = None
        self.limits: dict = {}

    def say(self, text: str) -> None:
        self._say(f"[{time.monotonic() - self.start:4.0f} s] {text}")

    def save(self) -> None:
        if self.out:
            files.write(self.data, self.out)

    def prepare(self) -> None:
        """The machine and its ceilings; then each rung once, small, which compiles what there is to."""
        exact_arithmetic()
        self.clock = GpuClock()
        device = torch.cuda.get_device_properties(0)
        self.limits = {
            "capability": (device.major, device.minor),
            "memory_bytes": device.total_memory,
        }
        self.data |= {
            "machine": files.gpu_machine(),
            "conventions": CONVENTIONS,
            "sizes": {"tokens": TOKENS, "width": WIDTH, "dtype": "bfloat16"},
            "rungs": {rung.name: rung.title for rung in self.rungs},
            "baseline": baseline_backend(),
        }
        self.say("ceilings: a large copy, a large matrix product")
        self.ceilings = machine_ceilings(clock=self.clock)
        self.data["ceilings"] = vars(self.ceilings)
        self.data["first_call_seconds"] = {}
        self.first_calls()
        self.save()

    def first_calls(self) -> None:
        """Call every rung once; nvcc works for its rungs beside the others, since nothing is timed yet."""
        with ThreadPoolExecutor() as pool:
            compiling = {r.name: pool.submit(self.first_call, r) for r in self.rungs if r.compiles}
            called = {r.name: self.first_call(r) for r in self.rungs if not r.compiles}
            called |= {name: future.result() for name, future in compiling.items()}
        self.rungs = [called[rung.name] for rung in self.rungs]

    def first_call(self, rung: Rung) -> Rung:
        """The rung, called once; marked as broken if it raised."""
        small = Configuration(128, 64, False, self.dtype, tokens=128, width=128)
        if rung.why_not(small, **self.limits):
            return rung
        self.say(f"first call: {rung.title}")
        begin = time.monotonic()
        try:
            Step(small).forward(rung)
            torch.cuda.synchronize()
        except Exception as error:
            self.say(f"{rung.title} does not run: {words(error)}")
            return replace(rung, broken=words(error))
        self.data["first_call_seconds"][rung.name] = time.monotonic() - begin
        return rung

    @property
    def dtype(self) -> str:
        return "bfloat16" if self.limits["capability"] >= (8, 0) else "float16"

    def ladder(self) -> None:
        rows = self.data.setdefault("ladder", [])
        self.data["sizes"]["dtype"] = self.dtype
        for configuration in ladder_configurations(self.quick, self.dtype):
            if time.monotonic() - self.start > LADDER_SECONDS[self.quick]:
                self.data.setdefault("left_out", []).append(f"{configuration}: no time left")
                continue
            self.say(f"ladder: {configuration}")
            rows += measure(
                self.rungs,
                Step(configuration),
                self.ceilings,
                baseline=self.data["baseline"],
                seconds_each=SECONDS_EACH[self.quick],
                clock=self.clock,
                **self.limits,
            )
            torch.cuda.empty_cache()
            self.save()
        order = [rung.name for rung in self.rungs]
        rows.sort(
            key=lambda r: (
                r["pass"] != "forward",
                r["d"],
                r["causal"],
                order.index(r["rung"]),
                r["n"],
            )
        )

    def gn27(self) -> None:
        self.say("GN-27: forward and backward, N = 1024, d = 64, 16 heads, a batch of 64")
        seconds = GN27_SECONDS[self.quick]
        found = measure_gn27(self.rungs, seconds_each=seconds, clock=self.clock, **self.limits)
        self.data["gn27"] = found
        self.save()

    def accuracy(self) -> None:
        rows = self.data.setdefault("accuracy", [])
        for configuration in accuracy_configurations():
            if self.quick and (configuration.d, configuration.causal) != (64, True):
                continue
            self.say(f"errors: {configuration.dtype}, {configuration}")
            rows += measure_accuracy(self.rungs, Step(configuration), **self.limits)
            torch.cuda.empty_cache()
        self.save()

    def finish(self, with_tests: bool) -> None:
        if with_tests:
            self.say("the tests marked gpu")
            torch.cuda.empty_cache()
            self.data["tests"] = run_gpu_tests()
        self.data["targets"] = targets(self.data)
        self.data["complete"] = "stopped" not in self.data
        self.data["seconds"] = time.monotonic() - self.start
        self.save()


def measure_gpu(
    *,
    quick: bool = False,
    out: Path | None = None,
    with_tests: bool = True,
    without: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: print(text, flush=True),
) -> dict:
    """All that `bench gpu` measures, as the file has it. CourseError if there is no GPU."""
    need_gpu()
    program = Program([rung for rung in LADDER if rung.name not in without], quick, out, say)
    try:
        program.prepare()
        program.ladder()
        program.gn27()
        program.accuracy()
    except GpuLost as lost:
        program.data["stopped"] = str(lost)
        program.say(f"stopped: {lost}")
    program.finish(with_tests)
    return program.data


def measure_ladder(quick: bool = True, say: Callable[[str], None] = print) -> Recorded:
    """The ladder alone, on the GPU at hand, with the face of a recorded one. CourseError without a GPU."""
    need_gpu()
    program = Program(LADDER, quick, None, say)
    program.prepare()
    program.ladder()
    return Recorded(files.rounded(program.data), is_fresh=True)


def need_gpu() -> None:
    if not torch.cuda.is_available():
        raise CourseError(
            "bench gpu needs a CUDA GPU that torch can use, and there is none here; recorded "
            "measurements are in benchmarks/gpu.json, and course.py bench cpu needs no GPU"
        )
