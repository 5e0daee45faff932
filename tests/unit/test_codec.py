"""Values survive the trip between workers unchanged, or are refused by name."""

import contextlib
import datetime as dt
import decimal
import fractions
import subprocess
import sys
import zoneinfo

import msgpack
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._wire.codec import (
    decode_columns,
    decode_plain,
    decode_value,
    encode_columns,
    encode_value,
    register_type,
)
from tupletree._wire.value_hash import hash_values
from tupletree.attempt import TransactionAttempt
from tupletree.errors import ProtocolError, UnregisteredTypeError, UnwritableValueError, UsageError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes()
    | st.dates()
    | st.times(timezones=st.none() | st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=-3, minutes=-30))]))
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
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


def register_fractions():
    register_type(
        fractions.Fraction, 40, lambda value: str(value).encode(), lambda data: fractions.Fraction(data.decode())
    )


def test_a_registered_type_travels():
    register_fractions()
    columns = [[fractions.Fraction(1, 3)]]
    assert decode_columns(encode_columns(columns, "c", ["a"]), 1, 1) == columns


@pytest.mark.parametrize(
    "value",
    [numpy.int64(-5), numpy.float64(0.5), numpy.float32(0.5), numpy.bool_(True), numpy.str_("x"), numpy.bytes_(b"x")],
)
def test_a_numpy_scalar_travels_as_its_python_value(value):
    [[arrived]] = decode_columns(encode_columns([[value]], "c", ["a"]), 1, 1)
    assert arrived == value
    assert type(arrived).__module__ == "builtins"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (numpy.datetime64("2024-02-29"), dt.date(2024, 2, 29)),
        (numpy.datetime64("2024-02-29T01:02:03.5"), dt.datetime(2024, 2, 29, 1, 2, 3, 500_000)),
        (numpy.datetime64("2024-02-29T01:02:03.000004000"), dt.datetime(2024, 2, 29, 1, 2, 3, 4)),  # as pandas has it
        (numpy.datetime64("NaT", "ns"), None),
        (numpy.timedelta64(90, "m"), dt.timedelta(hours=1.5)),
        (numpy.timedelta64(3000, "ns"), dt.timedelta(microseconds=3)),
    ],
)
def test_a_time_of_numpy_travels_as_that_of_python(value, plain):
    [[arrived]] = decode_columns(encode_columns([[value]], "c", ["a"]), 1, 1)
    assert (arrived, type(arrived)) == (plain, type(plain))
    assert hash_values([value], "c", ["a"]) == hash_values([plain], "c", ["a"])


@pytest.mark.parametrize(
    "value",
    [numpy.datetime64("2024-02-29T01:02:03.000000004"), numpy.timedelta64(1, "Y"), numpy.datetime64("20000-01-01")],
)
def test_a_time_of_numpy_that_python_cannot_hold_is_refused(value):
    with pytest.raises(UnwritableValueError, match=r"cannot hold .*: they have whole microseconds"):
        encode_columns([[value]], "c", ["a"])


def test_a_numpy_scalar_without_a_value_of_python_is_refused_by_its_type():
    for value, name in ((numpy.complex64(1j), "complex"), (numpy.longdouble(1), "longdouble")):
        with pytest.raises(UnregisteredTypeError, match=f"of type {name} in field 'a'"):
            encode_columns([[value]], "c", ["a"])


def test_a_numpy_array_is_refused():
    with pytest.raises(UnregisteredTypeError, match="ndarray"):
        encode_columns([[numpy.array([1, 2])]], "c", ["a"])


def test_a_time_whose_offset_is_not_known_is_refused():
    with pytest.raises(UnregisteredTypeError, match="from UTC depends on the date"):
        encode_columns([[dt.time(1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))]], "c", ["a"])


@pytest.mark.parametrize(("cls", "code"), [(Money, 3), (Money, 128), (Money, 40)])
def test_a_code_out_of_range_or_taken_is_refused(cls, code):
    register_fractions()
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


def zone(hours):
    return dt.timezone(dt.timedelta(hours=hours))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0.5, decimal.Decimal("0.5")),
        ((1, 2.0), (1.0, 2)),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}),
        (dt.time(10, 5, tzinfo=dt.UTC), dt.time(11, 5, tzinfo=zone(1))),
        (dt.time(0, 5, tzinfo=zone(1)), dt.time(1, 5, tzinfo=zone(2))),
        (7, numpy.int64(7)),
        (0.5, numpy.float32(0.5)),
        ("word", numpy.str_("word")),
    ],
)
def test_equal_keys_hash_equally(one, other):
    assert one == other
    assert hash_values([one], "c", ["k"]) == hash_values([other], "c", ["k"])


def test_the_hash_is_the_same_in_another_process_with_another_hash_seed():
    keys = ["", "word", "wörter", b"\x00", 0, -1, 2**70, 1.5, None, (1, "a"), [["x"], {"k": 1}]]
    printed_hashes = f"print([hash_values([key], 'c', ['k']) for key in {keys!r}])"
    program = f"from tupletree._wire.value_hash import hash_values\n{printed_hashes}"
    environment = {"PYTHONHASHSEED": "12345"}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == repr([hash_values([key], "c", ["k"]) for key in keys])


def test_an_unhashable_or_unknown_key_is_refused_with_its_field():
    with pytest.raises(UnregisteredTypeError, match="'k'"):
        hash_values([object()], "c", ["k"])


def nested(kind, depth):
    value = 1
    for _ in range(depth):
        value = kind(value)
    return value


NESTINGS = {
    "tuples": lambda inner: (inner,),
    "sets": lambda inner: frozenset({inner}),
    "lists": lambda inner: [inner],
    "dicts": lambda inner: {1: inner},
    "tuples in lists": lambda inner: [(inner,)],
    "lists in tuples": lambda inner: ([inner],),
}
PLAIN_LEVELS = 1022 if msgpack.version >= (1, 2) else 509
"""Maximum depth of lists and dicts: msgpack's own limit, less the column and what holds it."""


@pytest.mark.parametrize("form", NESTINGS)
@pytest.mark.parametrize("depth", [1, 16, 31, 32, 33, 100, 340, PLAIN_LEVELS, 1023, 1024, 1025, 3000])
def test_a_nested_value_returns_or_is_refused_where_it_is_sent(form, depth):
    value = nested(NESTINGS[form], depth)
    limit = PLAIN_LEVELS if form in ("lists", "dicts") else 32
    if depth <= limit:
        assert decode_columns(encode_columns([[value]], "c", ["a"]), 1, 1)[0][0] is not None
        return
    with pytest.raises(UnregisteredTypeError, match=r"'tree'.*'node'"):
        encode_columns([[value]], "tree", ["node"])


@pytest.mark.parametrize("depth", [1, 32])
def test_a_value_is_equally_deep_beside_one_that_needs_the_slow_path(depth):
    value = nested(NESTINGS["tuples"], depth)
    assert decode_columns(encode_columns([[value, 2**70]], "c", ["a"]), 2, 1) == [[value, 2**70]]


@pytest.mark.parametrize("depth", range(PLAIN_LEVELS - 1, PLAIN_LEVELS + 2))
def test_a_list_beside_a_big_integer_is_never_deeper_than_what_is_decoded(depth):
    value = nested(NESTINGS["lists"], depth)
    try:
        data = encode_columns([[value, 2**70]], "c", ["a"])
    except UnregisteredTypeError:
        assert depth > PLAIN_LEVELS
    else:
        assert len(decode_columns(data, 2, 1)[0]) == 2


HOSTILE = """
import struct, sys
from tupletree._wire import codec
from tupletree.errors import ProtocolError

def extension(code, data):
    return b"\\xc9" + struct.pack(">Ib", len(data), code) + data

def extensions(code, wrap):
    def build(depth):
        data = b"\\x01"
        for _ in range(depth):
            data = extension(code, wrap(data))
        return data
    return build

tuples = extensions(1, lambda inner: b"\\x91" + inner)
sets = extensions(4, lambda inner: b"\\x92\\xc3\\x91" + inner)
mixed = extensions(1, lambda inner: b"\\x91" * 900 + inner)
lists = lambda depth: b"\\x91" * depth + b"\\x01"
dicts = lambda depth: b"\\x81\\x01" * depth + b"\\x01"
keys = lambda depth: b"\\x81" * depth + b"\\x01" * (depth + 1)
for form in (tuples, sets, lists, dicts, keys, mixed):
    for depth in (100, 400, 1500, 10_000, 100_000) if form is not mixed else (100, 400):
        if form in (tuples, sets) and depth > 10_000:
            depth = 20_000  # what is built here grows by the square
        data = form(depth)
        for decode in (
            codec.decode_value,
            codec.decode_plain,
            lambda data: codec.decode_columns(b"\\x91\\x91" + data, 1, 1),
        ):
            try:
                decode(data)
            except ProtocolError:
                continue
            assert form in (lists, dicts) and depth < 1024, depth
print("lives")
"""


def test_no_bytes_end_the_process_that_decodes_them():
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "lives\n"), done.stderr[-2000:]


@given(st.binary(max_size=60), st.sampled_from([1, 4, 5, 40]), st.integers(0, 40))
def test_any_bytes_in_any_extension_decode_or_are_refused(data, code, depth):
    for _ in range(depth):
        data = b"\xc7" + bytes([len(data) & 255, code]) + data
    for decode in (decode_value, decode_plain):
        with contextlib.suppress(ProtocolError):
            decode(data)


ANY_ZONE = st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))


@given(
    st.datetimes(timezones=ANY_ZONE)
    | st.sampled_from([dt.datetime.min, dt.datetime.max]).flatmap(
        lambda end: ANY_ZONE.map(lambda zone: end.replace(tzinfo=zone))
    )
)
def test_every_datetime_with_a_time_zone_arrives_equal(moment):
    value = [moment, (moment, [moment]), {"at": moment}, {moment: 1}]
    assert decode_columns(encode_columns([[value]], "c", ["a"]), 1, 1) == [[value]]
    assert decode_value(encode_value(value)) == value


class Reading:
    pass


class Lost(dt.tzinfo):
    def utcoffset(self, when):
        raise LookupError("no such place")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Reading(), "encoder registered for Reading raised KeyError"),
        (TransactionAttempt(-1, 2**70), "attempt"),
        (dt.datetime(2020, 1, 1, tzinfo=Lost()), "no such place"),
    ],
)
def test_what_raises_while_it_is_encoded_is_refused_by_component_and_field(value, words):
    register_type(Reading, 41, lambda value: {}["absent"], lambda data: Reading())
    with pytest.raises(UnregisteredTypeError, match=f"'pay'.*'sum'.*{words}"):
        encode_columns([[value]], "pay", ["sum"])
    with pytest.raises(UnregisteredTypeError, match=words):
        encode_value(value)


def test_an_encoder_that_returns_no_bytes_is_named():
    register_type(Reading, 41, lambda value: "text", lambda data: Reading())
    with pytest.raises(UnregisteredTypeError, match="registered for Reading returned str, not bytes"):
        encode_columns([[Reading()]], "pay", ["sum"])


@pytest.mark.parametrize("value", [nested(NESTINGS["lists"], 5000), {1: Money(1), 2: 2}, {Money(1)}, [Money(2)]])
def test_values_that_cannot_be_hashed_are_refused_by_component(value):
    with pytest.raises(UnregisteredTypeError, match="'pay'"):
        hash_values([value], "pay", ["sum"])


def test_what_others_wrote_is_read_without_extensions():
    assert decode_plain(encode_value([1, None, [2, 3], "x"])) == [1, None, [2, 3], "x"]
    assert decode_plain(encode_value([TransactionAttempt(3, 4)])) == [TransactionAttempt(3, 4)]
    with pytest.raises(ProtocolError, match="extension code 1 is not expected here"):
        decode_plain(encode_value([(1, 2)]))
