"""A launch in Triton's interpreter, on the simulated memory: values, bytes, tile products, faults.

The interpreter does its loads and stores through one object, its builder. Here the builder's own get those
of `memory` in their place. Works with the interpreters of Triton 3.4 to 3.7.
"""

import types

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from course_utils.triton_meter.kernel_file import KernelFile, meter_request
from course_utils.triton_meter.launches import Launch, Metered, Tensor
from course_utils.triton_meter.memory import DeviceMemory, DeviceTensor

_TYPES = {"float16": tl.float16, "float32": tl.float32, "float64": tl.float64, "int32": tl.int32,
          "int64": tl.int64}  # fmt: skip
_UPDATES = {"ADD": np.add, "FADD": np.add, "MAX": np.maximum, "MIN": np.minimum}


def work(message: bytes, folder: str) -> bytes:
    """A request in, what was metered out. Runs in a process of its own."""
    return meter_request(message, folder, interpret, InterpreterError)


def interpret(file: KernelFile, launch: Launch, metered: Metered) -> None:
    """Run it, and note in `metered` whatever was done, to the end or to the first exception."""
    tensors = [
        DeviceTensor(name, given.values, given.row_stride, given.writable)
        for name, given in launch.arguments.items()
        if isinstance(given, Tensor)
    ]
    memory = DeviceMemory(tensors, file.line_now)
    builder = _MeteringBuilder(memory, launch.grid)
    arguments = _device_arguments(launch, memory)
    try:
        with np.errstate(all="ignore"), builder:
            file.kernel[launch.grid](*arguments, **launch.constexprs)
    finally:
        metered.faults = list(memory.faults.values())
        metered.dots = list(builder.dots.values())
        metered.atomics = builder.atomics
        metered.program_bytes = builder.program_bytes()
        for tensor in tensors:
            metered.loaded[tensor.name] = tensor.moved["loaded"]
            metered.stored[tensor.name] = tensor.moved["stored"]
            metered.loaded_sectors[tensor.name] = 32 * tensor.sectors["loaded"]
            metered.stored_sectors[tensor.name] = 32 * tensor.sectors["stored"]
            if tensor.writable:
                metered.values[tensor.name] = tensor.as_given(tensor.numbers)
                metered.writers[tensor.name] = tensor.as_given(tensor.writer)


class _Nothing:
    """In place of what a patch would have to undo."""

    def restore(self) -> None:
        pass


def prepare() -> None:
    """What every child would do again. The interpreter patches the language in each call of each helper (tl.sum is
    one); here it is patched once, and stays so: this process does nothing else.
    """
    everything = {"tl": tl, "core": tl.core}
    interpreter._patch_lang(types.FunctionType(prepare.__code__, everything))
    interpreter._patch_lang = lambda function: _Nothing()
    # before Triton 3.7 a tensor of one number is no range's end with NumPy 2.5
    tl.core.tensor.__index__ = lambda self: int(self.handle.data.item())
    for name in ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge"):
        _leave_tensors_to_themselves(f"__{name}__")
    for helper in (tl.sum, tl.max, tl.zeros, tl.zeros_like, tl.cdiv):
        if hasattr(helper, "rewrite"):
            helper.rewrite()  # its text parsed, as the interpreter does at the first call
    np.unique(np.arange(3))  # numpy imports some modules when they are first needed


def _leave_tensors_to_themselves(name: str) -> None:
    """`constant * tensor` is the tensor's business, as in the compiler; the interpreter wraps it up as a constant."""
    own = getattr(tl.constexpr, name)

    def operation(self, other):
        return NotImplemented if isinstance(other, tl.tensor) else own(self, other)

    setattr(tl.constexpr, name, operation)


def _device_arguments(launch: Launch, memory: DeviceMemory) -> list:
    """Tensors become pointers, integers int32 if they fit; a float stays one, as the interpreter has it."""
    arguments, tensor_number = [], 0
    for given in launch.arguments.values():
        if isinstance(given, Tensor):
            kind = tl.pointer_type(_TYPES[given.type_name])
            value = np.array([memory.address(tensor_number)], np.uint64)
            arguments.append(tl.tensor(interpreter.TensorHandle(value, kind), kind))
            tensor_number += 1
        elif isinstance(given, int):
            kind = tl.int32 if -(2**31) <= given < 2**31 else tl.int64
            value = np.array([given], str(kind))
            arguments.append(tl.tensor(interpreter.TensorHandle(value, kind), kind))
        else:
            arguments.append(given)
    return arguments


class _MeteringBuilder:
    """While it is entered, the interpreter's builder works on our memory and counts its tile products."""

    def __init__(self, memory: DeviceMemory, grid: tuple[int, ...]):
        self.memory, self.dots, self.atomics = memory, {}, 0
        self.grid = (*grid, 1, 1)[:3]
        self._bytes = np.zeros(int(np.prod(self.grid)), np.int64)
        self._before = 0
        self._dot = interpreter.interpreter_builder.create_dot
        self._set_grid = interpreter.interpreter_builder.set_grid_idx

    def __enter__(self) -> None:
        builder = interpreter.interpreter_builder
        builder.set_grid_idx = self.begin_program
        builder.create_masked_load, builder.create_masked_store = self.load, self.store
        builder.create_atomic_rmw, builder.create_atomic_cas = self.update, self.compare_and_swap
        builder.create_dot = self.dot

    def __exit__(self, *problem) -> None:
        self._close_program()  # a worker's child ends here: nothing is put back

    def begin_program(self, x: int, y: int, z: int) -> None:
        self._close_program()
        self._set_grid(x, y, z)
        self.memory.program = (x, y, z)
        self.memory.program_number = (x * self.grid[1] + y) * self.grid[2] + z

    def _close_program(self) -> None:
        moved = sum(sum(tensor.moved.values()) for tensor in self.memory.tensors)
        self._bytes[self.memory.program_number] += moved - self._before
        self._before = moved

    def program_bytes(self) -> list[int]:
        return self._bytes.tolist()

    def load(self, pointers, mask, other, *modifiers, **more):
        kind = pointers.get_element_ty()
        given = None if other is None else other.data
        data = self.memory.load(pointers.data, _array(mask), given, _numpy_type(kind))
        return interpreter.TensorHandle(data, kind)

    def store(self, pointers, value, mask, *modifiers, **more) -> None:
        kind = _numpy_type(pointers.get_element_ty())
        self.memory.store(pointers.data, value.data, _array(mask), kind)

    def update(self, operation, pointers, value, mask, *more):
        """An atomic update, lane after lane: a load and a store each."""
        name = getattr(operation, "name", str(operation)).rpartition(".")[2]
        if name not in _UPDATES:
            raise NotImplementedError(f"the meter knows no atomic {name}")
        kind = _numpy_type(pointers.get_element_ty())
        old = self.memory.load(pointers.data, _array(mask), None, kind)
        self.memory.store(pointers.data, _UPDATES[name](old, value.data), _array(mask), kind)
        self.atomics += 1
        return interpreter.TensorHandle(old, value.dtype.scalar)

    def compare_and_swap(self, *more):
        raise NotImplementedError("the meter knows no atomic compare-and-swap")

    def dot(self, a, b, accumulator, *more):
        (m, k), n = a.data.shape[-2:], b.data.shape[-1]
        key = (m, n, k, str(a.data.dtype), str(accumulator.data.dtype))
        names = ("m", "n", "k", "inputs", "accumulator")
        entry = self.dots.setdefault(key, dict(zip(names, key)) | {"times": 0})
        entry["times"] += int(np.prod(a.data.shape[:-2], dtype=int))
        return self._dot(a, b, accumulator, *more)


def _array(mask) -> np.ndarray:
    """A mask as booleans: `vector & scalar` leaves integers in the interpreter."""
    return (mask if isinstance(mask, np.ndarray) else mask.data).astype(bool)


def _numpy_type(kind) -> np.dtype:
    return interpreter._get_np_dtype(kind)
