"""RabbitMQ's own: declarations, counted deliveries, prefetch, refused messages, heartbeats."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import pika
import pytest
from queue_components import History, new_history, watched
from rabbitmq_place import PERSISTENT, RabbitPlace

from tupletree import TopologyBuilder
from tupletree._wire.codec import decode_value, encode_value
from tupletree.connectors.formats import Text
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.queue_source import Delivery
from tupletree.connectors.rabbitmq import RabbitBolt, RabbitQueue, RabbitSpout
from tupletree.connectors.rabbitmq_connection import MAX_GATHERED_BYTES
from tupletree.connectors.rabbitmq_exchange import RabbitExchange
from tupletree.errors import UsageError
from tupletree.testing import FeederSpout, LocalCluster, wait_until
from tupletree.testing.simulation.external import current

pytestmark = pytest.mark.long
classic = pytest.mark.parametrize("place", ["rabbitmq-classic"], indirect=True)
quorum = pytest.mark.parametrize("place", ["rabbitmq-quorum"], indirect=True)
both = pytest.mark.parametrize("place", ["rabbitmq-classic", "rabbitmq-quorum"], indirect=True)


@pytest.fixture
def url(place: RabbitPlace) -> str:
    url: str = place.server.url(place.port)
    return url


@pytest.fixture
def source(place: RabbitPlace, url: str) -> Iterator[RabbitQueue]:
    """The place's queue, with a prefetch of 10."""
    source = RabbitQueue(url, place.name, True, place.is_quorum)
    source.open(10, 0)
    yield source
    source.close()


def receive(source: RabbitQueue, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    wait_until(lambda: found.extend(source.receive(count - len(found), 0.02)) or len(found) == count)
    return found


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    return [delivery.data for delivery in deliveries]


def handles(deliveries: list[Delivery]) -> list[Any]:
    return [delivery.handle for delivery in deliveries]


@both
def test_the_queue_is_created_durable_and_of_its_kind(place: RabbitPlace, url: str) -> None:
    name = f"{place.name}-new"
    for _ in range(2):
        source = RabbitQueue(url, name, True, place.is_quorum)
        source.open(10, 0)
        source.close()
    kind = {"x-queue-type": "quorum" if place.is_quorum else "classic"}
    with place.channel() as channel:  # another kind, or one that is not durable, would be refused
        channel.queue_declare(name, durable=True, arguments=kind)


@classic
def test_a_missing_queue_is_waited_for_where_it_is_not_to_be_created(place: RabbitPlace, url: str) -> None:
    name = f"{place.name}-new"
    history = new_history()
    with LocalCluster() as cluster:
        cluster.submit("watched", watched(RabbitSpout(url, name, Text(), declare=False), history))
        cluster.wait_until(lambda: any(f"no queue '{name}'" in str(error) for _, error in cluster.errors("watched")))
        with place.channel() as channel:
            channel.queue_declare(name, durable=True)
            channel.basic_publish("", name, b"found", PERSISTENT)
        seen: History = current(history)
        cluster.wait_until(lambda: seen.executed["found"] == 1)


@both
def test_a_deleted_queue_is_created_anew(place: RabbitPlace, url: str) -> None:
    name = f"{place.name}-new"
    history = new_history()
    with LocalCluster() as cluster:
        cluster.submit("watched", watched(RabbitSpout(url, name, Text(), quorum=place.is_quorum), history))
        with place.channel() as channel:
            cluster.wait_until(lambda: _consumers(place, name) == 1)
            channel.queue_delete(name)
        cluster.wait_until(lambda: any("was deleted" in str(error) for _, error in cluster.errors("watched")))
        cluster.wait_until(lambda: _consumers(place, name) == 1)


@both
def test_a_delivery_has_the_headers_and_the_id_of_its_message(place: RabbitPlace, source: RabbitQueue) -> None:
    properties = pika.BasicProperties(
        delivery_mode=2, message_id="m1", headers={"tenant": "a", "size": 2**40, "seen": [{"n": 2**41}]}
    )
    with place.channel() as channel:
        channel.basic_publish("", place.name, b"x", properties)
    [delivery] = receive(source, 1)
    assert (delivery.id, delivery.headers["tenant"]) == ("m1", "a")
    assert decode_value(encode_value(delivery.headers))["seen"] == [{"n": 2**41}]
    assert delivery.deliveries == (1 if place.is_quorum else None)
    source.release([delivery.handle], 0)
    [delivery] = receive(source, 1)
    assert decode_value(encode_value(delivery.headers))["size"] == 2**40
    assert delivery.deliveries == (2 if place.is_quorum else None)


@both
def test_a_header_that_is_no_datetime_holds_up_no_message(
    place: RabbitPlace, source: RabbitQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pika.data.calendar.timegm", lambda _: 1_700_000_000_000)  # milliseconds, taken for seconds
    with place.channel() as channel:
        headers = {"at": datetime.now(UTC)}
        channel.basic_publish("", place.name, b"x", pika.BasicProperties(delivery_mode=2, headers=headers))
        channel.basic_publish("", place.name, b"y", PERSISTENT)
    first, second = receive(source, 2)
    assert (first.data, first.headers["at"]) == (b"x", 1_700_000_000_000)
    assert (second.data, first.problem) == (b"y", "")


@classic
def test_a_message_whose_headers_cannot_be_read_says_so(
    place: RabbitPlace, source: RabbitQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tupletree.connectors.rabbitmq_connection.decoded_table", lambda _: int("no number"))
    with place.channel() as channel:
        channel.basic_publish("", place.name, b"x", pika.BasicProperties(headers={"a": 1}))
    [delivery] = receive(source, 1)
    assert delivery.problem.startswith("the headers of the message cannot be read: invalid literal")


@classic
def test_a_queue_that_does_not_count_is_found_out(place: RabbitPlace, url: str) -> None:
    source = RabbitQueue(url, place.name, True, True)
    source.open(10, 0)
    place.put([b"x"])
    source.release(handles(receive(source, 1)), 0)
    with pytest.raises(UsageError, match=f"queue '{place.name}' counts no deliveries"):
        receive(source, 1)
    source.close()


@both
def test_acknowledgements_in_any_order_remove_these_messages_and_no_others(
    place: RabbitPlace, source: RabbitQueue
) -> None:
    place.put([b"%d" % number for number in range(10)])
    tags = handles(receive(source, 10))
    source.acknowledge([tags[3], tags[1]])
    source.acknowledge([tags[0], tags[2], tags[6]])
    source.reject([tags[4]])
    source.acknowledge([tags[5]])
    wait_until(lambda: (place.unacknowledged(), place.rejected()) == (3, 1))
    source.close()
    assert sorted(place.drain()) == [b"7", b"8", b"9"]


@both
def test_a_pause_ends_the_consumer_and_the_prefetch_holds_over_it(place: RabbitPlace, source: RabbitQueue) -> None:
    place.put([b"%d" % number for number in range(30)])
    first = receive(source, 10)
    source.idle(0.02)
    assert _consumers(place, place.name) == 1  # full, not paused
    source.acknowledge(handles(first[:4]))
    source.idle(0.02)
    wait_until(lambda: _ready(place) == 20)  # a consumer would take four of these
    second = receive(source, 4)
    assert not source.receive(10, 0.2)
    source.acknowledge(handles([*first[4:], *second]))
    receive(source, 10)  # all of the prefetch again
    assert (place.unacknowledged(), _ready(place)) == (16, 6)


@both
def test_what_rabbitmq_closes_is_a_lost_connection(place: RabbitPlace, source: RabbitQueue) -> None:
    with pytest.raises(ConnectionError, match="unknown delivery tag 99"):
        source.acknowledge([99])
        wait_until(lambda: source.receive(10, 0.02))


@classic
def test_a_refused_password_is_not_shown(place: RabbitPlace, url: str) -> None:
    wrong = url.replace(":guest@", ":secret@")
    for one in (RabbitQueue(wrong, place.name, True, False), RabbitExchange(wrong, "", place.name)):
        with pytest.raises(ConnectionError, match="ACCESS_REFUSED") as caught:
            one.open(10, 0) if isinstance(one, RabbitQueue) else one.open()
        one.close()
        assert "secret" not in "".join(traceback.format_exception(caught.value))


@both
def test_a_message_that_no_queue_takes_fails_its_tuple(place: RabbitPlace, url: str) -> None:
    with LocalCluster() as cluster:
        feeder = FeederSpout(["text"])
        builder = TopologyBuilder()
        texts = builder.set_spout("texts", feeder)
        builder.set_bolt("put", RabbitBolt(url, "nowhere", Text())).shuffle_grouping(texts)
        cluster.submit("puts", builder.create_topology())
        feeder.feed(["lost"], 1)
        cluster.wait_until(lambda: feeder.failed == [1])
        text = "no queue takes what is published to exchange '' with routing key 'nowhere': NO_ROUTE"
        assert [text in str(error) for _, error in cluster.errors("puts")] == [True]


@classic
def test_what_a_full_queue_refuses_fails_and_the_rest_is_acked(place: RabbitPlace, url: str) -> None:
    name = f"{place.name}-full"
    with place.channel() as channel:
        channel.queue_declare(name, durable=True, arguments={"x-max-length": 5, "x-overflow": "reject-publish"})
    with LocalCluster() as cluster:
        feeder = FeederSpout(["text"])
        builder = TopologyBuilder()
        texts = builder.set_spout("texts", feeder)
        builder.set_bolt("put", RabbitBolt(url, name, Text())).shuffle_grouping(texts)
        cluster.submit("puts", builder.create_topology())
        for number in range(50):
            feeder.feed([str(number)], number)
        cluster.wait_until(lambda: len(feeder.acked) + len(feeder.failed) == 50)
        assert any("is full, or has failed" in str(error) for _, error in cluster.errors("puts"))
    place.name = name
    assert sorted(message.decode() for message in place.drain()) == sorted(map(str, feeder.acked))
    assert feeder.failed


@both
def test_batches_are_published_in_their_order(place: RabbitPlace, url: str) -> None:
    sink = RabbitExchange(url, "", place.name)
    sink.open()
    for start in range(0, 600, 200):
        assert not sink.write([SinkMessage(b"%d" % number) for number in range(start, start + 200)])
    sink.close()
    assert place.drain() == [b"%d" % number for number in range(600)]


@classic
@pytest.mark.long
def test_heartbeats_are_answered_while_nothing_is_received_or_published(place: RabbitPlace, url: str) -> None:
    """RabbitMQ closes a connection after two intervals of a second without a sign of life."""
    url += "?heartbeat=1"
    sink = RabbitExchange(url, "", place.name)
    sink.open()
    sink.write([SinkMessage(b"before")])
    source = RabbitQueue(url, place.name, True, False)
    source.open(1, 0)
    [delivery] = receive(source, 1)
    since = monotonic()
    wait_until(lambda: source.idle(0.02) or monotonic() > since + 5)
    sink.write([SinkMessage(b"after")])
    source.acknowledge([delivery.handle])
    assert bodies(receive(source, 1)) == [b"after"]
    sink.close()
    source.close()


def _ready(place: RabbitPlace) -> int:
    with place.channel() as channel:
        count: int = channel.queue_declare(place.name, passive=True).method.message_count
        return count


def _consumers(place: RabbitPlace, name: str) -> int:
    with place.channel() as channel:
        try:
            count: int = channel.queue_declare(name, passive=True).method.consumer_count
        except pika.exceptions.ChannelClosedByBroker:
            return 0
        return count


@classic
def test_small_and_large_messages_of_a_batch_keep_their_order(place: RabbitPlace, url: str) -> None:
    sizes = [1, MAX_GATHERED_BYTES, 3 * MAX_GATHERED_BYTES, 0, *[100] * 2_000, 5 * MAX_GATHERED_BYTES]
    exchange = RabbitExchange(url, "", place.name)
    exchange.open()
    assert exchange.write([SinkMessage(b"%c" % (size % 251) * size) for size in sizes]) == {}
    assert exchange.write([SinkMessage(b"next")]) == {}
    exchange.close()
    assert [len(message) for message in place.drain()] == [*sizes, 4]
