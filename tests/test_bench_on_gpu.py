"""What only a GPU can show of the timing: events, memory to the byte, and PyTorch beside itself."""

import pytest
import torch

from course_utils import gpu_timing

HAS_GPU = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA device of sm_80 or newer"),
]


def test_the_clock_measures_work_and_not_its_launch():
    clock = gpu_timing.GpuClock()
    x = torch.randn(2048, 2048, device="cuda")
    once = gpu_timing.median_seconds(lambda: x @ x, clock=clock)
    eight = gpu_timing.median_seconds(lambda: [x @ x for _ in range(8)], clock=clock)
    assert 5 < eight / once < 10


def test_extra_bytes_are_exact():
    def function(n):
        square = torch.empty(n, n, device="cuda")
        return square[0].clone()

    extra, result = gpu_timing.extra_peak_bytes(function, 1000)
    assert extra == 4 * 1000 * 1000 and result.shape == (1000,)


def test_pytorch_is_as_fast_as_itself_and_a_cheat_is_found():
    ceilings = gpu_timing.machine_ceilings()
    sizes = {"n": 2048, "d": 64, "causal": True, "ceilings": ceilings}
    flash = gpu_timing.time_attention(gpu_timing.sdpa("flash"), **sizes)
    assert flash.cause == "" and 0.9 < flash.ratio.ratio < 1.1
    assert flash.error == pytest.approx(flash.baseline_error)

    side = torch.cuda.Stream()

    def beside_the_clock(q, k, v, causal):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            return gpu_timing.sdpa("flash")(q, k, v, causal)

    assert gpu_timing.time_attention(beside_the_clock, **sizes).cause
