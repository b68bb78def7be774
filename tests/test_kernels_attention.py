"""flash_attention on any machine: its contract, what it refuses, and the blockwise path."""

import subprocess
import sys

import pytest
import torch

from course_utils.attention import dense_attention, dense_attention_backward
from course_utils.kernels import flash_attention
from course_utils.kernels.blocks import HOPPER, OTHERS, blocks_for, shared_bytes
from course_utils.kernels.blockwise import blockwise_backward, blockwise_forward
from course_utils.torch_memory import saved_bytes, torch_peak_bytes
from tests.attention_cases import attend, errors, oracle, poisoned, problem

FLOAT64, FLOAT32 = torch.float64, torch.float32
SIZES = [(1, 1), (1, 300), (300, 1), (64, 64), (257, 255), (255, 600), (600, 255), (513, 513)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_blockwise_is_the_formula(sizes, causal):
    inputs = problem(*sizes, 16, dtype=FLOAT64, heads=4, group=2)
    with poisoned():
        actual = attend(*inputs, causal=causal, backend="blockwise")
    assert max(errors(actual, oracle(*inputs, causal=causal))) < 1e-10


@pytest.mark.parametrize("blocks", [(1, 1), (3, 5), (16, 4), (7, 100)], ids=str)
@pytest.mark.parametrize("sizes", [(20, 20), (9, 23), (23, 9)], ids=str)
def test_blocks_of_any_size_give_the_same(sizes, blocks):
    q, k, v, do = problem(*sizes, 4, dtype=FLOAT64, batch=1, heads=6, group=3)
    o, logsumexp = blockwise_forward(q, k, v, True, 0.7, *blocks)
    grads = blockwise_backward(q, k, v, o, logsumexp, do, True, 0.7, *blocks)
    assert max(errors([o, *grads], oracle(q, k, v, do, causal=True, scale=0.7))) < 1e-12


def test_autocast_changes_no_type_in_the_blocks():
    inputs = problem(40, 40, 16, dtype=FLOAT32, heads=2, group=1)
    plain = attend(*inputs, causal=True, backend="blockwise")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = attend(*inputs, causal=True, backend="blockwise")
    assert all(map(torch.equal, plain, under_autocast))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(30, 30), (10, 40), (40, 10)], ids=str)
def test_our_two_oracles_and_the_logsumexp_agree(sizes, causal):
    q, k, v, do = problem(*sizes, 8, dtype=FLOAT64)
    arrays = [x.numpy() for x in (q, k, v, do)]
    expected_o, expected_logsumexp = dense_attention(*arrays[:3], causal=causal, scale=0.5)
    expected = [expected_o, *dense_attention_backward(*arrays, causal=causal, scale=0.5)]
    exact = oracle(q, k, v, do, causal=causal, scale=0.5)
    assert max(errors(exact, [torch.from_numpy(x) for x in expected])) < 1e-12
    _, logsumexp = blockwise_forward(q, k, v, causal, 0.5, 7, 9)
    torch.testing.assert_close(logsumexp, torch.from_numpy(expected_logsumexp))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, -0.8, 0.0])
def test_gradients_agree_with_differences(causal, scale):
    q, k, v, _ = problem(5, 4, 3, dtype=FLOAT64, batch=1, heads=2, group=2)
    inputs = [x.requires_grad_() for x in (q, k, v)]
    assert torch.autograd.gradcheck(
        lambda *x: flash_attention(*x, causal=causal, scale=scale, backend="blockwise"), inputs
    )


@pytest.mark.parametrize("dtype, bound", [(torch.bfloat16, 6e-3), (torch.float16, 7e-4)])
def test_16_bit_inputs_are_computed_in_float32(dtype, bound):
    inputs = problem(300, 300, 32, dtype=dtype)
    actual = attend(*inputs, causal=True, backend="blockwise")
    assert all(x.dtype == dtype for x in actual)
    assert max(errors(actual, oracle(*inputs, causal=True))) < bound


def test_blockwise_agrees_with_pytorch_on_squares():
    inputs = problem(100, 100, 16, dtype=FLOAT64)
    leaves = [x.clone().requires_grad_() for x in inputs[:3]]
    o = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
    theirs = [o.detach(), *torch.autograd.grad(o, leaves, inputs[3])]
    assert max(errors(attend(*inputs, causal=True), theirs)) < 1e-12


def test_rows_that_see_nothing_are_zero_and_no_gradient_flows():
    q, k, v, do = problem(9, 4, 8, dtype=FLOAT32)
    with poisoned():
        o, dq, dk, dv = attend(q, k, v, do, causal=True)
        _, _, dk_of_rest, _ = attend(q[:, :, 5:], k, v, do[:, :, 5:], causal=True)
    assert not o[:, :, :5].any() and not dq[:, :, :5].any()
    assert torch.isfinite(torch.cat([dq.flatten(), dk.flatten(), dv.flatten()])).all()
    torch.testing.assert_close(dk, dk_of_rest)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0)], ids=str)
def test_no_rows_at_all(sizes):
    o, dq, dk, dv = attend(*problem(*sizes, 4, dtype=FLOAT32))
    assert o.shape == dq.shape == (2, 2, sizes[0], 4) and dk.shape == dv.shape
    assert not o.any() and not dq.any() and not dk.any() and not dv.any()


def test_any_strides():
    q, k, v, do = problem(40, 40, 8, dtype=FLOAT64)
    expected = attend(q, k, v, do, causal=True)
    token_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k)]
    d_first = v.mT.contiguous().mT
    actual = attend(*token_first, d_first, do.flip(0).flip(0), causal=True)
    assert max(errors(actual, expected)) < 1e-14
    assert actual[0].stride() == token_first[0].stride()  # as q: no copy to follow it


def test_an_expanded_gradient_is_taken():
    q, k, v, _ = problem(20, 20, 8, dtype=FLOAT64)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    flash_attention(*leaves).sum().backward()
    expected = oracle(q, k, v, torch.ones_like(q))
    assert max(errors([x.grad for x in leaves], expected[1:])) < 1e-12


def test_equal_inputs_give_equal_bits():
    inputs = problem(300, 280, 16, dtype=FLOAT32)
    first, second = (attend(*inputs, causal=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second))


def test_memory_grows_as_n():
    sizes, heads, d = (1024, 2048, 3072), 1, 16
    forward, backward = [], []
    for n in sizes:
        q, k, v, do = problem(n, n, d, dtype=FLOAT32, batch=1, heads=heads)
        o, logsumexp = blockwise_forward(q, k, v, False, 0.25)
        forward.append(torch_peak_bytes(lambda: blockwise_forward(q, k, v, False, 0.25)))  # noqa: B023
        saved = (q, k, v, o, logsumexp, do)
        backward.append(torch_peak_bytes(lambda: blockwise_backward(*saved, False, 0.25)))  # noqa: B023
    for peaks, bytes_a_row in ((forward, 4 * (d + 1)), (backward, 4 * (3 * d + 1))):
        growth = (peaks[2] - peaks[1]) / (sizes[2] - sizes[1])
        assert growth == pytest.approx(bytes_a_row, rel=0.05)
        assert peaks[2] < sizes[2] ** 2 * 4 / 8  # a square of scores takes eight times as much


def test_what_is_kept_for_the_backward_pass():
    q, k, v, _ = problem(1024, 1024, 32, dtype=FLOAT32)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    kept = saved_bytes(lambda: flash_attention(*leaves), leaves)
    assert kept == 2 * 2 * 1024 * (32 + 1) * 4  # O and logsumexp
    with torch.no_grad():
        assert saved_bytes(lambda: flash_attention(*leaves)) == 0
        assert not flash_attention(*leaves).requires_grad


def test_a_second_derivative_is_refused():
    q, k, v, do = problem(8, 8, 4, dtype=FLOAT64)
    q.requires_grad_()
    do.requires_grad_()
    (dq,) = torch.autograd.grad(flash_attention(q, k, v), q, do, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


def rows(*shape, dtype=FLOAT32, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


GOOD = (2, 4, 8, 16)
REFUSED = {
    "no tensor": (([1.0], rows(*GOOD), rows(*GOOD)), {}, "q must be a torch.Tensor, not list"),
    "three axes": ((rows(4, 8, 16), rows(*GOOD), rows(*GOOD)), {}, "q must have four axes"),
    "mixed dtypes": (
        (rows(*GOOD), rows(*GOOD, dtype=torch.float16), rows(*GOOD)),
        {},
        "must have one dtype",
    ),
    "integers": ([rows(*GOOD, dtype=torch.int32)] * 3, {}, "must be bfloat16, float16"),
    "mixed devices": (
        (rows(*GOOD), rows(*GOOD, device="meta"), rows(*GOOD, device="meta")),
        {},
        "must be on one device",
    ),
    "k is not v": ((rows(*GOOD), rows(*GOOD), rows(2, 4, 9, 16)), {}, "k and v must have the same"),
    "batches": ((rows(*GOOD), *[rows(3, 4, 8, 16)] * 2), {}, "a batch of 2, k and v one of 3"),
    "widths": ((rows(*GOOD), *[rows(2, 4, 8, 8)] * 2), {}, "16 wide, those of k and v 8"),
    "too wide": ([rows(1, 1, 4, 257)] * 3, {}, "D must be 1 to 256, not 257"),
    "no width": ([rows(1, 1, 4, 0)] * 3, {}, "D must be 1 to 256, not 0"),
    "no heads": ([rows(1, 0, 4, 8)] * 3, {}, "batch and heads must be at least 1"),
    "group": ((rows(*GOOD), *[rows(2, 3, 8, 16)] * 2), {}, "must divide that of q"),
    "more kv heads": ((rows(*GOOD), *[rows(2, 8, 8, 16)] * 2), {}, "must divide that of q"),
    "scale": ([rows(*GOOD)] * 3, {"scale": float("nan")}, "scale must be a finite number"),
    "scale, text": ([rows(*GOOD)] * 3, {"scale": "1"}, "scale must be a finite number"),
    "scale, bool": ([rows(*GOOD)] * 3, {"scale": True}, "scale must be a finite number"),
    "scale, huge": ([rows(*GOOD)] * 3, {"scale": 10**400}, "scale must be a finite number"),
    "sparse": ((rows(*GOOD).to_sparse(), *[rows(*GOOD)] * 2), {}, "q must be a dense tensor"),
    "backend": ([rows(*GOOD)] * 3, {"backend": "cudnn"}, "backend must be one of auto, triton"),
    "float64": (
        [rows(*GOOD, dtype=FLOAT64)] * 3,
        {"backend": "triton"},
        "has no float64.*blockwise",
    ),
    "meta": ([rows(*GOOD, device="meta")] * 3, {"backend": "triton"}, "not on meta"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_told_in_one_line(name):
    tensors, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as told:
        flash_attention(*tensors, **options)
    assert "\n" not in str(told.value) and len(str(told.value)) < 200


def printed_by(program: str, **environment) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment or None
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_triton_it_imports_runs_and_says_what_is_missing():
    """As on Windows and macOS: and nothing loads Triton before a Triton backend is chosen."""
    program = (
        "import importlib.util as util, sys; find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'triton' else find(name, *rest)\n"
        "import torch; from course_utils.kernels import flash_attention\n"
        "q = torch.ones(1, 1, 3, 2)\n"
        "print(flash_attention(q, q, q).sum().item(), 'triton' in sys.modules)\n"
        "try: flash_attention(q, q, q, backend='triton')\n"
        "except ValueError as error: print(error)"
    )
    first, told = printed_by(program).splitlines()
    assert first == "6.0 False" and "Linux only" in told and 'backend="blockwise"' in told


@pytest.mark.parametrize("table", [HOPPER, OTHERS], ids=["hopper", "others"])
@pytest.mark.parametrize("limit_kib", [227, 163, 99])
def test_blocks_fit_every_device(table, limit_kib):
    for kernel in ("forward", "queries", "keys"):
        for block_d in (16, 32, 64, 128, 256):
            for itemsize in (2, 4):
                device = {"hopper": table is HOPPER, "limit_bytes": limit_kib * 1024}
                for n_keys in (1, 8193):
                    blocks = blocks_for(kernel, block_d, itemsize, n_keys, **device)
                    assert shared_bytes(kernel, blocks, block_d, itemsize) <= limit_kib * 1024
                    assert min(blocks.block_q, blocks.block_k) >= 16  # what a tensor core takes
                if limit_kib == 227:
                    blocks = blocks_for(kernel, block_d, itemsize, 1, **device)
                    assert blocks == table[kernel][8 * itemsize][max(64, block_d)]
