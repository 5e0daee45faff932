"""A broker or a topic that is not there: what ``tupletree local`` says, and how it ends."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from kafka_place import KafkaPlace
from queue_places import free_port

from tupletree import TopologyBuilder
from tupletree.connectors.formats import Text
from tupletree.connectors.kafka import KafkaSpout
from tupletree.testing import LocalCluster

PROGRAM = """
from tupletree.connectors.formats import Json
from tupletree.connectors.kafka import KafkaSpout
from tupletree.streams import StreamBuilder

builder = StreamBuilder()
clicks = builder.source(KafkaSpout("{brokers}", "{topic}", Json(["user"]), {group}), name="clicks")
clicks.key_by(lambda user: user).count().print()
topology = builder.topology()
"""


def run(directory: Path, seconds: int, **names: object) -> tuple[int, list[str]]:
    """Run a program; return the exit status and the lines on standard error."""
    (directory / "visits.py").write_text(PROGRAM.format(**names))
    command = [sys.executable, "-m", "tupletree", "local", "visits.py", "--seconds", str(seconds)]
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    return ended.returncode, ended.stderr.splitlines()


@pytest.mark.nightly
def test_a_broker_that_is_away_is_named_and_is_the_reason_why_nothing_was_emitted(tmp_path: Path) -> None:
    brokers = f"127.0.0.1:{free_port()}"
    status, lines = run(tmp_path, 5, brokers=brokers, topic="clicks", group="group='visits'")
    error = f"UnavailableError: Kafka: no connection: the brokers {brokers}: Failed to get metadata: "
    assert (status, lines[-1].startswith(f"no tuple was emitted: source 'clicks' reported {error}")) == (1, True), lines
    assert not any("connected" in line for line in lines)


@pytest.mark.nightly
@pytest.mark.parametrize("group", ["", "group='visits'"])
def test_a_topic_that_is_not_there_is_named_and_the_source_is_not_connected(tmp_path: Path, group: str) -> None:
    place = KafkaPlace(tmp_path)
    brokers = place.broker.addresses
    status, lines = run(tmp_path, 5, brokers=brokers, topic="nowhere", group=group)
    error = f"UnavailableError: Kafka: the brokers {brokers}: there is no topic 'nowhere', or it may not be read"
    assert (status, lines[-1]) == (1, f"no tuple was emitted: source 'clicks' reported {error}"), lines
    assert not any("connected" in line for line in lines)


@pytest.mark.nightly
def test_a_topic_that_is_created_later_is_read(tmp_path: Path) -> None:
    place, feed = KafkaPlace(tmp_path), f"late{uuid.uuid4().hex[:8]}"
    builder, rows = TopologyBuilder(), list[object]()
    builder.set_spout("clicks", KafkaSpout(place.broker.addresses, feed, Text("line")))
    with LocalCluster() as cluster:
        cluster.submit("clicks", builder.create_topology(), observer=lambda component, stream, row: rows.append(row[0]))
        cluster.wait_until(lambda: cluster.errors("clicks"), 30)
        place.broker.create(feed)
        producer = place.broker.producer()
        producer.produce(feed, b"here")
        assert producer.flush(30) == 0
        cluster.wait_until(lambda: rows == ["here"], 60)


@pytest.mark.nightly
def test_messages_that_cannot_be_decoded_are_counted_in_the_last_line(tmp_path: Path) -> None:
    place = KafkaPlace(tmp_path)
    place.put(0, [b"no JSON"] * 40)
    status, lines = run(tmp_path, 8, brokers=place.broker.addresses, topic=place.topic, group="")
    assert (status, lines[-1]) == (1, "no tuple was emitted: 40 messages were given up"), lines
