"""Avro: messages of a record schema, whose fields are the row."""

from __future__ import annotations  # pure

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tupletree.connectors.arguments import check
from tupletree.connectors.extras import imported
from tupletree.connectors.formats import Format, FormatError, fields_of, row_of, value_of
from tupletree.errors import UsageError
from tupletree.tuples import Tuple


class Avro(Format):
    """Records of an Avro schema in the binary encoding, without a header: with one, see ``Registered``.

        Avro('{"type": "record", "name": "Sale", "fields": [{"name": "shop", "type": "string"}, …]}')

    ``schema``: as JSON text, or as loaded from it. ``fields``: some fields of the record, in this order, by default
    all; or a NamedTuple or dataclass that has them, made from each message as in ``Json(Sale)``.

    Logical types arrive as ``datetime``, ``Decimal`` and ``UUID``; a nested record is a dict. A value that does not fit
    its type in the schema is refused when it is written. Raises UsageError for text that is no schema, and for the
    schema of anything but a record.
    """

    def __init__(self, schema: str | Mapping[str, Any], fields: Sequence[str] | type | None = None) -> None:
        is_schema = isinstance(schema, str | Mapping)
        check("Avro", "schema", schema, is_schema, "the schema of a record, as JSON text or as a dict,")
        self.schema = schema if isinstance(schema, str) else _json(schema)
        self._reader = parsed_schema(self.schema)
        is_record = isinstance(self._reader, dict) and self._reader.get("type") == "record"
        if not is_record or not self._reader["fields"]:
            raise UsageError("Avro: schema is not one of a record with at least one field")
        known = [field["name"] for field in self._reader["fields"]]
        self.fields, self.record = (known, None) if fields is None else fields_of(self, fields)
        unknown = [name for name in self.fields if name not in known]
        if unknown:
            raise UsageError(
                f"Avro: fields: {self._reader['name']} has no field {unknown[0]!r}; it has {', '.join(known)}"
            )

    def decode(self, data: bytes) -> Sequence[Any]:
        return self.decode_written(data, self._reader)

    def decode_written(self, data: bytes, writer: Any) -> Sequence[Any]:
        """Return the row of a message that was written with another schema, as parsed by ``parsed_schema``."""
        stream = io.BytesIO(data)
        try:
            found = imported("fastavro", "avro").schemaless_reader(stream, writer, self._reader)
        except Exception as error:  # struct.error, EOFError, SchemaResolutionError and whatever odd bytes lead to
            raise FormatError(f"the message is not a {self._reader['name']}: {error!r}") from error
        if rest := len(data) - stream.tell():
            raise FormatError(f"the message is not a {self._reader['name']}: {rest} bytes follow the record")
        return row_of(found, self.fields, self.record)

    def encode(self, tup: Tuple) -> bytes:
        found = {name: value_of(tup, name) for name in self.fields}
        stream = io.BytesIO()
        try:
            imported("fastavro.validation", "avro").validate(found, self._reader)
            imported("fastavro", "avro").schemaless_writer(stream, self._reader, found)
        except Exception as error:  # of many kinds, as the values are anything
            name = self._reader["name"]
            raise FormatError(f"the tuple cannot be written as {name}: {type(error).__name__}: {error}") from error
        return stream.getvalue()


def _json(schema: Mapping[str, Any]) -> str:
    try:
        return json.dumps(schema)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the Avro schema is not valid: {error}") from error


def parsed_schema(text: str, referenced: Sequence[str] = ()) -> Any:
    """Return a schema as ``decode_written`` takes it.

    ``referenced``: the schemas of the names that it uses and does not define, each before its first use.

    Raises UsageError for text that is not an Avro schema.
    """
    parse = imported("fastavro", "avro").parse_schema
    names: dict[str, Any] = {}
    try:
        for one in referenced:
            parse(json.loads(one), named_schemas=names)
        return parse(json.loads(text), named_schemas=names)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(f"the Avro schema is not valid: {type(error).__name__}: {error}") from error
    except Exception as error:  # SchemaParseException, UnknownType of fastavro
        raise UsageError(f"the Avro schema is not valid: {error}") from error
