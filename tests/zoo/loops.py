"""Answers that do not end."""

from functools import partial

from tests.zoo import attack
from tests.zoo.answers import matmul

slow = partial(attack, "2.1", kind="loops", status="partly", ending="too slow")

slow(name="infinite_loop", source=matmul("while True:\n    pass"))
slow(
    name="loop_that_catches_everything",
    source=matmul(
        """
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass
        """
    ),
)
slow(
    name="signal_handlers_off",
    source=matmul(
        """
        import signal
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            pass
        """
    ),
)
slow(name="cell_that_never_ends", source=matmul("") + "\nwhile True:\n    pass\n")
slow(
    name="pipes_closed_and_asleep",
    source=matmul("import os, time\nos.closerange(0, 200)\ntime.sleep(10**6)"),
)
