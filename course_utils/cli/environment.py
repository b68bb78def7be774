"""Which Python runs the course, and how .venv gets ready.

A set-up takes a minute and can be cut short: Ctrl-C, a lost network, a full disk. So `.venv`
carries a stamp, written last, that says what it was made from. If the stamp fits, nothing is done,
and a command starts at once; if it does not, pip goes on from what is there. A `.venv` without a
working Python and pip, or from another folder or Python, is made anew.

course.py imports this before anything is installed: standard library only.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import time
import venv
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from course_utils.cli import installing
from course_utils.errors import CourseError
from course_utils.locks import lock

PACKAGE = "memory-io-course"
LISTS = ("requirements.txt", "constraints.txt", "pyproject.toml")
AGAIN = "Nothing was lost: run the same command again."
GB = 10**9


def choose_python(root) -> Path:
    """The interpreter for the commands: COURSE_PYTHON, else this one if complete, else .venv's."""
    if named := os.environ.get("COURSE_PYTHON"):
        python = os.path.abspath(shutil.which(named) or named)
        if ask(python, f"import importlib.metadata as m; m.version('{PACKAGE}')", "-P") is None:
            raise CourseError(
                f"COURSE_PYTHON={named} does not run, or lacks the course; with that Python, run: "
                "-m pip install -r requirements.txt -c constraints.txt"
            )
        return Path(python)
    environment = Environment(root)
    if has_everything(environment):
        return Path(sys.executable)
    environment.set_up()
    return environment.python


def has_everything(environment: "Environment") -> bool:
    """True if the running Python is not .venv's, and has this very course and all it needs."""
    if Path(sys.prefix).resolve() == environment.folder.resolve():
        return False
    places = [sysconfig.get_path("purelib")]
    places += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []  # pip install --user
    record = PACKAGE.replace("-", "_") + "-*.dist-info"
    for installed in (found for place in places for found in Path(place).glob(record)):
        try:
            url = json.loads((installed / "direct_url.json").read_text("utf-8"))["url"]
            for name in environment.required_names():
                metadata.version(name)
        except (OSError, ValueError, KeyError, metadata.PackageNotFoundError):
            return False
        return Path(url2pathname(urlsplit(url).path)).resolve() == environment.root
    return False


def ask(python: str | Path, code: str, alone: str = "-I") -> str | None:
    """What this interpreter prints when it runs the code; None if it can't.

    alone: "-I" for itself alone; "-P" with the user's own packages, without the current folder.
    """
    try:
        answer = subprocess.run([str(python), alone, "-c", code], capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.decode("utf-8", "replace").strip() if answer.returncode == 0 else None


class Environment:
    """The folder .venv of a course."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        self.folder = self.root / ".venv"
        self.python = self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.stamp = self.folder / "course-stamp.json"

    # ------------------------------------------------------------ what is there

    def expected_stamp(self) -> dict:
        """What a finished set-up in this place, from these lists, says of itself."""
        lists = hashlib.sha256()
        for name in LISTS:
            try:
                lists.update((self.root / name).read_bytes())
            except OSError:
                raise CourseError(
                    f"this copy of the course lacks {name}; it needs {', '.join(LISTS)}"
                ) from None
        version = ask(self.python, "import sys; print('%d.%d' % sys.version_info[:2])")
        return {"location": str(self.folder), "python": version, "lists": lists.hexdigest()}

    def read_stamp(self) -> dict:
        try:
            stamp = json.loads(self.stamp.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def write_stamp(self, stamp: dict) -> None:
        new = self.stamp.with_suffix(".new")
        new.write_text(json.dumps(stamp), "utf-8")
        os.replace(new, self.stamp)

    def is_ready(self) -> bool:
        return self.stamp.exists() and self.read_stamp() == self.expected_stamp()

    def is_usable(self) -> bool:
        """True if pip can go on: Python runs, pip is whole, and both were made for this place."""
        pip = ask(
            self.python,
            "import importlib.metadata as m; print(m.distribution('pip').read_text('INSTALLER'))",
        )
        if pip in (None, "None"):  # INSTALLER is what an installation writes last
            return False
        stamp, expected = self.read_stamp(), self.expected_stamp()
        return all(stamp.get(key, expected[key]) == expected[key] for key in ("location", "python"))

    def site_packages(self) -> Path:
        found = [*self.folder.glob("lib/python*/site-packages"), self.folder / "Lib/site-packages"]
        return found[0]

    def required_names(self) -> list[str]:
        """The packages of requirements.txt for this system, without versions and options."""
        lines = (self.root / "requirements.txt").read_text("utf-8").splitlines()
        elsewhere = re.compile(rf";.*sys_platform == (?!['\"]{sys.platform}['\"])")
        return [
            name.group()
            for line in lines
            if (name := re.match(r"[A-Za-z0-9][\w.-]*", line)) and not elsewhere.search(line)
        ]

    # ------------------------------------------------------------ making it ready

    def set_up(self) -> None:
        """Make .venv ready, or finish what an interrupted call began; at once if it is ready."""
        if self.is_ready():
            return
        with only_one(self.root / "course.py"):
            if self.is_ready():  # another call finished it while this one waited
                return
            self.check_machine()
            if not self.is_usable():
                self.make()
            stamp = self.expected_stamp()
            self.write_stamp(stamp | {"lists": "unfinished"})
            self.forget_half_installed()
            installing.pip_install(self.python, self.root, log=self.folder / "course-setup.log")
            self.write_stamp(stamp)
        installing.say("The course is ready.")

    def check_machine(self) -> None:
        """Refuse what can't work before anything is written."""
        if importlib.util.find_spec("ensurepip") is None:
            raise CourseError(
                "this Python has no ensurepip, and so can't make an environment; on Debian and "
                "Ubuntu, run: sudo apt install python3-venv"
            )
        try:
            self.folder.mkdir(exist_ok=True)
            probe = self.folder / "course-probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise CourseError(
                f"can't write into {self.folder} ({error.strerror}); copy the course to a folder "
                "that is yours, and run the command there"
            ) from None
        needed = 0.2 * GB if (self.site_packages() / "torch").exists() else 2 * GB
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise CourseError(
                f"no disk space: {self.root} has {free / GB:.1f} GB free, and the set-up takes "
                f"{needed / GB:.1f} GB (with PyTorch's CUDA build, Linux's default, up to 8 GB: "
                "see --help); make room and run the same command again"
            )

    def make(self) -> None:
        installing.say(f"Making {self.folder}: a Python for this course alone, a few seconds.")
        maker = venv.EnvBuilder(
            clear=True, with_pip=True, symlinks=os.name != "nt", prompt="course"
        )
        try:
            maker.create(self.folder)
        except (OSError, subprocess.SubprocessError) as error:
            raise CourseError(f"{self.folder} could not be made ({error}). {AGAIN}") from None

    def forget_half_installed(self) -> None:
        """Drop pip's records of packages that were cut short, so that pip installs them again."""
        site = self.site_packages()
        for record in site.glob("*.dist-info"):
            if not (record / "INSTALLER").exists():
                shutil.rmtree(record)
        for removed in site.glob("~*"):  # where pip keeps what it was about to replace
            shutil.rmtree(removed)


@contextlib.contextmanager
def only_one(door: Path):
    """One set-up at a time. The lock lies on course.py itself, and ends with its process."""
    with open(door, "r+b" if os.access(door, os.W_OK) else "rb") as file:
        if not lock(file):
            installing.say("Another set-up of this folder is running: waiting for it to end.")
            while not lock(file):
                time.sleep(0.3)
        yield
