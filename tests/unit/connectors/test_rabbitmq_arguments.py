"""Wrong arguments of RabbitMQ's spout and bolt are refused when a topology is built, without showing passwords."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tupletree.connectors.rabbitmq import RabbitBolt, RabbitSpout
from tupletree.connectors.rabbitmq_connection import parameters
from tupletree.errors import UsageError

URL = "amqp://guest:secret@localhost:5672/%2F"


@pytest.mark.parametrize(
    "url",
    [
        "http://guest:secret@localhost",
        "amqp://guest:sec/ret@localhost",
        "amqp://guest:sec#ret@localhost",
        "amqp://guest:secret@localhost:port",
        "amqp://secret@localhost",
        "amqp://guest:secret@",
        "localhost secret",
        b"amqp://guest:secret@localhost",
        None,
    ],
)
@pytest.mark.parametrize("component", [RabbitSpout, RabbitBolt])
def test_a_wrong_url_is_refused_without_showing_it(component: Any, url: Any) -> None:
    with pytest.raises(UsageError, match="must be like amqp://user:password@host:5672/vhost") as caught:
        component(url, "orders")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: RabbitSpout(URL, ""), "queue is '': expected a text of 1 to 255 bytes"),
        (lambda: RabbitSpout(URL, "ö" * 128), "expected a text of 1 to 255 bytes"),
        (lambda: RabbitSpout(URL, 7), "queue is 7: expected a text"),  # type: ignore[arg-type]
        (lambda: RabbitSpout(URL, "q", max_in_flight=0), "max_in_flight is 0; a whole number from 1 to 65535 was"),
        (lambda: RabbitSpout(URL, "q", max_in_flight=65536), "max_in_flight is 65536; a whole number from 1 to 65535"),
        (lambda: RabbitBolt(URL, ""), "routing_key is '': expected a text of 1 to 255 bytes"),
        (lambda: RabbitBolt(URL, "key", exchange="x" * 256), "expected a text of 0 to 255 bytes"),
    ],
)
def test_wrong_arguments_are_refused(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build()


def test_an_exchange_needs_no_routing_key() -> None:
    assert RabbitBolt(URL, "", exchange="all").sink is not None


@pytest.mark.parametrize(
    "option", ["heartbeat=secret", "secret=1", "client_properties=secret(", "heartbeat=1&heartbeat=2"]
)
def test_wrong_options_of_the_url_are_refused_without_showing_them(option: str) -> None:
    with pytest.raises(UsageError, match="options, after '\\?', that pika does not know or take") as caught:
        parameters(f"{URL}?{option}")
    assert "secret" not in str(caught.value)


def test_components_travel() -> None:
    spout: RabbitSpout = pickle.loads(pickle.dumps(RabbitSpout(URL, "orders", quorum=True)))
    assert spout.source.counts
    assert pickle.loads(pickle.dumps(RabbitBolt(URL, "orders"))).sink.routing_key == "orders"
