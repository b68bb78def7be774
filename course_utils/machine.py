"""The machine itself: processor, cores, memory.

A measured time means nothing without the machine that it was measured on, and Python has no
portable way to ask. Standard library only; where a system does not say, it is "unknown".
"""

import functools
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

GIB = 2**30


@functools.cache
def machine_name() -> str:
    """This machine in a few words, for captions: processor, cores, memory."""
    cores, total = core_count(), memory_bytes()
    memory = "unknown memory" if total is None else f"{total / GIB:.0f} GiB"
    return f"{processor_name()}, {cores} core{'s' * (cores != 1)}, {memory}"


def core_count() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """The processor's model, without the maker's decoration."""
    name = ""
    if sys.platform == "linux":
        name = field(Path("/proc/cpuinfo"), r"^model name\s*: (.+)$")
    elif sys.platform == "darwin":
        name = output_of("sysctl", "-n", "machdep.cpu.brand_string")
    elif sys.platform == "win32":
        import winreg

        key = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as processor:
            name = winreg.QueryValueEx(processor, "ProcessorNameString")[0]
    name = re.sub(r"\((R|TM)\)|\bCPU\b|\d+-Core|Processor|@.*", "", name)
    return " ".join(name.split()) or platform.machine() or "unknown processor"


def memory_bytes() -> int | None:
    """Bytes of RAM that this process may use: the machine's, or its container's if that is less."""
    limits = [installed_bytes()]
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limits.append(int(field(Path(limit), r"^(\d+)$") or 0))
    return min(filter(None, limits), default=None)


def installed_bytes() -> int | None:
    """Bytes of RAM in the machine; None where the system does not say."""
    if sys.platform == "win32":
        import ctypes

        state = (ctypes.c_uint64 * 8)(64)  # MEMORYSTATUSEX: its own length first, then ...
        ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(state))
        return int(state[1]) or None  # ... the total
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def field(file: Path, pattern: str) -> str:
    """The first match in a small text file of the system; empty if there is none."""
    try:
        found = re.search(pattern, file.read_text("utf-8", "replace"), re.MULTILINE)
    except OSError:
        return ""
    return found[1] if found else ""


def output_of(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
