"""What holds for every test: the garbage collector leaves alone what was there before the first."""

import gc


def pytest_collection_finish() -> None:
    """Each trace of a check collects garbage, and would look through some thousand tests each time."""
    gc.collect()
    gc.freeze()
