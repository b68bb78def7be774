"""A kernel's launch and what came of it: plain data, which travels between processes as text and arrays.

Nothing here is pickled: what comes back was written beside a student's code, and is only ever read as JSON
and as arrays of numbers.
"""

import io
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import BinaryIO

import numpy as np

from course_utils.triton_meter.source import KernelSource

MOST_BYTES = 1 << 28  # of one message
DTYPES = ("float16", "float32", "float64", "int32", "int64")  # that the interpreter's memory holds


@dataclass(frozen=True)
class Tensor:
    """A tensor argument. `dtype` is the name on the device; bfloat16 travels as float32.

    row_stride: numbers from row to row, if more than the columns (of a 2-d tensor). writable: it may be stored to.
    """

    values: np.ndarray
    dtype: str = ""
    row_stride: int = 0
    writable: bool = False

    @property
    def type_name(self) -> str:
        return self.dtype or str(self.values.dtype)


@dataclass(frozen=True)
class Launch:
    """A grid, and the kernel's arguments in the order of its parameters, by the names that messages use.

    arguments: Tensor, int or float. constexprs: compile-time constants, after the arguments.
    options: num_warps and the like, where it is compiled.
    """

    grid: tuple[int, ...]
    arguments: dict[str, Tensor | int | float]
    constexprs: dict[str, int | bool] = field(default_factory=dict)
    options: dict[str, int] = field(default_factory=dict)


@dataclass
class Metered:
    """What a kernel did. By tensor name: values after the run, writers (the number of the program that stored a
    number last, -1: none), bytes loaded and stored, and bytes of 32-byte sectors that each access touched.

    ended: "" when it came to its end, else how it was stopped. error: kind, message and line of an exception.
    faults: accesses that no kernel may make, see `memory`. dots: the tile products, with their counts.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    writers: dict[str, np.ndarray] = field(default_factory=dict)
    loaded: dict[str, int] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    loaded_sectors: dict[str, int] = field(default_factory=dict)
    stored_sectors: dict[str, int] = field(default_factory=dict)
    program_bytes: list[int] = field(default_factory=list)  # loaded and stored, a program
    dots: list[dict] = field(default_factory=list)
    faults: list[dict] = field(default_factory=list)
    atomics: int = 0  # atomic updates, a load and a store each
    error: dict[str, str] | None = None
    ended: str = ""
    device: str = ""  # the GPU's name, where it ran on one

    @property
    def flops(self) -> int:
        """Multiplications and additions of the tile products."""
        return sum(2 * dot["m"] * dot["n"] * dot["k"] * dot["times"] for dot in self.dots)


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of a kernel, without a GPU. `error` is its complaint, "" when there is none.

    shared_bytes: shared memory a block takes. registers: 32-bit registers a thread takes, 0 where unknown.
    spilled_bytes: what did not fit in registers, a thread. ended: as in Metered. warps: warps a block.
    """

    sm: int
    error: str = ""
    line: str = ""
    shared_bytes: int = 0
    registers: int = 0
    spilled_bytes: int = 0
    warps: int = 0
    ended: str = ""


def pack_request(source: KernelSource, launch: Launch, **more) -> bytes:
    """A request to a worker."""
    arrays, arguments = {}, []
    for name, value in launch.arguments.items():
        if isinstance(value, Tensor):
            arrays[name] = value.values
            arguments.append([name, {"dtype": value.type_name, "row_stride": value.row_stride,
                                     "writable": value.writable}])  # fmt: skip
        else:
            arguments.append([name, value])
    text = {"source": asdict(source), "grid": launch.grid, "arguments": arguments}
    return pack(text | {"constexprs": launch.constexprs, "options": launch.options} | more, arrays)


def unpack_request(message: bytes) -> tuple[KernelSource, Launch, dict]:
    text, arrays = unpack(message)
    arguments = {
        name: Tensor(arrays[name], **value) if isinstance(value, dict) else value
        for name, value in text["arguments"]
    }
    source = KernelSource(**{**text["source"], "parameters": tuple(text["source"]["parameters"])})
    launch = Launch(tuple(text["grid"]), arguments, text["constexprs"], text["options"])
    return source, launch, text


def pack_metered(metered: Metered) -> bytes:
    arrays = {f"values {name}": array for name, array in metered.values.items()}
    arrays |= {f"writers {name}": array for name, array in metered.writers.items()}
    text = {
        name: value for name, value in vars(metered).items() if name not in ("values", "writers")
    }
    return pack(text, arrays)


def unpack_metered(message: bytes) -> Metered:
    text, arrays = unpack(message)
    metered = Metered(**text)
    for key, array in arrays.items():
        part, _, name = key.partition(" ")
        {"values": metered.values, "writers": metered.writers}[part][name] = array
    return metered


def pack(text: Mapping, arrays: Mapping[str, np.ndarray]) -> bytes:
    """JSON and arrays in one message."""
    file = io.BytesIO()
    named = {f"array {name}": array for name, array in arrays.items()}  # savez has words of its own
    np.savez(file, text=np.array(json.dumps(text)), **named)
    return file.getvalue()


def unpack(message: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    with np.load(io.BytesIO(message), allow_pickle=False) as stored:
        names = [name for name in stored.files if name != "text"]
        arrays = {name.removeprefix("array "): stored[name] for name in names}
        return json.loads(str(stored["text"])), arrays


def write_message(file: BinaryIO, message: bytes) -> None:
    file.write(struct.pack("<Q", len(message)) + message)
    file.flush()


def read_message(file: BinaryIO) -> bytes | None:
    """The next message, or None at the end."""
    head = file.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("<Q", head)
    message = file.read(size) if size <= MOST_BYTES else b""
    return message if len(message) == size else None
