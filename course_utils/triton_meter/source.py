"""What a kernel needs to run in another process: its text, and that of the helpers and constants it names.

A kernel is given as `@triton.jit` leaves it. Its function is looked up, its text read, and every global name
in it followed: other kernels come along as text, numbers as their values, Triton's own modules by import.
Nothing of the notebook besides is there, so what a kernel needs it must name.
"""

import ast
import inspect
import math
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from course_utils.triton_meter.plain import MODULES, what_is_odd

HEADER = "import triton\nimport triton.language as tl\n"


class NotAKernel(TypeError):
    """What was given is no Triton kernel, or one whose text can't be found. Says what it is."""


@dataclass(frozen=True)
class KernelSource:
    """A kernel as text. `is_stub`: its body still raises NotImplementedError, as the notebook gives it out.

    problem: why there is none, where another process has looked for it.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    is_stub: bool = False
    problem: str = ""


def kernel_function(kernel) -> Callable | None:
    """The Python function under @triton.jit (and @triton.autotune), or None: it is no kernel."""
    wrapped = kernel
    while not isinstance(wrapped, types.FunctionType):
        wrapped = getattr(wrapped, "fn", None)
        if wrapped is None:
            return None
    return None if wrapped is kernel else wrapped


def is_stub(answer) -> bool:
    """Whether an answer (a kernel or a plain function) is still as the notebook gave it out."""
    if isinstance(answer, KernelSource):
        return answer.is_stub
    function = kernel_function(answer) or answer
    try:
        body = _definition(function)[0].body
    except (OSError, TypeError, SyntaxError, NotAKernel):  # no text: all that its code names tells
        code = getattr(function, "__code__", None)
        return getattr(code, "co_names", ()) == ("NotImplementedError",)
    return any(isinstance(step, ast.Raise) and _is_not_implemented(step.exc) for step in body)


def read_kernel(kernel) -> KernelSource:
    """A kernel's text with all that it names; what has been read already, as it is. Raises NotAKernel."""
    if isinstance(kernel, KernelSource):
        if kernel.problem:
            raise NotAKernel(kernel.problem)
        return kernel
    function = kernel_function(kernel)
    if function is None:
        kind = "a plain function" if inspect.isfunction(kernel) else f"a {type(kernel).__name__}"
        raise NotAKernel(f"It is {kind}, without @triton.jit in the line above its def.")
    parts: dict[str, str] = {}
    _collect(function, parts, set(), jit=True)
    parameters = tuple(inspect.signature(function).parameters)
    text = HEADER + "\n".join(parts.values())
    if odd := what_is_odd(text):
        raise NotAKernel(f"It does what a kernel does not: {odd}.")
    return KernelSource(function.__name__, text, parameters, is_stub(kernel))


def _collect(function: Callable, parts: dict[str, str], seen: set, jit: bool) -> None:
    """Add the text of what the function names, then its own, to `parts`."""
    if function in seen:
        return
    seen.add(function)
    node, text = _definition(function)
    node.decorator_list = []  # what collects kernels is not what they need
    own = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    captured = inspect.getclosurevars(function).nonlocals
    for name in sorted(own):
        if name in captured or name in function.__globals__:
            value = captured.get(name, function.__globals__.get(name))
            line = _as_text(name, value, parts, seen)
            if line:
                parts[f"{name} ="] = line
    parts[function.__name__] = ("@triton.jit\n" if jit else "") + text


def _as_text(name: str, value, parts: dict[str, str], seen: set) -> str:
    """A line that makes `name` mean the same elsewhere, or "" (unknown there, and an error if used)."""
    if isinstance(value, types.ModuleType):
        known = value.__name__.split(".")[0] in MODULES
        return f"import {value.__name__} as {name}" if known else ""
    helper = kernel_function(value)
    if helper is not None or isinstance(value, types.FunctionType):
        function = helper or value
        home = function.__module__ or ""
        if home.split(".")[0] in MODULES:
            return f"from {home} import {function.__name__} as {name}"
        try:
            _collect(function, parts, seen, jit=helper is not None)
        except NotAKernel:
            return ""
        return "" if function.__name__ == name else f"{name} = {function.__name__}"
    if isinstance(value, type):  # tl.constexpr under a name of its own
        known = value.__module__.split(".")[0] == "triton"
        return f"from {value.__module__} import {value.__name__} as {name}" if known else ""
    if type(value).__name__ == "constexpr":
        literal = _literal(value.value)
        return f"{name} = tl.constexpr({literal})" if literal else ""
    literal = _literal(value)
    return f"{name} = {literal}" if literal else ""


def _literal(value) -> str:
    """A number, a text or a type of Triton's, as it is written; "" for anything else."""
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if type(value).__name__ == "dtype" and (type(value).__module__ or "").startswith("triton"):
        return f"tl.dtype({value.name!r})"
    if type(value) not in (bool, int, float, str):
        return ""
    is_special = isinstance(value, float) and not math.isfinite(value)
    return f'float("{value}")' if is_special else repr(value)


def _definition(function: Callable) -> tuple[ast.FunctionDef, str]:
    """A function's node and its text, from `def` on, with no decorator and no indent."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    except (OSError, TypeError, SyntaxError):
        nodes = []
    if not nodes or nodes[0].name != function.__name__:
        raise NotAKernel(
            "Its text can't be found: a kernel is written with `def` in a cell or a file, and its cell has no "
            "magic like %%time."
        )
    node = nodes[0]
    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
    return node, "\n".join(lines) + "\n"


def _is_not_implemented(raised: ast.expr | None) -> bool:
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
