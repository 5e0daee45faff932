"""Every argument of every connector is checked where the topology is built, in one sentence that names it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

import tupletree.connectors
import tupletree.transactional.kafka
from tupletree.component import Bolt, Spout
from tupletree.connectors.avro import Avro
from tupletree.connectors.beanstalkd import BeanstalkBolt, BeanstalkSpout
from tupletree.connectors.csv_format import Csv
from tupletree.connectors.delta import DeltaSink
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.file_sinks import FileSink, ParquetSink
from tupletree.connectors.files import FileSpout, TextFileLog
from tupletree.connectors.formats import Format, Json, MsgPack, Protobuf, Raw, Text, WithHeaders
from tupletree.connectors.http import EventStreamSpout, HttpBolt, WebhookSpout, WebSocketSpout
from tupletree.connectors.iceberg import IcebergSink
from tupletree.connectors.kafka import KafkaBolt, KafkaLog, KafkaSink, KafkaSpout
from tupletree.connectors.log_source import LogSource
from tupletree.connectors.log_spout import LogSpout
from tupletree.connectors.mqtt import MqttBolt, MqttSpout
from tupletree.connectors.nats import NatsBolt, NatsSpout
from tupletree.connectors.parquet import ParquetLog, ParquetSpout
from tupletree.connectors.pipeline_log import PipelineLog, PipelineSpout
from tupletree.connectors.postgres import PostgresSink
from tupletree.connectors.postgres_changes import PostgresChangesSpout
from tupletree.connectors.postgres_outbox import OutboxBolt, OutboxSpout
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.rabbitmq import RabbitBolt, RabbitSpout
from tupletree.connectors.redis_hashes import RedisHashSink
from tupletree.connectors.redis_streams import RedisStreamBolt, RedisStreamSpout
from tupletree.connectors.registry import Registered, SchemaRegistry
from tupletree.connectors.row_sinks import RowSinkBolt
from tupletree.connectors.sinks import SinkBolt
from tupletree.connectors.sqlite import SqliteSink
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.errors import UsageError
from tupletree.transactional import PlannedLogSpout, SinkCommitter
from tupletree.transactional.kafka import OpaqueKafkaSpout, TransactionalKafkaSpout
from tupletree.transactional.log_spouts import OpaqueLogSpout, TransactionalLogSpout
from tupletree.v1 import nimbus_pb2

AVRO = '{"type": "record", "name": "Sale", "fields": [{"name": "shop", "type": "string"}]}'
COLUMNS = {"word": "string", "count": "bigint"}
AMQP, REDIS, POSTGRES = "amqp://guest:secret@host/%2F", "redis://host/0", "postgresql://host/shop"
SINK = SqliteSink("/var/lib/shop.db", "totals", COLUMNS, key="word")
KAFKA = {"bootstrap_servers": "host:9092", "topics": "orders"}

RIGHT: dict[Any, dict[str, Any]] = {
    Avro: {"schema": AVRO},
    BeanstalkBolt: {"address": "host:11300"},
    BeanstalkSpout: {"address": "host:11300"},
    Csv: {"fields": ["a"]},
    DeltaSink: {"uri": "/lake/sales", "columns": COLUMNS},
    EventStreamSpout: {"url": "http://host/"},
    ExactlyOnceSinkBolt: {"sink": SINK},
    FileSink: {"path": "/data", "format": Json(["a"])},
    FileSpout: {"files": "/data"},
    HttpBolt: {"url": "http://host/"},
    IcebergSink: {"catalog": "lake", "table": "shop.sales", "columns": COLUMNS},
    Json: {},
    KafkaBolt: {"bootstrap_servers": "host:9092", "topic": "orders"},
    KafkaLog: KAFKA,
    KafkaSink: {"bootstrap_servers": "host:9092", "topic": "orders"},
    KafkaSpout: KAFKA,
    LogSpout: {"source": TextFileLog("/data")},
    MqttBolt: {"host": "host", "topic": "a"},
    MqttSpout: {"host": "host", "topic": "a", "client_id": "c"},
    MsgPack: {},
    NatsBolt: {"servers": "nats://host", "subject": "orders"},
    NatsSpout: {"servers": "nats://host", "subject": "orders", "stream": "ORDERS", "durable": "billing"},
    OpaqueKafkaSpout: KAFKA,
    OpaqueLogSpout: {"source": KafkaLog("host:9092", "orders")},
    OutboxBolt: {"url": POSTGRES, "table": "outbox"},
    OutboxSpout: {"url": POSTGRES, "table": "outbox"},
    ParquetLog: {"files": "/data"},
    ParquetSink: {"path": "/data", "columns": COLUMNS},
    ParquetSpout: {"files": "/data", "fields": ["a"]},
    PipelineLog: {"path": "/data", "fields": ["a"]},
    PipelineSpout: {"path": "/data", "fields": ["a"]},
    PlannedLogSpout: {"source": TextFileLog("/data"), "limit": 100},
    PostgresChangesSpout: {"url": POSTGRES, "publication": "shop", "slot": "shop"},
    PostgresSink: {"url": POSTGRES, "table": "totals", "columns": COLUMNS, "key": "word"},
    Protobuf: {"message": nimbus_pb2.TaskStats},
    QueueSpout: {"source": BeanstalkSpout("host").source},
    RabbitBolt: {"url": AMQP, "routing_key": "orders"},
    RabbitSpout: {"url": AMQP, "queue": "orders"},
    Raw: {},
    RedisHashSink: {"url": REDIS, "prefix": "totals", "columns": COLUMNS, "key": "word"},
    RedisStreamBolt: {"url": REDIS, "stream": "orders"},
    RedisStreamSpout: {"url": REDIS, "stream": "orders", "group": "billing"},
    Registered: {"format": Avro(AVRO), "registry": "http://host:8081", "subject": "sales"},
    RowSinkBolt: {"sink": SINK},
    SchemaRegistry: {"url": "http://host:8081"},
    SinkBolt: {"sink": BeanstalkBolt("host").sink},
    SinkCommitter: {"sink": SINK, "owner": "shop"},
    SqliteSink: {"path": "/var/lib/shop.db", "table": "totals", "columns": COLUMNS, "key": "word"},
    Text: {},
    TextFileLog: {"files": "/data"},
    TransactionalKafkaSpout: KAFKA,
    TransactionalLogSpout: {"source": KafkaLog("host:9092", "orders")},
    WebhookSpout: {"port": 8090},
    WebSocketSpout: {"url": "ws://host/"},
    WithHeaders: {"format": Json()},
}
"""Public connectors, and arguments that they take."""

INNER = {"ChangeRow", "FileLog", "RowGroupLog", "StreamSpout", "Values", "PostgresChanges", "ColumnSink"}
"""Classes that users neither name nor extend."""

FLAG: list[Any] = ["no", 1, None]
NAME: list[Any] = [3, "", b"a"]
FIELD: list[Any] = [3, "", ["a"]]
SECONDS: list[Any] = [0, -1, "30", None, True, float("nan")]
SOURCE: list[Any] = [TextFileLog, "/data", None]
TRANSACTIONAL_SINK: list[Any] = [SqliteSink, "totals.db", None]
URL: list[Any] = [3, "", "host", "xyz://me:secret@host", "http://me:secret@host:port/", None]
WHOLE: list[Any] = [-1, "5", 1.5, None, True]

WRONG: dict[str, list[Any]] = {
    "ack_wait_s": SECONDS,
    "address": ["", "host:port", "host:0", "host:70000", ("host", 11300), 11300, "http://me:secret@host"],
    "answer": ["later", None],
    "are_complete": FLAG,
    "bootstrap_servers": ["host", "host:port", 9092, [], [9092], None],
    "catalog": ["", {}, 3, None, {"uri": 1}],
    "channel": FIELD,
    "claim_after_s": SECONDS,
    "client_config": ["acks=all", {"no.such": 1}, {3: 4}],
    "client_id": [*NAME, None],
    "columns": [{}, ["word"], {"word": str}, {3: "string"}, {"word": "text"}, {"word": ""}, {"word": "decimal(39,2)"}],
    "compression": ["zip", 3, None],
    "conf": [3, {"no.such": 1}],
    "consumer": NAME,
    "data": NAME,
    "declare": FLAG,
    "delay_s": WHOLE,
    "deletes": FLAG,
    "durable": [*NAME, "a.b", None],
    "event_field": FIELD,
    "exchange": [3, None],
    "field": [*NAME, None],
    "fields": [3, [3], [], ["a", "a"]],
    "files": [3, "", None],
    "format": [Json, "json", 3],
    "group": [3, "", ["a"]],
    "header": FLAG,
    "is_opaque": FLAG,
    "headers": ["a: b", {"a": 1}, ["a"]],
    "host": ["", 3, None],
    "id_field": FIELD,
    "in_flight": [0, *WHOLE],
    "keep_every_s": SECONDS,
    "key": [3, "", [], ["nothing"], "nothing", None],
    "key_field": FIELD,
    "key_header": [*NAME, None],
    "lease_s": SECONDS,
    "limit": [0, *WHOLE],
    "log_id": [3, "", "a/b"],
    "max_age_s": SECONDS,
    "max_ahead": [0, *WHOLE],
    "max_body_bytes": [0, *WHOLE],
    "max_event_bytes": [0, *WHOLE],
    "max_in_flight": [0, *WHOLE],
    "max_keys": WHOLE,
    "max_length": [0, -1, "5"],
    "max_message_bytes": [0, *WHOLE],
    "max_per_batch": [0, *WHOLE],
    "max_rows": [0, *WHOLE],
    "message": [3, int, None],
    "metadata": [3, ["nothing"], [3], {"file": 1}, None],
    "owner": [*NAME, None],
    "password": [3, b"secret"],
    "path": [3, "", None],
    "poll_every_s": SECONDS,
    "port": [0, 70_000, *WHOLE],
    "prefix": [*NAME, "a b", None],
    "priority": [2**32, *WHOLE],
    "processed": NAME,
    "publication": [*NAME, None],
    "qos": [2, "1", None, True],
    "queue": [*NAME, None],
    "quorum": FLAG,
    "register": FLAG,
    "registry": [3, None, SchemaRegistry],
    "rejected": [*NAME, "orders"],
    "retain": FLAG,
    "routing_key": [*NAME, None],
    "schema": [3, "[", {}, None],
    "secret": ["", b"", 3],
    "separator": ["", ";;", 3, '"', None],
    "servers": [3, [], [3], "http://me:secret@host", None],
    "session_s": [0, 2**32, *WHOLE],
    "signature_header": [*NAME, None],
    "silence_s": SECONDS,
    "slot": [*NAME, "Shop", None],
    "snapshot": FLAG,
    "start": ["first", 3, None],
    "static_members": FLAG,
    "storage_options": ["a=b", {"a": 1}, 3],
    "stream": [*NAME, None],
    "subject": [*NAME, "a b", None],
    "subscribe": [3, [3], {"a": 1}],
    "table": [*NAME, None],
    "timeout_s": SECONDS,
    "tls": ["cert.pem", {"ca": "x.pem"}, 3],
    "topic": [3, "", ["a"]],
    "topic_field": [3, "", ["a"]],
    "topics": [3, "", [], "two words", [3], ["a", "a"], None],
    "ttr_s": [0, *WHOLE],
    "tube": [3, "", "a b", "-a", Json()],
    "uri": [3, "", None],
    "url": URL,
    "username": [3, ""],
}
"""Wrong values of arguments, by name."""

OF_CLASS: dict[tuple[Any, str], list[Any]] = {
    (Csv, "fields"): [3, "a", [3], [], ["a", "a"], {"a": "float"}, {"a": None}],
    (IcebergSink, "table"): [3, "", "sales", ".sales", None],
    (Json, "fields"): [3, "", [3], [], ["a", "a"], int],
    (KafkaSink, "topic"): [3, "", ["a"], None],
    (LogSpout, "source"): SOURCE,
    (MsgPack, "fields"): [3, "", [3], [], ["a", "a"], int],
    (OpaqueLogSpout, "source"): [KafkaLog, "orders", None],
    (OutboxSpout, "key"): NAME,
    (ParquetLog, "fields"): [3, "ab", [3], ["a", "a"]],
    (ParquetSpout, "fields"): [3, "ab", [3], [], ["a", "a"], None],
    (PlannedLogSpout, "source"): SOURCE,
    (QueueSpout, "source"): [BeanstalkSpout, "orders", None],
    (Registered, "schema"): [3, "{", None],
    (Registered, "subject"): [*NAME, None],
    (SinkBolt, "sink"): [BeanstalkBolt, SINK, None],
    (SqliteSink, "path"): [3, "", ":memory:", "sqlite:///shop.db", None],
    (TransactionalLogSpout, "source"): [KafkaLog, "orders", None],
    (WebhookSpout, "path"): [3, "", "orders", "/a?b", None],
    (RowSinkBolt, "sink"): [*TRANSACTIONAL_SINK, KafkaSink("host:9092", "orders")],
    (ExactlyOnceSinkBolt, "sink"): TRANSACTIONAL_SINK,
    (SinkCommitter, "sink"): TRANSACTIONAL_SINK,
}
"""The same, where a name means something else in a class."""

BESIDE: dict[tuple[Any, str], dict[str, Any]] = {
    (KafkaBolt, "topic_field"): {"topic": None},
    (KafkaLog, "static_members"): {"group": "billing"},
    (KafkaSpout, "static_members"): {"group": "billing"},
    (MqttBolt, "password"): {"username": "me"},
    (MqttSpout, "password"): {"username": "me"},
    (Registered, "schema"): {"format": Json(["a"])},
}
"""Arguments that must stand beside a wrong one."""


def arguments(connector: Any) -> list[str]:
    found = inspect.signature(connector).parameters.values()
    return [one.name for one in found if one.kind is not inspect.Parameter.VAR_KEYWORD]


CASES = [
    pytest.param(connector, name, id=f"{connector.__name__}-{name}")
    for connector in RIGHT
    for name in arguments(connector)
]


@pytest.mark.long
@pytest.mark.parametrize(("connector", "name"), CASES)
def test_a_wrong_argument_is_named(connector: Any, name: str) -> None:
    for value in OF_CLASS.get((connector, name)) or WRONG[name]:
        try:
            connector(**{**RIGHT[connector], **BESIDE.get((connector, name), {}), name: value})
        except UsageError as refused:
            text = str(refused)
        else:
            pytest.fail(f"{value!r} is taken")
        assert name in text, value
        assert "\n" not in text
        assert "secret" not in text.removeprefix(f"{connector.__name__}: {name}")


@pytest.mark.parametrize("connector", RIGHT, ids=lambda connector: connector.__name__)
def test_right_arguments_are_taken(connector: Any) -> None:
    connector(**RIGHT[connector])


def test_no_connector_is_left_out() -> None:
    kinds = (Spout, Bolt, Format, LogSource, TransactionalSink)
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(tupletree.connectors.__path__, "tupletree.connectors.")
    ]
    found = {
        one.__name__
        for module in [*modules, tupletree.transactional.kafka]
        for one in vars(module).values()
        if inspect.isclass(one) and one.__module__ == module.__name__ and issubclass(one, kinds)
        if not one.__name__.startswith("_") and not inspect.isabstract(one)
    }
    assert found - INNER <= {connector.__name__ for connector in RIGHT}
