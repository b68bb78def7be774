"""Many submissions over the cores of this machine, or of a cluster; no bad one stops the others.

Few are in flight at any time, so memory does not grow with the class. Each row is safe on disk as soon
as there is one. A process that dies takes no neighbour with it: what was in flight is graded again, one
by one, and what kills its process a second time gets a row that says so.
"""

import hashlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field

from course_utils.errors import CourseError
from course_utils.grading.grade_one import Settings, close, empty_row, grade_one, use_sandbox
from course_utils.grading.ledger import Ledger
from course_utils.grading.records import Graded, RowStatus, Submission
from course_utils.grading.version import checks_version

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
REUSED = (RowStatus.GRADED, RowStatus.PARTLY)
CONNECT_SECONDS = 15
ENDED = (BrokenProcessPool, SystemExit)  # SystemExit: somebody sent a worker SIGTERM, see `end`
DIED = "the grader's own process ended on this submission"
Grade = Callable[[Submission, Settings], Graded]
Step = Callable[[Graded, bool], None]


@dataclass
class Batch:
    """A run over many submissions. `rows` are in the order in which they were handed in."""

    settings: Settings
    ledger: Ledger
    step: Step  # told of each row, and whether it is an earlier run's
    grade: Grade = grade_one
    rows: dict[int, Graded] = field(default_factory=dict)
    running: dict[Future, tuple[int, Submission]] = field(default_factory=dict)

    def run(self, submissions: Iterable[Submission], workers: "Workers") -> list[Graded]:
        """Grade them all. On Ctrl-C what is done is in `rows`, and KeyboardInterrupt goes on."""
        for order, submission in enumerate(submissions):
            if known := self.known(submission):
                self.finish(order, known, reused=True)
            elif submission.content is None:
                self.finish(order, grade_one(submission, self.settings))
            else:
                future = workers.submit(work, self.grade, submission, self.settings)
                self.running[future] = order, submission
            while len(self.running) >= workers.in_flight:
                self.collect(workers)
        while self.running:
            self.collect(workers)
        return self.in_order()

    def in_order(self) -> list[Graded]:
        return [self.rows[order] for order in sorted(self.rows)]

    def known(self, submission: Submission) -> Graded | None:
        """The row of an earlier run for the same content, seed and checks."""
        if submission.content is None:
            return None
        content_hash = hashlib.sha256(submission.content).hexdigest()
        row = self.ledger.known(submission.student, content_hash, self.settings.seed)
        if row is None or row.status not in REUSED:
            return None
        wanted = self.settings.wanted or row.notebook
        if row.notebook != wanted or row.checks_version != checks_version(row.notebook):
            return None
        row.origin, row.attempt = submission.origin, submission.attempt
        row.handed_in = submission.handed_in
        if submission.mark and submission.mark not in row.note:
            row.note = "; ".join(filter(None, [submission.mark, row.note]))
        return row

    def finish(self, order: int, row: Graded, reused: bool = False) -> None:
        if not reused:
            self.ledger.add(row)
        self.rows[order] = row
        self.step(row, reused)

    def collect(self, workers: "Workers") -> None:
        """Wait for a submission or more to be done, and keep their rows."""
        done, _ = wait(self.running, return_when=FIRST_COMPLETED)
        broken = []
        for future in done:
            order, submission = self.running.pop(future)
            try:
                self.finish(order, future.result())
            except ENDED:
                broken.append((order, submission))
            except CourseError:
                raise
            except Exception as error:
                self.finish(order, self.failed(submission, error))
        if broken:
            broken += self.running.values()
            self.running.clear()
            self.one_by_one(sorted(broken, key=lambda each: each[0]), workers)

    def one_by_one(self, waiting: list[tuple[int, Submission]], workers: "Workers") -> None:
        """After a process died: each suspect alone, in a process of its own."""
        workers.renew()
        for order, submission in waiting:
            try:
                row = workers.submit(work, self.grade, submission, self.settings).result()
            except ENDED:
                row = close(empty_row(submission, self.settings), RowStatus.GRADER_ERROR, DIED)
                workers.renew()
            except CourseError:
                raise
            except Exception as error:
                row = self.failed(submission, error)
            self.finish(order, row)

    def failed(self, submission: Submission, error: Exception) -> Graded:
        """A row for a failure of the pool's or the cluster's: grade_one raises none."""
        told = f"{type(error).__name__}: {str(error)[:200]}"
        return close(empty_row(submission, self.settings), RowStatus.GRADER_ERROR, told)


class Workers:
    """Who does the work: processes of this machine, made anew when one has died, or a cluster."""

    def __init__(self, make: Callable[[], Executor], count: int):
        self.make, self.count = make, count
        self.executor = make()

    @property
    def in_flight(self) -> int:
        """Enough that no worker waits for the next one, few enough to stay small."""
        return 2 * self.count + 1

    def submit(self, function: Callable, *arguments) -> Future:
        try:
            return self.executor.submit(function, *arguments)
        except BrokenProcessPool as broken:
            future: Future = Future()
            future.set_exception(broken)
            return future

    def renew(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)
        self.executor = self.make()


@contextmanager
def local_workers(count: int, sandbox=None) -> Iterator[Workers]:
    """Processes of this machine. However this is left, none stays behind."""

    def make() -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(
            count, context, initializer=begin_worker, initargs=(os.getpid(), sandbox)
        )

    children = set(multiprocessing.active_children())
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)  # a core each: more threads would only be in each other's way
    workers = Workers(make, count)
    try:
        yield workers
    except BaseException:
        for process in set(multiprocessing.active_children()) - children:
            process.terminate()  # begin_worker: what it runs is cleared away first
        raise
    finally:
        workers.executor.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


_ending = threading.Event()  # in a worker that was told to end


def work(grade: Grade, submission: Submission, settings: Settings) -> Graded:
    """A worker's task. One that was waiting in the worker's own queue when it was to end is not begun."""
    try:
        if _ending.is_set():
            sys.exit(143)
        return grade(submission, settings)
    finally:
        if _ending.is_set():  # the pool takes the exit for the task's; again, when it is idle
            again = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
            again.daemon = True
            again.start()


def end(*_) -> None:
    _ending.set()
    sys.exit(143)


def begin_worker(parent: int, sandbox=None) -> None:
    """Ctrl-C is for the parent to act on; SIGTERM unwinds; a worker whose parent is gone ends."""
    use_sandbox(sandbox)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end)
    if hasattr(os, "getppid"):
        threading.Thread(target=watch, args=(parent,), daemon=True).start()


def watch(parent: int, pause_seconds: float = 1.0) -> None:
    """End this process when its parent was killed: gently at first, so that a sandbox is cleared."""
    while os.getppid() == parent:
        time.sleep(pause_seconds)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
    os._exit(1)


@contextmanager
def cluster_workers(address: str) -> Iterator[Workers]:
    """The workers of a dask.distributed cluster, by its scheduler's address. Raises CourseError."""
    try:
        from distributed import Client
    except ImportError:
        raise CourseError(
            "--scheduler needs dask's `distributed`: pip install distributed"
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise CourseError(f"no dask scheduler answers at {address}: {str(error)[:120]}") from None
    with client:
        count = sum(client.nthreads().values())
        if not count:
            raise CourseError(f"the cluster at {address} has no workers yet: start some first")
        yield Workers(lambda: client.get_executor(pure=False), count)
