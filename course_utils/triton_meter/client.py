"""The door to the meter: a launch in, what it did out. Keeps one worker process for each kind of work.

A worker starts at the first call (a third of a second; on a GPU some seconds) and ends with this process. If
it dies, the next call starts another. Several threads may call; they take turns.
"""

import atexit
import importlib.util
import inspect
import json
import numbers
import os
import select
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from course_utils.triton_meter.launches import (
    DTYPES,
    Compiled,
    Launch,
    Metered,
    Tensor,
    pack_request,
    read_message,
    unpack,
    unpack_metered,
    write_message,
)
from course_utils.triton_meter.source import KernelSource, kernel_function, read_kernel

HAS_TRITON = sys.platform == "linux" and importlib.util.find_spec("triton") is not None
LIMIT_SECONDS = 30.0
COMPILE_SECONDS = 20.0  # a flash kernel takes some two
GRACE_SECONDS = 20.0  # for a worker to say that the limit was passed
END_SECONDS = 2.0
_INTERPRETED = {"interpreting": "1", "compiling": "0", "on_gpu": "0"}  # kind -> TRITON_INTERPRET


class MeterNotAvailable(RuntimeError):
    """There is no Triton here, or it does not start. Says why."""


class Worker:
    """A worker process of one kind: interpreting, compiling, on_gpu."""

    def __init__(self, kind: str):
        self.kind, self._process, self._owner, self._folder = kind, None, 0, ""
        self._turn = threading.Lock()

    def request(self, message: bytes, limit_seconds: float = LIMIT_SECONDS) -> tuple[str, bytes]:
        """(how it ended, "" being well; the reply). Raises MeterNotAvailable."""
        with self._turn:
            for _ in range(2):  # a worker that died since the last request is replaced, once
                self._start()
                try:
                    write_message(self._process.stdin, f"{limit_seconds}".encode())
                    write_message(self._process.stdin, message)
                    if not _comes(self._process.stdout, limit_seconds + GRACE_SECONDS):
                        self.close()
                        return "exit: the worker process gave no answer", b""
                    ended = read_message(self._process.stdout)
                    reply = read_message(self._process.stdout)
                except OSError:
                    ended = reply = None
                except BaseException:  # interrupted in the middle: what is under way is of no use
                    self.close()
                    raise
                if ended is not None and reply is not None:
                    return ended.decode(), reply
                self.close()
            return "exit: the worker process ended", b""

    def _start(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            if self._process.poll() is None:
                return
            self.close()
        if not HAS_TRITON:
            raise MeterNotAvailable("Triton is not installed here.")
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "course_utils.triton_meter.server", self.kind],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL},
            env=_environment(self.kind),
            start_new_session=True,  # Ctrl-C in the notebook is not for it
        )
        ready = read_message(self._process.stdout)
        told = json.loads(ready) if ready else {"problem": "its process ended"}
        if "problem" in told:
            self.close()
            raise MeterNotAvailable(f"Triton does not start here ({told['problem']}).")
        self._folder = told["folder"]

    def close(self) -> None:
        """End the process. The next request starts another."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()
        try:
            process.wait(timeout=END_SECONDS)  # at the end of its input it ends, and tidies up
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._folder:  # it may have been killed, here or by somebody else
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


def _comes(file: BinaryIO, seconds: float) -> bool:
    """Whether something is there to be read within this time."""
    return bool(select.select([file], [], [], seconds)[0])


def _environment(kind: str) -> dict[str, str]:
    """A child forked from a process with threads may hang: one thread each. No import from the current folder."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    safe = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return os.environ | threads | safe | {"TRITON_INTERPRET": _INTERPRETED[kind]}


WORKERS = {kind: Worker(kind) for kind in _INTERPRETED}


@atexit.register
def close_workers() -> None:
    """End every worker."""
    for worker in WORKERS.values():
        worker.close()


def run_launch(source: KernelSource, launch: Launch, limit_seconds=LIMIT_SECONDS) -> Metered:
    """The launch in the interpreter, metered. float32 and float16 only. Raises MeterNotAvailable."""
    return _metered("interpreting", source, launch, limit_seconds)


def run_on_gpu(source: KernelSource, launch: Launch, limit_seconds: float = 120.0) -> Metered:
    """The launch compiled, on this machine's GPU: values only. Raises MeterNotAvailable."""
    return _metered("on_gpu", source, launch, limit_seconds)


def _metered(kind: str, source: KernelSource, launch: Launch, limit_seconds: float) -> Metered:
    ended, reply = WORKERS[kind].request(pack_request(source, launch), limit_seconds)
    if ended:
        return Metered(ended=ended)
    try:
        return unpack_metered(reply)
    except Exception:  # a kernel wrote into the channel
        return Metered(ended="exit: what it sent can't be read")


def compile_launch(source: KernelSource, launch: Launch, sm: int = 80) -> Compiled:
    """What the compiler makes of it for this compute capability (80: A100). Needs no GPU.

    Only the arguments' types and the compile-time constants count. Raises MeterNotAvailable.
    """
    types = {
        name: Tensor(np.zeros(1, np.float32), value.type_name) if isinstance(value, Tensor) else value
        for name, value in launch.arguments.items()
    }  # fmt: skip
    bare = Launch(launch.grid, types, launch.constexprs, launch.options)
    request = pack_request(source, bare, sm=sm)
    ended, reply = WORKERS["compiling"].request(request, limit_seconds=COMPILE_SECONDS)
    return Compiled(sm, ended=ended) if ended else Compiled(**unpack(reply)[0])


def meter(kernel, grid: tuple[int, ...], *arguments, **constexprs) -> Metered:
    """Run a kernel in the interpreter and see what it moved: `meter(kernel, (n,), x, out, n, block=16)`.

    arguments: as in a launch; arrays and CPU tensors (contiguous) may be stored to, and stay as they are: what the
    kernel left there is in `.values`. Raises TypeError for what no launch takes; NotAKernel, MeterNotAvailable.
    """
    source = read_kernel(kernel)
    signature = inspect.signature(kernel_function(kernel))
    try:
        bound = signature.bind(*arguments, **constexprs)
    except TypeError as problem:
        takes = ", ".join(source.parameters)
        raise TypeError(f"{source.name} takes ({takes}): {problem}") from None
    bound.apply_defaults()
    given, constants = {}, {}
    for name, value in bound.arguments.items():
        if "constexpr" in str(signature.parameters[name].annotation):
            constants[name] = value
        elif constants:
            raise TypeError(f"{name} comes after a constexpr: compile-time constants come last")
        else:
            given[name] = _argument(name, value)
    return run_launch(source, Launch(_checked_grid(grid), given, constants))


def _checked_grid(grid) -> tuple[int, ...]:
    is_grid = isinstance(grid, tuple | list) and 1 <= len(grid) <= 3
    if not is_grid or not all(isinstance(size, numbers.Integral) and size >= 1 for size in grid):
        raise TypeError(f"a grid is one to three whole numbers, as (4,) or (4, 2); got {grid!r}")
    return tuple(map(int, grid))


def _argument(name: str, value) -> Tensor | int | float:
    """A number as such, NumPy's too; what else is no array of a known type raises TypeError."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    try:
        array = np.asarray(value)
    except Exception as problem:
        raise TypeError(f"{name} can't be read as an array: {problem}") from None
    if str(array.dtype) not in DTYPES:
        raise TypeError(f"{name} holds {array.dtype}; the meter knows {', '.join(DTYPES)}")
    return Tensor(array, writable=True)
