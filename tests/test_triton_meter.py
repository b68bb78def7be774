"""The meter for Triton kernels: what it counts, what it catches, what it survives."""

import os
import signal
import time

import numpy as np
import pytest

from course_utils.triton_here import tl, triton
from course_utils.triton_meter import (
    HAS_TRITON,
    Launch,
    NotAKernel,
    Tensor,
    client,
    compile_launch,
    launches,
    meter,
    read_kernel,
    run_launch,
)
from course_utils.triton_meter.memory import DeviceMemory, DeviceTensor
from course_utils.triton_meter.source import is_stub

needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="there is no Triton here")
FACTOR = tl.constexpr(3.0)
PLAIN = 3.0
LOWEST = tl.constexpr(np.finfo(np.float32).min)
KIND = tl.constexpr(tl.float32) if HAS_TRITON else None


@triton.jit
def times(x):
    return FACTOR * x


@triton.jit
def scaled(x, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, times(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.jit
def unmasked(x, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def far_away(x, out, n, block: tl.constexpr):
    tl.store(out, tl.load(x + 2_000_000_000 + n).to(tl.float32))


@triton.jit
def strided(x, out, n, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(out + at, tl.load(x + at * 8))


@triton.jit
def all_to_one(x, out, n, block: tl.constexpr):
    tl.store(out, tl.load(x + tl.program_id(0)))


@triton.jit
def added_by_atomics(x, out, n, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.atomic_add(out + at, tl.load(x + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def product(a, b, c, block: tl.constexpr):
    i = tl.arange(0, block)[:, None]
    at = i * block + tl.arange(0, block)[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@triton.jit
def endless(x, out, n, block: tl.constexpr):
    while n > 0:
        n = n + 0


@triton.jit
def dies(x, out, n, block: tl.constexpr):
    os.abort()


@triton.jit
def leaves(x, out, n, block: tl.constexpr):
    raise SystemExit(0)


@triton.jit
def names_a_number(x, out, n, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(out + at, PLAIN * tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def masked_by_both(x, out, n, block: tl.constexpr):
    program, at = tl.program_id(0), tl.arange(0, block)
    mask = (at < n) & (program < 1)
    tl.store(out + program * block + at, tl.load(x + at, mask=mask, other=0.0), mask=mask)


@triton.jit
def with_constants(x, out, n, block: tl.constexpr):
    tl.store(
        out,
        tl.load(x + tl.arange(0, block), mask=tl.arange(0, block) < 0, other=LOWEST).to(KIND).max(),
    )


@triton.jit
def named_as_savez(x, file, n, block: tl.constexpr):
    tl.store(file + tl.arange(0, block), tl.load(x + tl.arange(0, block)))


@triton.jit
def stub(x, out, n, block: tl.constexpr):
    """Not yet."""
    # YOUR CODE HERE
    raise NotImplementedError


X = np.arange(10, dtype=np.float32)


def run(kernel, x=X, grid=(2,), block=8):
    return meter(kernel, grid, x, np.zeros(16, np.float32), len(x), block=block)


@needs_triton
def test_values_and_bytes_are_those_of_the_lanes_that_took_part():
    seen = run(scaled)
    assert np.array_equal(seen.values["out"][:10], 3 * X)
    assert seen.loaded == {"x": 40, "out": 0} and seen.stored == {"x": 0, "out": 40}
    assert seen.program_bytes == [64, 16] and not seen.faults and seen.error is None


@needs_triton
def test_an_access_out_of_bounds_is_told_and_harms_nobody():
    (fault,) = run(unmasked).faults
    expected = {
        "kind": "read outside",
        "tensor": "x",
        "index": 10,
        "program": [1, 0, 0],
        "lanes": 6,
    }
    assert {name: fault[name] for name in expected} == expected
    assert fault["line"].startswith("tl.store(out + at, tl.load")
    far = run(far_away, grid=(1,)).faults[0]
    assert far["tensor"] == "x" and far["index"] == 2_000_000_010


@needs_triton
def test_sectors_show_what_strides_cost():
    x = np.arange(64, dtype=np.float32)
    apart, together = (run(kernel, x, (1,)) for kernel in (strided, unmasked))
    assert apart.loaded["x"] == together.loaded["x"] == 32
    assert apart.loaded_sectors["x"] == 8 * 32 and together.loaded_sectors["x"] == 32


@needs_triton
def test_programs_that_store_to_one_place_are_told():
    (fault,) = run(all_to_one, grid=(3,)).faults
    assert (fault["kind"], fault["program"]) == ("stored twice", [1, 0, 0])


@needs_triton
def test_atomics_count_as_a_load_and_a_store():
    seen = run(added_by_atomics, grid=(1,), block=16)
    assert (
        np.array_equal(seen.values["out"][:10], X)
        and seen.loaded["out"] == seen.stored["out"] == 40
    )


@needs_triton
def test_products_are_counted_with_their_types():
    a, b = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float16)
    seen = meter(product, (1,), a, b, np.zeros((16, 16), np.float32), block=16)
    assert seen.flops == 2 * 16**3
    assert (seen.dots[0]["inputs"], seen.dots[0]["accumulator"]) == ("float16", "float32")
    assert np.allclose(seen.values["c"], a.astype(np.float32) @ b.astype(np.float32), atol=1e-4)


@needs_triton
def test_a_kernel_that_does_not_end_is_stopped_and_the_next_one_runs():
    x = Tensor(X)
    launch = Launch((1,), {"x": x, "out": Tensor(X, writable=True), "n": 10}, {"block": 16})
    start = time.perf_counter()
    assert run_launch(read_kernel(endless), launch, limit_seconds=1.0).ended.startswith("time")
    assert time.perf_counter() - start < 10
    assert run_launch(read_kernel(scaled), launch).ended == ""


@needs_triton
def test_a_worker_survives_what_kernels_do():
    client.WORKERS["interpreting"].close()
    assert run(leaves).error["kind"] == "SystemExit"
    assert run(dies).error["kind"] == "NameError"  # what is not Triton's is not there
    assert run(scaled).error is None
    client.WORKERS["interpreting"]._process.kill()
    assert run(scaled).error is None


@needs_triton
def test_a_child_that_dies_is_reported_with_its_signal():
    from course_utils.triton_meter import server

    killed = server.in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 5.0, "")
    assert killed == ("signal: SIGKILL", b"")
    assert server.in_child(lambda: os._exit(3), 5.0, "") == ("exit: status 3", b"")
    assert server.in_child(lambda: b"done", 5.0, "") == ("", b"done")


@needs_triton
def test_a_child_is_stopped_that_closes_its_pipe_and_goes_on():
    from course_utils.triton_meter import server

    def silent():
        os.closerange(3, 256)
        time.sleep(20)

    start = time.perf_counter()
    ended, _ = server.in_child(silent, 0.5, "")
    assert ended.startswith("time") and time.perf_counter() - start < 5


@needs_triton
def test_a_reply_too_large_is_no_matter_of_time(monkeypatch):
    from course_utils.triton_meter import server

    monkeypatch.setattr(server, "MOST_BYTES", 1000)
    ended, reply = server.in_child(lambda: bytes(100_000), 5.0, "")
    assert ended.startswith("exit: it left more than") and not reply


@needs_triton
def test_a_child_ends_with_whoever_asked():
    from course_utils.triton_meter import server

    asked, asker = os.pipe()
    os.close(asker)
    start = time.perf_counter()
    with os.fdopen(asked, "rb") as requests:
        assert server.in_child(lambda: time.sleep(20), 20.0, "", requests)[0].startswith("exit")
    assert time.perf_counter() - start < 5


@needs_triton
@pytest.mark.parametrize("killed", [False, True])
def test_a_worker_leaves_no_folder_behind(killed):
    worker = client.WORKERS["interpreting"]
    assert run(scaled).error is None
    folder = worker._folder
    assert os.listdir(folder) == []  # what a request needed went with its child
    if killed:
        worker._process.kill()
        worker._process.wait()
    worker.close()
    assert folder and not os.path.exists(folder)


@needs_triton
def test_masks_may_mix_vectors_and_scalars():
    seen = run(masked_by_both)
    assert seen.stored["out"] == seen.loaded["x"] == 32 and not seen.faults
    assert seen.values["out"].tolist() == [*range(8), *[0] * 8]


@needs_triton
def test_constants_of_numpy_and_types_come_along():
    assert run(with_constants).error is None
    assert run(with_constants).values["out"][0] == np.finfo(np.float32).min


@needs_triton
def test_metering_takes_what_a_launch_takes():
    def values(*arguments, **constexprs):
        return meter(scaled, (1,), *arguments, **constexprs).values["out"].tolist()

    out = np.zeros(4, np.float32)
    assert values(X[:4], out, np.int64(3), block=8) == values(X[:4], out, 3, 8) == [0, 3, 6, 0]
    assert values(X[:0], out, 0, block=8) == [0, 0, 0, 0]
    assert (
        meter(named_as_savez, (1,), X[:4], out, 4, block=4).values["file"].tolist()
        == X[:4].tolist()
    )
    large = meter(scaled, (1,), X[:4], out, 2**31, block=4)
    assert large.error is None and large.values["out"].tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize(
    ("grid", "arguments", "told"),
    [
        ((1,), (X, X, 10, 8, 9, 10), "takes .x, out, n, block."),
        ((1,), (X, X), "missing a required argument: 'n'"),
        (1, (X, X, 10, 8), "grid"),
        ((0,), (X, X, 10, 8), "grid"),
        ((1,), ("text", X, 10, 8), "x holds"),
        ((1,), (X.astype(np.uint8), X, 10, 8), "uint8"),
    ],
)
def test_what_no_launch_takes_is_one_clear_error(grid, arguments, told):
    with pytest.raises(TypeError, match=told):
        meter(scaled, grid, *arguments)


@needs_triton
def test_errors_name_the_kernels_line():
    error = run(dies).error
    assert error == {
        "kind": "NameError",
        "message": "name 'os' is not defined",
        "line": "os.abort()",
    }


@needs_triton
def test_the_compiler_needs_no_gpu_and_has_the_last_word():
    launch = Launch((1,), {"x": Tensor(X), "out": Tensor(X), "n": 10}, {"block": 16})
    made = compile_launch(read_kernel(scaled), launch, sm=90)
    assert not made.error and not made.ended and made.registers > 0 and made.warps == 4
    refused = compile_launch(read_kernel(names_a_number), launch)
    assert "PLAIN" in refused.error and "PLAIN" in refused.line
    assert run(names_a_number).error is None  # the interpreter takes it


def test_a_kernels_text_takes_along_what_it_names():
    source = read_kernel(scaled)
    assert source.parameters == ("x", "out", "n", "block") and source.name == "scaled"
    assert "FACTOR = tl.constexpr(3.0)" in source.text and "def times(x):" in source.text
    assert "numpy" not in source.text


@pytest.mark.parametrize(
    "thing", [lambda x: x, test_sectors_show_what_strides_cost, 3, None, np.exp]
)
def test_what_is_no_kernel_is_told(thing):
    with pytest.raises(NotAKernel):
        read_kernel(thing)


def test_stubs_are_recognized_decorated_or_not():
    def plain(*args):
        raise NotImplementedError

    assert is_stub(stub) and is_stub(plain)
    assert not is_stub(scaled) and not is_stub(lambda: 0) and not is_stub(7)


def test_what_lies_between_two_rows_belongs_to_nobody():
    memory = DeviceMemory([DeviceTensor("x", np.ones((2, 3), np.float32), row_stride=5)])
    addresses = memory.address(0) + 4 * np.arange(8).astype(np.uint64)
    values = memory.load(addresses, np.ones(8, bool), None, np.dtype(np.float32))
    assert values.tolist() == [1, 1, 1, 0, 0, 1, 1, 1]
    (fault,) = memory.faults.values()
    assert (fault["row"], fault["column"], fault["lanes"]) == (0, 3, 2)
    assert memory.tensors[0].moved["loaded"] == 24


def test_an_input_is_not_written_to():
    tensor = DeviceTensor("x", np.ones(4, np.float32), writable=False)
    memory = DeviceMemory([tensor])
    memory.store(
        np.array([memory.address(0)], np.uint64), 7.0, np.array([True]), np.dtype(np.float32)
    )
    assert tensor.numbers.tolist() == [1, 1, 1, 1]
    assert [fault["kind"] for fault in memory.faults.values()] == ["wrote an input"]


def test_what_another_program_stored_may_not_be_read():
    memory = DeviceMemory([DeviceTensor("out", np.ones(4, np.float32))])
    at, mask, kind = (
        np.array([memory.address(0)], np.uint64),
        np.array([True]),
        np.dtype(np.float32),
    )
    memory.store(at, 7.0, mask, kind)
    memory.load(at, mask, None, kind)
    assert not memory.faults
    memory.program_number = 1
    memory.load(at, mask, None, kind)
    assert [fault["kind"] for fault in memory.faults.values()] == ["read another program's"]


def test_messages_come_back_as_they_went():
    launch = Launch(
        (2, 3), {"x": Tensor(X, row_stride=0), "n": 3, "s": 0.5}, {"block": 8}, {"num_warps": 2}
    )
    source, back, more = launches.unpack_request(
        launches.pack_request(read_kernel(scaled), launch, sm=80)
    )
    assert source == read_kernel(scaled) and more["sm"] == 80
    assert (back.grid, back.constexprs, back.options) == ((2, 3), {"block": 8}, {"num_warps": 2})
    assert np.array_equal(back.arguments["x"].values, X) and back.arguments["s"] == 0.5
