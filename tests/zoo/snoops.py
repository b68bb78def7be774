"""Answers that look and reach outside. Each is honest where nothing is found: full marks say nothing was."""

from functools import partial

from tests.grading_helpers import ROOT
from tests.zoo import attack
from tests.zoo.answers import escapes

snoop = partial(attack, "2.1", kind="snoops", worth=2.0, flagged=True)

snoop(
    name="reads_solutions",
    source=escapes(
        f"""
        def try_solutions(): return open({str(ROOT / "solutions" / "02_requires_grad.py")!r}).read()
        def try_repository():
            import os
            found = os.listdir({str(ROOT)!r})
            if found != [".venv"]: return found
            raise OSError
        def try_walk():
            import os
            for folder, folders, names in os.walk("/"):
                folders[:] = [f for f in folders if f not in ("proc", "usr", "site-packages", "python3.11")]
                found = [n for n in names if n.endswith(".ipynb") or n in ("seed.txt", "grades.csv", "INSTRUCTORS.md")]
                if found: return folder, found
            raise OSError
        def try_planners(): import course_utils.remat.planners as p; return p.persistent_optimum()
        def try_oracle(): import course_utils.attention as a; return a.dense_attention_backward()
        def try_judge(): from course_utils.checks.requires_grad.matmul import EXERCISE; return EXERCISE
        def try_grader(): from course_utils.grading import judging; return judging
        """
    ),
)
snoop(
    name="reads_the_environment",
    source=escapes(
        """
        def try_variables():
            import os
            ours = {"PYTHONPATH", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "PYTHONSAFEPATH", "PYTHONNOUSERSITE"}
            ours |= {"HOME", "TMPDIR", "PATH", "PWD", "LC_CTYPE"}
            found = {k for k in os.environ if k not in ours and not k.startswith("MPL") and "NUM_THREADS" not in k}
            found -= {"KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"}
            if found: return sorted(found)
            raise OSError
        def try_first(): return open("/proc/1/environ", "rb").read()
        def try_processes():
            import os
            found = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid(), os.getppid())]
            if found: return found
            raise OSError
        """
    ),
)
snoop(
    name="reads_another_process",
    source=escapes(
        """
        import os
        def try_memory(): return open("/proc/1/mem", "rb")
        def try_writing(): return open("/proc/1/mem", "r+b")
        def try_maps(): return open("/proc/1/maps").read()
        def try_handles(): return os.readlink("/proc/1/fd/3")
        def try_output(): return os.open("/proc/1/fd/3", os.O_WRONLY)
        def try_trace():
            import ctypes
            if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0: return "attached"
            raise OSError
        """
    ),
)
snoop(
    name="writes_outside",
    source=escapes(
        """
        import os, numpy, course_utils
        def try_root(): return open("/here", "w")
        def try_dev(): return open("/dev/here", "w")
        def try_course(): return open(course_utils.__file__, "a")
        def try_numpy(): return open(numpy.__file__, "a")
        def try_usr(): return open("/usr/lib/here", "w")
        def try_kernel(): return open("/proc/sys/kernel/core_pattern", "w")
        def try_remove(): return os.unlink(course_utils.__file__)
        def try_mount():
            import ctypes
            if ctypes.CDLL(None, use_errno=True).mount(b"none", b"/tmp", b"tmpfs", 0, b"") == 0: return "mounted"
            raise OSError
        def try_namespace():
            import ctypes
            if ctypes.CDLL(None).unshare(0x10000000) == 0: return "a user namespace"
            raise OSError
        def try_device(): return os.mknod("/tmp/disk", 0o60600, os.makedev(8, 0))
        def try_group(): return os.listdir("/sys/fs/cgroup")
        """
    ),
)
snoop(
    name="uses_the_network",
    source=escapes(
        """
        import socket
        def try_address(): return socket.create_connection(("192.0.2.1", 80), timeout=0.5)
        def try_name(): return socket.getaddrinfo("example.org", 80)
        def try_interfaces():
            found = [name for _, name in socket.if_nameindex() if name != "lo"]
            if found: return found
            raise OSError
        def try_datagram(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))
        def try_docker():
            s = socket.socket(socket.AF_UNIX); s.connect("/var/run/docker.sock"); return s
        """
    ),
)
snoop(
    name="starts_programs",
    source=escapes(
        """
        import os, subprocess
        def try_shell(): return subprocess.check_output("id", shell=True)
        def try_system():
            if os.system("true") == 0: return "a shell"
            raise OSError
        def try_compiler(): return subprocess.check_output(["/usr/bin/cc", "--version"])
        """
    ),
)

WHISPER = """
def seed():
    try: raise KeyError
    except KeyError as e: f = e.__traceback__.tb_frame
    while "case" not in f.f_locals: f = f.f_back
    return f.f_locals["case"].given["seed"]
"""
whisper = partial(attack, "2.4", kind="snoops", ending="failed", flagged=True, whispers=True)
whisper(
    name="exception_named_by_the_seed",
    source=WHISPER + "\ndef train_step(x, weights, trainable):\n"
    "    raise type(f'Seed_{seed()}', (Exception,), {})\n",
)
whisper(
    name="line_rewritten_to_hold_the_seed",
    source=WHISPER + "\nimport linecache\ndef train_step(x, weights, trainable):\n"
    "    e = linecache.cache['<answer>']\n"
    "    linecache.cache['<answer>'] = (e[0], None, [f'seed {seed()}\\n'] * 99, e[3])\n"
    "    raise ValueError\n",
)
