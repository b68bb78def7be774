"""Observations as JSON: exact for what honest answers return, bounded and harmless for all else."""

import json
import math
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from course_utils.checks.core import Case, Error, Observation
from course_utils.checks.judging import wrong_array
from course_utils.grading.codec import (
    MAX_ARRAY_BYTES,
    MAX_ITEMS,
    TooLarge,
    case_as_json,
    encode,
    observation_as_text,
)
from course_utils.grading.decoding import (
    CodecError,
    case_from_json,
    decode,
    from_json,
    observation_from_text,
)


def there_and_back(value):
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, 0, -7, 2**53, 2**53 + 1, -(2**200), 0.0, -0.0, 1.5, 1e-320),
        *(math.inf, -math.inf, "", "text \N{GREEK SMALL LETTER ALPHA}\n\0", b"\0\xff", 1 - 2j),
        *([], [1, [2.0, "x"]], (), (1, (2,)), {}, {"a": 1, 2: [3], (4, None): {5: 6}}, {1, 2}),
        *(Fraction(1, 3), Decimal("1.10"), Decimal("NaN")),
    ],
    ids=repr,
)
def test_plain_data_comes_back_exactly(value):
    back = there_and_back(value)
    assert repr(back) == repr(value) and type(back) is type(value)


DTYPES = ["bool", "int8", "uint64", "float16", "float32", "float64", "longdouble", "complex64"]


@pytest.mark.parametrize("dtype", [*DTYPES, "<U3", "S2", "datetime64[s]", ">f8"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_arrays_come_back_with_dtype_shape_and_bits(dtype, shape):
    array = np.arange(math.prod(shape)).astype("i8").astype(dtype).reshape(shape)
    back = there_and_back([array, array[()]] if shape == () else [array])
    assert type(back[0]) is np.ndarray and back[0].dtype == array.dtype and back[0].shape == shape
    assert back[0].tobytes() == array.tobytes() and back[0].flags.writeable
    if shape == ():
        assert type(back[1]) is type(array[()])


def test_views_and_orders_come_back_as_their_numbers():
    array = np.arange(12.0).reshape(3, 4)
    for view in (array.T, array[::-1, ::2], np.broadcast_to(array[0], (5, 4))):
        assert np.array_equal(there_and_back(view), view)
    first, again, other = there_and_back([array, array, array.copy()])
    assert first is again and first is not other


def test_objects_in_arrays_come_back_as_they_may():
    back = there_and_back(np.array([[1, None], ["x", object()]], dtype=object))
    assert back.dtype == object and back[0, 0] == 1 and type(back[1, 1]).__name__ == "object"


def test_foreign_memory_is_named_for_the_judge():
    theirs = np.frombuffer(memoryview(bytearray(16)))
    verdict = wrong_array(there_and_back(theirs), np.zeros(2))
    assert verdict == wrong_array(theirs, np.zeros(2)) and verdict.cause == "memory out of sight"


def test_no_method_of_a_students_class_is_called():
    def refuse(*args, **options):
        raise AssertionError("called")

    methods = "__eq__ __len__ __iter__ __getitem__ __array__ __repr__ __str__ __bool__ __reduce__ __hash__"
    hostile = dict.fromkeys(
        [*methods.split(), "keys", "items", "tobytes", "__float__", "__int__"], refuse
    )
    for base in (object, int, float, str, list, tuple, dict, np.ndarray):
        kind = type("Liar", (base,), hostile)
        value = base.__new__(kind, 2) if base is np.ndarray else base.__new__(kind)
        back = there_and_back(value)
        assert type(back) is base or type(back).__name__ == "Liar"
    meta = type("Meta", (type,), {"__name__": property(refuse), "__mro__": property(refuse)})
    assert type(there_and_back(meta("Hidden", (), {})())).__name__ == "Hidden"


def test_named_tuples_are_tuples():
    assert there_and_back(namedtuple("Pair", "a b")(1, [2])) == (1, [2])


def test_too_much_is_refused_before_it_is_built():
    ring = []
    ring.append(ring)
    wide = [[0] * 300] * 300
    for value in (
        ring,
        wide,
        np.zeros(MAX_ARRAY_BYTES),
        ["x" * 20_000] * 3000,
        range(5),
        [0] * MAX_ITEMS,
    ):
        if isinstance(value, range):
            assert type(there_and_back(value)).__name__ == "range"
        else:
            with pytest.raises(TooLarge):
                encode(value)
    assert (
        type(there_and_back(1 << 10**6)).__name__ == "int"
        and type(there_and_back(1 << 10**6)) is not int
    )


def test_an_observation_comes_back_whole():
    seen = Observation(
        {"x": np.ones(3)}, 10**6, 8, {"held": [1, 2]}, Error("E", "m", "l"), True, "torch"
    )
    back = observation_from_text(observation_as_text(seen))
    assert np.array_equal(back.value.pop("x"), np.ones(3)) and seen.value.pop("x") is not None
    assert back == seen


def test_a_case_comes_back_whole():
    case = Case("name", {"shape": (2, 3), "seed": 5, "how": None})
    assert case_from_json(json.loads(json.dumps(case_as_json(case)))) == case


GOOD = observation_as_text(Observation(1, 2, 3))


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "nonsense",
            "{}",
            "[]",
            "1",
            "NaN",
            "[" * 10**5,
            GOOD[:-2],
            '{"dict": 5}',
            "9" * 5000,
        ),
        *(
            GOOD.replace('["peak_bytes",2]', f'["peak_bytes",{bad}]')
            for bad in ('"2"', "true", "1.5", "1e99")
        ),
        GOOD.replace('["peak_bytes",2]', '["peak_bytes",{"int":"0x' + "f" * 60 + '"}]'),
        GOOD.replace('["more",{"dict":[]}]', '["more",[]]'),
        GOOD.replace('["more",{"dict":[]}]', '["more",{"dict":[[1,2]]}]'),
        GOOD.replace('["error",null]', '["error",["one","two"]]'),
        GOOD.replace('["error",null]', '["error",[1,2,3]]'),
        GOOD.replace('"value"', '"valve"'),
    ],
    ids=lambda line: line[:30],
)
def test_what_is_no_observation_is_one_kind_of_error(line):
    assert line != GOOD
    with pytest.raises(CodecError):
        observation_from_text(line)


@pytest.mark.parametrize(
    "sent",
    [
        {"array": "<f8", "shape": [2**39, 2**39], "data": ""},
        {"array": "<f8", "shape": [-1], "data": ""},
        {"array": "<f8", "shape": [2], "data": "AAAA"},
        {"array": "<f8", "shape": 2, "data": "!!"},
        {"array": "|O", "shape": [1], "data": "AAAAAAAAAAA="},
        {"array": "<f8", "data": ""},
        {"array": ["<f8"], "shape": [0], "data": ""},
        {"array": "<U99999999999", "shape": [0], "data": ""},
        *({"again": n} for n in (0, -1, "x", True)),
        *({"int": n} for n in ("x", 5, "0x" + "f" * 10**5)),
        {"float": "many"},
        {"complex": ["1"] * 3},
        {"fraction": ["0x1", "0x0"]},
        {"decimal": "1e999999"},
        {"scalar": "<f8", "data": ""},
        {"set": [[1]]},
        {"dict": [[[1], 2]]},
        {"dict": [[1]]},
        {"objects": [1, 2], "shape": [3]},
        {"type": 5},
        {"tuple": 5},
        {"unknown": 1},
        {},
        [0] * (MAX_ITEMS + 1),
    ],
    ids=lambda sent: str(sent)[:40],
)
def test_what_nobody_encoded_is_one_kind_of_error(sent):
    with pytest.raises(CodecError):
        decode(sent)


def test_text_can_be_written_down_afterwards():
    error = Error("E", "\x1b[2J\ud800\x00ok", "line")
    back = observation_from_text(observation_as_text(Observation(error=error)))
    assert back.error.message.encode() and back.error.message.isprintable()
    assert from_json('"\\ud800"') and decode("\ud800").encode()
    assert type(decode({"type": "<script>"})).__name__ == "script"


def test_encoding_calls_nothing_of_a_students_class():
    called = []

    class Nosy(type):
        def __getattribute__(cls, name):
            called.append(name)
            return super().__getattribute__(name)

    class Own(metaclass=Nosy):
        def __init__(self, array):
            object.__setattr__(self, "array", array)

        def __getattribute__(self, name):
            called.append(name)
            return object.__getattribute__(self, name)

        @property
        def __array_interface__(self):
            return object.__getattribute__(self, "array").__array_interface__

    array = np.asarray(Own(np.arange(3.0)))
    value = [array, Own(None), {"a": Own(None)}]
    called.clear()
    sent = encode(value)
    assert called == [] and "owner" not in sent[0] and sent[1] == {"type": "Own"}


def test_a_window_onto_an_array_is_numpys_memory():
    window = np.lib.stride_tricks.sliding_window_view(np.arange(6.0), 3)
    assert "owner" not in encode(window)


def test_a_line_of_a_million_small_things_is_not_parsed():
    """It would be a gigabyte of objects before one of them is counted."""
    with pytest.raises(CodecError, match="too many items"):
        observation_from_text(b"[" + b"{}," * 10**6 + b"{}]")
