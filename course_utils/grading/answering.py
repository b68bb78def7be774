"""One exercise's answer, in a process of its own: its cells, then every case, then what became of the meters.

This is the process that belongs to the student's code. What it needs after that code has run is taken hold of
before. What it says goes through a pipe to the driver, and is believed nowhere.

A case lies here while it runs, with the seed of its inputs, from which the public checks make all inputs of this
exercise. An answer that looks for it gains no point: it gets these inputs anyway, and what is wanted of them it
must compute. It can tell them to its author, as far as feedback lets a word through; see `feedback`.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from course_utils.checks.core import Error, Observation
from course_utils.checks.observe import ANNOUNCE
from course_utils.grading.alive import Kept
from course_utils.grading.apart import find_kernel, is_kernel
from course_utils.grading.cells_run import find_answer
from course_utils.grading.codec import TooLarge, observation_as_text
from course_utils.grading.decoding import case_from_json
from course_utils.grading.outside import is_metered
from course_utils.grading.records import Ending
from course_utils.grading.tampering import Snapshot

LARGE_GLOBALS_BYTES = 4 * 10**6
_read, _write, _exit, _dumps, _loads = os.read, os.write, os._exit, json.dumps, json.loads
_trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda kept_bytes: 0)  # glibc's


def answer_and_exit(
    exercise: dict, run: Callable, snapshot: Snapshot, pipe: int, answers: int, token: bytes
) -> NoReturn:
    """Run it, tell the driver, and end. `token` begins every line that is not the student's."""

    def send(text: str) -> None:
        view = memoryview(token + text.encode("utf-8", "replace") + b"\n")
        while view:
            view = view[_write(pipe, view) :]

    def ask(text: str) -> bytes:
        send(text)
        heard = bytearray()
        while not heard.endswith(b"\n"):
            part = _read(answers, 4096)
            if not part:
                return b""
            heard += part
        return bytes(heard)

    def announce(moment: str) -> None:
        if moment == "begins":
            kept.charge()
            _trim(0)  # what an allocator keeps for later would hide what is taken next
        ask(moment)

    try:
        ANNOUNCE.append(announce)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if is_kernel(run):
            found = find_kernel(exercise, (pipe, answers))
        else:
            if is_metered(run):
                kept = Kept([*exercise["support"], exercise["source"]])
            found = find_answer(exercise["name"], exercise["source"], exercise["support"])
        flags = _large_globals()
        send("ready")
        outcome = _try_cases(found, run, exercise, send, ask)
        flags += [*snapshot.changed(), *(kept.flags if is_metered(run) else [])]
        _end_workers()
        send("said " + _dumps({"outcome": outcome, "detail": found.detail, "flags": flags}))
    finally:
        _exit(0)


def _try_cases(found: Any, run: Callable, exercise: dict, send: Callable, ask: Callable) -> Ending:
    """Every case, and the first once more, until one ends in an error. The judge stops there, too.

    A case is here when the one before it is done: no answer can prepare for those that follow.
    """
    if found.answer is None and found.error is None:
        return Ending.NOT_FOUND
    while (sent := _loads(ask("case") or "null")) is not None:
        case = case_from_json(sent)
        if found.answer is None:
            seen = Observation(error=found.error)
        elif not callable(found.answer) and not is_kernel(run):
            kind = type(found.answer).__name__
            seen = Observation(
                error=Error("TypeError", f"{exercise['name']} is no function, but: {kind}")
            )
        else:
            seen = _observed(run, found.answer, case)
        try:
            send("observed " + observation_as_text(seen))
        except TooLarge:
            return Ending.TOO_MUCH_OUTPUT
        if seen.error is not None:
            break
        del seen  # what an answer returned is not held when the next call begins
    return Ending.COMPLETE


def _observed(run: Callable, answer: Callable, case: Any) -> Observation:
    try:
        return run(answer, case)
    except BaseException as problem:  # an object of the student's that `run` stumbled over
        try:
            return Observation(error=Error(type(problem).__name__, str(problem)[:500]))
        except BaseException:
            return Observation(error=Error("an error", "which cannot be shown"))


def _end_workers() -> None:
    """The processes that `run` itself has started, for Triton's kernels: they are nobody's leftovers."""
    client = sys.modules.get("course_utils.triton_meter.client")
    if client is not None:
        client.close_workers()


def _large_globals() -> list[str]:
    """Arrays made before the meters run, which they therefore do not see."""
    held = [value for value in vars(sys.modules["__main__"]).values() if type(value) is np.ndarray]
    total_bytes = sum(array.nbytes for array in held)
    if total_bytes < LARGE_GLOBALS_BYTES:
        return []
    return [f"holds {total_bytes:,} bytes of arrays outside the function"]
