"""A job run in sandboxes: bytes in, bounded bytes out, and an end from outside whatever happens inside.

What comes out is a list of `Run`s, one an answer, with observations that nobody has judged. A sandbox that ends
before its job is done is charged to the exercise that was running; what had not begun gets a fresh one.
"""

import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from course_utils.grading.codec import MAX_LINE_BYTES, CodecError
from course_utils.grading.decoding import from_json, observation_from_text
from course_utils.grading.jobs import as_payload
from course_utils.grading.records import Answer, Ending, Job, Run
from course_utils.grading.sandbox.cgroups import Group
from course_utils.grading.sandbox.limits import Limits
from course_utils.grading.sandboxed_course import course_for
from course_utils.grading.tampering import PATCHED

_DIAGNOSTICS_BYTES = 4000
_CHUNK_BYTES = 1 << 20


class SandboxFailure(RuntimeError):
    """The sandbox did not come up: a fault of this machine or of ours, and no student's."""


def run_job(job: Job, limits: Limits, sandbox: Any) -> list[Run]:
    """Run a job's answers, one Run each, in their order. Raises SandboxFailure.

    sandbox: what `choose_sandbox` returned.
    """
    waiting, runs = list(job.answers), []
    while waiting:
        try:
            finished = _in_one_sandbox(job, waiting, limits, sandbox)
        except _DidNotStart:
            finished = _in_one_sandbox(
                job, waiting, limits, sandbox
            )  # once more: a machine may be busy
        runs += finished
        waiting = waiting[len(finished) :]
    return runs


class _DidNotStart(SandboxFailure):
    pass


def _in_one_sandbox(job: Job, answers: list[Answer], limits: Limits, sandbox: Any) -> list[Run]:
    """The runs of the first answers: of all of them, unless the sandbox ended before its job did."""
    more = {"data_bytes": limits.memory_bytes} if sandbox.bounds_each_process else {}
    payload = as_payload(job, answers, limits, **more)
    course = course_for(sandbox.course, answers[0].exercise.partition(".")[0])
    with sandbox.groups.group(limits) if sandbox.groups else nullcontext() as group:
        most = {answer.exercise: len(job.cases[answer.exercise]) + 1 for answer in answers}
        reader = _Reader(answers, most, group)
        try:
            process = _Process(sandbox, sandbox.command(course, limits, group), payload)
        except OSError as problem:
            raise _DidNotStart(f"the sandbox did not start ({sandbox.name}): {problem}") from None
        with process:
            for line in process.lines(limits, len(answers)):
                reader.take(line)
        if not reader.ready:
            raise _DidNotStart(f"the sandbox did not start ({sandbox.name}): {process.said()}")
        return reader.finish(process.stopped)


@dataclass
class _Reader:
    """The driver's lines, as runs. None of it is believed further than its types."""

    answers: list[Answer]
    most: dict[str, int]  # observations of each exercise
    group: Group | None
    runs: list[Run] = field(default_factory=list)
    current: Run | None = None
    ready: bool = False
    done: bool = False
    kills: int = 0
    observation_follows: bool = False
    outside: dict | None = None

    def take(self, line: bytes) -> None:
        if self.done:
            return
        if self.observation_follows:
            self.observation_follows = False
            self._observe(line)
            return
        try:
            said = from_json(line)
        except CodecError:
            said = {}
        if not isinstance(said, dict):
            return
        self.ready |= said.get("ready") is True
        if said.get("observation") is True:
            self.observation_follows, self.outside = True, _outside(said.get("outside"))
        elif (
            said.get("begins") is True
            and self.current is None
            and len(self.runs) < len(self.answers)
        ):
            self.current = Run(self.answers[len(self.runs)].exercise, Ending.CRASHED)
            self.kills = self.group.kills() if self.group else 0
        elif "ending" in said and self.current is not None:
            self._end(said)
        elif said.get("done") is True:
            self.done = True

    def _observe(self, line: bytes) -> None:
        if self.current is None or self.current.ending is Ending.BROKEN:
            return
        try:
            if len(self.current.observations) >= self.most[self.current.exercise]:
                raise CodecError("more observations than cases")
            self.current.observations.append(observation_from_text(line))
            self.current.outside.append(self.outside)
        except CodecError as problem:
            self.current.ending, self.current.detail = Ending.BROKEN, str(problem)

    def _end(self, said: dict) -> None:
        run, ending, detail = self.current, said["ending"], said.get("detail")
        known = ending in {each.value for each in Ending} if isinstance(ending, str) else False
        if run.ending is not Ending.BROKEN:
            run.ending = Ending(ending) if known else Ending.BROKEN
            run.detail = detail[:600] if isinstance(detail, str) else ""
        run.seconds = _number(said.get("seconds"))
        run.peak_bytes = int(
            max(_number(said.get("peak_bytes")) - _number(said.get("ready_bytes")), 0)
        )
        flags = said.get("flags") if isinstance(said.get("flags"), list) else []
        flags = [flag[:200] for flag in flags if isinstance(flag, str)]
        before_cells = _number(said.get("ready_bytes")) - _number(said.get("before_bytes"))
        if before_cells > 10**9:
            flags.append(f"takes {before_cells:,.0f} bytes before its function is called")
        run.flags = tuple(sorted(flags, key=lambda flag: not flag.startswith(PATCHED))[:60])
        self._close()

    def _close(self) -> None:
        run = self.current
        killed = self.group is not None and self.group.kills() > self.kills
        if killed and run.ending in (Ending.CRASHED, Ending.COMPLETE):
            run.ending = Ending.OUT_OF_MEMORY
        self.runs.append(run)
        self.current = None

    def finish(self, stopped: str) -> list[Run]:
        """All runs; one that was going on when the sandbox ended is ended here."""
        if self.current is None and len(self.runs) < len(self.answers):
            early = Ending.BROKEN if self.done else Ending.CRASHED  # "done", and it was not
            self.current = Run(self.answers[len(self.runs)].exercise, early)
        if self.current is not None:
            by = {"time": Ending.TOO_SLOW, "output": Ending.TOO_MUCH_OUTPUT}
            self.current.ending = by.get(stopped, self.current.ending)
            self.current.detail = self.current.detail or "the sandbox ended with it"
            self._close()
        return self.runs


class _Process:
    """The sandbox as a process: fed, read within bounds, and ended when this block is left."""

    def __init__(self, sandbox: Any, command: list[str], payload: bytes):
        self.stopped = ""
        self._errors = bytearray()
        self._sandbox = sandbox
        with tempfile.TemporaryFile() as given:
            given.write(payload)
            given.seek(0)
            self._popen = subprocess.Popen(
                command,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                **getattr(sandbox, "options", {}),
            )

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._popen.kill()
        try:
            if hasattr(self._sandbox, "end"):
                self._sandbox.end(self._popen)
        finally:
            self._popen.wait()
            self._popen.stdout.close()
            self._popen.stderr.close()

    def said(self) -> str:
        """What the sandbox wrote as its errors: the last line."""
        lines = self._errors.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else f"exit status {self._popen.returncode}"

    def lines(self, limits: Limits, exercises: int) -> Iterator[bytes]:
        """Complete lines of its output, until it ends, the time is up or there is too much."""
        deadline = time.monotonic() + limits.total_seconds(exercises)
        left = limits.output_bytes * exercises + 10**6
        parts: list[bytes] = []
        length = 0
        with selectors.DefaultSelector() as selector:
            selector.register(self._popen.stdout, selectors.EVENT_READ)
            selector.register(self._popen.stderr, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(max(deadline - time.monotonic(), 0)):
                    data = key.fileobj.read1(_CHUNK_BYTES)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is self._popen.stderr:
                        self._errors = (self._errors + data)[-_DIAGNOSTICS_BYTES:]
                    else:
                        left -= len(data)
                        *ended, rest = data.split(b"\n")
                        for line in ended:
                            yield b"".join([*parts, line])
                            parts, length = [], 0
                        parts.append(rest)
                        length += len(rest)
                if left < 0 or length > MAX_LINE_BYTES + 1000:
                    self.stopped = "output"
                    return
                if time.monotonic() >= deadline:
                    self.stopped = "time"
                    return


def _outside(said: Any) -> dict | None:
    """What the driver saw of a case's calls, as numbers."""
    return {name: _number(said[name]) for name in said} if isinstance(said, dict) else None


def _number(value: Any) -> float:
    if isinstance(value, bool):
        return float(value)
    fine = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**60
    return value if fine else 0
