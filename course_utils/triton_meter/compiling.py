"""A kernel compiled ahead of time, for a GPU that need not be there: does it compile, and what does it take?

The interpreter takes much that the compiler refuses: a variable that changes its type in a loop, a global
number that is no constexpr, tiles that tensor cores do not have. The compiler has the last word.
"""

import importlib
import re
import subprocess
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from course_utils.triton_meter.kernel_file import KernelFile, guarded
from course_utils.triton_meter.launches import Compiled, Launch, Tensor, pack, unpack_request

_TYPES = {
    "float16": "*fp16",
    "float32": "*fp32",
    "bfloat16": "*bf16",
    "int32": "*i32",
    "int64": "*i64",
}


def work(message: bytes, folder: str) -> bytes:
    """A request in, a `Compiled` out. Runs in a process of its own."""
    source, launch, more = unpack_request(message)
    result = Compiled(more["sm"])

    def run() -> None:
        nonlocal result
        result = compile_kernel(KernelFile(source, folder).kernel, launch, more["sm"], folder)

    problem = guarded(run)
    if problem is not None:
        told, line = _first_cause(problem)
        result = Compiled(more["sm"], error=told, line=line)
    return pack(asdict(result), {})


def prepare() -> None:
    """Triton's own fingerprint takes half a second, and every child would take it again."""
    for home in ("triton.runtime.cache", "triton.compiler.compiler"):
        with suppress(ImportError, AttributeError):
            importlib.import_module(home).triton_key()


def compile_kernel(kernel, launch: Launch, sm: int, folder: str) -> Compiled:
    names = [*launch.arguments, *launch.constexprs]
    signature = {
        parameter: _type(launch.arguments.get(name))
        for parameter, name in zip(kernel.arg_names, names, strict=True)
    }
    constants = {
        parameter: launch.constexprs[name]
        for parameter, name in zip(kernel.arg_names, names)
        if name in launch.constexprs
    }
    made = triton.compile(
        ASTSource(kernel, signature, constants, _alignment(launch)),
        target=GPUTarget("cuda", sm, 32),
        options=launch.options,
    )
    registers, spilled_bytes = _resources(made.asm["cubin"], folder)
    metadata = made.metadata
    return Compiled(sm, "", "", metadata.shared, registers, spilled_bytes, metadata.num_warps)


def _alignment(launch: Launch) -> dict:
    """What a launch tells the compiler: tensors begin at multiples of 16 bytes; integers that are such."""
    aligned = (
        number
        for number, value in enumerate(launch.arguments.values())
        if isinstance(value, Tensor) or (isinstance(value, int) and value % 16 == 0)
    )
    return {(number,): [["tt.divisibility", 16]] for number in aligned}


def _type(argument) -> str:
    if argument is None:
        return "constexpr"
    if isinstance(argument, Tensor):
        return _TYPES[argument.type_name]
    return "i32" if isinstance(argument, int) else "fp32"


def _first_cause(problem: BaseException) -> tuple[str, str]:
    """The compiler's own words, and the kernel's line: its errors carry a text, and the node where they arose."""
    line = ""
    while True:
        node, text = getattr(problem, "node", None), getattr(problem, "src", None)
        if isinstance(text, str) and 0 < getattr(node, "lineno", 0) <= len(text.splitlines()):
            line = text.splitlines()[node.lineno - 1].strip().rstrip(":")
        if problem.__cause__ is None:
            break
        problem = problem.__cause__
    told = getattr(problem, "error_message", None) or str(problem) or type(problem).__name__
    return " ".join(str(told).split())[:300], line


def _resources(cubin: bytes, folder: str) -> tuple[int, int]:
    """(registers, spilled bytes) a thread, as cuobjdump reads them; (0, 0) where it is not there."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    path = Path(folder, "kernel.cubin")
    path.write_bytes(cubin)
    try:
        command = [str(tool), "--dump-resource-usage", str(path)]
        told = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0, 0
    found = {key: int(number) for key, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", told)}
    return found.get("REG", 0), max(found.get("STACK", 0), found.get("LOCAL", 0))
