"""The memory that a metered kernel sees: tensors far apart, so that every address says what it means.

Addresses are made up: tensor i begins at (i + 1) * 2**40, and nothing lies there but what `load` and `store`
look up. So a wrong address kills no process; it is told from a right one, with the tensor that it missed and
by how far. Each lane that is not masked off counts, once for each time it is loaded or stored.
"""

from collections.abc import Callable

import numpy as np

APART = 1 << 40  # bytes between two tensors' beginnings
SECTOR_BYTES = 32  # what a GPU moves at least: a quarter of a cache line


class DeviceTensor:
    """One tensor: its numbers as they lie in memory, and what was done with them.

    values: (..., columns). row_stride: numbers from one row to the next, if more than the columns: what lies
    between two rows then belongs to nobody. writable: stores are let through.
    """

    def __init__(self, name: str, values: np.ndarray, row_stride: int = 0, writable: bool = True):
        self.name, self.shape, self.writable = name, values.shape, writable
        columns = values.shape[-1] if values.ndim else 1
        self.rows = rows = values.size // max(columns, 1)
        self.row_stride = row_stride or columns
        lies = np.zeros((rows, self.row_stride), values.dtype)
        lies[:, :columns] = values.reshape(rows, columns)
        belongs = np.zeros(lies.shape, bool)
        belongs[:, :columns] = True
        self.columns, self.numbers, self.belongs = columns, lies.ravel(), belongs.ravel()
        self.writer = np.full(lies.size, -1, np.int32)  # the number of the program that stored it
        self.moved = {"loaded": 0, "stored": 0}  # bytes
        self.sectors = {"loaded": 0, "stored": 0}

    def as_given(self, lies: np.ndarray) -> np.ndarray:
        """What lies in memory, in the tensor's own shape."""
        return lies.reshape(self.rows, self.row_stride)[:, : self.columns].reshape(self.shape)


class DeviceMemory:
    """Tensors by their addresses. `program` is the index, in the grid, of the program that runs now."""

    def __init__(self, tensors: list[DeviceTensor], line: Callable[[], str] = lambda: ""):
        self.tensors, self._line = tensors, line
        self.program, self.program_number = (0, 0, 0), 0
        self.faults: dict[tuple[str, str], dict] = {}  # the first of each kind, for each tensor

    def address(self, tensor_number: int) -> int:
        """Where a tensor begins."""
        return (tensor_number + 1) * APART

    def load(self, addresses: np.ndarray, mask: np.ndarray, other, dtype: np.dtype) -> np.ndarray:
        """The numbers at these addresses; where the mask is False: `other`, or 0 without one."""
        loaded = np.zeros(addresses.shape, dtype)
        if other is not None:
            loaded[...] = other
        mask = np.broadcast_to(mask, addresses.shape)
        found = np.zeros(int(mask.sum()), dtype)
        for tensor, lanes, index in self._sorted(addresses[mask], dtype, "read outside"):
            self._count(tensor, index, "loaded")
            writers = tensor.writer[index]
            foreign = (writers >= 0) & (writers != self.program_number)
            if foreign.any():
                self._note("read another program's", tensor, int(index[foreign.argmax()]), foreign)
            found[lanes] = tensor.numbers[index]
        loaded[mask] = found
        return loaded

    def store(self, addresses: np.ndarray, values, mask: np.ndarray, dtype: np.dtype) -> None:
        """Numbers to these addresses, where the mask is True."""
        mask = np.broadcast_to(mask, addresses.shape)
        values = np.broadcast_to(values, addresses.shape)[mask]
        for tensor, lanes, index in self._sorted(addresses[mask], dtype, "write outside"):
            self._count(tensor, index, "stored")
            if not tensor.writable:
                self._note("wrote an input", tensor, int(index[0]), index)
                continue
            writers = tensor.writer[index]
            foreign = (writers >= 0) & (writers != self.program_number)
            if foreign.any():
                self._note("stored twice", tensor, int(index[foreign.argmax()]), foreign)
            tensor.writer[index] = self.program_number
            tensor.numbers[index] = values[lanes]

    def _sorted(self, addresses: np.ndarray, dtype: np.dtype, kind: str):
        """(tensor, its lanes, their indices) of the accesses that hit; the others become faults."""
        addresses = np.asarray(addresses).astype(np.int64)
        numbers = (addresses + APART // 2) // APART - 1
        for number in np.unique(numbers).tolist():
            lanes = np.flatnonzero(numbers == number)
            if not 0 <= number < len(self.tensors):
                self._note(kind, None, int(addresses[lanes[0]]), lanes)
                continue
            tensor = self.tensors[number]
            if np.dtype(dtype) != tensor.numbers.dtype:
                raise TypeError(
                    f"{tensor.name} holds {tensor.numbers.dtype}, and its pointer was cast to {dtype}"
                )
            index = (addresses[lanes] - self.address(number)) // tensor.numbers.itemsize
            inside = (index >= 0) & (index < tensor.numbers.size)
            inside[inside] = tensor.belongs[index[inside]]
            if not inside.all():
                self._note(kind, tensor, int(index[inside.argmin()]), np.flatnonzero(~inside))
            if inside.any():
                yield tensor, lanes[inside], index[inside]

    def _count(self, tensor: DeviceTensor, index: np.ndarray, way: str) -> None:
        tensor.moved[way] += index.size * tensor.numbers.itemsize
        tensor.sectors[way] += np.unique(index * tensor.numbers.itemsize // SECTOR_BYTES).size

    def _note(self, kind: str, tensor: DeviceTensor | None, index: int, lanes: np.ndarray) -> None:
        name = tensor.name if tensor else ""
        fault = self.faults.get((kind, name))
        if fault is None:
            row, column = divmod(index, max(1, tensor.row_stride)) if tensor else (0, 0)
            fault = self.faults[kind, name] = {
                **{"kind": kind, "tensor": name, "index": index, "row": row, "column": column},
                **{"program": list(self.program), "line": self._line(), "lanes": 0},
            }
        fault["lanes"] += int(np.count_nonzero(lanes)) if lanes.dtype == bool else len(lanes)
