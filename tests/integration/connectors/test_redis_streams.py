"""What streams of Redis have and other queues do not: consumers with names, claims, trimming, entries with fields."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest
from queue_components import History, new_history, watched
from redis_streams_place import RedisStreamsPlace, RedisStreamsServer

from tupletree import Backoff, TopologyBuilder
from tupletree.connectors.formats import Text, WithHeaders
from tupletree.connectors.redis_streams import RedisStreamBolt, RedisStreamSpout
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.testing.simulation.external import current

FAST = Backoff(first_s=0.05, factor=2, max_s=0.2, max_attempts=None)
TEXTS = [f"message {number}" for number in range(20)]
BYTES = [text.encode() for text in TEXTS]
NEVER_S = 3600


@pytest.fixture(scope="module")
def server() -> Iterator[RedisStreamsServer]:
    if reason := RedisStreamsServer.missing():
        pytest.skip(reason)
    server = RedisStreamsServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def stream(server: RedisStreamsServer, request: pytest.FixtureRequest) -> RedisStreamsPlace:
    return RedisStreamsPlace(server, request.node.name)


def submit(
    cluster: LocalCluster, spout: Any, *, name: str = "watched", holds: bool = False, fails: int = 0, **options: Any
) -> History:
    stand_in = new_history()
    history: History = current(stand_in)
    history.holds, history.fails = holds, fails
    spout.reconnect = FAST
    cluster.submit(name, watched(spout, stand_in, retry=FAST, **options))
    return history


def wait_executed(cluster: LocalCluster, history: History) -> None:
    cluster.wait_until(lambda: set(TEXTS) <= set(history.executed))


def counted(stream: RedisStreamsPlace) -> set[int]:
    """The numbers of deliveries of pending entries."""
    with stream.client() as client:
        return {row["times_delivered"] for row in client.xpending_range(stream.name, "readers", "-", "+", 100)}


def test_a_restarted_task_finds_the_entries_of_its_consumer(stream: RedisStreamsPlace) -> None:
    stream.put(BYTES)
    for deliveries in (1, 2):
        with LocalCluster() as cluster:
            history = submit(cluster, stream.spout(Text(), claim_after_s=NEVER_S), holds=True)
            wait_executed(cluster, history)
            assert counted(stream) == {deliveries}
    with stream.client() as client:
        consumers = client.xinfo_consumers(stream.name, "readers")
    assert [consumer["name"] for consumer in consumers] == [b"watched/messages/0"]


def test_entries_of_a_consumer_that_is_gone_are_claimed(stream: RedisStreamsPlace) -> None:
    stream.put(BYTES)
    with stream.client() as client:
        client.xgroup_create(stream.name, "readers", id="0")
        client.xreadgroup("readers", "gone", {stream.name: ">"}, count=15)
    with LocalCluster() as cluster:
        history = submit(cluster, stream.spout(Text(), 7, claim_after_s=0.5, consumer="mine"))
        wait_executed(cluster, history)
        cluster.wait_until(lambda: stream.unacknowledged() == 0)
    assert set(history.executed.values()) == {1}


@pytest.mark.long
def test_entries_of_a_consumer_that_lives_are_not_claimed(stream: RedisStreamsPlace) -> None:
    stream.put(BYTES)
    with LocalCluster() as cluster:
        spout = stream.spout(Text(), claim_after_s=1)
        first = submit(cluster, spout, holds=True)
        wait_executed(cluster, first)
        second = submit(cluster, stream.spout(Text(), claim_after_s=1), name="other")
        since = monotonic()
        cluster.wait_until(lambda: monotonic() > since + 3)
        assert not second.executed
        assert counted(stream) == {1}
        first.finish()
        cluster.wait_until(lambda: stream.unacknowledged() == 0)


def test_an_entry_that_another_consumer_has_claimed_is_not_claimed_back_when_it_fails(
    stream: RedisStreamsPlace,
) -> None:
    stream.put(BYTES)
    with LocalCluster() as cluster:
        history = submit(cluster, stream.spout(Text(), claim_after_s=NEVER_S), holds=True)
        wait_executed(cluster, history)
        with stream.client() as client:
            ids = [id for id, _ in client.xrange(stream.name)]
            client.xclaim(stream.name, "readers", "thief", 0, ids)
        history.holds = False
        with history.lock:
            held, history.held = history.held, []
        for bolt, tup in held:
            bolt.context.call_soon(lambda bolt=bolt, tup=tup: bolt.collector.fail(tup))
        stream.put([b"after"])
        cluster.wait_until(lambda: history.executed["after"] == 1)
        since = monotonic()
        cluster.wait_until(lambda: monotonic() > since + 1)
        cluster.wait_until(lambda: stream.unacknowledged() == len(TEXTS))
        assert cluster.errors("watched") == [], "a lost connection would deliver entries again"
        assert set(history.executed.values()) == {1}, history.executed
    with stream.client() as client:
        assert client.xpending(stream.name, "readers")["consumers"] == [{"name": b"thief", "pending": len(TEXTS)}]


def test_processed_entries_stay_in_the_stream_unless_they_are_to_be_deleted(stream: RedisStreamsPlace) -> None:
    stream.put(BYTES)
    for deletes, left in ((False, len(TEXTS)), (True, 0)):
        with LocalCluster() as cluster:
            spout = RedisStreamSpout(stream.url, stream.name, f"deletes {deletes}", Text(), deletes=deletes)
            history = submit(cluster, spout)
            wait_executed(cluster, history)
            cluster.wait_until(lambda: stream.unacknowledged() == 0)
            with stream.client() as client:
                assert client.xlen(stream.name) == left


def test_the_other_fields_of_an_entry_are_its_headers(stream: RedisStreamsPlace) -> None:
    with stream.client() as client:
        client.xadd(stream.name, {"data": "coffee", "till": "3"})
    builder, rows = TopologyBuilder(), list[list[object]]()
    builder.set_spout("entries", RedisStreamSpout(stream.url, stream.name, "readers", WithHeaders(Text())))
    with LocalCluster() as cluster:
        cluster.submit("entries", builder.create_topology(), observer=lambda *seen: rows.append(list(seen[2])))
        cluster.wait_until(lambda: bool(rows))
    assert rows == [["coffee", {"till": b"3"}]]


def test_an_entry_that_is_trimmed_while_it_is_in_process_is_dropped(stream: RedisStreamsPlace) -> None:
    stream.put(BYTES)
    with LocalCluster() as cluster:
        wait_executed(cluster, submit(cluster, stream.spout(Text()), holds=True))
    with stream.client() as client:
        client.xtrim(stream.name, maxlen=5, approximate=False)
    with LocalCluster() as cluster:
        history = submit(cluster, stream.spout(Text()), fails=1)
        cluster.wait_until(lambda: stream.unacknowledged() == 0)
    assert history.executed == dict.fromkeys(TEXTS[-5:], 2)


def test_an_entry_without_the_field_is_a_dead_letter(stream: RedisStreamsPlace) -> None:
    with stream.client() as client:
        client.xadd(stream.name, {"amount": "3", "unit": "kg"})
    with LocalCluster() as cluster:
        history = submit(cluster, stream.spout(Text()), dead_letters=True)
        cluster.wait_until(lambda: history.letters and stream.unacknowledged() == 0)
    assert history.letters[0][6] == "FormatError: the entry has no field 'data'; it has 'amount', 'unit'"
    assert history.letters[0][1] == [b"{'amount': b'3', 'unit': b'kg'}"]


def test_a_stream_that_is_deleted_is_made_anew_with_its_group(stream: RedisStreamsPlace) -> None:
    with LocalCluster() as cluster:
        history = submit(cluster, stream.spout(Text()))
        cluster.wait_until(lambda: stream.client().exists(stream.name))
        stream.client().delete(stream.name)
        stream.put(BYTES)
        wait_executed(cluster, history)


def test_each_task_is_a_consumer(stream: RedisStreamsPlace) -> None:
    def consumers() -> list[bytes]:
        stream.put(BYTES)  # Redis makes a consumer when it delivers to it
        with stream.client() as client:
            return sorted(consumer["name"] for consumer in client.xinfo_consumers(stream.name, "readers"))

    stream.put(BYTES)
    with LocalCluster() as cluster:
        builder = TopologyBuilder()
        spouts = builder.set_spout("messages", stream.spout(Text(), 5, consumer="mine"), 3)
        bolt = RedisStreamBolt(stream.url, f"{stream.name}-copy", Text())
        builder.set_bolt("put", bolt).shuffle_grouping(spouts)
        cluster.submit("copy", builder.create_topology())
        cluster.wait_until(lambda: stream.unacknowledged() == 0)
        cluster.wait_until(lambda: consumers() == [b"mine/0", b"mine/1", b"mine/2"])


def test_a_bolt_bounds_the_length_of_its_stream(stream: RedisStreamsPlace) -> None:
    feeder = FeederSpout(["text"])
    with LocalCluster() as cluster:
        builder = TopologyBuilder()
        bolt = RedisStreamBolt(stream.url, stream.name, Text(), max_length=100)
        builder.set_bolt("put", bolt).shuffle_grouping(builder.set_spout("texts", feeder))
        cluster.submit("puts", builder.create_topology())
        for number in range(1000):
            feeder.feed(["text"], number)
        cluster.wait_until(lambda: len(feeder.acked) == 1000)
    with stream.client() as client:
        assert 100 <= client.xlen(stream.name) < 300


def test_passwords_are_in_no_error(stream: RedisStreamsPlace) -> None:
    spout = RedisStreamSpout(stream.url.replace("//", "//:hush@"), stream.name, "readers", Text())
    with LocalCluster() as cluster:
        submit(cluster, spout)
        cluster.wait_until(lambda: cluster.errors("watched"))
        shown = str(cluster.errors("watched"))
    assert "Redis Streams: no connection: Redis at 127.0.0.1" in shown
    assert "hush" not in shown
