"""Bounds for all of a sandbox's processes together: control groups, in both of Linux's versions.

A bound on one process is none on a hundred. A control group counts them all, with the files that they keep
in memory, and its numbers lie where nothing in the sandbox reaches. Version 1 has a tree for each kind of
bound, version 2 has one for all. The processor's time is bounded as well where that is possible, so that forty
processes that spin do not slow down the neighbours. A group is made below the one that this process is in (v2:
beside it, or beside one above it, since there a group with processes in it has no groups with bounds), and
taken away with the sandbox.
"""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from course_utils.grading.sandbox.limits import Limits

_PREFIX = "course-grading-"
_numbers = itertools.count()


@dataclass(frozen=True)
class Group:
    """One sandbox's group: its folders for memory, processes and the processor's time; in v2 one and the same."""

    memory: Path
    pids: Path
    cpu: Path | None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(each for each in (self.memory, self.pids, self.cpu) if each))

    @property
    def is_v1(self) -> bool:
        return self.memory != self.pids

    def bound(self, limits: Limits) -> None:
        """Write the limits. Raises OSError where a bound that counts cannot be set."""
        most = str(limits.memory_bytes)
        if self.is_v1:
            (self.memory / "memory.limit_in_bytes").write_text(most)
            swap, swap_most = self.memory / "memory.memsw.limit_in_bytes", most
        else:
            (self.memory / "memory.max").write_text(most)
            swap, swap_most = self.memory / "memory.swap.max", "0"
        with suppress(OSError):  # kernels without swap accounting have no such file
            if swap.exists():
                swap.write_text(swap_most)
        (self.pids / "pids.max").write_text(str(limits.processes))
        with suppress(OSError):  # a controller that is not given to us
            self._bound_cores(limits.cores)

    def _bound_cores(self, cores: float) -> None:
        period = 100_000  # of the kernel's scheduler, in microseconds
        quota = f"{cores * period:.0f}"
        if self.cpu is not None:
            (self.cpu / "cpu.cfs_quota_us").write_text(quota)
        elif (self.pids / "cpu.max").exists():
            (self.pids / "cpu.max").write_text(f"{quota} {period}")

    def kills(self) -> int:
        """How many of its processes were killed because memory ran out."""
        name = "memory.oom_control" if self.is_v1 else "memory.events"
        with suppress(OSError, ValueError):
            for line in (self.memory / name).read_text().splitlines():
                word, _, number = line.partition(" ")
                if word == "oom_kill":
                    return int(number)
        return 0

    def peak_bytes(self) -> int | None:
        """The most that it took at once, file pages included; None where the kernel does not tell."""
        name = "memory.max_usage_in_bytes" if self.is_v1 else "memory.peak"
        with suppress(OSError, ValueError):
            return int((self.memory / name).read_text())
        return None

    def processes(self) -> list[int]:
        with suppress(OSError, ValueError):
            return [int(pid) for pid in (self.pids / "cgroup.procs").read_text().split()]
        return []

    def remove(self, seconds: float = 5.0) -> bool:
        """End what is left in it and take it away. False if that did not work in time."""
        deadline = time.monotonic() + seconds
        while True:
            with suppress(OSError):
                (self.pids / "cgroup.kill").write_text("1")  # v2, from Linux 5.14 on
            for pid in self.processes():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            for folder in self.folders:
                with suppress(OSError):
                    folder.rmdir()
            if not any(folder.exists() for folder in self.folders):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)


@dataclass(frozen=True)
class Groups:
    """Where groups can be made: a folder in each tree."""

    memory: Path
    pids: Path
    cpu: Path | None = None

    @contextmanager
    def group(self, limits: Limits) -> Iterator[Group]:
        """A fresh group within these limits, gone afterwards. Raises OSError."""
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        group = Group(self.memory / name, self.pids / name, self.cpu and self.cpu / name)
        try:
            for folder in group.folders:
                folder.mkdir()
            group.bound(limits)
            yield group
        finally:
            group.remove()

    def sweep(self) -> int:
        """Take away the groups of graders that were killed. Returns how many there were."""
        found = 0
        trees = [tree for tree in (self.memory, self.pids, self.cpu) if tree]
        for folder in sorted({folder for tree in trees for folder in tree.glob(f"{_PREFIX}*")}):
            owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                found += Group(folder, folder).remove(1.0)
        return found


def find_groups(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Groups | None:
    """Where this process may make groups with both bounds, or None."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    paths = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        paths |= {controller: path.lstrip("/") for controller in controllers.split(",")}
    for groups in _candidates(root, paths):
        if _works(groups):
            return groups
    return None


def _candidates(root: Path, paths: dict[str, str]) -> Iterator[Groups]:
    if "memory" in paths and "pids" in paths:
        two = root / "memory" / paths["memory"], root / "pids" / paths["pids"]
        if "cpu" in paths:
            yield Groups(*two, root / "cpu" / paths["cpu"])
        yield Groups(*two)
    if "" in paths:
        own = root / paths[""]
        for folder in (own, *own.parents):
            if not folder.is_relative_to(root):
                return
            for controllers in ("+memory +pids", "+cpu"):
                with suppress(OSError):  # refused where it has processes of its own
                    (folder / "cgroup.subtree_control").write_text(controllers)
            yield Groups(folder, folder)


def _works(groups: Groups) -> bool:
    """Whether a group can be made there, bounded, and taken away."""
    try:
        with groups.group(Limits()) as group:
            return group.kills() == 0 and (group.memory / "cgroup.procs").exists()
    except OSError:
        return False
