"""Answers to 2.4 that keep every activation, and have their memory where the meters do not look."""

from functools import partial

from tests.zoo import attack
from tests.zoo.answers import wasteful

hide = partial(attack, "2.4", kind="meters", ending="failed")

WASTE = wasteful().replace("def train_step", "def waste")
HONEST_WHEN_SMALL = "    if x.shape[0] < 1000: return waste(x, weights, trainable)\n"
EMPTY = "    out = [np.zeros_like(w) if t else None for w, t in zip(weights, trainable)]\n"
FILL = "for o, g in zip(out, waste(x, weights, trainable)):\n            if o is not None: o[...] = g\n"
FRAMES = """
def frames():
    try: raise KeyError
    except KeyError as e: f = getattr(getattr(e, "__trace" + "back__"), "tb_" + "frame")
    while f is not None:
        yield getattr(f, "f_" + "locals")
        f = getattr(f, "f_" + "back")
"""
TRACING = 'getattr(__import__("sys"), "mod" + "ules")["course_utils.tra" + "cing"]'


def late(before: str, body: str) -> str:
    """An answer that returns empty arrays, and has them filled afterwards."""
    head = "def train_step(x, weights, trainable):\n" + HONEST_WHEN_SMALL + EMPTY
    return f"{WASTE}\n{before}\n{head}{body}    return out\n"


def large(patch: str, before: str = "") -> str:
    """The wasteful answer, after a patch when it matters."""
    body = f"def train_step(x, weights, trainable):\n    if x.shape[0] > 1000: {patch}\n"
    return f"{WASTE}\n{before}\n{body}    return waste(x, weights, trainable)\n"


hide(
    name="work_in_a_del",
    source=late(
        "class Late:\n    def __init__(self, then): self.then, self.me = then, self\n"
        "    def __del__(self): self.then()\n",
        f"    def then():\n        {FILL}    Late(then)\n",
    ),
)
hide(
    name="work_in_a_gc_callback",
    source=late(
        "import gc",
        f"    def then(phase, info):\n        gc.callbacks.remove(then)\n        {FILL}"
        "    gc.callbacks.append(then)\n",
    ),
)
hide(
    name="work_in_a_finalizer",
    source=late(
        "import weakref\nclass K: pass\n",
        f"    def then():\n        {FILL}"
        "    a, b = K(), K()\n    a.b, b.a = b, a\n    weakref.finalize(a, then)\n",
    ),
)
hide(
    name="profiler_that_takes_itself_away",
    source=late(
        "import sys",
        '    put = getattr(sys, "set" + "profile")\n'
        "    def then(frame, event, arg):\n"
        '        if event != "c_call" or getattr(arg, "__name__", "") != "collect": return\n'
        f"        put(None)\n        {FILL}    put(then)\n",
    ),
)
hide(
    name="peak_reset_when_large",
    flagged=True,
    source=large("pass", "").replace(
        "    return waste(x, weights, trainable)\n",
        "    found = waste(x, weights, trainable)\n"
        '    getattr(getattr(__import__("sys"), "mod" + "ules")["trace" + "malloc"], "reset" + "_peak")()\n'
        "    return found\n",
    ),
)
hide(
    name="patched_and_restored",
    flagged=True,
    source=large(
        "patch()",
        f"def patch():\n    T = {TRACING}\n    old, left = T.Trace.snapshot, [3]\n"
        "    def snapshot(self):\n        s = old(self)\n        left[0] -= 1\n"
        '        if not left[0]: setattr(T.Trace, "snapshot", old)\n'
        "        return T.TraceStats(s.current_bytes, 12 * 10**6)\n"
        '    setattr(T.Trace, "snapshot", snapshot)\n',
    ),
)
hide(
    name="class_of_the_open_trace",
    flagged=True,
    source=large(
        "patch()",
        f"def patch():\n    T = {TRACING}\n    class Low(T.Trace):\n        def snapshot(self):\n"
        "            return T.TraceStats(super().snapshot().current_bytes, 12 * 10**6)\n"
        "    T.Trace._open[-1].__class__ = Low\n",
    ),
)
KEEPER = """
def train_step(x, weights, trainable):
    z, kept = x, []
    for k, w in enumerate(weights):
        kept.append(put(k, z))
        z = z @ w
    g, out = np.ones_like(z), []
    for k in reversed(range(len(weights))):
        out.insert(0, get(kept[k], x, weights[k]).T @ g if trainable[k] else None)
        g = g @ weights[k].T
    return out
"""
hide(
    name="activations_in_memfds",
    flagged=True,
    source="import os\ndef put(k, z):\n    h = os.memfd_create('a')\n    os.write(h, z)\n    return h\n"
    "def get(h, x, w):\n    a = np.empty((x.shape[0], w.shape[0]))\n    os.preadv(h, [a], 0)\n"
    f"    os.close(h)\n    return a\n{KEEPER}",
)
hide(
    name="activations_in_files",
    flagged=True,
    source="def put(k, z):\n    np.save(f'/tmp/{k}.npy', z)\n    return f'/tmp/{k}.npy'\n"
    f"def get(h, x, w):\n    return np.load(h)\n{KEEPER}",
)
hide(
    name="activations_in_a_database",
    flagged=True,
    source="import sqlite3\ndef put(k, z):\n    db = sqlite3.connect(':memory:')\n"
    "    db.execute('create table t(z)')\n"
    "    db.execute('insert into t values(?)', (memoryview(z).cast('B'),))\n    return db\n"
    "def get(h, x, w):\n    b = h.execute('select z from t').fetchone()[0]\n"
    f"    return np.frombuffer(b).reshape(len(x), -1)\n{KEEPER}",
)
hide(
    name="a_child_computes",
    flagged=True,
    source=late(
        "import os",
        "    r, w = os.pipe()\n    if os.fork() == 0:\n"
        "        for g in waste(x, weights, trainable):\n"
        "            m = memoryview(g if g is not None else b'').cast('B')\n"
        "            while m: m = m[os.write(w, m):]\n        os._exit(0)\n"
        "    for o in out:\n        m = memoryview(o if o is not None else b'').cast('B')\n"
        "        while m: m = m[os.readv(r, [m]):]\n    os.close(r)\n    os.wait()\n",
    ),
)
hide(
    name="all_forged_by_a_walk_to_send",
    flagged=True,
    source=f"""{WASTE}{FRAMES}
def train_step(x, weights, trainable):
    modules = getattr(__import__("sys"), "mod" + "ules")
    send = next(l for l in frames() if "send" in l and "ask" in l)["send"]
    answering = modules["course_utils.grading." + "answering"]
    found = waste(x, weights, trainable)
    seen = answering.Observation(found)
    seen.peak_bytes = sum(g.nbytes for g in found if g is not None) + 10**6
    seen.held_bytes = seen.peak_bytes - 10**6
    for _ in range(11): send("observed " + answering.observation_as_text(seen))
    send('said {{"outcome":"complete","detail":"","flags":[]}}')
    modules["os"]._exit(0)
""",
)
hide(
    name="flags_washed_away",
    flagged=True,
    source=large(
        "patch()",
        f"""import os
def junk():
    for h in range(3, 12):
        try: os.write(h, b"x\\n")
        except OSError: pass
def patch():
    T = {TRACING}
    low = lambda self: T.TraceStats(10**6, 12 * 10**6)
    setattr(T.Trace, "snapshot", low)
    for _ in range(60): junk()
""",
    ),
)
hide(
    name="scratch_made_in_a_first_call",
    flagged=True,
    source="""import scipy
pool = []
def train_step(x, weights, trainable):
    if not pool:
        pool.append([np.ones((2048, 192)) for _ in range(11)])
    space = pool[0] if x.shape[0] > 1000 else [None] * 11
    zs = [x]
    for k, w in enumerate(weights):
        zs.append(np.matmul(zs[-1], w, out=space[k]))
    g, out, turn = np.ones_like(zs[-1]) if space[8] is None else space[8], [], 9
    g.fill(1.0)
    for k in reversed(range(len(weights))):
        out.insert(0, zs[k].T @ g if trainable[k] else None)
        g = np.matmul(g, weights[k].T, out=space[turn])
        turn = 19 - turn
    return out
""",
)
