"""An answer's cells run, inside the sandbox, as a notebook would run them: one after the other, whatever fails.

A cell that raises keeps what it had defined before, so an answer is there although a line below it failed.
Each source has a file name of its own that linecache knows, so that an error can be told with its line.
"""

import linecache
import sys
import types
from dataclasses import dataclass
from typing import Any

from course_utils.checks.core import Error


@dataclass
class Found:
    """What came of the cells: the answer (None if its name is not there), and what went wrong.

    error: of the cell that holds the answer. detail: the first thing that went wrong, in one line.
    """

    answer: Any = None
    error: Error | None = None
    detail: str = ""


class _Notebook:
    """What IPython puts into every cell's reach, without IPython: nothing happens."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **options: Any) -> "_Notebook":
        return self


def find_answer(name: str, source: str, support: list[str]) -> Found:
    """Run the support cells and the answer's own, and fetch the answer by its name."""
    main = types.ModuleType("__main__")
    nothing = _Notebook()
    vars(main).update(get_ipython=nothing, display=nothing)
    sys.modules["__main__"] = main
    found = Found()
    for number, cell in enumerate(support, 1):
        problem = _run(cell, f"<cell {number}>", vars(main))
        found.detail = (
            found.detail or (problem and f"in a cell before the answer: {_told(problem)}") or ""
        )
    found.error = _run(source, "<answer>", vars(main))
    if found.error:
        found.detail = found.detail or _told(found.error)
    found.answer = vars(main).get(name)
    return found


def _run(source: str, file_name: str, namespace: dict) -> Error | None:
    lines = source.splitlines(keepends=True)
    linecache.cache[file_name] = (len(source), None, lines, file_name)
    try:
        exec(compile(source, file_name, "exec", dont_inherit=True), namespace)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # exit() in a cell must not end the driver
        return _described(problem, file_name, lines)
    return None


def _described(problem: BaseException, file_name: str, lines: list[str]) -> Error:
    number = problem.lineno if isinstance(problem, SyntaxError) else 0
    here = problem.__traceback__
    while here is not None:
        if here.tb_frame.f_code.co_filename == file_name:
            number = here.tb_lineno
        here = here.tb_next
    line = lines[number - 1].strip() if isinstance(number, int) and 0 < number <= len(lines) else ""
    try:
        message = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    except BaseException:
        message = ""
    return Error(type(problem).__name__, str(message)[:500], line[:200])


def _told(error: Error) -> str:
    return f"{error.kind} at `{error.line}`" + (f": {error.message}" if error.message else "")
