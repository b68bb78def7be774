"""How many bytes torch had alive on the CPU at worst, and how many wait for the backward pass.

tracemalloc sees nothing of torch, which takes its memory without asking Python. torch's own
profiler notes every allocation and every release. Added up in the order of their times they give
the live bytes at each moment, exactly. torch is imported only when something is measured.
"""

import os
from collections.abc import Callable, Iterable


def torch_peak_bytes(function: Callable[[], object]) -> int:
    """The most bytes of CPU tensors alive at once during `function()`, of those that it makes.

    Its result counts, since it is alive when the function ends. The first call takes some
    seconds: torch prepares its profiler. Raises RuntimeError where the profiler tells no
    allocations.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler greets on stderr
    from torch.profiler import ProfilerActivity, profile

    cpu = [ProfilerActivity.CPU]
    # acc_events only keeps torch 2.11 from warning of events that a later cycle would lose
    with profile(activities=cpu, profile_memory=True, acc_events=True) as profiler:
        result = function()  # named, so that it is alive until the profiler stops
    del result
    live_bytes = peak_bytes = 0
    for change_bytes in _changes(profiler):
        live_bytes += change_bytes
        peak_bytes = max(peak_bytes, live_bytes)
    return peak_bytes


def saved_bytes(function: Callable[[], object], parameters: Iterable = ()) -> int:
    """Bytes of the tensors that autograd keeps after `function()` for the backward pass.

    A buffer that is kept twice counts once. `parameters` are there anyway and cost nothing; an
    input that is kept counts.
    """
    from torch.autograd.graph import saved_tensors_hooks

    there_anyway = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    kept = {}  # address of a buffer -> the buffer: while it is held, no other gets its address

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in there_anyway:
            kept[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        function()
    return sum(storage.nbytes() for storage in kept.values())


def _changes(profiler) -> list[int]:
    """Every change of the CPU's live bytes, oldest first: taken is positive, released negative."""
    import torch

    cpu = torch.autograd.DeviceType.CPU
    try:
        events = profiler.profiler.kineto_results.events()
        memory = [e for e in events if e.name() == "[memory]" and e.device_type() == cpu]
        return [event.nbytes() for event in sorted(memory, key=lambda event: event.start_ns())]
    except (AttributeError, AssertionError) as problem:
        raise RuntimeError(
            f"torch {torch.__version__} does not tell its allocations in the way that this course "
            "reads them: install the version that requirements.txt names"
        ) from problem
