"""The worker process: loads Triton once, then runs each request in a child of its own.

    python -m course_utils.triton_meter.server interpreting

A request comes in on standard input, two messages go out on standard output: how the child ended, and what it
wrote. The child is forked, so that a kernel which crashes, loops for ever or leaves something behind touches
no other; it is stopped when its time is over. At the end of its input the worker ends, with the child that is
under way, and takes its folder along.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import BinaryIO

from course_utils.triton_meter.launches import MOST_BYTES, read_message, write_message

CHILD_ADDRESS_BYTES = 16 << 30  # all that a child may map: a runaway kernel gets a MemoryError
_STOPPED = {
    "time": "time: it ran longer than {:.0f} seconds",
    "size": f"exit: it left more than {MOST_BYTES >> 20} MiB",
    "alone": "exit: nobody waits for it",
}


def main(kind: str) -> None:
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0)  # what a kernel prints, or reads, is not for our channel
    os.dup2(silence, 1)
    try:
        worker = importlib.import_module(f"course_utils.triton_meter.{kind}")
        getattr(worker, "prepare", lambda: None)()
        gc.freeze()  # a child need not look through what it has inherited
    except Exception as problem:
        reason = f"{type(problem).__name__}: {problem}"
        write_message(replies, json.dumps({"problem": reason[:300]}).encode())
        return
    with tempfile.TemporaryDirectory(prefix="triton-meter-", ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("TRITON_CACHE_DIR", os.path.join(folder, "cache"))
        write_message(replies, json.dumps({"folder": folder}).encode())
        while (seconds := read_message(requests)) and (request := read_message(requests)):
            with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own:
                work = partial(worker.work, request, own)
                ended, reply = in_child(work, float(seconds), kind, requests)
            with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
                write_message(replies, ended.encode())
                write_message(replies, reply)


def in_child(
    work: Callable[[], bytes], limit_seconds: float, kind: str, requests: BinaryIO | None = None
) -> tuple[str, bytes]:
    """("", what the work returned), or (how it ended, b""). `requests`: at its end, the child is stopped."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setsid()
            os.close(read_end)
            if kind == "interpreting":
                limit_memory()
            reply = work()
            with os.fdopen(write_end, "wb") as file:
                file.write(reply)
            os._exit(0)
        os._exit(1)
    os.close(write_end)
    deadline = time.monotonic() + limit_seconds
    reply, stopped = receive(read_end, deadline, requests)
    status = None if stopped else wait_for(child, deadline)
    if status is None:
        stopped = stopped or "time"
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what it may have started
    if stopped:
        return _STOPPED[stopped].format(limit_seconds), b""
    if os.WIFSIGNALED(status):
        return f"signal: {signal.Signals(os.WTERMSIG(status)).name}", b""
    code = os.WEXITSTATUS(status)
    return ("", reply) if code == 0 and reply else (f"exit: status {code}", b"")


def limit_memory() -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (CHILD_ADDRESS_BYTES, CHILD_ADDRESS_BYTES))


def receive(read_end: int, deadline: float, requests: BinaryIO | None) -> tuple[bytes, str]:
    """All that comes until the other end is closed, and ""; or b"" and why it was not waited for."""
    parts, size = [], 0
    with os.fdopen(read_end, "rb", buffering=0) as file:
        sources = [file] if requests is None else [file, requests]
        while size < MOST_BYTES:
            ready = select.select(sources, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                return b"", "time"
            if (
                file not in ready
            ):  # a request comes after the reply to the last one: this is the end
                return b"", "alone"
            part = file.read(1 << 16)
            if not part:
                return b"".join(parts), ""
            parts.append(part)
            size += len(part)
    return b"", "size"


def wait_for(child: int, deadline: float) -> int | None:
    """The status of a child that ends in time, else None. It may have closed its pipe and still run."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > deadline:
            return None
        time.sleep(0.0005)


if __name__ == "__main__":
    main(sys.argv[1])
