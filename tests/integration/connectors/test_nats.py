"""What NATS does beyond the queues' conformance: ids, headers, consumers that exist, and the end of a task."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest
from nats.js.api import ConsumerConfig
from nats_place import NatsPlace, NatsServer
from tcp_proxy import Proxy

from tupletree import TopologyBuilder
from tupletree.connectors.formats import Json
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.nats import JetStreamConsumer, JetStreamSink, NatsBolt
from tupletree.errors import UsageError
from tupletree.testing import FeederSpout, LocalCluster, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    if reason := NatsServer.missing():
        pytest.skip(reason)
    server = NatsServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def orders(server: NatsServer, request: pytest.FixtureRequest) -> NatsPlace:
    return NatsPlace(server, f"s{abs(hash(request.node.name))}")


def consumer_of(place: NatsPlace, ack_wait_s: float = 30) -> JetStreamConsumer:
    return JetStreamConsumer(place.servers, place.name, place.name, "all", ack_wait_s)


def test_a_stream_drops_replays_of_tuples_with_ids(orders: NatsPlace) -> None:
    feeder = FeederSpout(["order", "amount"])
    bolt = NatsBolt(orders.servers, orders.name, Json(["order", "amount"]), id_field="order")
    with LocalCluster() as cluster:
        builder = TopologyBuilder()
        builder.set_bolt("put", bolt).shuffle_grouping(builder.set_spout("orders", feeder))
        cluster.submit("puts", builder.create_topology())
        for number in range(6):
            feeder.feed([7 + number % 2, 1], number)
        feeder.feed([None, 1], "without an id")
        cluster.wait_until(lambda: len(feeder.acked) == 6 and feeder.failed == ["without an id"])
    assert sorted(orders.drain()) == [b'{"order": 7, "amount": 1}', b'{"order": 8, "amount": 1}']


def test_an_idle_sink_whose_connection_ends_reports_it_with_the_next_batch(orders: NatsPlace) -> None:
    with Proxy(orders.server.port) as proxy:
        sink = JetStreamSink(f"nats://user:secret@127.0.0.1:{proxy.port}", orders.name)
        sink.open()
        assert sink.write([SinkMessage(b"1"), SinkMessage(b"2")]) == {}
        proxy.cut()
        with pytest.raises(ConnectionError, match="nats: "):
            wait_until(lambda: sink.write([SinkMessage(b"3")]), 10)
        sink.close()
        proxy.refuses = True
        with pytest.raises(OSError) as refusal:
            sink.open()
        assert "secret" not in str(refusal.value)


def test_a_subject_that_no_stream_takes_is_an_error(orders: NatsPlace) -> None:
    sink = JetStreamSink(orders.servers, "nobody")
    sink.open()
    with pytest.raises(ConnectionError, match="no stream takes messages of subject 'nobody'"):
        sink.write([SinkMessage(b"1")])
    sink.close()


def test_a_stream_that_is_full_refuses_messages_one_by_one(orders: NatsPlace) -> None:
    name = orders.name + "full"
    orders.call(lambda streams: streams.add_stream(name=name, subjects=[name], max_msgs=2, discard="new"))
    sink = JetStreamSink(orders.servers, name)
    sink.open()
    refused = sink.write([SinkMessage(b"%d" % number) for number in range(4)])
    sink.close()
    assert list(refused) == [2, 3]
    assert all(error.retry for error in refused.values())
    assert str(refused[2]) == "NATS refuses the message: maximum messages exceeded"


def test_deliveries_have_the_sequence_the_count_and_the_headers(orders: NatsPlace) -> None:
    orders.call(lambda streams: streams.publish(orders.name, b"1", headers={"Status": "paid"}))
    source = consumer_of(orders)
    source.open(10, 0)
    (first,) = source.receive(10, 0.02)
    assert (first.data, first.id, first.deliveries, first.headers) == (b"1", "1", 1, {"Status": "paid"})
    assert source.receive(10, 0.0) == []
    source.release([first.handle], 0.0)
    (second,) = wait_until(lambda: source.receive(10, 0.02), 10)
    assert (second.id, second.deliveries) == ("1", 2)
    source.reject([second.handle])
    wait_until(lambda: orders.unacknowledged() == 0, 10)
    source.close()
    source.close()


def test_a_task_that_ends_returns_its_messages_before_their_time_limit(orders: NatsPlace) -> None:
    orders.put([b"1", b"2"])
    ended, other = consumer_of(orders, 3600), consumer_of(orders, 3600)
    ended.open(10, 0)
    other.open(10, 1)
    one, _ = ended.receive(10, 0.02)
    ended.acknowledge([one.handle])
    ended.close()
    (again,) = wait_until(lambda: other.receive(10, 0.02), 10)
    assert (again.data, again.deliveries) == (b"2", 2)
    other.close()


@pytest.mark.long
def test_a_message_that_is_kept_is_not_delivered_again_after_its_time_limit(orders: NatsPlace) -> None:
    orders.put([b"1"])
    one, other = consumer_of(orders, 1), consumer_of(orders, 1)
    one.open(10, 0)
    other.open(10, 1)
    (first,) = one.receive(10, 0.02)
    until = monotonic() + 2.5
    while monotonic() < until:
        one.keep([first.handle])
        assert other.receive(10, 0.1) == []
    (second,) = wait_until(lambda: other.receive(10, 0.1), 10)
    assert second.deliveries == 2
    one.close()
    other.close()


def test_a_consumer_that_exists_keeps_its_time_limit(orders: NatsPlace) -> None:
    made = ConsumerConfig(durable_name="all", ack_policy="explicit", ack_wait=6)  # type: ignore[arg-type]
    orders.call(lambda streams: streams.add_consumer(orders.name, made))
    source = consumer_of(orders)
    source.open(10, 0)
    assert source.keep_every_s == 2
    source.close()


def test_a_consumer_with_a_limit_of_pending_messages_gives_what_it_may_at_once(orders: NatsPlace) -> None:
    limited = ConsumerConfig(durable_name="all", ack_policy="explicit", max_ack_pending=2)  # type: ignore[arg-type]
    orders.call(lambda streams: streams.add_consumer(orders.name, limited))
    orders.put([b"1", b"2", b"3"])
    source = consumer_of(orders)
    source.open(10, 0)
    try:
        deliveries = list(source.receive(10, 0))
        assert [one.data for one in deliveries] == [b"1", b"2"]
        assert source.receive(10, 0) == []
        source.acknowledge([deliveries[0].handle])
        assert [one.data for one in source.receive(10, 0)] == [b"3"]
    finally:
        source.close()


@pytest.mark.parametrize(
    "other", [{"ack_policy": "none"}, {"filter_subject": "other"}, {"deliver_subject": "push"}], ids=str
)
def test_a_consumer_of_another_kind_is_refused(orders: NatsPlace, other: dict[str, Any]) -> None:
    orders.call(lambda streams: streams.update_stream(name=orders.name, subjects=[orders.name, "other"]))
    kind = {"durable_name": "all", "ack_policy": "explicit", "filter_subject": orders.name} | other
    orders.call(lambda streams: streams.add_consumer(orders.name, ConsumerConfig(**kind)))
    source = consumer_of(orders)
    try:
        with pytest.raises(UsageError, match="a pull consumer with explicit acknowledgements, filtered by"):
            source.open(10, 0)
    finally:
        source.close()
        orders.call(lambda streams: streams.delete_stream(orders.name))


def test_a_missing_stream_is_a_lost_connection(orders: NatsPlace) -> None:
    source = JetStreamConsumer(orders.servers, orders.name, "absent", "all", 30)
    with pytest.raises(ConnectionError, match="stream not found"):
        source.open(10, 0)
    source.close()


@pytest.mark.long
def test_a_consumer_that_is_deleted_is_made_again_after_the_time_for_an_answer(orders: NatsPlace) -> None:
    orders.put([b"1"])
    source = consumer_of(orders)
    source.open(10, 0)
    orders.call(lambda streams: streams.delete_consumer(orders.name, "all"))
    with pytest.raises(ConnectionError, match="nats: timeout"):
        source.receive(10, 0.02)
    source.close()
    source.open(10, 0)
    assert [one.data for one in wait_until(lambda: source.receive(10, 0.02), 10)] == [b"1"]
    source.close()
