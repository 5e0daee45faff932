"""What batches of topics are: coordinator and emitters against librdkafka's own cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka.admin import ListOffsetsResultInfo
from kafka_mock import MockCluster
from kafka_tasks import Kept, attempt, coordinator_of, emitter_of, once_it_works

from tupletree.connectors.kafka.client import consumer_config
from tupletree.connectors.kafka.offsets import TopicOffsets, _Question
from tupletree.connectors.kafka.positions import Place
from tupletree.connectors.log_source import Bounds
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.spark.sources.kafka import KafkaTopics
from tupletree.testing.wait import wait_until


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """Two brokers; partition p of topic words is led by broker p + 1."""
    with MockCluster(brokers=2) as made:
        made.create("words", partitions=2)
        for partition in range(2):
            made.lead("words", partition, partition + 1)
        yield made


AWAY = r"(broker 2 does not answer|no broker leads the partition|.* No leaders found)"
"""It depends on whether the other broker has noticed yet."""


def records(number: int, start: int = 0) -> list[bytes]:
    return [b"%d" % index for index in range(start, start + number)]


def test_batches_follow_each_other_and_replays_are_the_same(cluster: MockCluster) -> None:
    cluster.produce("words", 0, records(25))
    with emitter_of(KafkaTopics(cluster.addresses, "words", 10)) as emitter:
        kept, metadata = Kept(), None
        for txid in range(1, 5):
            metadata = once_it_works(
                lambda txid=txid, before=metadata: emitter.emit_partition_batch_new(attempt(txid), kept, 0, before)
            )
        assert kept.splits == [["words/0", 0, 10], ["words/0", 10, 20], ["words/0", 20, 25]]
        assert metadata == ["words/0", 25, 25]
        cluster.produce("words", 0, records(5, 25))
        again = Kept()
        emitter.emit_partition_batch(attempt(3, 1), again, 0, ["words/0", 20, 25])
        emitter.emit_partition_batch(attempt(4, 1), again, 0, ["words/0", 25, 25])
        assert again.splits == [["words/0", 20, 25]]


def test_partitions_of_several_topics_have_their_numbers(cluster: MockCluster) -> None:
    cluster.create("lines", partitions=1)
    cluster.produce("lines", 0, records(3))
    cluster.produce("words", 1, records(4))
    source = KafkaTopics(cluster.addresses, ["lines", "words"])
    with coordinator_of(source) as coordinator, emitter_of(source) as emitter:
        assert once_it_works(coordinator.num_partitions) == 4
        kept = Kept()
        found = [emitter.emit_partition_batch_new(attempt(1), kept, number, None) for number in range(4)]
        assert found == [["lines/0", 0, 3], ["words/0", 0, 0], None, ["words/1", 0, 4]]
        assert kept.splits == [["lines/0", 0, 3], ["words/1", 0, 4]]
        wait_until(lambda: coordinator.has_more(0, None), what="there is more in lines")
        assert [coordinator.has_more(number, None) for number in range(4)] == [True, False, False, True]
        assert coordinator.lag() == {"records": 7}
        assert [coordinator.has_more(*of) for of in enumerate(found)] == [False, False, False, False]
        assert coordinator.lag() == {"records": 0}
        cluster.produce("words", 0, records(2))
        wait_until(lambda: coordinator.has_more(1, found[1]), what="there is more in words")
        assert coordinator.lag() == {"records": 2}


def test_latest_begins_at_the_end_and_a_partition_that_comes_later_at_its_beginning(cluster: MockCluster) -> None:
    cluster.produce("words", 0, records(5))
    cluster.produce("words", 1, records(7))
    source = KafkaTopics(cluster.addresses, "words", start="latest")
    with coordinator_of(source) as coordinator, emitter_of(source) as emitter:
        once_it_works(coordinator.num_partitions)
        assert wait_until(lambda: coordinator.has_more(0, None), what="the first position is to be written down")
        kept = Kept()
        first = emitter.emit_partition_batch_new(attempt(1), kept, 0, None)
        assert first == ["words/0", 5, 5]
        assert not coordinator.has_more(0, first)
        cluster.produce("words", 0, records(1))
        assert emitter.emit_partition_batch_new(attempt(2), kept, 0, first) == ["words/0", 5, 6]
        assert emitter.emit_partition_batch_new(attempt(2), kept, 1, None) == ["words/1", 0, 7]
        assert emitter.emit_partition_batch_new(attempt(1, 1), kept, 0, None) == ["words/0", 6, 6]


@pytest.mark.long
@pytest.mark.parametrize("opaque", [False, True])
def test_a_topic_that_is_not_there_is_waited_for_with_a_sentence(cluster: MockCluster, opaque: bool) -> None:
    source = KafkaTopics(cluster.addresses, ["words", "missing"], opaque=opaque)
    cluster.fail_topic("missing")

    def complaint() -> str | None:
        try:
            coordinator.num_partitions()
        except ReportedFailedException as error:
            return str(error)
        except FailedException:
            pass
        return None

    with coordinator_of(source) as coordinator:
        said = wait_until(complaint, what="a sentence")
        assert said == (
            f"component 'source', topic 'missing' of the brokers {cluster.addresses}: "
            "Broker: Unknown topic or partition"
        )
        cluster.fail_topic("missing", code=0)
        assert once_it_works(coordinator.num_partitions) > 0


@pytest.mark.long
def test_a_transactional_batch_waits_for_a_partition_that_is_away(cluster: MockCluster) -> None:
    cluster.produce("words", 1, records(3))
    source = KafkaTopics(cluster.addresses, "words")
    with coordinator_of(source) as coordinator, emitter_of(source) as emitter:
        once_it_works(lambda: emitter.emit_partition_batch_new(attempt(1), Kept(), 1, None))
        once_it_works(coordinator.num_partitions)
        cluster.take_down(2)
        sentence = rf"component 'source', topic 'words', partition 1: {AWAY}"
        with pytest.raises(ReportedFailedException, match=sentence):
            wait_until(lambda: emitter.emit_partition_batch_new(attempt(2), Kept(), 1, None) is None, 30)
        with pytest.raises(ReportedFailedException, match=sentence):
            wait_until(lambda: coordinator.has_more(1, ["words/1", 0, 3]), 30)
        assert not coordinator.has_more(0, None)  # the other broker is heard all the same
        cluster.bring_up(2)
        kept = Kept()
        assert next_batch(emitter, kept, 1, None) == ["words/1", 0, 3]
        assert not once_it_works(lambda: coordinator.has_more(1, ["words/1", 0, 3]))


@pytest.mark.long
def test_an_opaque_batch_goes_without_a_partition_that_is_away(cluster: MockCluster) -> None:
    for partition in range(2):
        cluster.produce("words", partition, records(3))
    source = KafkaTopics(cluster.addresses, "words", opaque=True)
    with coordinator_of(source) as coordinator, emitter_of(source) as emitter:
        once_it_works(coordinator.num_partitions)
        before = once_it_works(lambda: emitter.emit_partition_batch(attempt(1), Kept(), 1, None))
        assert before == ["words/1", 0, 3]
        cluster.produce("words", 1, records(3))
        cluster.take_down(2)
        kept = Kept()
        wait_until(lambda: coordinator.has_more(1, before) is False, 30, what="the coordinator sees it go")
        wait_until(lambda: emitter.emit_partition_batch(fresh(), kept, 1, before) is before, 30, what="it is away")
        assert emitter.emit_partition_batch(fresh(), kept, 1, before) is before
        (error,) = kept.errors  # once
        assert re.fullmatch(
            rf"component 'source', topic 'words', partition 1: {AWAY}; batches leave it out until it is back", error
        )
        assert emitter.emit_partition_batch(fresh(), kept, 0, None) == ["words/0", 0, 3]
        cluster.bring_up(2)
        wait_until(lambda: coordinator.has_more(1, before), 30, what="the coordinator sees it come back")
        kept = Kept()
        wait_until(lambda: emitter.emit_partition_batch(fresh(), kept, 1, before) is not before, 30)
        assert kept.splits == [["words/1", 3, 6]]


def test_a_partition_without_a_leader_is_away_and_begins_at_its_end_as_it_was_told(cluster: MockCluster) -> None:
    cluster.produce("words", 0, records(3))
    cluster.lead("words", 0, -1)
    with emitter_of(KafkaTopics(cluster.addresses, "words", opaque=True, start="latest")) as emitter:
        kept = Kept()
        before = once_it_works(lambda: emitter.emit_partition_batch(fresh(), kept, 0, None))
        assert before == ["words/0", -1, -1]
        assert "topic 'words', partition 0: no broker leads the partition; batches leave it out" in kept.errors[0]
        cluster.lead("words", 0, 1)
        wait_until(lambda: emitter.emit_partition_batch(fresh(), kept, 0, before) == ["words/0", 3, 3], 30)
        assert kept.splits == []


def test_offsets_that_retention_deleted_stop_a_transactional_batch_and_are_left_out_of_an_opaque_one(
    cluster: MockCluster,
) -> None:
    before = ["words/0", 0, 1]
    cluster.produce("words", 0, [bytes(100_000)] * 100)  # more than is kept
    with emitter_of(KafkaTopics(cluster.addresses, "words")) as emitter:
        first = once_it_works(lambda: emitter.emit_partition_batch_new(attempt(1), Kept(), 0, None))[1]
        assert first > 1
        lost = f"component 'source', partition 'words/0': positions 1 to {first - 1} were deleted, by retention"
        with pytest.raises(ReportedFailedException, match=lost):
            emitter.emit_partition_batch_new(attempt(2), Kept(), 0, before)
    with emitter_of(KafkaTopics(cluster.addresses, "words", opaque=True)) as emitter:
        kept = Kept()
        assert once_it_works(lambda: emitter.emit_partition_batch(fresh(), kept, 0, before)) == ["words/0", first, 100]
        assert kept.errors[0].startswith(lost)
        assert kept.errors[0].endswith("and are left out")


@pytest.mark.parametrize("opaque", [False, True])
def test_a_topic_that_was_made_anew_is_not_read_from_the_old_offset(cluster: MockCluster, opaque: bool) -> None:
    cluster.produce("words", 0, records(3))
    source = KafkaTopics(cluster.addresses, "words", opaque=opaque)
    with coordinator_of(source) as coordinator, emitter_of(source) as emitter:
        once_it_works(coordinator.num_partitions)
        wait_until(lambda: coordinator.has_more(0, None), what="the partition is known")
        assert coordinator.has_more(0, ["words/0", 0, 10])  # so that the emitter says it
        emit = emitter.emit_partition_batch if opaque else emitter.emit_partition_batch_new
        with pytest.raises(
            ReportedFailedException, match="the topology has read up to position 10, but the log ends at 3; if the log "
        ):
            emit(attempt(1), Kept(), 0, ["words/0", 0, 10])


@pytest.mark.long
def test_brokers_that_were_never_there_are_waited_for_without_blocking_the_task() -> None:
    with MockCluster() as gone:
        addresses = gone.addresses
    unknown = pytest.raises(FailedException, match="have not reported the partitions of topic 'words' yet")
    with coordinator_of(KafkaTopics(addresses, "words")) as coordinator, unknown:
        coordinator.num_partitions()


_numbers = iter(range(2, 1_000_000))


def fresh() -> Any:
    """An attempt that was not there yet: each looks at the brokers."""
    return attempt(2, next(_numbers))


def next_batch(emitter: Any, kept: Kept, partition: int, before: Any) -> Any:
    return once_it_works(lambda: emitter.emit_partition_batch_new(fresh(), kept, partition, before))


@pytest.mark.parametrize(("first", "end"), [(0, -1), (-1, 5), (-1001, -1001)])
def test_a_partition_of_which_one_offset_is_missing_is_away(cluster: MockCluster, first: int, end: int) -> None:
    def answer(offset: int) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(ListOffsetsResultInfo(offset, -1, -1))
        return future

    offsets = TopicOffsets(consumer_config(cluster.addresses, {}), ["words"])
    place = Place("words", 0)
    try:
        wait_until(lambda: offsets.refresh(1.0) or offsets.bounds(place) == Bounds(0, 0), what="the broker answers")
        offsets._questions = {1: _Question({place: (answer(first), answer(end))})}
        offsets._receive_offsets()
        assert offsets.bounds(place) == "broker 1 does not answer"
    finally:
        offsets.close()


def test_a_partition_that_brokers_have_not_heard_of_does_not_begin_anew(cluster: MockCluster) -> None:
    read = ["words/2", 0, 10]
    with emitter_of(KafkaTopics(cluster.addresses, "words")) as emitter:
        once_it_works(lambda: emitter.emit_partition_batch_new(attempt(1), Kept(), 0, None))
        assert emitter.emit_partition_batch_new(attempt(2), Kept(), 2, None) is None
        with pytest.raises(ReportedFailedException, match="topic 'words', partition 2: no broker leads the partition"):
            emitter.emit_partition_batch_new(attempt(2), Kept(), 2, read)
    with emitter_of(KafkaTopics(cluster.addresses, "words", opaque=True)) as emitter:
        once_it_works(lambda: emitter.emit_partition_batch(attempt(1), Kept(), 0, None))
        assert emitter.emit_partition_batch(attempt(2), Kept(), 2, read) == read
