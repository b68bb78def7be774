"""Observations as JSON: what goes out of the sandbox. `decoding` is the way back.

What comes out of a sandbox was written by a process in which a student's code ran, so no pickle: plain data
with sizes and depths bounded, types as exact as the judges look at them. Encoding calls no method of a
student's class: an object of such a class crosses as its type's name alone. Arrays are exact, with dtype and
shape; of two arrays in the same memory the second says so, and one whose memory is not NumPy's names its
owner, for judges refuse both.
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

from course_utils.checks.core import Case, Observation

MAX_LINE_BYTES = 32 * 10**6  # of one observation; the largest seen takes 11 MB
MAX_ARRAY_BYTES = 20 * 10**6
MAX_ITEMS = 50_000
MAX_MARKS = 12 * MAX_ITEMS  # commas and brackets of a line: counted before it is parsed
MAX_DEPTH = 40
MAX_TEXT = 20_000
MAX_INT_BITS = 20_000
DTYPE = re.compile(r"[<>|=][biufcSUmM]\d{1,5}(\[[a-zA-Z0-9]{1,8}\])?\Z")

_mro_of = type.__dict__["__mro__"].__get__
_name_of = type.__dict__["__name__"].__get__
_dict_of = type.__dict__["__dict__"].__get__
_STRIDED = type(
    np.lib.stride_tricks.as_strided(np.zeros(1)).base
)  # tells of it, an instance at a time
_base_of = np.ndarray.__dict__["base"].__get__
_to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class CodecError(ValueError):
    """It cannot be sent, or what came is nothing that was sent."""


class TooLarge(CodecError):
    """It is larger than what may cross."""


def case_as_json(case: Case) -> Any:
    """A case, for the way into the sandbox."""
    return encode([case.name, case.given])


def observation_as_text(seen: Observation) -> str:
    """An observation as one line of JSON. Raises TooLarge."""
    sent = {field.name: getattr(seen, field.name) for field in fields(Observation)}
    sent["error"] = seen.error and [seen.error.kind, seen.error.message, seen.error.line]
    line = _to_json(encode(sent))
    if len(line) > MAX_LINE_BYTES:
        raise TooLarge(f"an observation of {len(line):,} bytes")
    return line


def encode(value: Any) -> Any:
    """A value as what JSON can say. Raises TooLarge, and nothing else for plain data."""
    return _Encoder().encode(value, 0)


class _Encoder:
    """One observation on its way: what is left of its allowance, and the arrays met so far."""

    def __init__(self):
        self.items, self.characters = MAX_ITEMS, MAX_LINE_BYTES
        self.arrays: dict[tuple, int] = {}
        self.kept: list = []  # so that no address is used twice

    def encode(self, value: Any, depth: int) -> Any:
        self.items -= 1
        if self.items < 0 or depth > MAX_DEPTH:
            raise TooLarge("more than fits into an observation")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is np.ndarray:
            return self.array(value, depth)
        mro = _mro_of(kind)
        if np.generic in mro:
            return self.scalar(value, kind)
        for base, encoder in _ENCODERS.items():
            if base in mro:
                return encoder(self, value, depth)
        return {"type": type_name(kind)}

    def whole(self, value: int, depth: int) -> Any:
        value = int.__add__(value, 0)
        bits = value.bit_length()
        if bits <= 53:
            return value
        return {"int": hex(value)} if bits <= MAX_INT_BITS else {"type": "int"}

    def real(self, value: float, depth: int) -> Any:
        value = float.__pos__(value)
        return value if math.isfinite(value) else {"float": repr(value)}

    def complex(self, value: complex, depth: int) -> Any:
        value = complex.__pos__(value)
        return {"complex": [repr(value.real), repr(value.imag)]}

    def text(self, value: str, depth: int) -> str:
        return self.spent(str.__str__(value)[:MAX_TEXT])

    def bytes(self, value: bytes, depth: int) -> Any:
        return {"bytes": self.base64(bytes.__getitem__(value, slice(None)))}

    def dict(self, value: dict, depth: int) -> Any:
        pairs = list(dict.items(value))
        return {"dict": [[self.encode(k, depth + 1), self.encode(v, depth + 1)] for k, v in pairs]}

    def array(self, array: np.ndarray, depth: int) -> Any:
        if array.nbytes > MAX_ARRAY_BYTES or array.size > MAX_ARRAY_BYTES:
            raise TooLarge(f"an array of {array.nbytes:,} bytes")
        if array.dtype.kind == "O":
            items = [self.encode(item, depth + 1) for item in array.ravel().tolist()]
            return {"objects": items, "shape": list(array.shape)}
        if not DTYPE.match(array.dtype.str):
            return {"type": "ndarray"}
        place = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)
        if array.size and place in self.arrays:
            return {"again": self.arrays[place]}
        self.arrays[place] = len(self.kept)
        self.kept.append(array)
        sent = {"array": array.dtype.str, "shape": list(array.shape)}
        sent["data"] = self.base64(array.tobytes())
        if owner := _foreign_owner(array):
            sent["owner"] = owner
        return sent

    def scalar(self, value: np.generic, kind: type) -> Any:
        array = np.asarray(value)
        if type(array) is not np.ndarray or not DTYPE.match(array.dtype.str):
            return {"type": type_name(kind)}
        return {"scalar": array.dtype.str, "data": self.base64(array.tobytes())}

    def base64(self, data: bytes) -> str:
        return self.spent(base64.b64encode(data).decode("ascii"))

    def spent(self, text: str) -> str:
        self.characters -= len(text)
        if self.characters < 0:
            raise TooLarge("more than fits into an observation")
        return text


def _items_of(cls: type, tag: str) -> Callable:
    def items(encoder: _Encoder, value: Any, depth: int) -> Any:
        sent = [encoder.encode(item, depth + 1) for item in cls.__iter__(value)]
        return {tag: sent} if tag else sent

    return items


def _rational(encoder: _Encoder, value: Any, depth: int) -> Any:
    """Fraction and Decimal, of numbers that a judge can compute with."""
    kind = type(value)
    if kind is Fraction and max(abs(value.numerator), value.denominator).bit_length() < 1000:
        return {"fraction": [hex(value.numerator), hex(value.denominator)]}
    if kind is Decimal and (not value.is_finite() or abs(value.adjusted()) < 400):
        return {"decimal": str(value)[:500]}
    return {"type": type_name(kind)}


_ENCODERS: dict[type, Callable] = {
    int: _Encoder.whole,
    float: _Encoder.real,
    str: _Encoder.text,
    bytes: _Encoder.bytes,
    complex: _Encoder.complex,
    list: _items_of(list, ""),
    tuple: _items_of(tuple, "tuple"),
    set: _items_of(set, "set"),
    frozenset: _items_of(frozenset, "set"),
    dict: _Encoder.dict,
    Fraction: _rational,
    Decimal: _rational,
}


def _foreign_owner(array: np.ndarray) -> str:
    """The type that owns the memory, where it is not NumPy's own (see checks.judging)."""
    while np.ndarray in _mro_of(type(array)):
        array = _base_of(array)
    kind = type(array)
    mro = _mro_of(kind)
    tells_of_memory = any("__array_interface__" in _dict_of(each) for each in mro)
    if array is None or np.generic in mro or tells_of_memory or kind is _STRIDED:
        return ""
    return type_name(kind)


def type_name(kind: type) -> str:
    """A type's name, without asking a metaclass."""
    return str.__str__(_name_of(kind))[:60]
