"""Messages with the ids of their schemas, against a registry over HTTP; Confluent's serializers are the judges."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2
from queue_places import free_port
from registry_server import RegistryServer

from tupletree.connectors.avro import Avro
from tupletree.connectors.formats import FormatError, Json, Protobuf, Raw
from tupletree.connectors.registry import Registered, SchemaRegistry
from tupletree.errors import UnavailableError, UsageError
from tupletree.testing import make_tuple, wait_until
from tupletree.v1 import nimbus_pb2

CONTEXT = SerializationContext("sales", MessageField.VALUE)
CONF = {"subject.name.strategy": topic_subject_name_strategy}
SUBJECT = "sales-value"
SALE = {"shop": "centre", "amount": 7}
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Sale",
        "fields": [{"name": "shop", "type": "string"}, {"name": "amount", "type": "long"}],
    }
)
JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Sale",
        "type": "object",
        "properties": {"shop": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["shop"],
    }
)


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer(free_port()) as server:
        yield server


@pytest.fixture
def client(registry: RegistryServer) -> Any:
    return SchemaRegistryClient({"url": registry.url})


def test_avro_agrees_with_confluent(registry: RegistryServer, client: Any) -> None:
    format = pickle.loads(pickle.dumps(Registered(Avro(AVRO), registry.url, SUBJECT)))
    theirs = AvroSerializer(client, AVRO, conf=CONF)(SALE, CONTEXT)
    ours = format.encode(make_tuple(SALE))
    assert ours == theirs
    assert AvroDeserializer(client, AVRO)(ours, CONTEXT) == SALE
    assert format.decode(theirs) == ["centre", 7]


def test_avro_is_read_with_the_schema_of_the_reader(registry: RegistryServer, client: Any) -> None:
    reader = json.loads(AVRO)
    reader["fields"] = [{"name": "currency", "type": "string", "default": "EUR"}, {"name": "amount", "type": "double"}]
    data = AvroSerializer(client, AVRO, conf=CONF)(SALE, CONTEXT)
    assert Registered(Avro(reader), registry.url, SUBJECT).decode(data) == ["EUR", 7.0]


def test_json_agrees_with_confluent(registry: RegistryServer, client: Any) -> None:
    format = Registered(Json(["shop", "amount"]), registry.url, SUBJECT, schema=JSON)
    theirs = JSONSerializer(JSON, client, conf=CONF)(SALE, CONTEXT)
    ours = format.encode(make_tuple(SALE))
    assert (ours[:5], json.loads(ours[5:])) == (theirs[:5], json.loads(theirs[5:]))  # spaces are free in JSON
    assert JSONDeserializer(JSON)(ours, CONTEXT) == SALE
    assert format.decode(theirs) == ["centre", 7]
    newest = pickle.loads(pickle.dumps(Registered(Json(["shop"]), registry.url, SUBJECT)))
    assert newest.encode(make_tuple({"shop": "é"}))[:5] == theirs[:5]
    with pytest.raises(FormatError, match=r"cannot be written, as it is not of the schema: \$.shop: 1 is not"):
        newest.encode(make_tuple({"shop": 1}))


@pytest.mark.parametrize(
    "message",
    [
        descriptor_pb2.FileDescriptorSet(),  # the first type of its file
        descriptor_pb2.DescriptorProto.ReservedRange(start=1, end=2),  # a type within a type
        nimbus_pb2.TaskStats(task_id=3, executed=7),  # of a file that imports another
    ],
    ids=lambda message: type(message).__name__,
)
def test_protobuf_agrees_with_confluent(registry: RegistryServer, client: Any, message: Any) -> None:
    kind = type(message)
    theirs = ProtobufSerializer(kind, client, conf=CONF)(message, CONTEXT)
    names = [field.name for field in kind.DESCRIPTOR.fields]
    format = pickle.loads(pickle.dumps(Registered(Protobuf(kind), registry.url, SUBJECT)))
    ours = format.encode(make_tuple({name: getattr(message, name) for name in names}))
    assert ours == theirs
    assert ProtobufDeserializer(kind, {"use.deprecated.format": False})(ours, CONTEXT) == message
    assert format.decode(theirs) == [getattr(message, name) for name in names]


def test_a_schema_is_fetched_once(registry: RegistryServer, client: Any) -> None:
    data = AvroSerializer(client, AVRO, conf=CONF)(SALE, CONTEXT)
    registry.calls.clear()
    shared = SchemaRegistry(registry.url)
    one, other = (Registered(Avro(AVRO), shared, SUBJECT) for _ in range(2))
    for _ in range(3):
        assert one.decode(data) == other.decode(data) == ["centre", 7]
    assert registry.calls == {"GET /schemas/ids/1": 1}
    for _ in range(3):
        one.encode(make_tuple(SALE))
    assert registry.calls == {"GET /schemas/ids/1": 1, f"POST /subjects/{SUBJECT}/versions": 1}


def test_schemas_may_refer_to_others(registry: RegistryServer, client: Any) -> None:
    shop = json.dumps({"type": "record", "name": "Shop", "fields": [{"name": "city", "type": "string"}]})
    client.register_schema("shop", Schema(shop, "AVRO"))
    sale = {"type": "record", "name": "Sale", "fields": [{"name": "shop", "type": "Shop"}]}
    written = Schema(json.dumps(sale), "AVRO", [SchemaReference("Shop", "shop", 1)])
    data = AvroSerializer(client, written, conf=CONF)({"shop": {"city": "Bern"}}, CONTEXT)
    sale["fields"] = [{"name": "shop", "type": json.loads(shop)}]
    assert Registered(Avro(sale), registry.url, SUBJECT).decode(data) == [{"city": "Bern"}]

    client.register_schema("city", Schema('{"type": "string", "maxLength": 4}', "JSON"))
    of_city = '{"type": "object", "properties": {"city": {"$ref": "city.json"}}}'
    id = client.register_schema("place", Schema(of_city, "JSON", [SchemaReference("city.json", "city", 1)]))
    format = Registered(Json(["city"]), registry.url, "place")
    assert format.decode(head(id) + b'{"city": "Bern"}') == ["Bern"]
    with pytest.raises(FormatError, match=r"the message is not of its schema: \$.city: 'Zürich' is too long"):
        format.decode(head(id) + '{"city": "Zürich"}'.encode())


def head(id: int) -> bytes:
    return b"\0" + id.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("format", "data", "sentence"),
    [
        (Avro(AVRO), b"", "the message does not begin with a zero byte and the id of a schema in 4 bytes"),
        (Avro(AVRO), b"\1\0\0\0\1", "the message does not begin with a zero byte"),
        (Avro(AVRO), head(9), "the schema registry http://127.0.0.1:.* has no such schema: Schema 9 not found"),
        (Avro(AVRO), head(2) + b"{}", "the message has a schema of type JSON, and AVRO was expected"),
        (Json(), head(1) + b"{}", "the message has a schema of type AVRO, and JSON was expected"),
        (Protobuf(nimbus_pb2.TaskStats), head(1) + b"\0", "the message has a schema of type AVRO"),
        (Avro(AVRO), head(1) + b"\x04a", "the message is not a Sale"),
        (Avro(AVRO), head(1) + b"\x02a\x0e\x00", "the message is not a Sale: 1 bytes follow the record"),
        (Avro(AVRO.replace("long", "string")), head(1) + b"\x02a\x0e", "the message is not a Sale: SchemaResolution"),
        (Json(), head(2) + b"{", "the message is not JSON"),
        (Json(), head(2) + b"{}", "the message is not of its schema: \\$: 'shop' is a required property"),
        (Protobuf(nimbus_pb2.TaskStats), head(3), "the message has no indexes of its type"),
        (Protobuf(nimbus_pb2.TaskStats), head(3) + b"\4\0", "the message has no indexes of its type"),
        (Protobuf(nimbus_pb2.TaskStats), head(3) + b"\xff" * 9, "the message has no indexes of its type"),
        (Protobuf(nimbus_pb2.TaskStats), head(3) + b"\0\xff", "the message is not a TaskStats"),
    ],
)
def test_what_is_no_message_is_a_format_error(
    registry: RegistryServer, client: Any, format: Any, data: bytes, sentence: str
) -> None:
    for number, kind in enumerate(("AVRO", "JSON", "PROTOBUF")):
        client.register_schema(f"subject {number}", Schema((AVRO, JSON, "AA==")[number], kind))
    with pytest.raises(FormatError, match=sentence):
        Registered(format, registry.url, SUBJECT).decode(data)


def test_a_registry_that_is_away_is_asked_again(registry: RegistryServer, client: Any) -> None:
    data = AvroSerializer(client, AVRO, conf=CONF)(SALE, CONTEXT)
    format = Registered(Avro(AVRO), registry.url, SUBJECT)
    registry.stop()
    for call in (lambda: format.decode(data), lambda: format.encode(make_tuple(SALE))):
        with pytest.raises(UnavailableError, match=r"the schema registry http://127.0.0.1:.* is away: ConnectError"):
            call()
    registry.start()

    def answers() -> bool:
        try:
            return format.decode(data) == ["centre", 7]
        except UnavailableError:
            return False

    wait_until(answers)
    registry.stop()
    assert format.decode(data) == ["centre", 7]  # it has the schema


def test_a_schema_that_the_registry_refuses_is_no_fault_of_the_tuple(registry: RegistryServer) -> None:
    registry.refuses.add(SUBJECT)
    with pytest.raises(UnavailableError, match=r"refuses: Schema being registered is incompatible .*409"):
        Registered(Avro(AVRO), registry.url, SUBJECT).encode(make_tuple(SALE))
    with pytest.raises(UnavailableError, match=r"refuses: Subject 'other' not found"):
        Registered(Avro(AVRO), registry.url, "other", register=False).encode(make_tuple(SALE))
    assert "POST /subjects/other/versions" not in registry.calls


def test_wrong_arguments_are_refused(registry: RegistryServer) -> None:
    with pytest.raises(UsageError, match="Registered: format is a Raw; an Avro, Json or Protobuf was expected"):
        Registered(Raw(), registry.url, SUBJECT)
    with pytest.raises(UsageError, match="schema= is for Json; a Avro has its own"):
        Registered(Avro(AVRO), registry.url, SUBJECT, schema=JSON)
    with pytest.raises(UsageError, match="the JSON schema is not valid"):
        Registered(Json(), registry.url, SUBJECT, schema='{"type": "no such type"}')
    with pytest.raises(UsageError, match=r"SchemaRegistry: conf: Unrecognized properties: no\.such"):
        SchemaRegistry(registry.url, {"no.such": 1})
    assert repr(SchemaRegistry("http://user:secret@host:1")) == "the schema registry host:1"
