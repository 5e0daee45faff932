"""A fixed share of topics: what cannot be read now holds up no other partition, and a pause is one from the start."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kafka_mock import MockCluster

from tupletree.connectors.kafka import KafkaLog, follower
from tupletree.connectors.kafka.shares import ShareReader
from tupletree.connectors.log_source import LogEvent, Records
from tupletree.errors import FailedException
from tupletree.testing import wait_until


class Reading:
    """What a task with all partitions reads, and the errors that it is told of."""

    def __init__(self, log: KafkaLog, positions: Mapping[str, int]) -> None:
        log.open()
        self.log = log
        made = log.follow(positions, 0, 1)
        assert isinstance(made, ShareReader)
        self.follower = made
        self.events: list[LogEvent] = []
        self.errors: list[str] = []

    def values(self) -> set[bytes]:
        """Poll once; return all that was read."""
        try:
            self.events += self.follower.poll(1000, 0.05)
        except FailedException as error:
            self.errors.append(str(error))
        return {record.data for event in self.events if isinstance(event, Records) for record in event.records}

    def close(self) -> None:
        self.follower.close()
        self.log.close()


@pytest.fixture(scope="module")
def kafka() -> Iterator[MockCluster]:
    with MockCluster() as cluster:
        yield cluster


@pytest.fixture
def topic(kafka: MockCluster) -> str:
    """A topic with a message in each of three partitions."""
    name = kafka.create(f"t{uuid.uuid4().hex[:8]}", 3)
    for partition in range(3):
        kafka.produce(name, partition, [b"of %d" % partition])
    return name


@pytest.fixture
def start(kafka: MockCluster) -> Iterator[Any]:
    """Starts reading topics."""
    started: list[Reading] = []

    def start(*topics: str, positions: Mapping[str, int] | None = None, **options: Any) -> Reading:
        started.append(Reading(KafkaLog(kafka.addresses, topics, **options), positions or {}))
        return started[-1]

    yield start
    for reading in started:
        reading.close()


def test_a_partition_without_a_leader_is_reported_and_the_others_are_read(
    kafka: MockCluster, topic: str, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tupletree.connectors.kafka.shares.AWAY_S", 0.5)
    kafka.lead(topic, 0, -1)
    reading = start(topic)
    wait_until(lambda: reading.values() == {b"of 1", b"of 2"}, 30, what="the two others are read")
    wait_until(lambda: reading.values() and reading.errors, 30, what="the first is reported")
    assert reading.errors[0] == f"topic {topic!r}, partition 0: no broker leads the partition"
    kafka.lead(topic, 0, 1)
    wait_until(lambda: b"of 0" in reading.values(), 30, what="the first is read, too")


def test_a_partition_without_the_offset_of_its_start_is_reported_and_the_others_are_read(
    kafka: MockCluster, topic: str, start: Any
) -> None:
    reading = start(topic, start={f"{topic}/1": 2})
    wait_until(lambda: reading.values() == {b"of 0", b"of 2"}, 30, what="the two others are read")
    wait_until(lambda: reading.values() and reading.errors, 30, what="the second is reported")
    assert f"topic {topic!r}, partition 1 begins at offset 2 by its start" in reading.errors[0]
    kafka.produce(topic, 1, [b"before", b"at the start"])
    wait_until(lambda: b"at the start" in reading.values(), 30, what="the second is read, too")
    assert b"before" not in reading.values()


def test_a_topic_that_is_missing_is_reported_and_the_others_are_read(
    kafka: MockCluster, topic: str, start: Any
) -> None:
    missing = kafka.create("missing")
    kafka.produce(missing, 0, [b"late"])
    kafka.fail_topic(missing)
    reading = start(topic, missing)
    wait_until(lambda: reading.values() == {b"of 0", b"of 1", b"of 2"}, 30, what="the other topic is read")
    wait_until(lambda: reading.values() and reading.errors, 30, what="the missing topic is reported")
    assert f"topic {missing!r} of the brokers {kafka.addresses}: " in reading.errors[0]
    kafka.fail_topic(missing, 0)
    wait_until(lambda: b"late" in reading.values(), 30, what="the topic is read when it is there")


@pytest.mark.parametrize("positions", [{}, {0: 0, 1: 0, 2: 0}])
def test_nothing_is_fetched_while_a_reader_is_paused_from_the_start(
    kafka: MockCluster, topic: str, start: Any, monkeypatch: pytest.MonkeyPatch, positions: dict[int, int]
) -> None:
    monkeypatch.setattr(follower, "PAUSE_AFTER_S", 0.0)
    reading = start(topic, positions={f"{topic}/{number}": at for number, at in positions.items()})
    idle = reading.follower

    def has_share() -> bool:
        idle.idle(0.01)
        return len(idle._next) == 3

    wait_until(has_share, 30, what="the share is known")
    for _ in range(50):
        idle.idle(0.02)  # which would get a message, if there were one
    assert not idle._held
    wait_until(lambda: reading.values() == {b"of 0", b"of 1", b"of 2"}, 30, what="all is read after the pause")
