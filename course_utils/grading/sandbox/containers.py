"""A sandbox of Docker or Podman, where there is no bubblewrap: macOS, Windows, Ubuntu without namespaces.

The same driver in a container without network, without capabilities, read-only, with the sandbox's course
bound into it. The container's image brings Python and what the course needs, and no course:
`Containerfile` beside this module builds it.
"""

import itertools
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from course_utils.grading.sandbox.bubblewrap import COURSE, DRIVER, variables
from course_utils.grading.sandbox.cgroups import Group
from course_utils.grading.sandbox.limits import Limits

ENGINES = ("podman", "docker")
IMAGE = os.environ.get("COURSE_GRADING_IMAGE", "memory-io-course-grading")
BUILD = (
    f"build -t {IMAGE} -f {Path(__file__).with_name('Containerfile')} {Path(__file__).parents[3]}"
)
_numbers = itertools.count()


@dataclass
class Container:
    """Commands in a container of `engine`."""

    course: Path
    engine: str
    image: str = IMAGE
    groups = None
    bounds_each_process = False
    weaker = ()

    @property
    def name(self) -> str:
        return Path(self.engine).name

    def command(self, course: Path, limits: Limits, group: Group | None = None) -> list[str]:
        """The driver in a fresh container, as a command."""
        own = f"course-grading-{os.getpid()}-{next(_numbers)}"
        size = f"size={limits.files_bytes}"
        arguments = [
            *(self.engine, "run", "--rm", "--interactive", "--name", own),
            *("--network", "none", "--read-only", "--cap-drop", "ALL"),
            *("--security-opt", "no-new-privileges", "--user", "65534:65534"),
            *("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)),
            *("--pids-limit", str(limits.processes), "--shm-size", str(limits.files_bytes)),
            *("--tmpfs", f"/tmp:rw,nosuid,nodev,{size}", "--workdir", "/tmp"),
            *("--volume", f"{course}:{COURSE}:ro", "--entrypoint", "python"),
        ]
        for variable, value in variables(COURSE, ()).items():
            if variable != "PATH":
                arguments += ["--env", f"{variable}={value}"]
        return [*arguments, self.image, "-B", "-c", DRIVER]

    def end(self, process: subprocess.Popen) -> None:
        """A container outlives its client: end it by the name in the client's own command."""
        arguments = list(process.args)
        if process.returncode != 0 and "--name" in arguments:
            own = arguments[arguments.index("--name") + 1]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            with suppress(
                OSError, subprocess.TimeoutExpired
            ):  # an engine that hangs: a row counts more
                subprocess.run(
                    [self.engine, "rm", "--force", own], **quiet, timeout=60, check=False
                )
