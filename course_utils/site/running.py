"""What the students' notebooks show when they are run as they are, unsolved.

Each runs once, in a process of its own, with COURSE_SITE set: a widget then shows its data, and the page's
script draws them. What came out is kept in build/site/ (which git ignores), under a fingerprint of the notebook
and of all that lessons run of course_utils: a page whose notebook did not change is made without running it.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

from course_utils.authoring.execute import cleaned, private_places, refused
from course_utils.authoring.files import stored_notebook
from course_utils.authoring.fingerprint import DATA_BESIDE
from course_utils.errors import CourseError
from course_utils.machine import core_count

CELL_LIMIT_SECONDS = 120
NOT_RUN_BY_LESSONS = {"authoring", "bench", "cli", "grading", "site", "js"}
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def run_all(
    paths: list[Path], root: Path, *, fresh: bool = False, say: Callable[[str], object] = print
) -> list[dict]:
    """The notebooks with their outputs, two at a time. Raises CourseError when one fails.

    fresh: run them all, whatever is kept. say: is told what was run, and how long it took.
    """
    package = package_hash(root)
    with ThreadPoolExecutor(min(2, core_count())) as two:
        running = {two.submit(run, path, root, package, fresh): path for path in paths}
        done = {}
        try:
            for ended in as_completed(running):
                path = running[ended]
                done[path], seconds = ended.result()
                say(
                    f"{path.stem}: "
                    + (f"run in {seconds:.1f} s" if seconds else "as it ran before")
                )
        except BaseException:  # one failed, or Ctrl-C: no further one is begun
            two.shutdown(wait=False, cancel_futures=True)
            raise
    return [done[path] for path in paths]


def run(path: Path, root: Path, package: str, fresh: bool) -> tuple[dict, float]:
    """A notebook with its outputs, and how long it ran: 0 if they were kept from an earlier run."""
    start = time.perf_counter()
    try:
        notebook = stored_notebook(path)
    except (OSError, ValueError) as error:
        raise CourseError(f"{path.name}: not a notebook: {error}") from None
    mark = hashlib.sha256(package.encode() + path.read_bytes()).hexdigest()
    store = root / "build" / "site" / f"{path.stem}.json"
    outputs = None if fresh else kept_outputs(store, mark)
    seconds = 0.0
    if outputs is None:
        outputs = outputs_of(path, root)
        seconds = time.perf_counter() - start
        with suppress(OSError):  # a read-only course: run again next time
            store.parent.mkdir(parents=True, exist_ok=True)
            part = store.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps({"mark": mark, "outputs": outputs}), encoding="utf-8")
            os.replace(part, store)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, shown in zip(code, outputs, strict=True):
        cell["outputs"] = shown
    return notebook, seconds


def kept_outputs(store: Path, mark: str) -> list | None:
    try:
        found = json.loads(store.read_text("utf-8"))
        return found["outputs"] if found["mark"] == mark else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def outputs_of(path: Path, root: Path) -> list[list[dict]]:
    """The outputs of each code cell, run in a process of its own. Raises CourseError."""
    with tempfile.TemporaryDirectory(prefix="course-site-") as scratch:
        out = Path(scratch, "outputs.json")
        ended = subprocess.run(
            [sys.executable, "-m", "course_utils.site.running", str(path), str(out)],
            env=environment(root, scratch),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        if ended.returncode:
            reason = (ended.stderr.strip().splitlines() or ["it was stopped"])[-1]
            raise CourseError(f"{path.name} does not run unsolved: {reason[:300]}")
        found = json.loads(out.read_text("utf-8"))
        private = private_places(root, Path(scratch))
    outputs = [[cleaned(output) for output in shown] for shown in found]
    for output in (output for shown in outputs for output in shown):
        if reason := refused(output, private):
            raise CourseError(f"{path.name}: {reason}")
    return outputs


def environment(root: Path, scratch: str) -> dict[str, str]:
    """This process's, unsolved and with a record of its own; side by side, each on one core."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COURSE_STRICT", "COURSE_STATIC", "NBGRADER_EXECUTION")
    }
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
    own = {
        "COURSE_SITE": "1",
        "COURSE_STATE": scratch,
        "IPYTHONDIR": str(Path(scratch, "ipython")),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYTHONPATH": path,
    }
    return kept | ONE_THREAD | own


def package_hash(root: Path) -> str:
    """Of every file of course_utils that a lesson can run, and of the measurements that it shows."""
    package, whole = root / "course_utils", hashlib.sha256()
    for path in sorted(package.rglob("*")):
        part = path.relative_to(package).parts
        if path.is_file() and path.suffix != ".pyc" and not NOT_RUN_BY_LESSONS & set(part):
            whole.update("/".join(part).encode() + b"\0" + path.read_bytes())
    for pattern in DATA_BESIDE.values():
        for path in sorted(root.glob(pattern)):
            whole.update(path.name.encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


def main(arguments: list[str]) -> None:
    """Run one notebook in a kernel, and write its cells' outputs: what `outputs_of` starts."""
    import nbformat
    from nbclient import NotebookClient

    parser = argparse.ArgumentParser()
    parser.add_argument("notebook", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args(arguments)
    notebook = nbformat.read(options.notebook, as_version=4)
    NotebookClient(
        notebook,
        timeout=CELL_LIMIT_SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(options.notebook.parent)}},
    ).execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    options.out.write_text(json.dumps(outputs), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
