"""What a file of measurements says of itself, and how it gets onto the disk.

A number without machine, versions and date is worth nothing, so they come first in the file. It is written
beside its place and then moved there: whoever reads it finds all of it, or the one before. A row is a line,
so that two files can be compared by eye.
"""

import json
import math
import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.machine import machine_name, output_of
from course_utils.recorded import SCHEMA

DIGITS = 4


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def header(kind: str, command: str) -> dict:
    """What any file begins with."""
    return {
        "schema": SCHEMA,
        "kind": kind,
        "date": now(),
        "command": command,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("torch", "triton", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def gpu_machine() -> dict:
    """The GPU at hand, its driver, and the CUDA that torch was made with."""
    import torch

    device = torch.cuda.get_device_properties(0)
    driver = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "gpu": device.name,
        "capability": f"{device.major}.{device.minor}",
        "memory_bytes": device.total_memory,
        "multiprocessors": device.multi_processor_count,
        "driver": driver.split("\n")[0] or "unknown",
        "cuda": torch.version.cuda or "none",
    }


def cpu_machine() -> dict:
    return {"cpu": machine_name(), "system": platform.system()}


def rounded(value):
    """The same data with floats of four digits; what JSON has no number for becomes None."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def as_text(data: dict) -> str:
    """JSON with a line for every entry, and for every row of a list of rows."""
    lines = []
    for name, value in rounded(data).items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in value)
            text = f"[\n{rows}\n ]"
        else:
            text = json.dumps(value, ensure_ascii=False)
        lines.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write(data: dict, file: Path) -> None:
    """Write all of it, or leave what was there. Raises CourseError where nothing can be written."""
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(as_text(data), "utf-8")
        os.replace(new, file)
    except OSError as error:
        raise CourseError(
            f"can't write {file} ({error.strerror}); name another place with --out FILE"
        ) from None
    finally:
        new.unlink(missing_ok=True)
