"""Avro decodes what it encodes and what other writers encode, and says what is wrong with anything else."""

from __future__ import annotations

import io
import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro
import pytest
from hypothesis import given, strategies

from tupletree.connectors.avro import Avro
from tupletree.connectors.formats import FormatError
from tupletree.errors import UsageError
from tupletree.testing import make_tuple


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Sale", "fields": [{"name": name, "type": of} for name, of in fields.items()]}


SALE = record(
    shop="string",
    amount={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    at={"type": "long", "logicalType": "timestamp-millis"},
    notes={"type": "array", "items": ["null", "string"]},
)
ROW = ["centre", Decimal("12.50"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), ["a", None]]


class Short(NamedTuple):
    amount: Decimal
    currency: str = "EUR"


def test_every_field_returns() -> None:
    format = pickle.loads(pickle.dumps(Avro(SALE)))
    data = format.encode(make_tuple({**dict(zip(format.fields, ROW, strict=True)), "other": 1}))
    assert format.decode(data) == ROW
    assert fastavro.schemaless_reader(io.BytesIO(data), SALE, None) == dict(zip(format.fields, ROW, strict=True))


def test_some_fields_are_chosen_and_records_are_made() -> None:
    data = Avro(json.dumps(SALE)).encode(make_tuple(dict(zip(Avro(SALE).fields, ROW, strict=True))))
    assert Avro(SALE, ["notes", "shop"]).decode(data) == [["a", None], "centre"]
    with_default = {**SALE, "fields": [*SALE["fields"], {"name": "currency", "type": "string", "default": "CHF"}]}
    format = Avro(with_default, Short)
    assert format.outputs is Short
    assert format.decode(Avro(with_default).encode(make_tuple({**dict(zip(Avro(SALE).fields, ROW, strict=True)),
        "currency": "USD"}))) == [Decimal("12.50"), "USD"]  # fmt: skip


@given(strategies.binary())
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    format = Avro(SALE)
    try:
        row = format.decode(data)
    except FormatError as error:
        assert str(error).startswith("the message is not a Sale: ")
    else:
        assert len(row) == 4


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"n": 2**31}, "the tuple cannot be written as Sale: ValidationError"),
        ({"n": "1"}, "the tuple cannot be written as Sale: ValidationError"),
        ({"m": 1}, "'n'"),
    ],
)
def test_the_fault_of_a_tuple_is_named(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FormatError) as caught:
        Avro(record(n="int")).encode(make_tuple(values))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "fields", "sentence"),
    [
        ("{", None, "the Avro schema is not valid: JSONDecodeError"),
        ('"int"', None, "Avro: schema is not one of a record"),
        ({"type": "record", "name": "Sale"}, None, "Avro: schema is not one of a record with at least one field"),
        (record(a="no such type"), None, "the Avro schema is not valid"),
        (record(a="int"), ["b"], "Sale has no field 'b'; it has a"),
    ],
)
def test_a_wrong_schema_is_refused(schema: Any, fields: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Avro(schema, fields)
