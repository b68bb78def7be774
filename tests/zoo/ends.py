"""Answers that end the process, or try to end others."""

from functools import partial

from tests.zoo import attack
from tests.zoo.answers import matmul

end = partial(attack, "2.1", kind="ends")

crash = partial(end, status="partly", ending="crashed")
crash(name="kernel_exit", source=matmul("import os\nos._exit(0)"))
crash(name="segfault", source=matmul("import ctypes\nctypes.string_at(0)"))
crash(name="abort", source=matmul("import os\nos.abort()"))
crash(name="kills_itself", source=matmul("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"))
crash(
    name="kills_everybody",
    source=matmul(
        """
        import os, signal
        for pid in (1, os.getppid(), -1, os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        """
    ),
)
crash(name="exit_of_the_kernel_in_a_cell", source=matmul("") + "\nimport os\nos._exit(3)\n")
end(name="sys_exit", source=matmul("import sys\nsys.exit(0)"), ending="failed")
end(name="keyboard_interrupt", source=matmul("raise KeyboardInterrupt"), ending="failed")
end(
    name="exit_in_a_cell",
    worth=2.0,
    source=matmul("") + "\nraise SystemExit('the lines above were run')\n",
)
end(name="syntax_error", source="def matmul_backward(x, w, output)\n    pass\n", ending="failed")
end(
    name="background_process",
    worth=2.0,
    flagged=True,
    source=matmul(
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 100)
                time.sleep(987654)
            os._exit(0)
        """
    ),
)
