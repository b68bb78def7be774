"""The Triton kernels on a GPU: values, errors beside PyTorch's own, bytes, and equal bits.

python3 -m pytest -m gpu tests -q -p no:cacheprovider
"""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_utils.kernels import flash_attention
from course_utils.triton_here import HAS_GPU, INTERPRETED
from tests.attention_cases import attend, errors, oracle, poisoned, problem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_GPU or INTERPRETED, reason="needs a CUDA device of sm_80 or newer"),
]

BFLOAT16, FLOAT16, FLOAT32 = torch.bfloat16, torch.float16, torch.float32
BOUNDS = {BFLOAT16: 8e-3, FLOAT16: 1e-3, FLOAT32: 4e-6}
WIDTHS = (1, 33, 64, 80, 128, 256)
SIZES = [  # n_queries, n_keys, heads that share keys
    (1, 1, 1), (17, 17, 4), (128, 128, 1), (1000, 1000, 4), (1, 777, 1), (300, 1025, 4), (1025, 300, 1)
]  # fmt: skip


def on_gpu(*sizes, **options):
    return problem(*sizes, device="cuda", **options)


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("d", WIDTHS)
def test_kernels_are_the_formula(d, dtype):
    for sizes, causal in (((257, 257), False), ((200, 330), True)):
        inputs = on_gpu(*sizes, d, dtype=dtype, heads=4, group=2)
        with poisoned():
            actual = attend(*inputs, causal=causal, backend="triton")
        worst = max(errors(actual, oracle(*inputs, causal=causal)))
        assert worst < BOUNDS[dtype], (sizes, causal)


@pytest.mark.parametrize("n_queries, n_keys, group", SIZES)
@pytest.mark.parametrize("causal", [False, True])
def test_any_number_of_rows(n_queries, n_keys, group, causal):
    sizes = {"dtype": BFLOAT16, "batch": 3, "heads": 4, "group": group}
    inputs = on_gpu(n_queries, n_keys, 64, **sizes)
    with poisoned():
        actual = attend(*inputs, causal=causal)
    exact = oracle(*inputs, causal=causal)
    if n_keys == 1:  # the softmax of one number: dQ and dK are 0, and ours nearly
        actual, exact = [actual[0], actual[3]], [exact[0], exact[3]]
    assert max(errors(actual, exact)) < BOUNDS[BFLOAT16]


@pytest.mark.parametrize("scale", [0.3, -0.1, 0.0])
def test_any_scale(scale):
    inputs = on_gpu(150, 170, 64, dtype=FLOAT16)
    actual = attend(*inputs, causal=True, scale=scale)
    assert max(errors(actual, oracle(*inputs, causal=True, scale=scale))) < BOUNDS[FLOAT16]


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("d, causal", [(64, False), (64, True), (128, False), (128, True)])
def test_errors_beside_those_of_pytorch(d, causal, dtype):
    """At most 1.5 times flash's in 16 bits, the math backend's in float32, on the same inputs."""
    inputs = on_gpu(2048, 2048, d, dtype=dtype, batch=1, heads=4)
    exact = oracle(*inputs, causal=causal)
    leaves = [x.clone().requires_grad_() for x in inputs[:3]]
    with sdpa_kernel(SDPBackend.MATH if dtype == FLOAT32 else SDPBackend.FLASH_ATTENTION):
        o = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        theirs = [o.detach(), *torch.autograd.grad(o, leaves, inputs[3])]
    ours = errors(attend(*inputs, causal=causal), exact)
    for our, their in zip(ours, errors(theirs, exact)):
        assert our <= 1.5 * their


def test_rows_that_see_nothing_are_zero_and_no_gradient_flows():
    for d in (40, 64, 128):
        inputs = on_gpu(500, 90, d, dtype=BFLOAT16)
        with poisoned():
            actual = attend(*inputs, causal=True)
        assert not actual[0][:, :, :410].any() and not actual[1][:, :, :410].any()
        assert all(torch.isfinite(x).all() for x in actual)
        assert max(errors(actual, oracle(*inputs, causal=True))) < BOUNDS[BFLOAT16]


def test_any_strides():
    q, k, v, do = on_gpu(300, 300, 64, dtype=BFLOAT16)
    expected = attend(q, k, v, do, causal=True)
    token_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k)]
    d_first = [x.mT.contiguous().mT for x in (v, do)]
    packed = torch.cat([q, k, v], -1).split(64, -1)  # rows of 192 numbers, a third each
    for other in ([*token_first, *d_first], [*packed, do]):
        actual = attend(*other, causal=True)
        assert all(torch.equal(a, b) for a, b in zip(actual, expected))
    odd = torch.cat([v, v[..., :1]], -1)[..., 1:]  # rows of 65 numbers, from the second on
    actual = attend(q, k, odd, do)
    assert max(errors(actual, oracle(q, k, odd, do))) < BOUNDS[BFLOAT16]
    one_number = do[:1, :1, :1, :1].expand_as(do)
    actual = attend(q, k, v, one_number)
    assert max(errors(actual, oracle(q, k, v, one_number))) < BOUNDS[BFLOAT16]


def test_more_than_two_billion_numbers_apart():
    """Strides beyond 32 bits: rows of two heads, 2**31 numbers from each other."""
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("needs 12 GiB")
    big = torch.empty(2**32 + 2**20, dtype=FLOAT16, device="cuda")
    q, k, v, do = on_gpu(100, 100, 64, dtype=FLOAT16, batch=1, heads=3)
    far = torch.as_strided(big, q.shape, (0, 2**31, 64, 1)).copy_(k)
    for actual, expected in zip(attend(q, far, v, do), attend(q, k, v, do)):
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("d, causal", [(64, False), (64, True), (128, False), (128, True)])
def test_extra_memory_to_the_byte(d, causal):
    """Forward: 4 bytes a query and head. Backward: as many again, besides dQ, dK and dV."""
    for n in (1024, 4096):
        inputs = on_gpu(n, n, d, dtype=BFLOAT16)
        leaves = [x.requires_grad_() for x in inputs[:3]]
        attend(*inputs, causal=causal)  # what a first call sets up stays
        q = inputs[0]
        row_bytes = 4 * q.shape[0] * q.shape[1] * n

        def extra(function):
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            result = function()
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated() - before
            results = result if isinstance(result, tuple) else (result,)
            return result, peak - sum(x.numel() * x.element_size() for x in results)

        o, forward = extra(lambda: flash_attention(*leaves, causal=causal))  # noqa: B023
        _, backward = extra(lambda: torch.autograd.grad(o, leaves, inputs[3]))  # noqa: B023
        assert (forward, backward) == (row_bytes, row_bytes)


@pytest.mark.parametrize("d", [64, 128])
def test_equal_inputs_give_equal_bits(d):
    inputs = on_gpu(1500, 1500, d, dtype=BFLOAT16, heads=8, group=4)
    first = attend(*inputs, causal=True)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(attend(*inputs, causal=True), first))


def test_float64_takes_the_blockwise_path_and_agrees():
    inputs = on_gpu(300, 280, 32, dtype=torch.float64, heads=4, group=2)
    assert max(errors(attend(*inputs, causal=True), oracle(*inputs, causal=True))) < 1e-10


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_blockwise_and_triton_agree(dtype):
    inputs = on_gpu(700, 900, 80, dtype=dtype)
    exact = oracle(*inputs, causal=True)
    assert max(errors(attend(*inputs, causal=True, backend="blockwise"), exact)) < BOUNDS[dtype]


def test_a_tensor_on_the_cpu_is_told_where_it_may_go():
    q = torch.ones(1, 1, 4, 16)
    with pytest.raises(ValueError, match="set TRITON_INTERPRET=1"):
        flash_attention(q, q, q, backend="triton")
    with pytest.raises(ValueError, match="must be on one device"):
        flash_attention(q.cuda(), q, q)
