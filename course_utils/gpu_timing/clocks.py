"""Two clocks with one face: for work on the GPU, and for work on the CPU.

A clock calls a function and gives back its result and a `wait`, which returns the seconds. For the GPU
the two are apart: the call returns while the work still runs, and whoever waited at once would leave the
GPU idle between two measurements.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

FLUSH_BYTES = 256 * 2**20  # several times any L2 cache of today
FLUSHES = 4  # about a quarter of a millisecond on an H200


class Measured(NamedTuple):
    """What a function returned, and how to learn how long it took."""

    result: object
    wait: Callable[[], float]  # seconds; returns when the work is done


class GpuClock:
    """Seconds between two events on the current CUDA stream.

    Before the first event, a buffer larger than the L2 cache is overwritten: no input is found there. It is
    overwritten several times, since that also gives the CPU the time to launch what is timed: else the GPU
    would wait for the launch, and the clock would count it.
    """

    def __init__(self, device: str = "cuda", flush_bytes: int = FLUSH_BYTES):
        self._buffer = torch.empty(flush_bytes, dtype=torch.uint8, device=device)

    def measure(self, function: Callable, *inputs: object) -> Measured:
        """Call function(*inputs); the timing covers the GPU work that it launched on this stream."""
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(FLUSHES):
            self._buffer.zero_()
        start.record()
        result = function(*inputs)
        stop.record()

        def wait() -> float:
            stop.synchronize()
            return start.elapsed_time(stop) / 1000

        return Measured(result, wait)


class CpuClock:
    """Seconds by the computer's own clock. Nothing is flushed; the function has ended when it returns."""

    def measure(self, function: Callable, *inputs: object) -> Measured:
        start = time.perf_counter()
        result = function(*inputs)
        seconds = time.perf_counter() - start
        return Measured(result, lambda: seconds)
