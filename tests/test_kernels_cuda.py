"""FlashAttention in CUDA C++: what is refused, what nvcc makes of it, and, on a GPU, its values."""

import math
import os

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_utils.kernels import cuda_cpp
from course_utils.kernels.cuda_compile import SOURCES, find_nvcc
from course_utils.kernels.cuda_cpp import (
    CudaMissing,
    compile_to_cubin,
    compiles_here,
    cuda_forward,
    missing_here,
)

with_nvcc = pytest.mark.skipif(
    find_nvcc() is None or os.name == "nt", reason="no nvcc here to compile CUDA C++"
)


def on_gpu(test):
    test = pytest.mark.skipif(not compiles_here(), reason=f"CUDA C++: {missing_here()}")(test)
    return pytest.mark.gpu(pytest.mark.timeout(300)(test))  # the first one compiles


def tensors(n_queries, n_keys, d, dtype, heads=(2, 3), device="cpu"):
    generator = torch.Generator(device).manual_seed(n_queries * 1000 + n_keys + d)
    sizes = ((*heads, n, d) for n in (n_queries, n_keys, n_keys))
    return [torch.randn(size, generator=generator, device=device).to(dtype) for size in sizes]


# --- on any machine


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda q, k, v: (q[0], k, v), r"q must be a tensor \(B, H, N, D\); got \(3, 5, 64\)"),
        (lambda q, k, v: (q, k.numpy(), v), "k must be a tensor .* got ndarray"),
        (lambda q, k, v: (q, k, v[:, :, :4]), "do not fit"),
        (lambda q, k, v: (q, k[:, :1], v[:, :1]), "do not fit"),
        (lambda q, k, v: (q[..., :32], k, v), "do not fit"),
        (lambda q, k, v: (q[..., :32], k[..., :32], v[..., :32]), "D of 64 and 128; got 32"),
        (lambda q, k, v: (q, k.half(), v), "one dtype; got torch.float32 and torch.float16"),
        (lambda q, k, v: (q.double(), k.double(), v.double()), "got torch.float64$"),
        (lambda q, k, v: (q, k, v), "got torch.float32; tensor_cores=False takes it"),
        (lambda q, k, v: (q, k, v.to("meta")), "on one device; got cpu and meta"),
    ],
)
def test_what_no_kernel_takes_is_refused_in_one_line(change, message):
    with pytest.raises(ValueError, match=message) as caught:
        cuda_forward(*change(*tensors(5, 7, 64, torch.float32)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), "1", True])
def test_a_scale_that_is_no_finite_number_is_refused(scale):
    with pytest.raises(ValueError, match="scale must be a finite number"):
        cuda_forward(*tensors(5, 7, 64, torch.float16), scale=scale)


def test_tensors_on_the_cpu_are_refused_where_a_gpu_is(monkeypatch):
    monkeypatch.setattr(cuda_cpp, "missing_here", lambda: "")
    with pytest.raises(ValueError, match="must be on a CUDA device; they are on cpu"):
        cuda_forward(*tensors(5, 7, 64, torch.float16))


@pytest.mark.skipif(compiles_here(), reason="this machine has all that it takes")
@pytest.mark.parametrize("tensor_cores", [True, False])
def test_a_machine_that_lacks_something_says_what(tensor_cores):
    with pytest.raises(CudaMissing, match="CUDA|GPU|nvcc|ninja"):
        cuda_forward(*tensors(5, 7, 64, torch.float16), tensor_cores=tensor_cores)


def test_nvcc_is_found_where_torch_finds_it_and_named_where_it_is_not(monkeypatch, tmp_path):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.touch(mode=0o755)
    for name in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "elsewhere"))
        monkeypatch.setenv(name, str(tmp_path))
        assert find_nvcc() == str(nvcc)
    monkeypatch.setattr("course_utils.kernels.cuda_compile.find_nvcc", lambda: None)
    with pytest.raises(CudaMissing, match="nvcc.*is not here"):
        compile_to_cubin("sm_80")


@pytest.mark.parametrize("arguments", [("80",), ("sm_80", "flash"), ("sm_80 -o x",)])
def test_an_unknown_architecture_or_kernel_is_refused(arguments):
    with pytest.raises(ValueError, match="got"):
        compile_to_cubin(*arguments)


@with_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_kernels_compile_without_spills_and_fit_the_chip(arch):
    reports = compile_to_cubin(arch)
    variants = {(report.kernel, report.dtype, report.d) for report in reports}
    halves = {("flash_tensor_cores", t, d) for t in ("float16", "bfloat16") for d in (64, 128)}
    plain = {("flash_tiles", t, d) for t in ("float32", "float16", "bfloat16") for d in (64, 128)}
    assert variants == halves | plain
    for report in reports:
        assert report.spill_bytes == report.stack_bytes == 0, report
        assert 0 < report.registers < 255
        # sm_86 and sm_89 have the least of those with tensor cores for bf16, sm_75 has 64 KiB
        most = 64 * 1024 if report.kernel == "flash_tiles" else 99 * 1024
        assert 32 * 1024 < report.shared_bytes <= most


@with_nvcc
def test_the_plain_kernel_compiles_for_an_older_gpu():
    assert all(report.spill_bytes == 0 for report in compile_to_cubin("sm_75", "flash_tiles"))


@with_nvcc
def test_a_source_that_does_not_compile_is_shown_in_the_compilers_words(monkeypatch, tmp_path):
    (tmp_path / "flash_tiles.cu").write_text("int f() { return nothing; }\n")
    monkeypatch.setattr("course_utils.kernels.cuda_compile.FOLDER", tmp_path)
    with pytest.raises(RuntimeError, match='identifier "nothing" is undefined'):
        compile_to_cubin("sm_80", "flash_tiles")


def test_each_source_is_short_and_opens_with_why_it_exists():
    sources = sorted(cuda_cpp.FOLDER.iterdir())
    assert {f"{name}.cu" for name in SOURCES} < {path.name for path in sources}
    for path in sources:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 250 and max(map(len, lines)) <= 100, path
        assert lines[0].startswith("// "), path


# --- on a GPU

LENGTHS = [(n, n) for n in (1, 17, 63, 64, 65, 127, 128, 129, 1000)] + [
    (1, 1000),
    (17, 300),
    (300, 17),
    (129, 128),
    (1000, 1),
    (64, 1025),
]
RUNGS = [
    (False, torch.float32),
    (False, torch.float16),
    (False, torch.bfloat16),
    (True, torch.float16),
    (True, torch.bfloat16),
]


def exact(q, k, v, causal, scale):
    """Output and logsumexp by the formula, in float64, on the device of q."""
    q, k, v = q.double(), k.double(), v.double()
    s = scale * q @ k.mT
    if causal:
        hidden = torch.ones(s.shape[-2:], dtype=bool, device=s.device)
        s = s.masked_fill(hidden.triu(1 + s.shape[-1] - s.shape[-2]), -math.inf)
    logsumexp = s.logsumexp(-1)
    return (s - logsumexp[..., None]).exp().nan_to_num(0.0) @ v, logsumexp


def pytorch(backend, q, k, v, causal, scale):
    """A backend of PyTorch's, causal at the bottom right: with as many queries as keys both agree."""
    n_queries, n_keys = q.shape[2], k.shape[2]
    empty = max(n_queries - n_keys, 0) if causal else 0
    if causal and n_queries < n_keys:
        q = torch.cat([q.new_zeros(*q.shape[:2], n_keys - n_queries, q.shape[3]), q], dim=2)
    with sdpa_kernel(backend):
        out = torch.nn.functional.scaled_dot_product_attention(
            q[:, :, empty:], k, v, is_causal=causal, scale=scale
        )
    zeros = out.new_zeros(*out.shape[:2], empty, out.shape[3])
    return torch.cat([zeros, out], dim=2)[:, :, -n_queries:]


def poisoned_forward(*arguments, **options):
    """cuda_forward into memory that is full of nan."""
    settings = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(1000, device="cuda").isnan().all()
        return cuda_forward(*arguments, **options)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = settings


def error(x, reference):
    return ((x - reference).norm() / reference.norm().clamp(min=1e-30)).item()


def needs_tensor_cores(tensor_cores):
    if tensor_cores and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("the tensor cores of this GPU are older than sm_80")


@on_gpu
@pytest.mark.parametrize("tensor_cores, dtype", RUNGS)
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_values_on_a_gpu(tensor_cores, dtype, d, causal):
    needs_tensor_cores(tensor_cores)
    for n_queries, n_keys in LENGTHS:
        q, k, v = tensors(n_queries, n_keys, d, dtype, device="cuda")
        out, logsumexp = poisoned_forward(q, k, v, causal=causal, tensor_cores=tensor_cores)
        expected, expected_logsumexp = exact(q, k, v, causal, d**-0.5)
        case = f"{n_queries} queries, {n_keys} keys"
        assert out.shape == q.shape and out.dtype == dtype, case
        backend = SDPBackend.MATH if dtype == torch.float32 else SDPBackend.FLASH_ATTENTION
        theirs = error(pytorch(backend, q, k, v, causal, d**-0.5), expected)
        allowed = 1e-5 if dtype == torch.float32 else 1.5 * theirs + 1e-6
        assert error(out, expected) <= allowed, case
        nothing = expected_logsumexp == -math.inf
        assert torch.equal(logsumexp == -math.inf, nothing), case
        assert not out[nothing].any(), case
        torch.testing.assert_close(logsumexp.double(), expected_logsumexp, rtol=1e-5, atol=2e-5)


@on_gpu
@pytest.mark.parametrize("tensor_cores, dtype", RUNGS)
@pytest.mark.parametrize("scale", [0.0, -0.3, 5.0])
def test_any_scale(tensor_cores, dtype, scale):
    needs_tensor_cores(tensor_cores)
    q, k, v = tensors(200, 150, 64, dtype, device="cuda")
    out, _ = poisoned_forward(q, k, v, scale=scale, tensor_cores=tensor_cores)
    assert error(out, exact(q, k, v, False, scale)[0]) < (1e-4 if dtype == torch.float32 else 1e-2)


@on_gpu
@pytest.mark.parametrize("tensor_cores", [False, True])
def test_inputs_as_they_come(tensor_cores):
    needs_tensor_cores(tensor_cores)
    q, k, v = tensors(100, 80, 64, torch.float16, device="cuda")
    expected = cuda_forward(q, k, v, tensor_cores=tensor_cores)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    odd = [torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape) for x in (q, k, v)]
    assert odd[0].data_ptr() % 16
    for inputs in (strided, odd, [x.requires_grad_() for x in (q, k, v)]):
        out, logsumexp = poisoned_forward(*inputs, tensor_cores=tensor_cores)
        assert torch.equal(out, expected[0]) and torch.equal(logsumexp, expected[1])
        assert not out.requires_grad


@on_gpu
@pytest.mark.parametrize("tensor_cores", [False, True])
def test_no_keys_no_queries_no_heads(tensor_cores):
    needs_tensor_cores(tensor_cores)
    out, logsumexp = poisoned_forward(
        *tensors(9, 0, 64, torch.float16, device="cuda"), tensor_cores=tensor_cores
    )
    assert not out.any() and (logsumexp == -math.inf).all()
    for sizes in ({"n_queries": 0, "heads": (2, 3)}, {"n_queries": 5, "heads": (0, 3)}):
        q, k, v = tensors(n_keys=9, d=64, dtype=torch.float16, device="cuda", **sizes)
        assert cuda_forward(q, k, v, tensor_cores=tensor_cores)[0].shape == q.shape


@on_gpu
@pytest.mark.parametrize("tensor_cores", [False, True])
def test_what_lies_beside_the_inputs_is_neither_read_nor_written(tensor_cores):
    """Queries, keys and values out of buffers that hold nan before and after them."""
    needs_tensor_cores(tensor_cores)
    q, k, v = tensors(70, 45, 64, torch.bfloat16, heads=(1, 1), device="cuda")
    expected = cuda_forward(q, k, v, tensor_cores=tensor_cores)[0]
    fenced = []
    for x in (q, k, v):
        buffer = torch.full((x.numel() + 2 * 4096,), math.nan, dtype=x.dtype, device=x.device)
        buffer[4096:-4096] = x.flatten()
        fenced.append(buffer[4096:-4096].view(x.shape))
    assert torch.equal(cuda_forward(*fenced, tensor_cores=tensor_cores)[0], expected)


@on_gpu
@pytest.mark.parametrize("tensor_cores", [False, True])
def test_a_run_repeated_gives_the_same_bits(tensor_cores):
    needs_tensor_cores(tensor_cores)
    q, k, v = tensors(1111, 1234, 128, torch.bfloat16, device="cuda")
    first = cuda_forward(q, k, v, causal=True, tensor_cores=tensor_cores)
    again = cuda_forward(q, k, v, causal=True, tensor_cores=tensor_cores)
    assert all(torch.equal(a, b) for a, b in zip(first, again))


@on_gpu
def test_memory_besides_the_output_is_the_logsumexp():
    needs_tensor_cores(True)
    q, k, v = tensors(2048, 2048, 64, torch.bfloat16, heads=(1, 4), device="cuda")
    cuda_forward(q, k, v)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out, _ = cuda_forward(q, k, v)
    extra = torch.cuda.max_memory_allocated() - before - out.numel() * out.element_size()
    assert extra == 4 * 4 * 2048
