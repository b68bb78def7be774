"""The program inside the sandbox: runs each answer in a process of its own, and hands on what was observed.

It reads one job from standard input and writes lines to what was its standard output. A student's code runs in
a child only, which has no way to that output: a child writes into a pipe, and the driver counts its bytes,
watches the clock, and says how it ended. A loop, a crash or an empty memory in one exercise costs that one
alone. All of this is read outside as if the student had written it; see `sandbox.run`.
"""

import ctypes
import gc
import json
import operator
import os
import resource
import secrets
import select
import signal
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from course_utils.grading.answering import answer_and_exit
from course_utils.grading.outside import Watch, close_side_doors, leave_nothing, status_bytes
from course_utils.grading.records import Ending
from course_utils.grading.tampering import Snapshot

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_OUTCOMES = {
    each.value: each for each in (Ending.COMPLETE, Ending.NOT_FOUND, Ending.TOO_MUCH_OUTPUT)
}


def main() -> None:
    """Run the job on standard input; its results go to standard output, and nothing else does."""
    results = os.dup(1)
    given = os.fdopen(os.dup(0), "rb", buffering=0)  # unbuffered: the cases stay in the file
    job = json.loads(given.readline())
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    _bound(job["limits"])
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_DUMPABLE, 0)  # nobody in here may look into this process, or trace it
    runs = {each["id"]: _run_function(each["run"]) for each in job["exercises"]}
    snapshot = Snapshot()
    gc.collect()
    gc.freeze()  # a trace collects garbage: it need not look through all modules each time
    _send(results, {"ready": True})
    for exercise in job["exercises"]:
        _send(results, {"exercise": exercise["id"], "begins": True})
        _supervise(exercise, runs[exercise["id"]], job["limits"], snapshot, results, given)
    _send(results, {"done": True})


def _run_function(place: list[str]) -> Any:
    module, name = place
    return operator.attrgetter(name)(import_module(module))


def _bound(limits: dict) -> None:
    """What a process may take by itself. Memory and processes in all are bounded outside, where they can be."""
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits["files_bytes"],
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_NPROC: limits["processes"],  # no bound for root
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if limits.get("data_bytes"):  # no cgroup here: at least each process is bounded
        bounds[resource.RLIMIT_DATA] = limits["data_bytes"]
    for what, most in bounds.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# --- the driver's side of one exercise ------------------------------------------------------------


def _supervise(
    exercise: dict, run: Any, limits: dict, snapshot: Snapshot, results: int, given: Any
) -> None:
    """Run one exercise in a child; hand on its lines, and say how it ended."""
    token = secrets.token_hex(8).encode() + b" "
    reading, writing = os.pipe()
    hearing, telling = os.pipe()
    began, before_bytes = time.monotonic(), status_bytes("self")[0]
    child = os.fork()
    if child == 0:
        for handle in (reading, telling, results, given.fileno()):
            os.close(handle)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_PR_SET_DUMPABLE, 1)  # until the driver has opened what it needs
        os.write(writing, b"!")
        os.read(hearing, 1)
        close_side_doors(run)
        _prctl(_PR_SET_DUMPABLE, 0)  # its marks are set back by nobody else
        answer_and_exit(exercise, run, snapshot, writing, hearing, token)
    os.close(writing)
    os.close(hearing)
    os.read(reading, 1)
    talk = _Talk(child, token, results, telling, json.loads(given.readline()))
    os.write(telling, b"!")
    os.set_blocking(reading, False)
    os.set_blocking(telling, False)
    deadline = began + limits["exercise_seconds"]
    report = talk.report
    report["ready_bytes"] = before_bytes
    left, ending, buffer, status = limits["output_bytes"], None, bytearray(), None
    while ending is None:
        select.select([reading], [], [], min(0.05, max(deadline - time.monotonic(), 0)))
        try:
            data = os.read(reading, 1 << 18)
        except BlockingIOError:
            data = None
        if data:
            left -= len(data)
            buffer += data
            *lines, rest = buffer.split(b"\n") if b"\n" in data else (buffer,)
            buffer = bytearray(rest)
            for line in lines:
                talk.hear(bytes(line))
        if left < 0:
            ending = Ending.TOO_MUCH_OUTPUT
        elif time.monotonic() >= deadline:
            ending = Ending.TOO_SLOW
        elif not data and status is not None:
            ending = _OUTCOMES.get(report.get("outcome"), Ending.CRASHED)
        elif not data:
            waited, status_now, usage = os.wait4(child, os.WNOHANG)
            if waited:
                status, report["peak_bytes"] = status_now, usage.ru_maxrss * 1024
            elif data == b"":
                time.sleep(0.001)  # it has closed its end, and lives
    os.close(reading)
    talk.close()
    _end_all(child, report)
    if junk := report.pop("junk", 0):
        told = f"wrote into the grader's pipe ({junk} lines)"
        report["flags"] = [*report.get("flags", []), told]
    detail = report.pop("detail", "")
    report.pop("outcome", None)
    if ending is Ending.CRASHED:
        number = os.waitstatus_to_exitcode(status)
        detail = f"signal {-number}" if number < 0 else f"it ended itself with status {number}"
    said = {"ending": ending, "detail": detail, "seconds": round(time.monotonic() - began, 3)}
    _send(results, {"exercise": exercise["id"], **report, "before_bytes": before_bytes, **said})


class _Talk:
    """What a child says, line by line, and what it is told: its cases one by one, each when the last is done."""

    def __init__(self, child: int, token: bytes, results: int, telling: int, cases: list):
        self.report: dict[str, Any] = {}
        self._child, self._token, self._results, self._telling = child, token, results, telling
        self._cases = [*cases, *cases[:1]]
        self._given = self._seen = self._junk = 0
        self._watch = Watch(child)

    def hear(self, line: bytes) -> None:
        """An observation goes out as it is. What a child says of itself is noted."""
        if not line.startswith(self._token):
            self._junk += 1
            self.report["junk"] = self._junk
            return
        line = line[len(self._token) :]
        if line.startswith(b"observed "):
            self._seen += 1
            outside = self._watch.take() or ({} if self._watch.works else None)
            _send(self._results, {"observation": True, "outside": outside})
            _write_all(self._results, line.removeprefix(b"observed ") + b"\n")
        elif line == b"case":
            waits = self._given == self._seen < len(self._cases)
            case = self._cases[self._given] if waits else None
            self._given += waits
            self._tell(json.dumps(case))
        elif line in (b"begins", b"ends"):
            self._watch.begins() if line == b"begins" else self._watch.ends()
            self._tell("")
        elif line == b"ready":
            self.report["ready_bytes"] = status_bytes(self._child)[0]
        elif line.startswith(b"said ") and len(line) < 20_000:
            self._note(line.removeprefix(b"said "))

    def close(self) -> None:
        self._watch.close()
        os.close(self._telling)

    def _tell(self, text: str) -> None:
        with suppress(OSError):  # it does not listen, or is gone
            _write_all(self._telling, text.encode() + b"\n")

    def _note(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = {}
        if not isinstance(said, dict):
            return
        flags = said.get("flags")
        flags = [str(flag)[:200] for flag in flags][:20] if isinstance(flags, list) else []
        self.report["flags"] = [*self.report.get("flags", []), *flags][:60]
        self.report["detail"] = str(said.get("detail", ""))[:600]
        self.report["outcome"] = str(said.get("outcome", ""))


def _end_all(child: int, report: dict) -> None:
    """End whatever the exercise has left running, and gather it."""
    left = 0
    while True:
        _kill_all()
        try:
            pid, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        left += pid != child
        report["peak_bytes"] = max(report.get("peak_bytes", 0), usage.ru_maxrss * 1024)
    leave_nothing()
    if left:
        report["flags"] = [*report.get("flags", []), f"left {left} processes running"]


def _kill_all() -> None:
    try:
        if os.getpid() == 1:  # the first of its sandbox: all others are the student's
            os.kill(-1, signal.SIGKILL)
            return
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # orphans come here as well
            children = file.read().split()
    except (OSError, ProcessLookupError):
        return
    for pid in children:
        os.kill(int(pid), signal.SIGKILL)


def _send(pipe: int, message: dict) -> None:
    _write_all(pipe, json.dumps(message).encode() + b"\n")


def _write_all(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]
