"""The types of schemas in a registry, each with the bytes of its messages after the id of the schema."""

from __future__ import annotations  # pure

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from tupletree.connectors.avro import Avro, parsed_schema
from tupletree.connectors.extras import imported
from tupletree.connectors.formats import Format, FormatError, Json, Protobuf
from tupletree.errors import UsageError
from tupletree.tuples import Tuple


class Registry(Protocol):
    """The calls of a registry that types of schemas make."""

    def referenced(self, schema: Any) -> list[tuple[str, str]]: ...
    def id_of(self, subject: str, schema: Any, register: bool) -> int: ...
    def version_of(self, subject: str, schema: Any) -> int: ...
    def latest(self, subject: str) -> tuple[int, Any]: ...


class SchemaType(ABC):
    """A format with schemas of one type."""

    name: ClassVar[str]

    def __init__(self, format: Format) -> None:
        self.format = format

    def loaded(self, registry: Registry, schema: Any) -> Any:
        """Return a schema of the registry as ``decode`` takes it. Raises FormatError if it is of another type."""
        found = schema.schema_type or "AVRO"
        if found != self.name:
            raise FormatError(f"the message has a schema of type {found}, and {self.name} was expected")
        try:
            return self._loaded(registry, schema)
        except UsageError as error:
            raise FormatError(f"the message has a schema that cannot be used: {error}") from error

    @abstractmethod
    def _loaded(self, registry: Registry, schema: Any) -> Any: ...

    @abstractmethod
    def prepare(self, registry: Registry, subject: str, register: bool) -> int:
        """Return the id of the schema of the messages that ``encode`` makes."""

    @abstractmethod
    def decode(self, data: bytes, written: Any) -> Sequence[Any]: ...

    @abstractmethod
    def encode(self, tup: Tuple) -> bytes: ...

    def _schema(self, text: str, references: Sequence[Any] = ()) -> Any:
        library = imported("confluent_kafka.schema_registry", "registry")
        return library.Schema(text, self.name, list(references))


class AvroType(SchemaType):
    name = "AVRO"
    format: Avro

    def _loaded(self, registry: Registry, schema: Any) -> Any:
        return parsed_schema(schema.schema_str, [text for _, text in registry.referenced(schema)])

    def prepare(self, registry: Registry, subject: str, register: bool) -> int:
        return registry.id_of(subject, self._schema(self.format.schema), register)

    def decode(self, data: bytes, written: Any) -> Sequence[Any]:
        return self.format.decode_written(data, written)

    def encode(self, tup: Tuple) -> bytes:
        return self.format.encode(tup)


class JsonType(SchemaType):
    name = "JSON"

    def __init__(self, format: Json, schema: str) -> None:
        super().__init__(format)
        self.schema = schema
        if schema:
            _validator(schema, ())
        self._validator: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_validator": None}

    def _loaded(self, registry: Registry, schema: Any) -> Any:
        return _validator(schema.schema_str, registry.referenced(schema))

    def prepare(self, registry: Registry, subject: str, register: bool) -> int:
        if self.schema:
            schema = self._schema(self.schema)
            id = registry.id_of(subject, schema, register)
        else:
            id, schema = registry.latest(subject)
        self._validator = self.loaded(registry, schema)
        return id

    def decode(self, data: bytes, written: Any) -> Sequence[Any]:
        row = self.format.decode(data)  # first, as it says what is not JSON
        _check(data, written, "the message is not of its schema")
        return row

    def encode(self, tup: Tuple) -> bytes:
        data = self.format.encode(tup)
        _check(data, self._validator, "the tuple cannot be written, as it is not of the schema")
        return data


class ProtobufType(SchemaType):
    """Messages of a generated class. Between id and message stands the path of its type in its file.

    The path is a count and as many indexes, zigzag varints each; for the first type of a file, one zero byte.
    """

    name = "PROTOBUF"
    format: Protobuf

    def _loaded(self, registry: Registry, schema: Any) -> Any:
        return None  # the generated class is the schema

    def prepare(self, registry: Registry, subject: str, register: bool) -> int:
        file = self.format.message.DESCRIPTOR.file
        return registry.id_of(subject, self._described(registry, file, register), register)

    def _described(self, registry: Registry, file: Any, register: bool) -> Any:
        """Return the schema of a file. The files that it imports are schemas of the subjects of their names."""
        reference = imported("confluent_kafka.schema_registry", "registry").SchemaReference
        references = []
        for one in file.dependencies:
            if not one.name.startswith(("google/protobuf/", "google/type/", "confluent/")):  # every reader has these
                schema = self._described(registry, one, register)
                registry.id_of(one.name, schema, register)
                references.append(reference(one.name, one.name, registry.version_of(one.name, schema)))
        return self._schema(base64.standard_b64encode(file.serialized_pb).decode(), references)

    def decode(self, data: bytes, written: Any) -> Sequence[Any]:
        count, at = _number(data, 0)
        for _ in range(count):
            _, at = _number(data, at)
        return self.format.decode(data[at:])

    def encode(self, tup: Tuple) -> bytes:
        path = _path(self.format.message.DESCRIPTOR)
        head = b"\0" if path == [0] else b"".join(map(_varint, [len(path), *path]))
        return head + self.format.encode(tup)


def _path(descriptor: Any) -> list[int]:
    """Return the indexes that lead to a message type in its file."""
    outer = descriptor.containing_type
    if outer is None:
        return [list(descriptor.file.message_types_by_name).index(descriptor.name)]
    return [*_path(outer), [one.name for one in outer.nested_types].index(descriptor.name)]


def _varint(number: int) -> bytes:
    """Return a number that is not negative in zigzag encoding."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, and the place after it."""
    number = shift = 0
    for place in range(at, min(at + 5, len(data))):
        number |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            if number & 1:
                break
            return number >> 1, place + 1
    raise FormatError(
        "the message has no indexes of its type, which the serializers of Confluent write after the schema id"
    )


def _validator(schema: str, referenced: Sequence[tuple[str, str]]) -> Any:
    library, resources = imported("jsonschema", "registry"), imported("referencing", "registry")
    try:
        loaded = json.loads(schema)
        kind = library.validators.validator_for(loaded, default=library.Draft7Validator)
        kind.check_schema(loaded)
        default = imported("referencing.jsonschema", "registry").DRAFT7
        known = resources.Registry().with_resources(
            [(name, resources.Resource.from_contents(json.loads(text), default)) for name, text in referenced]
        )
        return kind(loaded, registry=known)
    except (ValueError, AttributeError, library.SchemaError) as error:
        raise UsageError(f"the JSON schema is not valid: {getattr(error, 'message', error)}") from error


def _check(data: bytes, validator: Any, fault: str) -> None:
    library = imported("jsonschema", "registry")
    try:
        error = library.exceptions.best_match(validator.iter_errors(json.loads(data)))
    except Exception as failure:  # a reference that leads nowhere, a schema without an end
        raise FormatError(f"{fault}: {type(failure).__name__}: {failure}") from failure
    if error is not None:
        raise FormatError(f"{fault}: {error.json_path}: {error.message[:500]}")
