"""Runs a solution notebook from top to bottom, and refuses what should not be published.

Every check must pass: COURSE_STRICT=1 turns any other verdict into an error. A student's saved
state is left alone, since COURSE_STATE names a folder of its own. An output that shows where the
author's files are, or that is too large for a repository, is refused with the line of the cell
that made it.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from course_utils.authoring.source import Lesson

CELL_LIMIT_SECONDS = 300
OUTPUT_LIMIT_BYTES = 10**6
KERNEL_FILE = re.compile(r"\S*ipykernel_\d+[/\\]\d+\.py")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class CellFailed(Exception):
    """A cell that failed, or whose output is refused: one line, file and line first."""


def execute(notebook: dict, lesson: Lesson, root: Path) -> float:
    """Run the notebook in place, its outputs cleaned; the seconds it took. Raises CellFailed."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="course-build-") as state:
        ran = run(notebook, lesson, environment(root, state))
        private = private_places(root, Path(state))
    for index, (cell, result) in enumerate(zip(notebook["cells"], ran["cells"], strict=True)):
        if cell["cell_type"] == "code":
            cell["execution_count"] = result["execution_count"]
            cell["outputs"] = [cleaned(output) for output in result["outputs"]]
            for output in cell["outputs"]:
                if reason := refused(output, private):
                    raise CellFailed(at(lesson, index, reason))
    return time.perf_counter() - start


def run(notebook: dict, lesson: Lesson, environment: dict[str, str]) -> dict:
    """An executed copy. Raises CellFailed; KeyboardInterrupt on Ctrl-C, when the kernel is gone."""
    from nbclient.client import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    from nbformat import from_dict

    ran, running = from_dict(notebook), [0]
    client = NotebookClient(
        ran,
        timeout=CELL_LIMIT_SECONDS,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,  # a notebook that holds widget state does not render on GitHub
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],  # no remarks on how the kernel is reached
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(lesson.path.parent)}},
        on_cell_start=lambda cell, cell_index: progress(running, cell_index, len(ran.cells)),
    )
    line, reason = 1, None
    try:
        client.execute(env=environment)
    except CellExecutionError as error:
        line = failing_line(error, ran.cells[running[0]])
        reason = f"{error.ename}: {one_line(error.evalue)}"
    except CellTimeoutError:
        reason = f"it ran longer than {CELL_LIMIT_SECONDS} s"
    except DeadKernelError:
        reason = "the kernel died"
    except asyncio.CancelledError:  # Ctrl-C while the kernel starts
        raise KeyboardInterrupt from None
    except Exception:
        if not interrupted(client):
            raise
    finally:
        progress(running, None, 0)
    if interrupted(client):
        raise KeyboardInterrupt
    if reason:
        raise CellFailed(at(lesson, running[0], f"cell failed: {reason}", line))
    return ran


def interrupted(client) -> bool:
    """Did Ctrl-C come? nbclient takes the signal, ends the kernel, and stumbles over that."""
    return getattr(client, "_async_cleanup_kernel_future", None) is not None


def environment(root: Path, state: str) -> dict[str, str]:
    """This process's environment, with strict checks and none of the author's own settings."""
    path = os.pathsep.join(p for p in (str(root), os.environ.get("PYTHONPATH", "")) if p)
    return os.environ | {
        "COURSE_STRICT": "1",
        "COURSE_STATIC": "1",  # a widget's figure and table, without the widget
        "COURSE_STATE": state,
        "IPYTHONDIR": str(Path(state, "ipython")),
        "PYTHONPATH": path,
    }


def progress(running: list[int], index: int | None, cells: int) -> None:
    """Note which cell runs; on a terminal, show it in a line that is wiped at the end."""
    if index is not None:
        running[0] = index
    if sys.stdout.isatty():
        text = "\r\x1b[K" if index is None else f"\r  cell {index + 1} of {cells} "
        print(text, end="", flush=True)


def at(lesson: Lesson, index: int, reason: str, line: int = 1) -> str:
    """`line` counts in the cell, from 1."""
    return f"solutions/{lesson.path.name}:{lesson.cells[index].line + line - 1}: {reason}"


def failing_line(error: Exception, cell: dict) -> int:
    """The line of the cell, from 1, that an error's traceback names; 1 where it names none."""
    text = COLOUR.sub("", error.traceback)
    count = cell.get("execution_count") or r"\d+"
    lines = re.findall(rf"(?:Cell )?In ?\[{count}\],? line:? ?(\d+)", text)
    return min(int(lines[0]), cell["source"].count("\n") + 1) if lines else 1


def one_line(text: str) -> str:
    joined = " / ".join(line.strip() for line in COLOUR.sub("", text).splitlines() if line.strip())
    return joined if len(joined) <= 400 else joined[:400] + "..."


def cleaned(output: dict) -> dict:
    """An output with the kernel's random file names gone from its text (warnings show them)."""
    return json.loads(json.dumps(output), object_hook=without_kernel_files)


def without_kernel_files(part: dict) -> dict:
    def plain(value):
        found = isinstance(value, str) and "ipykernel_" in value  # an image is long: look first
        return KERNEL_FILE.sub("<cell>", value) if found else value

    return {key: plain(value) for key, value in part.items() if key != "transient"}


def private_places(root: Path, state: Path) -> re.Pattern:
    """Matches this machine's folders: the repository, the home, the build's own temporary one."""
    places = {str(p) for p in (root, Path.home(), state, Path(sys.prefix)) if len(p.parts) > 1}
    forms = {form for place in places for form in (place, place.replace("\\", "\\\\"))}
    longest_first = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])(?:{longest_first})(?!\w)")


def refused(output: dict, private: re.Pattern) -> str | None:
    """Why an output is not to be stored, or None."""
    if output["output_type"] == "error":
        return f"an error in the output: {output['ename']}: {one_line(output['evalue'])}"
    size_bytes = len(json.dumps(output, ensure_ascii=False).encode())
    if size_bytes > OUTPUT_LIMIT_BYTES:
        return f"an output of {size_bytes / 1e6:.1f} MB: {OUTPUT_LIMIT_BYTES / 1e6:.0f} MB at most"
    texts = {"text/plain": output.get("text", "")} | output.get("data", {})
    for kind, text in texts.items():
        if kind.startswith("image/") and kind != "image/svg+xml":
            continue
        match = private.search(text if isinstance(text, str) else json.dumps(text))
        if match:
            return f"an output names a folder of this machine ({match.group()})"
    return None
