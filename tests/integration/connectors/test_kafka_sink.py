"""KafkaSink on a real broker: a transaction is written once, whatever crashes, as a read_committed consumer sees it."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_mock import MockCluster
from kafka_place import KafkaPlace

from tupletree import BasicStatefulBolt, FailedException, TopologyBuilder
from tupletree.attempt import TransactionAttempt
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.formats import Json, Text
from tupletree.connectors.kafka import KafkaSink
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError
from tupletree.testing import LocalCluster
from tupletree.testing.simulation.external import current, external

pytestmark = pytest.mark.long


@pytest.fixture
def place(tmp_path: Path) -> Iterator[KafkaPlace]:
    made = KafkaPlace(tmp_path)
    yield made
    made.close()


def sink_of(place: KafkaPlace, owner: str = "words/out/0", **options: Any) -> KafkaSink:
    """The sink of an owner, as a task gets it: pickled."""
    sink: KafkaSink = pickle.loads(pickle.dumps(KafkaSink(place.broker.addresses, place.topic, Text(), **options)))
    sink.open(owner)
    return sink


def commit(sink: KafkaSink, txid: int, *texts: str) -> None:
    sink.commit(TransactionAttempt(txid, 1), [[text] for text in texts])


def committed(place: KafkaPlace) -> Counter[str]:
    """The messages of committed transactions."""
    return Counter(message.value().decode() for message in place.messages())


def test_a_transaction_is_written_once_in_any_life_of_its_owner(place: KafkaPlace) -> None:
    first = sink_of(place)
    commit(first, 1, "a", "b")
    commit(first, 1, "a", "b")
    commit(first, 2)
    commit(first, 3, "c")
    second = sink_of(place)
    commit(second, 3, "c")
    commit(second, 4, "d")
    assert committed(place) == Counter("abcd")
    with pytest.raises(StaleAttemptError, match="transaction 4 is committed, after 3"):
        commit(second, 3, "c")
    with pytest.raises(UnavailableError):  # the earlier life is shut out
        commit(first, 5, "e")
    commit(second, 5, "e")
    commit(first, 5, "e")
    other = sink_of(place, "words/out/1")
    commit(other, 1, "f")
    for sink in (first, second, other):
        sink.close()
    assert committed(place) == Counter("abcdef")


def test_what_a_life_did_not_commit_is_not_seen_and_is_written_by_the_next(place: KafkaPlace) -> None:
    first = sink_of(place)
    commit(first, 1, "a")
    first._producer.begin_transaction()
    first._producer.produce(place.topic, b"b")
    first._producer.flush(30)
    second = sink_of(place)
    commit(second, 2, "b")
    assert committed(place) == Counter("ab")
    second.close()


def test_a_broker_that_is_away_is_waited_for_by_the_caller(place: KafkaPlace) -> None:
    sink = sink_of(place, client_config={"delivery.timeout.ms": 2000})
    commit(sink, 1, "a")
    place.leave()
    with pytest.raises(UnavailableError, match=f"topic '{place.topic}' of the brokers"):
        commit(sink, 2, "b")
    place.come_back()
    commit(sink, 2, "b")
    assert committed(place) == Counter("ab")
    sink.close()


def test_a_note_that_no_broker_takes_ends_the_transaction_in_time() -> None:
    with MockCluster(brokers=2) as kafka:
        kafka.create("words")
        kafka.lead("words", 0, 1)
        kafka.coordinate("transaction", "tupletree/words/out/0", 1)
        kafka.coordinate("group", "tupletree/words/out/0", 2)
        sink = KafkaSink(kafka.addresses, "words", Text())
        sink.open("words/out/0")
        commit(sink, 1, "a")
        kafka.take_down(2)
        with pytest.raises(UnavailableError, match="has not taken the note of transaction 2 within 15 s"):
            sink._write(TransactionAttempt(2, 1), [(b"b", None)])
        kafka.bring_up(2)
        commit(sink, 2, "b")
        sink.close()


def test_opaque_transactions_and_rows_without_a_message_are_refused(place: KafkaPlace) -> None:
    sink = KafkaSink(place.broker.addresses, place.topic, Json(["word"]), key_field="key")
    assert list(sink.fields) == ["word", "key"]
    with pytest.raises(UsageError, match="cannot be written behind an opaque source: another attempt can have other"):
        sink.open("words/out/0", is_opaque=True)
    with pytest.raises(UsageError, match=r"client_config has 'isolation\.level', which the connector sets itself"):
        KafkaSink("a:1", "words", client_config={"isolation.level": "read_uncommitted"})
    assert "field 'key' is no key" in str(sink.faults([["a", "b"], ["a", 1.5]])[1])
    sink.open("words/out/0")
    with pytest.raises(UsageError, match="does not take a message"):
        sink.commit(TransactionAttempt(1, 1), [["x" * 2_000_000, None]])
    sink.commit(TransactionAttempt(1, 1), [["x", None]])
    assert committed(place) == Counter(['{"word": "x"}'])
    sink.close()


class Echo(BasicStatefulBolt):
    """Passes texts on, and fails one, some times."""

    outputs = ["text"]

    def __init__(self, failures: Any) -> None:
        self.failures = failures

    def execute(self, tup: Any) -> Any:
        if tup["text"] == "message 50" and len(self.failures) < 2:
            self.failures.append(1)
            raise FailedException("not yet")
        yield [tup["text"]]


def test_from_topic_to_topic_exactly_once(place: KafkaPlace, tmp_path: Path) -> None:
    target = KafkaPlace(tmp_path)
    texts = [f"message {number}" for number in range(200)]
    for partition in range(3):
        place.put(partition, [text.encode() for text in texts[partition::3]])
    failures = external(list)
    builder = TopologyBuilder()
    messages = builder.set_spout("messages", place.spout(Text()), 2)
    builder.set_bolt("echo", Echo(failures), 2).shuffle_grouping(messages)
    sink = KafkaSink(target.broker.addresses, target.topic, Text())
    builder.set_bolt("out", ExactlyOnceSinkBolt(sink), 2).shuffle_grouping("echo")
    conf = {
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 100,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "states")},
    }
    with LocalCluster() as cluster:
        cluster.submit("echo", builder.create_topology(), conf)
        cluster.wait_until(lambda: set(committed(target)) == set(texts), 90)
        assert len(current(failures)) == 2
        assert committed(target) == Counter(texts)
