"""A sandbox of bubblewrap: an empty file system, the Python environment read-only, and no network.

Nothing of the host is in it but what is bound here. The driver is the first process of a space of its own, so
nothing outlives it. Where control groups can be made, all processes and all memory are bounded together.
"""

import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_utils.grading.sandbox.cgroups import Group, Groups
from course_utils.grading.sandbox.limits import Limits

DRIVER = "import course_utils.grading.driver as driver; driver.main()"
COURSE = "/course"
# Joins the groups, whose paths come first, and becomes the sandbox: no code of ours between fork and exec.
_JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 97; shift; done; shift; exec "$@"'
# Parts of /proc that are the machine's. bubblewrap covers those that it finds writable, and overlooks files in
# directories that are not: run by root, /proc/sys would be open to answers.
_COVERED = (
    "sys",
    "irq",
    "bus",
    "fs",
    "acpi",
    "scsi",
    "driver",
    "asound",
    "tty",
    "dynamic_debug",
    "pressure",
)
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")


@dataclass(frozen=True)
class Bubblewrap:
    """Commands in a sandbox of bubblewrap. `course` is a folder for the courses that it sees.

    groups: where control groups are made. scope: a prefix that bounds by other means (systemd-run).
    """

    course: Path
    groups: Groups | None = None
    scope: tuple[str, ...] = ()
    program: str = "bwrap"
    name = "bubblewrap"

    @property
    def weaker(self) -> tuple[str, ...]:
        """What is not guaranteed on this machine, in sentences."""
        if self.groups or self.scope:
            return ()
        return (
            "No control groups can be made here: memory is bounded for each process and not for all together, "
            "files in memory are bounded in size, and processes by the user's own count.",
        )

    @property
    def bounds_each_process(self) -> bool:
        return not (self.groups or self.scope)

    def command(self, course: Path, limits: Limits, group: Group | None = None) -> list[str]:
        """The driver in a fresh sandbox, as a command."""
        python, binds, paths = environment()
        arguments = [
            *(self.program, "--unshare-all", "--unshare-user", "--disable-userns"),
            *("--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--die-with-parent"),
            *("--new-session", "--as-pid-1", "--cap-drop", "ALL", "--clearenv"),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--size", str(limits.files_bytes), "--tmpfs", "/tmp"),
            *("--size", str(limits.files_bytes), "--tmpfs", "/dev/shm"),
        ]
        for part in _COVERED:
            if os.path.isdir(f"/proc/{part}"):
                arguments += ["--tmpfs", f"/proc/{part}", "--remount-ro", f"/proc/{part}"]
        for path in binds:  # after the tmpfs: an environment may lie below /tmp
            arguments += _bind(path)
        for path in paths:  # a course that is installed here would answer every question
            if (Path(path) / "course_utils").is_dir():
                arguments += ["--tmpfs", f"{path}/course_utils"]
        arguments += ["--ro-bind", str(course), COURSE]
        for name, value in variables(COURSE, paths).items():
            arguments += ["--setenv", name, value]
        arguments += ["--chdir", "/tmp", "--remount-ro", "/dev", "--remount-ro", "/"]
        arguments += ["--", python, "-s", "-S", "-B", "-c", DRIVER]
        if group is not None:
            joins = [str(folder / "cgroup.procs") for folder in group.folders]
            return ["/bin/sh", "-c", _JOIN, "sh", *joins, "--", *arguments]
        return [*scope_prefix(limits), *arguments] if self.scope else arguments


def scope_prefix(limits: Limits) -> list[str]:
    """systemd's own control group for a command of an ordinary user."""
    return [
        *("systemd-run", "--user", "--scope", "--quiet", "--collect"),
        *("-p", f"MemoryMax={limits.memory_bytes}", "-p", "MemorySwapMax=0"),
        *("-p", f"TasksMax={limits.processes + 4}", "--"),
    ]


def environment() -> tuple[str, list[str], list[str]]:
    """(the interpreter, what to bind for it, its folders of packages)."""
    python = os.path.realpath(sys.executable)
    packages = [path for path in site.getsitepackages() if os.path.isdir(path)]
    if site.ENABLE_USER_SITE and os.path.isdir(site.getusersitepackages()):
        packages.append(site.getusersitepackages())
    standard = sysconfig.get_paths()["stdlib"]
    base = sys.base_prefix
    own = [base] if base not in ("/", "/usr", "/usr/local") else [standard, f"{base}/lib", python]
    binds = [path for path in [*_SYSTEM, *own, *packages] if os.path.exists(path)]
    kept: list[str] = []
    for path in binds:
        if not any(
            Path(path).is_relative_to(other) and not os.path.islink(other) for other in kept
        ):
            kept.append(path)
    return python, kept, packages


def variables(course: str, packages: Sequence[str]) -> dict[str, str]:
    """The whole environment of a sandboxed process. One thread each: a fork does not survive others."""
    one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")}
    return one | {
        "PYTHONPATH": os.pathsep.join(filter(None, [course, *packages])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONSAFEPATH": "1",  # no import comes from where answers can write:
        "PYTHONNOUSERSITE": "1",  # not from the current folder, nor from below HOME
        "PYTHONUTF8": "1",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "MPLBACKEND": "agg",
        "MPLCONFIGDIR": "/tmp",
        "PATH": "",
    }


def _bind(path: str) -> list[str]:
    """Read-only; a symbolic link of the system (/lib -> usr/lib) stays one."""
    if os.path.islink(path):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind", path, path]
