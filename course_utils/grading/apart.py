"""A kernel's cells, run in a process of their own: what comes out of it is text, and nothing else.

What a kernel moves is counted by a process that the exercise's `run` starts and talks to. If the student's cells
ran beside `run`, they could stand between the two. A kernel, though, is text: one process runs the cells and
reads it, and ends; another, which has run none of them, has it launched and counted.
"""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from course_utils.checks.core import Error
from course_utils.grading.cells_run import Found, find_answer
from course_utils.grading.outside import empty_folders

MOST_BYTES = 4 * 10**6  # of text
_exit, _write, _dumps = os._exit, os.write, json.dumps


def is_kernel(run: Callable) -> bool:
    """Whether an exercise's `run` has a kernel launched, and its answer is one."""
    return "run_kernel" in getattr(run, "__globals__", {})


def find_kernel(exercise: dict, handles: tuple[int, ...]) -> Found:
    """As `find_answer`, with a KernelSource for an answer. Ends this process as the other one ended, if it crashed.

    handles: what the student's code shall not have.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for handle in (reading, *handles):
            os.close(handle)
        _tell(exercise, writing)
    os.close(writing)
    heard = bytearray()
    while len(heard) <= MOST_BYTES and not heard.endswith(b"\n"):  # the pipe may be left open
        if not (part := os.read(reading, 1 << 16)):
            break
        heard += part
    os.close(reading)
    alone = os.getppid() == 1  # all other processes here come from the cells
    os.kill(-1 if alone else child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if alone:
        empty_folders()
    try:
        return _found(json.loads(heard))
    except (ValueError, TypeError, KeyError, RecursionError):
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            os.kill(os.getpid(), -code)
        _exit(code or 1)


def _tell(exercise: dict, pipe: int) -> None:
    """The side of the student's code: run the cells, write what the answer is, and end."""
    from course_utils.triton_meter.source import NotAKernel, is_stub, read_kernel

    try:
        found = find_answer(exercise["name"], exercise["source"], exercise["support"])
        told: dict[str, Any] = {"detail": found.detail, "kind": type(found.answer).__name__}
        told["error"] = found.error and [found.error.kind, found.error.message, found.error.line]
        told["is there"] = found.answer is not None
        told["is function"] = callable(found.answer) or callable(getattr(found.answer, "fn", None))
        if told["is function"]:
            told["stub"] = bool(is_stub(found.answer))
            try:
                source = read_kernel(found.answer)
                told |= {"name": source.name, "text": source.text, "parameters": source.parameters}
            except NotAKernel as problem:
                told["problem"] = str(problem)
        data = memoryview(_dumps(told).encode() + b"\n")
        while data:
            data = data[_write(pipe, data) :]
    except BaseException as problem:  # an object that raises when it is looked at
        with suppress(BaseException):
            told = {"error": [type(problem).__name__, str(problem)[:500], ""], "is there": False}
            _write(pipe, _dumps(told).encode() + b"\n")
    finally:
        _exit(0)


def _found(told: dict) -> Found:
    """What the other process has told, which is the student's to say: of the right types, and no more than text."""
    from course_utils.triton_meter.source import KernelSource

    error = told.get("error") and Error(*(str(part)[:500] for part in told["error"]))
    found = Found(None, error, str(told.get("detail", ""))[:600])
    if told["is there"] and not told["is function"]:
        found.error = Error("TypeError", f"it is no function, but: {str(told['kind'])[:60]}")
    elif told["is there"]:
        parameters = tuple(str(name) for name in told.get("parameters", ()))
        texts = (str(told.get(name, "")) for name in ("name", "text"))
        problem = str(told.get("problem", ""))
        found.answer = KernelSource(*texts, parameters, bool(told["stub"]), problem)
    return found
