"""Values survive the trip between workers unchanged, or are refused by name."""

import datetime as dt
import decimal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.codec import decode_columns, encode_columns, hash_values, register_type
from tupletree.errors import ProtocolError, UnregisteredTypeError, UsageError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC), min_value=dt.datetime(1970, 1, 1), max_value=dt.datetime(2500, 1, 1))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=12,
)


@given(st.integers(0, 5).flatmap(lambda rows: st.lists(st.lists(VALUES, min_size=rows, max_size=rows), max_size=3)))
def test_every_carried_value_returns_equal_and_of_the_same_type(columns):
    rows = len(columns[0]) if columns else 0
    decoded = decode_columns(encode_columns(columns, "c", "abc"[: len(columns)]), rows, len(columns))
    assert decoded == columns
    assert repr(decoded) == repr(columns) or any(name in repr(columns) for name in ("frozenset", "datetime"))


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, (2**70, [2**80]), {2**70: {2**64}}, [frozenset({1, 2**64})]])
def test_integers_beyond_64_bits_travel_wherever_they_stand(value):
    assert decode_columns(encode_columns([[value]], "c", ["a"]), 1, 1) == [[value]]


class Money:
    def __init__(self, cents):
        self.cents = cents


def test_a_type_that_nobody_registered_is_refused_by_component_field_and_type():
    with pytest.raises(UnregisteredTypeError) as caught:
        encode_columns([["x", "y"], [1, Money(5)]], "pay", ["who", "sum"])
    assert all(word in str(caught.value) for word in ("'pay'", "'sum'", "Money"))


def test_a_subclass_of_a_carried_type_is_another_type():
    class Label(str):
        __slots__ = ()

    with pytest.raises(UnregisteredTypeError, match="Label"):
        encode_columns([[Label("x")]], "c", ["a"])


def test_a_registered_type_travels():
    register_type(decimal.Decimal, 40, lambda value: str(value).encode(), lambda data: decimal.Decimal(data.decode()))
    columns = [[decimal.Decimal("1.50")]]
    assert decode_columns(encode_columns(columns, "c", ["a"]), 1, 1) == columns


@pytest.mark.parametrize(("cls", "code"), [(Money, 3), (Money, 128), (Money, 40)])
def test_a_code_out_of_range_or_taken_is_refused(cls, code):
    register_type(decimal.Decimal, 40, lambda value: str(value).encode(), lambda data: decimal.Decimal(data.decode()))
    with pytest.raises(UsageError, match=str(code)):
        register_type(cls, code, lambda value: b"", lambda data: None)


@pytest.mark.parametrize(
    ("data", "rows", "arity"),
    [
        (b"", 1, 1),
        (b"\xc1", 1, 1),
        (encode_columns([[1]], "c", ["a"]), 2, 1),
        (encode_columns([[1]], "c", ["a"]), 1, 2),
        (b"\x91\xa2ab", 2, 1),  # a string of two characters is not a column of two values
        (b"\x91\x91\xd4\x63\x00", 1, 1),  # an extension that is not registered
        (b"\x92\x91\x01", 2, 1),
    ],
)
def test_bytes_that_are_no_batch_are_a_protocol_error(data, rows, arity):
    with pytest.raises(ProtocolError):
        decode_columns(data, rows, arity)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0.5, decimal.Decimal("0.5")), ((1, 2.0), (1.0, 2)), ({"a": 1, "b": 2}, {"b": 2.0, "a": 1})],
)
def test_equal_keys_hash_equally(one, other):
    assert one == other
    assert hash_values([one], "c", ["k"]) == hash_values([other], "c", ["k"])


def test_the_hash_is_the_same_in_another_process_with_another_hash_seed():
    keys = ["", "word", "wörter", b"\x00", 0, -1, 2**70, 1.5, None, (1, "a"), [["x"], {"k": 1}]]
    program = (
        f"from tupletree._wire.codec import hash_values\nprint([hash_values([key], 'c', ['k']) for key in {keys!r}])"
    )
    environment = {"PYTHONHASHSEED": "12345"}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == repr([hash_values([key], "c", ["k"]) for key in keys])


def test_an_unhashable_or_unknown_key_is_refused_with_its_field():
    with pytest.raises(UnregisteredTypeError, match="'k'"):
        hash_values([object()], "c", ["k"])
