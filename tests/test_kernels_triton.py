"""The Triton kernels without a GPU: interpreted against the formula, and compiled for devices not here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_utils.kernels import flash_attention
from course_utils.kernels.schedule import block_and_head, heads_together
from course_utils.triton_here import HAS_TRITON, INTERPRETED, tl, triton
from tests.attention_cases import attend, errors, oracle, poisoned, problem

interpreted = pytest.mark.skipif(not INTERPRETED, reason="needs Triton's interpreter")
FLOAT16, FLOAT32 = torch.float16, torch.float32

# n_queries, n_keys, d, heads, group, causal, scale, dtype
CASES = [
    (128, 128, 64, 1, 1, False, None, FLOAT32),
    (128, 128, 64, 1, 1, True, None, FLOAT16),
    (200, 170, 16, 2, 2, False, None, FLOAT32),
    (100, 140, 40, 2, 1, True, None, FLOAT32),
    (140, 70, 80, 1, 1, True, 0.2, FLOAT32),
    (1, 1, 1, 3, 3, True, None, FLOAT32),
    (1, 130, 16, 4, 2, True, None, FLOAT16),
    (65, 63, 24, 2, 1, False, -0.3, FLOAT32),
    (33, 66, 16, 2, 2, True, 0.0, FLOAT32),
    (20, 20, 200, 1, 1, True, None, FLOAT16),
]


@interpreted
@pytest.mark.parametrize("case", CASES, ids=str)
def test_interpreted_kernels_are_the_formula(case):
    n_queries, n_keys, d, heads, group, causal, scale, dtype = case
    sizes = {"batch": 1, "heads": heads, "group": group, "dtype": dtype}
    inputs = problem(n_queries, n_keys, d, **sizes)
    options = {"causal": causal, "scale": scale}
    with poisoned():
        actual = attend(*inputs, backend="triton", **options)
    bound = 2e-6 if dtype == FLOAT32 else 1e-3
    assert max(errors(actual, oracle(*inputs, **options))) < bound


@interpreted
def test_any_strides_without_a_copy():
    q, k, v, do = problem(40, 40, 16, dtype=FLOAT32)
    expected = attend(q, k, v, do, causal=True, backend="triton")
    token_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k)]
    actual = attend(
        *token_first, v.mT.contiguous().mT, do.mT.contiguous().mT, causal=True, backend="triton"
    )
    assert all(torch.equal(a, b) for a, b in zip(actual, expected))
    one_number = do[:1, :1, :1, :1].expand_as(do)  # as from a sum: every stride is 0
    actual = attend(q, k, v, one_number, backend="triton")
    assert max(errors(actual, oracle(q, k, v, one_number))) < 2e-6


@interpreted
def test_rows_that_see_nothing_are_zero_and_no_gradient_flows():
    q, k, v, do = problem(150, 20, 16, dtype=FLOAT32, batch=1, heads=1)
    with poisoned():
        actual = attend(q, k, v, do, causal=True, backend="triton")
    assert not actual[0][:, :, :130].any() and not actual[1][:, :, :130].any()
    assert max(errors(actual, oracle(q, k, v, do, causal=True))) < 2e-6


@interpreted
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")  # in rows that are not stored
def test_scores_far_from_zero_do_not_overflow():
    q, k, v, do = problem(40, 33, 16, dtype=FLOAT32, batch=1, heads=1)
    k = -30 * q.mean(2, keepdim=True).sign() * k.abs()  # a logsumexp of some -100 in many rows
    inputs = [10 * q, k, v, do]
    for causal in (False, True):
        actual = attend(*inputs, causal=causal, backend="triton")
        assert max(errors(actual, oracle(*inputs, causal=causal))) < 1e-4


@interpreted
def test_bfloat16_is_refused_where_the_interpreter_would_be_wrong():
    q = torch.ones(1, 1, 4, 16, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="wrong for bfloat16 on a CPU"):
        flash_attention(q, q, q, backend="triton")
    assert flash_attention(q, q, q).sum() == 64  # auto takes another


@triton.jit
def note(blocks, heads, n_blocks, n_heads, together):
    block, head = block_and_head(n_blocks, n_heads, together)
    tl.store(blocks + tl.program_id(0), block)
    tl.store(heads + tl.program_id(0), head)


@interpreted
def test_the_order_of_programs_visits_every_block_of_every_head_once():
    for n_blocks, n_heads, together in [(3, 5, 2), (4, 4, 4), (1, 3, 1), (5, 1, 1)]:
        seen = torch.full((2, n_blocks * n_heads), -1, dtype=torch.int32)
        note[(n_blocks * n_heads,)](seen[0], seen[1], n_blocks, n_heads, together)
        pairs = list(zip(*seen.tolist()))
        assert sorted(pairs) == [(b, h) for b in range(n_blocks) for h in range(n_heads)]
        assert {h for _, h in pairs[: n_blocks * together]} == set(range(together))
    for n, n_heads, causal, at_a_time in [
        (1024, 100, True, 64), (1024, 7, True, 7), (10**6, 100, True, 1), (1024, 100, False, 1)
    ]:  # fmt: skip
        k = torch.empty(1, 8, n, 64, dtype=FLOAT16, device="meta")
        assert heads_together(k, n_heads, causal) == at_a_time


def test_on_a_cpu_without_the_interpreter_it_says_how_to_get_it():
    if not HAS_TRITON:
        pytest.skip("needs Triton")
    program = (
        "import torch; from course_utils.kernels import flash_attention; q = torch.ones(1, 1, 2, 2)\n"
        "try: flash_attention(q, q, q, backend='triton')\n"
        "except ValueError as error: print(error)"
    )
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert "set TRITON_INTERPRET=1 before Python starts" in done.stdout, done.stderr


# run on its own: once the interpreter is chosen, nothing compiles
COMPILE = """
import json, re, subprocess, sys, tempfile
from pathlib import Path
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from course_utils.kernels.blocks import blocks_for, shared_bytes
from course_utils.kernels.triton_forward import forward_kernel
from course_utils.kernels.triton_keys import keys_kernel
from course_utils.kernels.triton_queries import queries_kernel

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
KERNELS = {"forward": forward_kernel, "queries": queries_kernel, "keys": keys_kernel}
ALIGNED = [["tt.divisibility", 16]]

def compiled(name, arch, d, causal, limit_bytes, n_keys=1024):
    kernel = KERNELS[name]
    blocks = blocks_for(name, d, 2, n_keys, hopper=arch == 90, limit_bytes=limit_bytes)
    constants = dict(d=d, block_d=d, group=1, causal=causal, ragged=False, precision="tf32",
                     sign=1, empty_rows=False, block_q=blocks.block_q, block_k=blocks.block_k)
    signature, values, hints = {}, {}, {}
    for place, argument in enumerate(kernel.arg_names):
        if argument in constants:
            signature[argument], values[(place,)] = "constexpr", constants[argument]
        elif argument.endswith("_strides"):  # the last of four is 1, the others fit 16 bytes
            signature[argument], values[(place, 3)] = ("i32", "i32", "i32", "constexpr"), 1
            hints |= {(place, axis): ALIGNED for axis in range(3)}
        elif argument in ("batch", "heads", "together"):
            signature[argument] = "i32"
        elif argument in ("n_queries", "n_keys"):
            signature[argument], hints[(place,)] = "i32", ALIGNED
        elif argument == "scale":
            signature[argument] = "fp32"
        else:
            rows = argument in ("logsumexp", "row_dots")
            signature[argument], hints[(place,)] = "*fp32" if rows else "*bf16", ALIGNED
    options = dict(num_warps=blocks.num_warps, num_stages=blocks.num_stages)
    done = triton.compile(ASTSource(kernel, signature, values, hints),
                          target=GPUTarget("cuda", arch, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(done.asm["cubin"])
        file.flush()
        usage = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True)
    registers, stack = map(int, re.search(r"REG:(\\d+) STACK:(\\d+)", usage.stdout).groups())
    return dict(kernel=name, arch=arch, d=d, causal=causal, registers=registers, stack_bytes=stack,
                shared_bytes=done.metadata.shared, limit_bytes=limit_bytes,
                foreseen_bytes=shared_bytes(name, blocks, d, 2))

print(json.dumps([compiled(name, arch, d, causal, limit_kib * 1024)
    for name in KERNELS for d in (64, 128) for causal in (False, True)
    for arch, limit_kib in ((80, 163), (90, 227)) if causal or arch == 90]
    + [compiled("forward", 90, 64, causal, 227 * 1024, 16384) for causal in (False, True)]))
"""


@pytest.mark.skipif(not HAS_TRITON, reason="needs Triton")
def test_kernels_compile_for_sm_80_and_sm_90_and_stay_in_registers(tmp_path):
    program = tmp_path / "compile.py"
    program.write_text(COMPILE, encoding="utf-8")
    environment = os.environ | {
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    assert len(reports) == 20
    for report in reports:
        assert report["shared_bytes"] <= report["foreseen_bytes"] <= report["limit_bytes"], report
        # 128 x 128 sums in float32 fill the registers: a few addresses are set aside, and no tile
        crowded = report["d"] == 128 and report["arch"] == 90
        assert report["stack_bytes"] <= (64 if crowded else 0), report
