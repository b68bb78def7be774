"""Answers that take more than there is: memory, processes, threads, files, output."""

from functools import partial

from tests.zoo import attack
from tests.zoo.answers import matmul

bomb = partial(attack, "2.1", kind="bombs")

bomb(
    name="memory_bomb",
    status="partly",
    ending="out of memory",
    source=matmul("hoard = []\nwhile True:\n    hoard.append(bytearray(2**24))"),
)
bomb(
    name="memory_bomb_that_catches",
    status="partly",
    source=matmul(
        """
        hoard = []
        while True:
            try:
                hoard.append(np.ones(2**22))
            except BaseException:
                pass
        """
    ),
)
bomb(
    name="memory_in_files",
    status="partly",
    source=matmul(
        """
        import os
        handles = [os.memfd_create(str(k)) for k in range(100)]
        while True:
            for handle in handles:
                os.write(handle, bytes(2**20))
        """
    ),
)
bomb(
    name="disk_full",
    worth=2.0,
    source=matmul(
        """
        for folder in ("/tmp", "/dev/shm", "/"):
            try:
                for k in range(1000):
                    with open(f"{folder}/{k}", "wb") as file:
                        for _ in range(1000):
                            file.write(bytes(2**20))
            except OSError:
                pass
        """
    ),
)
bomb(
    name="shared_memory_left_for_the_next",
    worth=2.0,
    flagged=True,
    source=matmul(
        """
        import ctypes
        c = ctypes.CDLL(None)
        c.shmat.restype = ctypes.c_void_p
        segment = c.shmget(0, ctypes.c_size_t(2 * 10**8), 0o1600)
        if LEFT.pop() and segment >= 0:
            ctypes.memset(c.shmat(segment, None, 0), 1, 2 * 10**8)
        LEFT.append(False)
        """,
        "LEFT = [True]",
    ),
)
bomb(
    name="files_left_in_a_closed_folder",
    worth=2.0,
    source=matmul(
        """
        import os
        if LEFT.pop():
            os.makedirs("/tmp/a/b")
            for k in range(2000):
                open(f"/tmp/a/{k}", "w").close()
            os.chmod("/tmp/a/b", 0)
            os.chmod("/tmp", 0)
        LEFT.append(False)
        """,
        "LEFT = [True]",
    ),
)
bomb(
    name="fork_bomb",
    status="partly",
    source=matmul(
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    ),
)
bomb(
    name="thread_bomb",
    source=matmul(
        """
        import threading, time
        while True:
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        """
    ),
)
bomb(
    name="output_flood",
    status="partly",
    ending="too slow",
    source=matmul("while True:\n    print('x' * 10**6)"),
)
bomb(
    name="flood_of_the_graders_pipe",
    status="partly",
    ending="too much output",
    flagged=True,
    source=matmul(
        """
        import os
        while True:
            for handle in range(3, 30):
                try:
                    os.write(handle, b'{"exercise": "2.1", "ending": "complete"}\\n' * 10**4)
                except OSError:
                    pass
        """
    ),
)
attack(
    "2.4",
    kind="bombs",
    name="huge_result",
    status="partly",
    ending="too much output",
    source="def train_step(x, weights, trainable):\n    return [np.ones(10**7) for w in weights]\n",
)
attack(
    "2.4",
    kind="bombs",
    name="endless_result",
    status="partly",
    ending="too much output",
    source="def train_step(x, weights, trainable):\n"
    "    ring = []\n    ring += [ring, ring, [0] * 10**6]\n    return ring\n",
)
attack(
    "2.4",
    kind="bombs",
    name="result_for_the_judge_to_choke_on",
    source="def train_step(x, weights, trainable):\n"
    "    return [np.zeros((2**30, 0)) if t else None for t in trainable]\n",
)
bomb(name="endless_recursion", source="def matmul_backward(*args):\n    matmul_backward(*args)\n")
bomb(
    name="stack_overflow_in_c",
    status="partly",
    source=matmul(
        """
        import sys
        sys.setrecursionlimit(10**9)
        deep = []
        for _ in range(10**7):
            deep = [deep]
        repr(deep)
        """
    ),
)
bomb(
    name="all_file_handles",
    worth=2.0,
    source=matmul(
        """
        handles = []
        try:
            while True:
                handles.append(open("/dev/null"))
        except OSError:
            pass
        """
    ),
)
