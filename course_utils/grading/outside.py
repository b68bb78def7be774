"""An answer's memory, seen by the driver: what a process took at most, whatever the meters in it say.

The meters of a check run beside the answer, in one process with it. The kernel keeps a high-water mark of every
process, which the driver sets back just before an answer is called and reads when it has returned. It knows
no arrays: with it comes what an allocator, a library or a trace takes. So it bounds, and does not count.
"""

import ctypes
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

_libc = ctypes.CDLL(None)
FILES = ("/tmp", "/dev/shm")
CLEANING_SECONDS, ENDING_SECONDS = 5, 0.25
SEMAPHORE_BYTES = 64  # a pool of threads makes one, which is a file


@dataclass
class Window:
    """One call under the meters. excess: the most that the process took beyond what it had as it began."""

    began_bytes: int
    files_bytes: int
    reaped_faults: int
    excess_bytes: int = 0
    other_processes: bool = False
    threads: bool = False


@dataclass
class Watch:
    """A child's memory from outside. Made while its /proc is this user's, used when it is not."""

    pid: int
    first_bytes: int = 0
    windows: list[Window] = field(default_factory=list)  # of the case that is going on
    open: Window | None = None
    _reset: int = -1

    def __post_init__(self):
        try:
            self._reset = os.open(f"/proc/{self.pid}/clear_refs", os.O_WRONLY)
        except OSError:  # a kernel without it: its numbers are an upper bound
            self._reset = -1
        self.first_bytes = status_bytes(self.pid)[0]

    @property
    def works(self) -> bool:
        return self._reset >= 0

    def begins(self) -> None:
        """Just before the call. One that was open goes on: nobody else may set the mark back."""
        if self.open is not None:
            return
        now_bytes, _ = status_bytes(self.pid)
        if self.works:
            try:
                os.write(self._reset, b"5")
            except OSError:
                self.close()
        self.open = Window(now_bytes, files_bytes(), reaped_faults(self.pid))
        self.windows.append(self.open)

    def ends(self) -> None:
        """Just after it."""
        window, self.open = self.open, None
        if window is None:
            return
        window.threads = goes_on(self.pid)
        _, high_bytes = status_bytes(self.pid)
        more_files = files_bytes() - window.files_bytes
        window.excess_bytes = max(high_bytes - window.began_bytes, 0) + max(more_files, 0)
        window.other_processes = (
            bool(children(self.pid)) or reaped_faults(self.pid) != window.reaped_faults
        )

    def take(self) -> dict | None:
        """What the case's windows say, and a new case. None: it had none, or this kernel cannot tell."""
        self.ends()
        windows, self.windows = self.windows, []
        if not windows or not self.works:
            return None
        return {
            "excess_bytes": max(window.excess_bytes for window in windows),
            "before_bytes": max(window.began_bytes for window in windows) - self.first_bytes,
            "processes": any(window.other_processes for window in windows),
            "threads": any(window.threads for window in windows),
            "calls": len(windows),
        }

    def close(self) -> None:
        if self.works:
            os.close(self._reset)
        self._reset = -1


def is_metered(run: Callable) -> bool:
    """Whether an exercise's `run` counts with `observe_memory`, around which the driver looks."""
    return "observe_memory" in getattr(getattr(run, "__func__", run), "__globals__", {})


def close_side_doors(run: Callable) -> None:
    """For a metered exercise: what lies in files and pipes is memory too, and no high-water mark shows it."""
    if is_metered(run):
        resource.setrlimit(resource.RLIMIT_FSIZE, (SEMAPHORE_BYTES, SEMAPHORE_BYTES))
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))


def leave_nothing() -> None:
    """Take away what outlives its processes, System V's segments and files, where this is a space of its own."""
    if os.getpid() != 1:
        return
    empty_folders()
    try:
        with open("/proc/sysvipc/shm") as file:
            numbers = [int(line.split()[1]) for line in file.read().splitlines()[1:]]
    except (OSError, ValueError, IndexError):
        return
    for number in numbers:
        _libc.shmctl(number, 0, None)  # IPC_RMID


def empty_folders() -> None:
    """Take away all files in memory, as far as they let themselves be taken away; by a child, for a million files."""
    if not any(map(_has_entries, FILES)):
        return
    cleaner = os.fork()
    if cleaner == 0:
        with suppress(BaseException):
            signal.alarm(CLEANING_SECONDS)
            for folder in FILES:
                _empty(folder)
        os._exit(0)
    os.waitpid(cleaner, 0)


def _has_entries(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(True for _ in entries)
    except OSError:  # closed to its owner
        return True


def _empty(folder: str) -> None:
    with suppress(OSError):
        os.chmod(folder, 0o1777)
        for entry in list(os.scandir(folder)):
            with suppress(OSError, RecursionError):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)


def status_bytes(pid: int | str) -> tuple[int, int]:
    """(resident now, the most since the mark was set back)."""
    found = {}
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in ("VmRSS", "VmHWM"):
                    found[name] = int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return found.get("VmRSS", 0), found.get("VmHWM", 0)


def files_bytes() -> int:
    """What lies in files in memory."""
    total = 0
    for folder in FILES:
        try:
            here = os.statvfs(folder)
        except OSError:
            continue
        total += (here.f_blocks - here.f_bfree) * here.f_frsize
    return total


def reaped_faults(pid: int) -> int:
    """Page faults of the children that it has waited for: a number that grows with each of them."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[8]) + int(fields[10])
    except (OSError, ValueError, IndexError):
        return 0


def children(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return file.read().split()
    except OSError:
        return []


def goes_on(pid: int) -> bool:
    """Whether it has threads that do not end by themselves, as those of a pool do a moment later."""
    deadline = time.monotonic() + ENDING_SECONDS
    while True:
        try:
            if len(os.listdir(f"/proc/{pid}/task")) <= 1:
                return False
        except OSError:
            return False
        if time.monotonic() > deadline:
            return True
        time.sleep(0.002)
