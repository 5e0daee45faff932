"""Headers whose names are not UTF-8: other clients write them, and ours cannot read them."""

from __future__ import annotations

import ctypes
from typing import Any

from kafka_mock import MockCluster

from tupletree.connectors.kafka import KafkaLog

HOT = 200
"""The number of messages after which CPython has specialized the code that reads their headers."""
VALUE, TOPIC, PARTITION, HEADERS = 4, 1, 3, 10  # rd_kafka_vtype_t


class Bytes(ctypes.Structure):
    _fields_ = [("pointer", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Argument(ctypes.Union):
    _fields_ = [
        ("text", ctypes.c_char_p),
        ("number", ctypes.c_int32),
        ("bytes", Bytes),
        ("pointer", ctypes.c_void_p),
        ("padding", ctypes.c_char * 64),
    ]


class Named(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("value", Argument)]


def produce(kafka: MockCluster, topic: str, value: bytes, header: bytes) -> None:
    """Produce a message with a header of any bytes, through librdkafka itself."""
    library: Any = kafka._library
    library.rd_kafka_headers_new.restype = library.rd_kafka_produceva.restype = ctypes.c_void_p
    note = ctypes.create_string_buffer(512)
    conf = library.rd_kafka_conf_new()
    library.rd_kafka_conf_set(conf, b"bootstrap.servers", kafka.addresses.encode(), note, len(note))
    client = library.rd_kafka_new(0, conf, note, len(note))
    headers = ctypes.c_void_p(library.rd_kafka_headers_new(1))
    library.rd_kafka_header_add(headers, header, ctypes.c_ssize_t(len(header)), b"x", ctypes.c_ssize_t(1))
    data = ctypes.create_string_buffer(value)
    message = (Named * 4)(
        Named(TOPIC, Argument(text=topic.encode())),
        Named(PARTITION, Argument(number=0)),
        Named(VALUE, Argument(bytes=Bytes(ctypes.addressof(data), len(value)))),
        Named(HEADERS, Argument(pointer=headers.value)),
    )
    assert not library.rd_kafka_produceva(ctypes.c_void_p(client), message, ctypes.c_size_t(len(message)))
    library.rd_kafka_flush(ctypes.c_void_p(client), 10_000)
    library.rd_kafka_destroy(client)


def test_a_message_whose_headers_cannot_be_read_is_a_record_without_them() -> None:
    with MockCluster() as kafka:
        topic = kafka.create("coffee")
        kafka.produce(topic, 0, [b"hot"] * HOT)
        for _ in range(3):
            produce(kafka, topic, b"1", b"caf\xe9")
            produce(kafka, topic, b"2", b"tea")
        log = KafkaLog(kafka.addresses, topic)
        log.open()
        records = [record for some in log.read("coffee/0", 0, HOT + 6) for record in some]
        log.close()
    found = [(one.data, one.metadata[-1]) for one in records]
    assert found == [(b"hot", [])] * HOT + [(b"1", None), (b"2", [("tea", b"x")])] * 3
