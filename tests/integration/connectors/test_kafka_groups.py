"""Consumer groups on a real broker: rebalances, lag as Kafka's own tools see it, gaps, back-pressure."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from kafka_place import KafkaGroupPlace
from queue_components import Running, new_history, watched

from tupletree import Backoff, FailedException
from tupletree.connectors.formats import Text
from tupletree.connectors.kafka import KafkaLog, KafkaSpout
from tupletree.connectors.kafka.client import consumer_config
from tupletree.connectors.kafka.log import plain_records_of
from tupletree.connectors.kafka.shares import GroupMember
from tupletree.connectors.log_source import Assigned, DeletedError, LogEvent, LogFollower, Records
from tupletree.connectors.log_spout import LogSpout
from tupletree.testing import LocalCluster, wait_until

pytestmark = pytest.mark.nightly

FAST = Backoff(first_s=0.05, factor=2, max_s=0.2, max_attempts=None)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[KafkaGroupPlace]:
    made = KafkaGroupPlace(tmp_path)
    yield made
    made.close()


def start(cluster: LocalCluster, spout: LogSpout, parallelism: int = 2, conf: Any = None) -> Running:
    stand_in = new_history()
    cluster.submit("watched", watched(spout, stand_in, retry=FAST, parallelism=parallelism), conf)
    return Running(cluster, stand_in)


def put(place: KafkaGroupPlace, partition: int, texts: list[str]) -> None:
    place.put(partition, [text.encode() for text in texts])


class Member(threading.Thread):
    """A plain consumer of the group, which commits each message that it has read."""

    def __init__(self, place: KafkaGroupPlace, config: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": place.broker.addresses, "group.id": place.topic, "enable.auto.commit": False}
        self.consumer = confluent_kafka.Consumer({**settings, **config, "auto.offset.reset": "earliest"})
        self.consumer.subscribe([place.topic])
        self.found: Counter[str] = Counter()
        self.partitions: list[int] = []
        self.is_ending = False

    def run(self) -> None:
        while not self.is_ending:
            message = self.consumer.poll(0.1)
            self.partitions = [at.partition for at in self.consumer.assignment()]
            if message is not None and message.error() is None:
                self.found[message.value().decode()] += 1
                self.consumer.commit(message, asynchronous=False)
        self.consumer.close()

    def end(self) -> None:
        self.is_ending = True
        self.join(30)


def test_processed_offsets_are_the_lag_that_kafka_shows_and_a_gap_is_not_committed(place: KafkaGroupPlace) -> None:
    texts = [f"message {number}" for number in range(100)]
    with LocalCluster() as cluster:
        running = start(cluster, place.spout(Text()))
        running.history.held_texts.add(texts[40])
        put(place, 1, texts)
        running.wait_executed(texts, 60)
        wait_until(lambda: place.committed().get(1) == 40, 30, what="what is before the gap is committed")
        running.history.finish()
        wait_until(lambda: place.committed().get(1) == 100, 30, what="all is committed")


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_another_member_gets_partitions_and_nothing_is_lost_or_repeated(place: KafkaGroupPlace, strategy: str) -> None:
    config = {"partition.assignment.strategy": strategy}
    first, second, third = ([f"{word} {number}" for number in range(90)] for word in ("first", "second", "third"))

    def put_all(texts: list[str]) -> None:
        for partition in range(3):
            put(place, partition, texts[partition::3])

    with LocalCluster() as cluster:
        spout = KafkaSpout(place.broker.addresses, place.topic, Text(), group=place.topic, client_config=config)
        running = start(cluster, spout)
        put_all(first)
        running.wait_executed(first, 60)
        wait_until(lambda: place.committed() == {0: 30, 1: 30, 2: 30}, 30, what="all is committed")
        member = Member(place, config)
        member.start()
        wait_until(lambda: member.partitions, 60, what="the other member has a partition")
        put_all(second)
        running.wait(lambda: set(second) <= {*running.history.executed, *member.found}, 60)
        wait_until(lambda: place.committed() == {0: 60, 1: 60, 2: 60}, 30, what="all is committed")
        assert member.found, "the member has read its share"
        member.end()
        put_all(third)
        running.wait_executed(third, 60)
        found = Counter(running.history.executed) + member.found
        assert found == Counter([*first, *second, *third])


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_what_is_processed_when_a_partition_is_revoked_is_committed_before_another_member_reads_it(
    place: KafkaGroupPlace, strategy: str
) -> None:
    def member() -> GroupMember:
        config = consumer_config(place.broker.addresses, {"partition.assignment.strategy": strategy}, place.topic)
        return GroupMember(config, plain_records_of, [place.topic], lambda name: 0)

    def starts(follower: GroupMember, found: dict[str, int]) -> dict[str, int]:
        found |= {event.partition: event.start for event in follower.poll(100, 0.1) if isinstance(event, Assigned)}
        return found

    for partition in range(3):
        put(place, partition, ["a", "b", "c"])
    first, of_first = member(), dict[str, int]()
    wait_until(lambda: len(starts(first, of_first)) == 3, 60, what="the first has all partitions")
    first.processed(dict.fromkeys(of_first, 1))
    first.processed_now = lambda: dict.fromkeys(of_first, 2)
    second, of_second = member(), dict[str, int]()
    wait_until(lambda: starts(first, of_first) and starts(second, of_second), 60, what="a partition is moved")
    assert set(of_second.values()) == {2}
    first.close()
    second.close()


def test_a_slow_topology_stays_a_member(place: KafkaGroupPlace) -> None:
    config = {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}
    spout = KafkaSpout(
        place.broker.addresses, place.topic, Text(), group=place.topic, client_config=config, max_ahead=5
    )
    texts = [f"message {number}" for number in range(50)]
    with LocalCluster() as cluster:
        stand_in = new_history()
        running = Running(cluster, stand_in)
        running.history.holds = True
        cluster.submit("watched", watched(spout, stand_in, retry=FAST), {"topology.message.timeout.secs": 60})
        put(place, 0, texts)
        running.wait(lambda: len(running.history.executed) == 5, 60)
        settings = {"bootstrap.servers": place.broker.addresses, "group.id": "idle", "auto.offset.reset": "earliest"}
        idle = confluent_kafka.Consumer({**settings, **config})
        idle.subscribe([place.topic])
        wait_until(lambda: idle.poll(0.1), 60, what="it is a member")
        wait_until(lambda: not has_members(place, "idle"), 60, what="a member that does not poll loses its membership")
        running.history.finish()
        running.wait_executed(texts, 60)
        wait_until(lambda: place.committed().get(0) == 50, 30, what="all is committed")
        assert set(running.history.executed.values()) == {1}
        idle.close()


def has_members(place: KafkaGroupPlace, group: str) -> bool:
    return bool(place.broker.admin.describe_consumer_groups([group])[group].result(30).members)


def follow(log: KafkaLog) -> LogFollower:
    log.open()
    return log.follow(None if log.group else {}, 0, 1)


def test_static_members_commits_and_deleted_messages(place: KafkaGroupPlace) -> None:
    put(place, 0, [f"message {number}" for number in range(10)])
    log = KafkaLog(place.broker.addresses, place.topic, group=place.topic, static_members=True)
    follower = follow(log)
    found: list[Any] = []

    def read() -> list[Any]:
        found.extend(follower.poll(100, 0.1))
        return [record.data for event in found if isinstance(event, Records) for record in event.records]

    wait_until(lambda: len(read()) == 10, 60, what="all are read")
    assert sorted(event.partition for event in found if isinstance(event, Assigned)) == [
        f"{place.topic}/{number}" for number in range(3)
    ]
    wait_until(lambda: read() and follower.lag() == 0, 30, what="the lag is known")
    follower.processed({f"{place.topic}/0": 4})
    follower.close()
    log.close()
    wait_until(lambda: place.committed().get(0) == 4, 30, what="it is committed")
    at = confluent_kafka.TopicPartition(place.topic, 0, 7)
    place.broker.admin.delete_records([at])[at].result(30)
    follower = follow(log)
    found.clear()
    with pytest.raises(DeletedError, match="offsets 4 to 6 were deleted before they were read") as caught:
        wait_until(lambda: len(read()) == 3, 60)
    assert caught.value.first == 7
    wait_until(lambda: len(read()) == 3, 60, what="what is left is read")
    follower.close()
    log.close()


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_a_partition_whose_beginning_is_unknown_holds_up_no_other(place: KafkaGroupPlace, strategy: str) -> None:
    """A broker has no partition without a leader for long, so the beginning of partition 1 is withheld here."""
    known = threading.Event()

    def begin(partition: str) -> int:
        if partition.endswith("/1") and not known.is_set():
            raise FailedException("no broker leads the partition")
        return 0

    def member() -> GroupMember:
        config = consumer_config(place.broker.addresses, {"partition.assignment.strategy": strategy}, place.topic)
        return GroupMember(config, plain_records_of, [place.topic], begin)

    def read(follower: GroupMember, found: list[LogEvent]) -> set[bytes]:
        found.extend(follower.poll(100, 0.1))
        return {record.data for event in found if isinstance(event, Records) for record in event.records}

    for partition in range(3):
        put(place, partition, [f"of {partition}"])
    first, found = member(), list[LogEvent]()
    wait_until(lambda: read(first, found) == {b"of 0", b"of 2"}, 60, what="the two others are read")
    second, of_second = member(), list[LogEvent]()
    wait_until(lambda: read(first, found) and read(second, of_second), 60, what="a partition is moved")
    second.close()
    found.clear()
    known.set()
    wait_until(lambda: b"of 1" in read(first, found), 60, what="the third is read, too")
    first.close()
    third, of_third = member(), list[LogEvent]()
    wait_until(lambda: read(third, of_third) == {b"of 0", b"of 1", b"of 2"}, 60, what="all are read by the next")
    third.close()
