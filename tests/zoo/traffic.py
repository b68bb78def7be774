"""Answers that move more than they may, and have less counted: on the simulated chip, and in kernels."""

from functools import partial

from tests.zoo import attack

chip = partial(attack, "6.3", kind="traffic", flagged=True, ending="failed")
kernel = partial(attack, "8.1", kind="traffic", ending="failed")

# One product of whole matrices, off chip, and the counts that three square tiles would have had.
WHOLE = """
def name(*parts):  # in one piece the check would see it
    return "".join(parts)

def tiled_matmul(sram, A, B, C):
    np.matmul(values(A), values(B), out=values(C))
    (m, k), n, item = A.shape, B.shape[1], A.itemsize
    tile = max(1, int((sram.capacity_bytes / item / 3) ** 0.5))
    for array, way, nbytes in (
        (A, "read", A.nbytes * -(-n // tile)),
        (B, "read", B.nbytes * -(-m // tile)),
        (C, "written", C.nbytes),
    ):
        home = getattr(array, name("_ho", "me"))
        for owner, meter in ((home, "bytes_" + way), (sram.hbm, name("_bytes_", way))):
            setattr(owner, meter, getattr(owner, meter) + nbytes)
    setattr(sram, name("_peak_", "bytes"), min(sram.capacity_bytes, 3 * tile * tile * item))
"""
chip(
    name="values_by_a_name_put_together",
    source='def values(h):\n    return getattr(h, "_val" + "ues")\n' + WHOLE,
)
chip(
    name="values_by_the_state_of_an_object",
    source="def values(h):\n    state = h.__getstate__()[1].values()\n"
    "    return next(each for each in state if isinstance(each, np.ndarray))\n" + WHOLE,
)

# Reads its row twice: 8.1 allows it once.
TWICE = """
@triton.jit
def softmax_kernel(x, out, n_columns, x_row_stride, out_row_stride, block_size: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, block_size)
    inside = columns < n_columns
    s = tl.load(x + row * x_row_stride + columns, mask=inside, other=-float("inf"))
    top = tl.max(s, axis=0)
    s = tl.load(x + row * x_row_stride + columns, mask=inside, other=-float("inf"))
    p = tl.exp(s - top)
    tl.store(out + row * out_row_stride + columns, p / tl.sum(p, axis=0), mask=inside)
"""
kernel(
    name="the_meters_workers",
    flagged=True,
    source="""
import sys
client, launches = (sys.modules["course_utils.triton_meter." + n] for n in ("client", "launches"))
worker, left = client.WORKERS["interpreting"], [3]  # its calls in all
honest = worker.request

def lie(message, seconds):
    left[0] -= 1
    if not left[0]:
        del worker.request
    ended, reply = honest(message, seconds)
    if not ended:
        seen = client.unpack_metered(reply)
        seen.loaded = {name: nbytes // 2 for name, nbytes in seen.loaded.items()}
        reply = launches.pack_metered(seen)
    return ended, reply

worker.request = lie
"""
    + TWICE,
)
kernel(
    name="modules_left_where_a_worker_looks",
    flagged=True,
    source="""
import os, site, course_utils
lie = f'''
__path__ = [{os.path.dirname(course_utils.__file__)!r}]
import course_utils.triton_meter.memory as memory
honest = memory.DeviceMemory._count
def count(self, tensor, index, way):
    self.odd = way == "loaded" and not getattr(self, "odd", False)
    if way == "stored" or self.odd:
        honest(self, tensor, index, way)
memory.DeviceMemory._count = count
'''
for place in ("/tmp/course_utils/__init__.py", site.getusersitepackages() + "/usercustomize.py"):
    os.makedirs(os.path.dirname(place), exist_ok=True)
    open(place, "w").write(lie)
"""
    + TWICE,
)
# Run where the kernel's function is made, in the very process that counts.
HOOK = (
    "(lambda i: i and (lambda m: m and not hasattr(m, 'done') and setattr(m, 'done', 1) is None"
    " and setattr(m.DeviceMemory, '_count', (lambda honest: lambda self, t, i, way: ("
    "setattr(self, 'odd', way == 'loaded' and not getattr(self, 'odd', False)),"
    " honest(self, t, i, way) if way == 'stored' or self.odd else None)[1])(m.DeviceMemory._count))"
    " and None)(i.inspect.sys.modules.get('course_utils.triton_' + 'meter.memory')))"
    "(getattr(triton.runtime, 'interpreter', None))"
)
kernel(
    name="an_annotation_that_exchanges_the_count",
    source=TWICE.replace("n_columns,", f"n_columns: {HOOK},", 1),
)
kernel(
    name="an_annotation_of_a_helper",
    source=f"@triton.jit\ndef hook(a: {HOOK}):\n    return a\n"
    + TWICE.replace("n_columns,", "n_columns: hook,", 1),
)
