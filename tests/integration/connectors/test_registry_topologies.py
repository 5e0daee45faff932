"""Spouts and bolts whose schema registry is away for a while: messages and tuples wait, none is given up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from queue_components import new_history, watched
from queue_places import QueuePlace, free_port
from registry_server import RegistryServer

from tupletree import Backoff, TopologyBuilder
from tupletree.connectors.avro import Avro
from tupletree.connectors.files import FileSpout
from tupletree.connectors.registry import Registered
from tupletree.testing import FeederSpout, LocalCluster, make_tuple
from tupletree.testing.simulation.external import current

LINE = json.dumps({"type": "record", "name": "Line", "fields": [{"name": "text", "type": "string"}]})
FAST = Backoff(first_s=0.05, factor=2, max_s=0.2, max_attempts=None)
TWICE = Backoff(first_s=0.05, factor=1, max_s=0.05, max_attempts=2)


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer(free_port()) as server:
        yield server


@pytest.mark.long
def test_a_message_waits_for_its_schema_and_only_an_unknown_schema_is_a_dead_letter(
    place: QueuePlace, registry: RegistryServer
) -> None:
    format = Registered(Avro(LINE), registry.url, "lines")
    data = format.encode(make_tuple({"text": "good"}))
    unknown = b"\0\0\0\0\x09" + data[5:]
    registry.stop()
    place.put([data, unknown, data[:-1], data])
    stand_in = new_history()
    history = current(stand_in)
    spout = place.spout(format)
    spout.reconnect = FAST
    with LocalCluster() as cluster:
        cluster.submit("lines", watched(spout, stand_in, retry=TWICE, dead_letters=True))
        cluster.wait_until(lambda: sum("is away" in str(error) for _, error in cluster.errors("lines")) > 2)
        assert (history.executed, history.letters, place.unacknowledged()) == ({}, [], 4)
        registry.start()
        cluster.wait_until(lambda: place.unacknowledged() == 0)
        assert history.executed == {"good": 2}
        errors = {letter[1][0]: letter[6] for letter in history.letters}
    assert "has no such schema" in errors[unknown]
    assert "the message is not a Line" in errors[data[:-1]]


def test_a_message_of_a_log_waits_for_its_schema_in_its_place(tmp_path: Path, registry: RegistryServer) -> None:
    format = Registered(Avro(LINE), registry.url, "lines")
    lines = [format.encode(make_tuple({"text": text})) for text in ("one", "two", "four")]
    registry.stop()
    unknown = b"\0\0\0\0\x09" + lines[0][5:]
    (tmp_path / "lines").write_bytes(b"".join(line + b"\n" for line in [*lines[:2], unknown, lines[2]]))
    stand_in = new_history()
    history = current(stand_in)
    spout = FileSpout(tmp_path, format)
    spout.reconnect = FAST
    with LocalCluster() as cluster:
        cluster.submit("lines", watched(spout, stand_in, retry=TWICE, dead_letters=True))
        cluster.wait_until(lambda: sum("is away" in str(error) for _, error in cluster.errors("lines")) > 2)
        assert (history.executed, history.letters) == ({}, [])
        registry.start()
        cluster.wait_until(lambda: list(history.executed) == ["one", "two", "four"] and history.letters)
    assert [(letter[1], letter[3]) for letter in history.letters] == [([unknown], 1)]


def test_tuples_are_written_when_the_registry_is_back(place: QueuePlace, registry: RegistryServer) -> None:
    registry.stop()
    feeder = FeederSpout(["text"])
    format = Registered(Avro(LINE), registry.url, "lines")
    with LocalCluster() as cluster:
        builder = TopologyBuilder()
        texts = builder.set_spout("texts", feeder).set_retry(FAST)
        builder.set_bolt("put", place.bolt(format)).shuffle_grouping(texts)
        cluster.submit("puts", builder.create_topology())
        feeder.feed(["good"], 1)
        cluster.wait_until(lambda: any("is away" in str(error) for _, error in cluster.errors("puts")))
        registry.start()
        cluster.wait_until(lambda: feeder.acked == [1])
    assert [format.decode(data) for data in place.drain()] == [["good"]]
