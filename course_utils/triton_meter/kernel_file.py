"""A kernel's text as a file in a worker: Triton reads its functions from files, and errors name their lines.

`meter_request` is what a child does with a request, wherever the kernel runs then.
"""

import linecache
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from course_utils.triton_meter.launches import Launch, Metered, pack_metered, unpack_request
from course_utils.triton_meter.plain import what_is_odd
from course_utils.triton_meter.source import KernelSource, NotAKernel


class KernelFile:
    """Writes the text into `folder` and runs it: `kernel` is what @triton.jit made."""

    def __init__(self, source: KernelSource, folder: str):
        if odd := what_is_odd(source.text):  # who has sent it may not have read it
            raise NotAKernel(f"It does what a kernel does not: {odd}.")
        handle, self.path = tempfile.mkstemp(".py", "kernel_", folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(source.text)
        linecache.checkcache(self.path)
        names = {"__name__": Path(self.path).stem, "__file__": self.path}
        exec(compile(source.text, self.path, "exec"), names)
        self.kernel = names[source.name]

    def line_now(self) -> str:
        """The kernel's line that is being executed, or ""."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.path:
            frame = frame.f_back
        return self._line(frame.f_lineno) if frame else ""

    def describe(self, problem: BaseException, wrapper: type | None = None) -> dict[str, str]:
        """An exception as kind, message and the kernel's line; without the wrappers put around it."""
        while wrapper and isinstance(problem, wrapper) and problem.__cause__ is not None:
            problem = problem.__cause__
        line, here = "", problem.__traceback__
        while here is not None:
            if here.tb_frame.f_code.co_filename == self.path:
                line = self._line(here.tb_lineno)
            here = here.tb_next
        return {"kind": type(problem).__name__, "message": _message(problem), "line": line}

    def _line(self, number: int) -> str:
        return linecache.getline(self.path, number).strip().rstrip(":")


def meter_request(
    message: bytes,
    folder: str,
    run: Callable[[KernelFile, Launch, Metered], None],
    wrapper: type | None = None,
) -> bytes:
    """A request in, what `run` metered out; what it raised is in the result. wrapper: see `describe`."""
    source, launch, _ = unpack_request(message)
    file, metered = None, Metered()

    def work() -> None:
        nonlocal file
        file = KernelFile(source, folder)
        run(file, launch, metered)

    problem = guarded(work)
    if problem is not None:
        unread = {"kind": type(problem).__name__, "message": _message(problem), "line": ""}
        metered.error = file.describe(problem, wrapper) if file else unread
    return pack_metered(metered)


def _message(problem: BaseException) -> str:
    try:
        return str(problem)[:500]
    except Exception:
        return ""


def guarded(work: Callable[[], None]) -> BaseException | None:
    """What `work` raised. Even exit() must not end it without a word."""
    try:
        work()
    except BaseException as problem:
        return problem
    return None
