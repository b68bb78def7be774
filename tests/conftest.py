"""What holds for every test: what comes first, and what the garbage collector leaves alone."""

import gc
import signal
import sys

# A job in a shell's background ignores Ctrl-C, and so would what it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Long tests come first, in one worker: at the end the workers share what is left, file or no file, and would both
# make the preparation that a file's tests share.
FIRST = ("test_grading_command", "test_nbgrader", "test_release", "test_grading_zoo")
MANY_MODULES = 30  # torch brings a thousand, a test's own import one or two
MANY_TESTS = 30
_modules = _tests = 0


def pytest_collection_modifyitems(items: list) -> None:
    items.sort(key=lambda item: item.path.stem not in FIRST)


def pytest_runtest_setup() -> None:
    """Each trace of a check collects garbage: it need not look through all tests and libraries each time."""
    global _modules, _tests
    _tests += 1
    if len(sys.modules) - _modules > MANY_MODULES or _tests > MANY_TESTS:
        gc.collect()
        gc.freeze()
        _modules, _tests = len(sys.modules), 0
