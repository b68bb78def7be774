"""pip, watched: what it is doing in one moving line, and why it stopped in another.

pip prints some three hundred lines for this course. On a terminal they pass in one line with a
clock, so that a long download is seen to be alive; elsewhere only the long steps leave a line. All
of them are kept in a file. Standard library only: this runs before anything is installed.
"""

import os
import platform
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from course_utils.errors import CourseError

# how pip's many ways of saying "no network" begin
NO_NETWORK = re.compile(
    r"connection broken|NewConnectionError|NameResolutionError|Failed to establish|ProxyError|"
    r"Max retries exceeded|Read timed out|ConnectTimeout",
    re.IGNORECASE,
)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def pip_install(python: Path, root: Path, log: Path) -> None:
    """Install requirements.txt as constraints.txt pins it; pip's own settings hold."""
    say("Installing what the course needs: about a minute when the network is fast.")
    if takes_cuda():
        say("On Linux, PyTorch comes with CUDA: several GB. Without a GPU, --help spares you that.")
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "-r", "requirements.txt", "-c", "constraints.txt"]
    pip = subprocess.Popen(
        command,
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )
    try:
        lines = follow(pip, log)
        status = pip.wait()
    except KeyboardInterrupt:
        say("")
        pip.terminate()
        pip.wait()
        raise
    if status != 0:
        raise CourseError(
            f"the set-up stopped: {why(lines)} (all that pip said: {log}). "
            "Nothing was lost: run the same command again."
        )


def takes_cuda() -> bool:
    """True where pip, left to itself, takes PyTorch's CUDA build, and no GPU is in sight."""
    chosen = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")
    return (
        sys.platform == "linux"
        and shutil.which("nvidia-smi") is None
        and not any(name in os.environ for name in chosen)
    )


def follow(pip: subprocess.Popen, log: Path) -> list[str]:
    """Show and keep pip's lines until it ends."""
    coming: queue.Queue[str | None] = queue.Queue()

    def read():
        for line in pip.stdout:
            coming.put(line.rstrip())
        coming.put(None)

    threading.Thread(target=read, daemon=True).start()
    lines, start = [""], time.monotonic()
    with open(log, "w", encoding="utf-8") as kept:
        while True:
            try:
                line = coming.get(timeout=1)
            except queue.Empty:  # nothing new, but the clock goes on
                show(lines[-1], time.monotonic() - start, is_new=False)
                continue
            if line is None:
                break
            kept.write(line + "\n")
            kept.flush()
            lines.append(line)
            show(line, time.monotonic() - start, is_new=True)
    if sys.stderr.isatty():
        say("")
    return lines


def show(line: str, seconds: float, is_new: bool) -> None:
    """The moving line of a terminal; elsewhere a line for each long step alone."""
    if line.startswith("WARNING") and not NO_NETWORK.search(line):
        return  # pip's remarks on its own settings: they are in the log
    text = f"  {int(seconds) // 60}:{int(seconds) % 60:02d}  {describe(line)}"
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        print("\r" + text[:width].ljust(width), end="", file=sys.stderr, flush=True)
    elif is_new and is_long_step(line):
        say(text)


def describe(line: str) -> str:
    """What a line of pip's means, shortened where pip is long."""
    line = line.strip()
    if packages := line.partition("Installing collected packages: ")[2]:
        return f"unpacking {packages.count(',') + 1} packages; for all of them, half a minute"
    if NO_NETWORK.search(line):
        return "the package index does not answer; trying again"
    if name := re.match(r"(Downloading|Using cached) \S*?([^/\s]+\.(?:whl|tar\.gz)\S*)(.*)", line):
        return f"{name[1].lower()} {name[2]}{name[3]}"
    return line


def is_long_step(line: str) -> bool:
    size = re.search(r"Downloading .*\((\d+(?:\.\d+)?) (MB|GB)\)", line)
    large = size is not None and (size[2] == "GB" or float(size[1]) >= 20)
    return large or line.startswith(("Installing collected packages", "ERROR"))


def why(lines: list[str]) -> str:
    """The line of pip's that says why it stopped."""
    if any("No space left on device" in line for line in lines):
        return "no disk space is left"
    if any(NO_NETWORK.search(line) for line in lines):
        return "no network, or the package index does not answer"
    errors = [line.partition("ERROR:")[2].strip() for line in lines if "ERROR:" in line]
    said = [line.strip() for line in lines if line.strip()]
    reason = (errors or said or ["pip said nothing"])[-1].rstrip(".")
    if reason.startswith("No matching distribution"):
        version = ".".join(platform.python_version_tuple()[:2])
        reason += f"; is there a network, and is there one for Python {version} on {sys.platform}?"
    return reason
