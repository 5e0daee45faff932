"""Schemas of a registry with Confluent's REST interface, and the messages that begin with the id of their schema."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from tupletree.connectors.arguments import check, check_flag, check_text
from tupletree.connectors.avro import Avro
from tupletree.connectors.extras import imported
from tupletree.connectors.formats import Format, FormatError, Json, Protobuf
from tupletree.connectors.http.addresses import checked_url
from tupletree.connectors.registry_types import AvroType, JsonType, ProtobufType, SchemaType
from tupletree.errors import UnavailableError, UsageError
from tupletree.tuples import Tuple

R = TypeVar("R")

PAUSE_S: Final = 1.0
"""The time after a failed call during which the registry is not asked again."""
UNKNOWN_ID: Final = 40403
"""The registry's code for an id that no schema has."""


class SchemaRegistry:
    """A schema registry. Connects on first use; each schema is fetched once.

        SchemaRegistry("http://localhost:8081", {"basic.auth.user.info": "user:password"})

    ``url``: one, or several with commas in between. ``conf``: further properties of confluent-kafka's
    ``SchemaRegistryClient``. Unless ``conf`` says otherwise, a call takes at most 5 seconds (``timeout``) and is not
    repeated (``max.retries``).

    Raises UsageError for a wrong argument, or a property that confluent-kafka refuses. Methods raise FormatError if no
    schema has an id, and UnavailableError for every other failure, even a wrong password: an administrator may correct
    it, and then the same call succeeds.
    """

    def __init__(self, url: str, conf: Mapping[str, Any] | None = None) -> None:
        check_text("SchemaRegistry", "url", url, is_secret=True)
        check("SchemaRegistry", "conf", conf, isinstance(conf, Mapping | None), "a dict, or None,", is_secret=True)
        for one in url.split(","):
            checked_url("SchemaRegistry", one.strip(), ("http", "https"))
        self.url = url
        self._conf = {"timeout": 5, "max.retries": 0, **(conf or {}), "url": url}
        try:
            with imported("confluent_kafka.schema_registry", "registry").SchemaRegistryClient(self._conf):
                pass
        except (ValueError, TypeError, OSError) as error:
            raise UsageError(f"SchemaRegistry: conf: {error}") from error
        self._client: Any = None
        self._failure: tuple[float, str] = (-PAUSE_S, "")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_failure": (-PAUSE_S, "")}  # of another machine's clock

    def __repr__(self) -> str:
        return f"the schema registry {self.url.rpartition('@')[2]}"  # without a password

    def schema(self, id: int) -> Any:
        """Return the ``Schema`` with an id. Raises FormatError if no schema has the id, or UnavailableError."""
        return self._answered(lambda client: client.get_schema(id))

    def referenced(self, schema: Any) -> list[tuple[str, str]]:
        """Return the names and texts of the schemas that a schema refers to, each before its first use."""
        found: dict[str, str] = {}
        for one in schema.references or ():
            version = self._answered(lambda client, one=one: client.get_version(one.subject, one.version)).schema
            found |= self.referenced(version)
            found[one.name] = version.schema_str
        return list(found.items())

    def id_of(self, subject: str, schema: Any, register: bool) -> int:
        """Return the id of a schema under a subject, where it is registered if it is not."""
        if register:
            return int(self._answered(lambda client: client.register_schema(subject, schema)))
        return int(self._answered(lambda client: client.lookup_schema(subject, schema)).schema_id)

    def version_of(self, subject: str, schema: Any) -> int:
        """Return the version of a registered schema of a subject."""
        return int(self._answered(lambda client: client.lookup_schema(subject, schema)).version)

    def latest(self, subject: str) -> tuple[int, Any]:
        """Return the id and the ``Schema`` of the newest version of a subject."""
        found = self._answered(lambda client: client.get_latest_version(subject))
        return int(found.schema_id), found.schema

    def _answered(self, call: Callable[..., R]) -> R:
        failed_at_s, failure = self._failure
        if time.monotonic() < failed_at_s + PAUSE_S:
            raise UnavailableError(failure)
        library = imported("confluent_kafka.schema_registry", "registry")
        if self._client is None:
            self._client = library.SchemaRegistryClient(self._conf)
        try:
            return call(self._client)
        except library.SchemaRegistryError as error:
            if error.error_code == UNKNOWN_ID:
                raise FormatError(f"{self!r} has no such schema: {error.error_message}") from error
            failure = f"{self!r} refuses: {error}"
        except Exception as error:  # of the HTTP library, which differs from version to version
            failure = f"{self!r} is away: {type(error).__name__}: {error}"
        self._failure = (time.monotonic(), failure)
        raise UnavailableError(failure)


class Registered(Format):
    """Messages in Confluent's wire format: a zero byte, the id of a schema in 4 bytes, and a message of that schema.

        sales = Registered(Avro(SCHEMA), "http://localhost:8081", "sales-value")
        builder.set_spout("sales", RabbitSpout(url, "sales", sales))

    ``format``: an ``Avro``, whose schema is the reader's; ``Json`` or ``Protobuf``. ``registry``: an URL or a
    SchemaRegistry. ``subject``: the name under which messages that are written have their schema; reading asks for ids.
    ``schema``: the JSON schema of written messages; by default the newest of the subject. ``register=False``: the
    schema must be registered already.

    **Reading.** Unknown ids, schemas of another type and bytes that are not of the schema are a FormatError: dead
    letters. While the registry is away, the spout waits with the first message whose schema it does not have yet; no
    attempt is counted.

    **Writing.** While the registry is away or refuses the schema, tuples fail, and are replayed by their spout.

    Messages of JSON schemas are checked against the schema, in both directions. Avro and JSON schemas may refer to
    others. A Protocol Buffers class is read as it is: the schema of the id is not compared with it.

    Raises UsageError for a format of another class, or a ``schema`` that is none.
    """

    blocking = True

    def __init__(
        self, format: Format, registry: SchemaRegistry | str, subject: str, *, schema: str = "", register: bool = True
    ) -> None:
        self._type = _type_of(format, schema)
        is_registry = isinstance(registry, str | SchemaRegistry)
        check("Registered", "registry", registry, is_registry, "an URL or a SchemaRegistry", is_secret=True)
        check_text("Registered", "subject", subject)
        check_flag("Registered", "register", register)
        self.fields, self.record = format.fields, format.record
        self.subject, self.register = subject, register
        self.registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self._written: dict[int, Any] = {}
        self._id: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_written": {}, "_id": None}

    def decode(self, data: bytes) -> Sequence[Any]:
        if len(data) < 5 or data[0] != 0:
            raise FormatError("the message does not begin with a zero byte and the id of a schema in 4 bytes")
        id = int.from_bytes(data[1:5], "big")
        if id not in self._written:
            self._written[id] = self._type.loaded(self.registry, self.registry.schema(id))
        return self._type.decode(data[5:], self._written[id])

    def encode(self, tup: Tuple) -> bytes:
        if self._id is None:
            self._id = self._type.prepare(self.registry, self.subject, self.register)
        return b"\0" + self._id.to_bytes(4, "big") + self._type.encode(tup)


def _type_of(format: Format, schema: str) -> SchemaType:
    check("Registered", "schema", schema, isinstance(schema, str), "a JSON schema as text")
    if schema and isinstance(format, Avro | Protobuf):
        raise UsageError(f"schema= is for Json; a {type(format).__name__} has its own")
    match format:
        case Avro():
            return AvroType(format)
        case Json():
            return JsonType(format, schema)
        case Protobuf():
            return ProtobufType(format)
    given = f"the class {format.__name__}" if isinstance(format, type) else f"a {type(format).__name__}"
    raise UsageError(f"Registered: format is {given}; an Avro, Json or Protobuf was expected")
