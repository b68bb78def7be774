"""No sandbox of ours: the machine is a throw-away container already, and whoever runs this said so.

So it is on Gradescope: one submission, one container. What the container does not cut off (its network, its
files) is there for answers too. As root the driver becomes an ordinary user that owns nothing; what must not
be read there has to be readable for root alone.
"""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from course_utils.grading.sandbox.bubblewrap import DRIVER, environment, variables
from course_utils.grading.sandbox.cgroups import Group, Groups
from course_utils.grading.sandbox.limits import Limits

NOBODY = 65534


@dataclass
class Inside:
    """The driver as a plain process. `groups` where they can be made."""

    course: Path
    groups: Groups | None = None
    options: dict = field(default_factory=dict)
    name = "inside a container"

    def __post_init__(self):
        if os.geteuid() == 0 and not self.options:
            self.options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.options |= {"cwd": "/tmp", "env": variables("", environment()[2])}

    @property
    def bounds_each_process(self) -> bool:
        return self.groups is None

    @property
    def weaker(self) -> tuple[str, ...]:
        """What is not guaranteed, in sentences."""
        return (
            "Answers run in this container as they are: its network and its files are theirs as far as they "
            "are an ordinary user's.",
        )

    def command(self, course: Path, limits: Limits, group: Group | None = None) -> list[str]:
        """The driver, as a command."""
        here = f"import sys; sys.path.insert(0, {str(course)!r}); "
        return [os.path.realpath(sys.executable), "-s", "-S", "-B", "-c", here + DRIVER]
