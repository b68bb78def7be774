"""How many bytes of arrays are alive, and how many there were at worst.

The lecture counts memory with `tracemalloc`. It says that tracemalloc sees only NumPy's memory (figure
L12-15); in truth it sees everything that Python allocates, and NumPy labels what is its own with a
*domain*. Filtering by this domain gives the live bytes of arrays, exactly. Of the peak tracemalloc keeps
only one number for all of Python, so a peak is right within some KiB (the objects around the arrays).
It sees nothing of torch, or of files mapped into memory.
"""

import gc
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

PEAK_TOLERANCE_BYTES = 64 * 1024
MB = 10**6


@dataclass(frozen=True)
class TraceStats:
    """What a trace has seen since it began.

    current_bytes: payload of the NumPy arrays made since then and still alive. Exact.
    peak_bytes: the most that was alive at one moment, within `PEAK_TOLERANCE_BYTES`.
    """

    current_bytes: int
    peak_bytes: int


class Trace:
    """One stretch of counting. Traces may be nested: an inner one costs the outer nothing.

    Use it as `with Trace() as trace:`, or through the lecture's four functions below. Inside,
    `trace.snapshot()` gives TraceStats, and `trace.restart_peak()` begins a new peak from here.

    When something else had tracemalloc running already, that goes on running afterwards. Its peak
    cannot survive (tracemalloc has only one); a warning says what it was.
    """

    _open: list["Trace"] = []  # innermost last
    _lent = False  # tracemalloc was running before the outermost trace
    _many = _set_aside = False  # see many_traces

    def start(self) -> "Trace":
        if not Trace._open:
            gc.collect()  # arrays in rings of references, such as old graphs, would linger
            if Trace._many and not gc.get_freeze_count():  # else frozen already, by us or by others
                gc.freeze()
                Trace._set_aside = True
            Trace._lent = tracemalloc.is_tracing()
            if Trace._lent:
                _say_lost_peak()
            else:
                tracemalloc.start()
        _fold_peaks()
        Trace._open.append(self)
        self._base_bytes = _numpy_bytes()
        tracemalloc.reset_peak()  # what the count itself took is not the program's
        self._python_base_bytes = self._python_peak_bytes = tracemalloc.get_traced_memory()[0]
        return self

    def snapshot(self) -> TraceStats:
        """The live bytes now, and the peak since the start."""
        if self not in Trace._open:
            raise RuntimeError("this trace is not running: start it first")
        _fold_peaks()
        current_bytes = _numpy_bytes() - self._base_bytes
        tracemalloc.reset_peak()
        peak_bytes = self._python_peak_bytes - self._python_base_bytes
        return TraceStats(current_bytes, max(peak_bytes, current_bytes))

    def restart_peak(self) -> None:
        """Forget the peak so far: the next snapshot's peak is that from here on."""
        _fold_peaks()
        self._python_peak_bytes = tracemalloc.get_traced_memory()[0]

    def stop(self) -> None:
        """End this trace and those inside it. Stopping twice is harmless."""
        if self not in Trace._open:
            return
        if tracemalloc.is_tracing():
            _fold_peaks()
        del Trace._open[Trace._open.index(self) :]
        if not Trace._open and not Trace._lent:
            tracemalloc.stop()  # harmless where it was stopped already

    def __enter__(self) -> "Trace":
        return self.start()

    def __exit__(self, *exception) -> None:
        self.stop()


@contextmanager
def many_traces() -> Iterator[None]:
    """Around many traces: the garbage collector looks at the first of them through all that is there, then no more.

    That takes 0.15 s with torch loaded. What is made inside is collected as ever; what was there before, afterwards.
    """
    is_outermost, Trace._many = not Trace._many, True
    try:
        yield
    finally:
        if is_outermost:
            Trace._many = False
            if Trace._set_aside:
                Trace._set_aside = False
                gc.unfreeze()


def _numpy_bytes() -> int:
    """Live bytes in NumPy's domain, of all that tracemalloc has seen being made."""
    numpy_only = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    # tracemalloc's documented way builds a Snapshot, which this goes through without keeping it
    return sum(
        trace.size for trace in tracemalloc.take_snapshot().filter_traces([numpy_only]).traces
    )


def _fold_peaks() -> None:
    """Hand tracemalloc's one peak to every open trace, then begin a new one."""
    if not tracemalloc.is_tracing():  # someone stopped it under us
        Trace._open.clear()
        raise RuntimeError(
            "tracemalloc was stopped while a trace was running: start the trace again"
        )
    peak_bytes = tracemalloc.get_traced_memory()[1]
    for trace in Trace._open:
        trace._python_peak_bytes = max(trace._python_peak_bytes, peak_bytes)
    tracemalloc.reset_peak()


def _say_lost_peak() -> None:
    now_bytes, peak_bytes = tracemalloc.get_traced_memory()
    warnings.warn(
        f"tracemalloc was already running: it goes on, but its peak of {peak_bytes:,} bytes "
        f"(now {now_bytes:,}) starts anew here, because it keeps only one.",
        stacklevel=4,
    )


# --- the lecture's four functions (L12-08 to L12-11) ----------------------------------------------

_trace: Trace | None = None


def start_trace() -> None:
    """Begin to count. A trace that was left running (a cell run twice, an error) is dropped."""
    global _trace
    if _trace is not None:
        _trace.stop()
    _trace = Trace().start()


def snapshot_trace() -> TraceStats:
    """The arrays made since `start_trace` and still alive, and the peak since then, in bytes."""
    if _trace is None or _trace not in Trace._open:
        raise RuntimeError("no trace is running: call start_trace() first")
    return _trace.snapshot()


def end_trace() -> None:
    """Stop counting. Without a running trace this does nothing."""
    global _trace
    if _trace is not None:
        _trace.stop()
    _trace = None


def print_trace_stats(stats: TraceStats) -> None:
    """Print the live bytes as the lecture does: whole megabytes of 10**6 bytes, the rest cut off."""
    print(f"memory allocated: {int(stats.current_bytes / MB)} MB")
