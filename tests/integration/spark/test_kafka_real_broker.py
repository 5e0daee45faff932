"""What only a real broker does: transactions, compaction, growth of topics, and a restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from kafka_tasks import Kept, attempt, coordinator_of, emitter_of, once_it_works

from bench._kafka_broker import Broker, NoJars, jars
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.spark.sources.kafka import KafkaTopics
from tupletree.testing.wait import wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        lib = jars(tmp_path_factory.mktemp("kafka-jars"))
    except NoJars as error:
        pytest.skip(str(error))
    made = Broker(lib, tmp_path_factory.mktemp("kafka"))
    try:
        yield made
    finally:
        made.close()


def produce(producer: Any, topic: str, values: range, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, str(value), partition=partition)
    assert producer.flush(30) == 0


def values(source: KafkaTopics, split: list[Any]) -> list[int]:
    return [int(value) for batch in source.read(split) for value in batch.column("value").to_pylist()]


def all_splits(source: KafkaTopics, partition: int = 0) -> list[Any]:
    """Of the batches of a partition until one is empty."""
    kept, before = Kept(), None
    with emitter_of(source) as emitter:
        for txid in range(1, 1000):
            number = attempt(txid)
            after = once_it_works(
                lambda number=number, before=before: emitter.emit_partition_batch_new(number, kept, partition, before)
            )
            if after[1] == after[2]:
                return kept.splits
            before = after
    raise AssertionError(f"batches without an end: {kept.splits[-1]}")


@pytest.mark.parametrize("limit", [4, 1000])
def test_records_of_committed_transactions_are_read_once_wherever_batches_end(broker: Broker, limit: int) -> None:
    topic = broker.create(f"transactions-{limit}")
    producer = broker.producer(transactional_id=f"writer-{limit}")
    producer.init_transactions(30)
    for start in range(0, 30, 5):
        producer.begin_transaction()
        produce(producer, topic, range(start, start + 5))
        if start % 10:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    producer.begin_transaction()
    produce(producer, topic, range(30, 35))
    source = KafkaTopics(broker.addresses, topic, limit)
    splits = all_splits(source)
    assert splits[-1][2] == 36  # thirty records, and the mark that ends each transaction; not the open one
    assert values(source, [f"{topic}/0", 5, 6]) == []  # a mark and nothing else
    wanted = [*range(5), *range(10, 15), *range(20, 25)]
    assert [value for split in splits for value in values(source, split)] == wanted
    producer.commit_transaction(30)
    assert [value for split in all_splits(source) for value in values(source, split)] == [*wanted, *range(30, 35)]
    everything = KafkaTopics(broker.addresses, topic, client_config={"isolation.level": "read_uncommitted"})
    assert [value for split in all_splits(everything) for value in values(everything, split)] == list(range(35))


def test_a_compacted_log_is_read_across_its_gaps(broker: Broker) -> None:
    topic = broker.create(
        "compacted", cleanup_policy="compact", segment_bytes=2000, min_cleanable_dirty_ratio=0.01, segment_ms=100
    )
    producer = broker.producer(linger_ms=0, batch_num_messages=10)
    for value in range(1000):
        producer.produce(topic, str(value), key=str(value % 3))
    assert producer.flush(30) == 0
    source = KafkaTopics(broker.addresses, topic, 100)
    splits = all_splits(source)
    assert [split[1:] for split in splits] == [[start, start + 100] for start in range(0, 1000, 100)]
    wait_until(lambda: len(values(source, splits[0])) == 0, 60, what="the first hundred records are compacted away")
    assert values(source, [f"{topic}/0", 0, 1000])[-1] == 999


def test_a_topic_that_grows_is_noticed_and_nothing_of_the_new_partition_is_missed(broker: Broker) -> None:
    topic = broker.create("growing")
    produce(broker.producer(), topic, range(10))
    source = KafkaTopics(broker.addresses, topic, start="latest")
    with coordinator_of(source) as coordinator, emitter_of(source) as emitter:
        assert once_it_works(coordinator.num_partitions) == 1
        first = once_it_works(lambda: emitter.emit_partition_batch_new(attempt(1), Kept(), 0, None))
        assert first == [f"{topic}/0", 10, 10]
        broker.grow(topic, 2)
        produce(broker.producer(), topic, range(7), partition=1)
        wait_until(lambda: coordinator.num_partitions() == 2, 30, what="the coordinator sees it grow")
        assert wait_until(lambda: coordinator.has_more(1, None), 30, what="there is more")
        numbers = iter(range(1000))

        def batch() -> Any:
            now = attempt(2, next(numbers))
            return [emitter.emit_partition_batch_new(now, Kept(), *of) for of in ((0, first), (1, None))]

        wait_until(
            lambda: batch() == [[f"{topic}/0", 10, 10], [f"{topic}/1", 0, 7]], 30, what="the emitter sees it grow"
        )


def test_a_broker_that_comes_back_is_gone_on_with(broker: Broker) -> None:
    topic = broker.create("outage")
    produce(broker.producer(), topic, range(10))
    source = KafkaTopics(broker.addresses, topic)
    with coordinator_of(source) as coordinator, emitter_of(source) as emitter:
        emit = emitter.emit_partition_batch_new
        before = once_it_works(lambda: emit(attempt(1), Kept(), 0, None))
        assert before == [f"{topic}/0", 0, 10]
        once_it_works(coordinator.num_partitions)
        broker.kill()

        def is_seen_to_be_away() -> bool:
            try:
                emit(attempt(2, next(numbers)), Kept(), 0, before)
            except FailedException:
                return True
            return False

        numbers = iter(range(1000))
        wait_until(is_seen_to_be_away, 30, what="it is seen to be away")
        broker.start()
        produce(broker.producer(), topic, range(10, 15))
        wait_until(lambda: once_it_works(lambda: coordinator.has_more(0, before)), 60, what="there is more")
        after = wait_until(
            lambda: once_it_works(lambda: _moved(emit(attempt(3, next(numbers)), Kept(), 0, before), before)), 60
        )
        assert values(source, after) == list(range(10, 15))


def _moved(after: Any, before: Any) -> Any:
    return after if after[2] > before[2] else None


def test_a_topic_that_is_deleted_and_made_anew_is_not_read_from_the_old_offset(broker: Broker) -> None:
    topic = broker.create("anew")
    produce(broker.producer(), topic, range(10))
    source = KafkaTopics(broker.addresses, topic)
    (split,) = all_splits(source)
    broker.delete(topic)
    wait_until(lambda: _is_created(broker, topic), 30, what="it is gone, and made anew")
    produce(broker.producer(), topic, range(3))
    with emitter_of(source) as emitter:
        once_it_works(lambda: emitter.emit_partition_batch_new(attempt(2), Kept(), 0, None))
        with pytest.raises(
            ReportedFailedException, match="the topology has read up to position 10, but the log ends at 3"
        ):
            emitter.emit_partition_batch_new(attempt(2, 1), Kept(), 0, split)


def _is_created(broker: Broker, topic: str) -> bool:
    try:
        broker.create(topic)
    except KafkaException:
        return False
    return True
