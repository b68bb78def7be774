"""The course's tools: a map. Nothing is loaded until it is used.

from course_utils import check, predict, measured, needs, progress    the checks and predictions
from course_utils import ag                                           the lecture's autograd engine
from course_utils.tracing import start_trace, snapshot_trace, ...     counting NumPy's bytes
from course_utils.timeline import Timeline, trace_lines               which array lives when
from course_utils.plots import ...                                    the figures
from course_utils.hardware import doctor                              what this machine has
"""

from importlib import import_module

_HOME = {
    "check": "course_utils.checks.core",
    "predict": "course_utils.checks.predictions",
    "measured": "course_utils.checks.predictions",
    "needs": "course_utils.checks.predictions",
    "progress": "course_utils.checks.record",
}

__all__ = list(_HOME)


def __getattr__(name: str):
    """Fetch a public name from its home on first use, so that the import itself stays quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'course_utils' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
