"""What this machine has, and what each absence means for the course.

Most students have a laptop without a GPU, and most of what they lack they do not need. So the
doctor never says "absent" alone: each line says what is there, or what its absence changes. A
timing says nothing without its machine either: hence `machine_name`, for captions.

Nothing heavy is imported with this module: the doctor loads torch only when it examines it.
"""

import html
import importlib
import platform
import re
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from course_utils.machine import GIB, machine_name, memory_bytes, output_of

__all__ = ["Finding", "Report", "doctor", "machine_name"]

OK, FINE, MISSING = "ok", "absent, fine", "missing"


@dataclass(frozen=True)
class Finding:
    """One thing looked for: what was found, and what that means for the course."""

    what: str
    status: str  # OK, FINE or MISSING
    found: str
    meaning: str


@dataclass(frozen=True)
class Report:
    """The doctor's findings; prints as aligned text, and as a table in a notebook."""

    findings: tuple[Finding, ...]

    @property
    def is_fit(self) -> bool:
        """True unless something that the course needs is missing."""
        return all(finding.status != MISSING for finding in self.findings)

    @property
    def summary(self) -> str:
        missing = [finding.what for finding in self.findings if finding.status == MISSING]
        if missing:
            return f"Needed, and not here: {', '.join(missing)}."
        return "This machine is fit for the course."

    def rows(self) -> list[tuple[str, str, str, str]]:
        return [(f.what, f.status, f.found, f.meaning) for f in self.findings]

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.rows(), strict=True)][:3]
        lines = [
            "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]])
            for row in self.rows()
        ]
        return "\n".join([*(line.rstrip() for line in lines), self.summary])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        left = 'style="text-align: left"'
        heads = ("", "status", "found", "meaning")
        header = "".join(f'<th scope="col" {left}>{head}</th>' for head in heads)
        body = "".join(
            f'<tr><th scope="row">{html.escape(row[0])}</th>'
            + "".join(f"<td {left}>{html.escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self.rows()
        )
        return (
            f"<table><caption>{html.escape(self.summary)}</caption>"
            f"<thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"
        )


def doctor() -> Report:
    """Examine this machine: Python and its packages, GPU, tools, memory, disk."""
    packages = (needed_package(name) for name in ("numpy", "torch", "matplotlib", "jupyterlab"))
    tools = (gpu(), triton(), nvcc(), browser(), sandbox())
    return Report((python(), *packages, *tools, this_machine(), disk()))


# ---------------------------------------------------------------- what the course needs


def python() -> Finding:
    return Finding("Python", OK, platform.python_version(), "")


def needed_package(name: str) -> Finding:
    """A package without which no lesson runs. The compiled ones must also load."""
    try:
        version = metadata.version(name)
        module = importlib.import_module(name) if name in ("numpy", "torch") else None
    except metadata.PackageNotFoundError:
        return Finding(name, MISSING, "absent", "run: python course.py doctor, which installs it")
    except Exception as error:  # a broken installation fails in many ways
        return Finding(name, MISSING, f"{version}, broken", f"it can't be imported: {error}")
    if name != "torch":
        return Finding(name, OK, version, "")
    if module.version.cuda:
        return Finding(name, OK, version, f"a build for CUDA {module.version.cuda}")
    return Finding(name, OK, version, "a build for the CPU: all that the lessons need")


# ---------------------------------------------------------------- what some parts use


def gpu() -> Finding:
    """The first CUDA GPU, if torch can use it."""
    recorded = "lesson 08 shows recorded measurements instead"
    try:
        import torch

        if torch.cuda.is_available():
            device = torch.cuda.get_device_properties(0)
            found = f"{device.name}, {device.total_memory / GIB:.0f} GiB"
            found += f", sm_{device.major}{device.minor}"
            if device.major < 8:
                return Finding("CUDA GPU", FINE, found, f"older than sm_80: {recorded}")
            return Finding("CUDA GPU", OK, found, "lesson 08 runs on it")
    except Exception:  # no torch, a broken one, a broken driver: no GPU for us, whichever it is
        pass
    found = "a driver that torch can't use" if shutil.which("nvidia-smi") else "absent"
    return Finding("CUDA GPU", FINE, found, f"not needed: {recorded}")


def triton() -> Finding:
    try:
        version = metadata.version("triton")
    except metadata.PackageNotFoundError:
        return Finding("triton", FINE, "absent", "not needed without a GPU: lesson 08 is read then")
    return Finding("triton", OK, version, "lesson 08's kernels")


def nvcc() -> Finding:
    if not (path := shutil.which("nvcc")):
        return Finding("nvcc", FINE, "absent", "not needed: lesson 08's CUDA C++ is read then")
    release = re.search(r"release ([\d.]+)", output_of(path, "--version"))
    return Finding("nvcc", OK, release[1] if release else "found", "compiles lesson 08's CUDA C++")


def browser() -> Finding:
    if path := browser_path():
        found = Path(path).stem
        return Finding("browser for tests", OK, found, "for the course's own browser tests")
    meaning = "not needed: any browser shows the lessons; this is for the course's own tests"
    return Finding("browser for tests", FINE, "no Chromium", meaning)


def browser_path() -> str | None:
    """A program of the Chromium family, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge", "microsoft-edge")
    places = (
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
        r"C:\Program Files\Google\Chrome\Application\chrome.exe",
        r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
    )
    found = [*filter(None, map(shutil.which, names)), *(p for p in places if Path(p).exists())]
    return found[0] if found else None


def sandbox() -> Finding:
    if here := [name for name in ("bwrap", "docker", "podman") if shutil.which(name)]:
        return Finding("sandbox", OK, ", ".join(here), "for instructors: runs answers safely")
    meaning = "not needed by students; an instructor needs bubblewrap, docker or podman to grade"
    return Finding("sandbox", FINE, "absent", meaning)


# ---------------------------------------------------------------- the machine itself


def this_machine() -> Finding:
    total = memory_bytes()
    small = total is not None and total < 4 * GIB
    meaning = "little: close other programs while a lesson measures" if small else ""
    return Finding("machine", OK, machine_name(), meaning)


def disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / GIB
    meaning = "" if free >= 1 else "nearly full: make room before you save your work"
    return Finding("free disk", OK, f"{free:.1f} GiB", meaning)
