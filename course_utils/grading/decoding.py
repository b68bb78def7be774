"""Observations back from JSON, where nothing that comes is believed. `codec` is the way out.

Whoever wrote it may have written anything. It becomes plain data within bounds, or one CodecError: sizes,
depths, shapes, dtypes and the types of an observation's own fields are checked, an object of another type
becomes an empty stand-in with that type's name, and text can be written into any file afterwards.
"""

import base64
import json
import math
import re
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from course_utils.checks.core import Case, Error, Observation
from course_utils.grading.codec import (
    DTYPE,
    MAX_ARRAY_BYTES,
    MAX_DEPTH,
    MAX_INT_BITS,
    MAX_ITEMS,
    MAX_LINE_BYTES,
    MAX_MARKS,
    MAX_TEXT,
    CodecError,
)

_FIELDS = {  # of these types an observation's fields are; `value` may be anything
    "peak_bytes": (int, type(None)),
    "held_bytes": (int, type(None)),
    "more": (dict,),
    "error": (list, type(None)),
    "changed_input": (bool,),
    "out_of_sight": (str,),
    "unavailable": (str,),
}


class _Memory(bytearray):
    """Memory that is not NumPy's; a subclass is named as the owner was."""


def observation_from_text(line: str | bytes) -> Observation:
    """An observation from its line of JSON. Raises CodecError, and nothing else."""
    sent = decode(from_json(line))
    if not isinstance(sent, dict) or set(sent) != {field.name for field in fields(Observation)}:
        raise CodecError("these are not an observation's fields")
    for name, kinds in _FIELDS.items():
        if type(sent.get(name, kinds[0]())) not in kinds:
            raise CodecError(f"{name} is of another type")
    if not all(type(name) is str for name in sent["more"]):
        raise CodecError("an observation's name is no text")
    for name in ("peak_bytes", "held_bytes"):
        if not -(2**62) < (sent[name] or 0) < 2**62:
            raise CodecError(f"{name} is no number of bytes")
    error = sent.pop("error")
    if error is not None:
        if len(error) != 3 or not all(type(part) is str for part in error):
            raise CodecError("no error of ours")
        error = Error(*(_printable(part)[:600] for part in error))
    for name in {"out_of_sight", "unavailable"} & set(sent):
        sent[name] = _printable(sent[name])[:300]
    return Observation(**sent, error=error)


def case_from_json(sent: Any) -> Case:
    """A case, inside the sandbox."""
    name, given = decode(sent)
    return Case(name, given)


def from_json(line: str | bytes) -> Any:
    """A line of JSON. Raises CodecError."""
    if len(line) > MAX_LINE_BYTES:
        raise CodecError("too long a line")
    marks = (b",", b"[", b"{") if isinstance(line, bytes) else (",", "[", "{")
    if sum(map(line.count, marks)) > MAX_MARKS:  # a small text may be a gigabyte of objects
        raise CodecError("too many items in a line")
    try:
        return json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise CodecError(f"no JSON: {type(problem).__name__}") from None


def _no_constant(name: str) -> Any:
    raise CodecError(f"{name} is no JSON")


def decode(sent: Any) -> Any:
    """What `encode` was given, or a stand-in of the same type's name. Raises CodecError alone."""
    try:
        return _Decoder().decode(sent, 0)
    except CodecError:
        raise
    except Exception as problem:
        raise CodecError(f"nothing that was encoded: {type(problem).__name__}") from None


class _Decoder:
    """One observation on its way back: what is left of its allowance, and the arrays met so far."""

    def __init__(self):
        self.items = MAX_ITEMS
        self.arrays: list[np.ndarray] = []

    def decode(self, sent: Any, depth: int) -> Any:
        self.items -= 1
        if self.items < 0 or depth > MAX_DEPTH:
            raise CodecError("too many items, or too deep")
        if isinstance(sent, str):
            return _clean(sent)
        if isinstance(sent, list):
            return self.listed(sent, depth)
        if not isinstance(sent, dict):
            return sent  # None, bool, int, float: JSON knows no more
        tag = next(iter(sent))
        content = sent[tag]
        if tag in _CONTAINERS:
            return _CONTAINERS[tag](self.listed(_a(list, content), depth))
        if tag == "objects":
            array = np.empty(len(_a(list, content)), dtype=object)
            for i, item in enumerate(self.listed(content, depth)):
                array[i] = item
            return array.reshape(_shape(sent["shape"]))
        if tag == "array":
            self.arrays.append(_array(content, sent))
            return self.arrays[-1]
        if tag == "again":
            return self.arrays[content] if type(content) is int and content >= 0 else _a(int, None)
        return _SIMPLE[tag](content, sent)

    def listed(self, items: list, depth: int) -> list:
        return [self.decode(item, depth + 1) for item in items]


_CONTAINERS: dict[str, Callable] = {
    "tuple": tuple,
    "set": set,
    "dict": lambda pairs: {key: value for key, value in pairs},
}


def _array(content: Any, sent: dict) -> np.ndarray:
    dtype, shape, data = _dtype(content), _shape(sent["shape"]), _data(sent["data"])
    if len(data) != math.prod(shape) * dtype.itemsize or len(data) > MAX_ARRAY_BYTES:
        raise CodecError("not as many bytes as its shape says")
    if owner := _name(sent.get("owner", "")):
        return np.ndarray(shape, dtype, type(owner, (_Memory,), {})(data))
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _whole(content: Any) -> int:
    if len(_a(str, content)) > MAX_INT_BITS // 4 + 4:
        raise CodecError("too large an int")
    return int(content, 16)


def _decimal(content: Any) -> Decimal:
    value = Decimal(_a(str, content)[:500])
    if value.is_finite() and abs(value.adjusted()) >= 400:
        raise CodecError("too large a decimal")
    return value


_SIMPLE: dict[str, Callable] = {
    "int": lambda content, sent: _whole(content),
    "float": lambda content, sent: float(_a(str, content)[:40]),
    "complex": lambda content, sent: complex(*(float(part[:40]) for part in content)),
    "bytes": lambda content, sent: _data(content),
    "scalar": lambda content, sent: np.frombuffer(_data(sent["data"]), _dtype(content))[0],
    "fraction": lambda content, sent: Fraction(*map(_whole, content)),
    "decimal": lambda content, sent: _decimal(content),
    "type": lambda content, sent: type(_name(content) or "object", (), {})(),
}


def _data(content: Any) -> bytes:
    return base64.b64decode(_a(str, content), validate=True)


def _dtype(name: Any) -> np.dtype:
    if not DTYPE.match(_a(str, name)) or not (dtype := np.dtype(name)).itemsize:
        raise CodecError("no dtype of ours")
    return dtype


def _shape(sent: Any) -> tuple[int, ...]:
    if len(_a(list, sent)) > 32 or not all(type(n) is int and 0 <= n < 2**40 for n in sent):
        raise CodecError("no shape")
    return tuple(sent)


def _a(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise CodecError(f"expected {kind.__name__}")
    return value


def _name(text: Any) -> str:
    return re.sub(r"\W", "", _a(str, text))[:60]


def _clean(text: str) -> str:
    """Text that can be written into any file: no lone surrogates, and not without end."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def _printable(text: str) -> str:
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
