"""A source that a user writes: its spout emits splits, with or without the attempt before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from local_components import Log
from local_spark import LOCAL
from pyspark.sql import DataFrame

from tupletree.errors import EmitError, FailedException, TaskFailedError
from tupletree.spark import ForeachBatch, Pipeline, Source
from tupletree.testing import LocalCluster
from tupletree.transactional import (
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
    TransactionalSpout,
    TransactionCoordinator,
    TransactionEmitter,
)

pytestmark = pytest.mark.usefixtures("spark")

CONF = {**LOCAL, "topology.max.spout.pending": 1, "pipeline.retry.pause.secs": 0.1}
Row = Callable[[Any, list[int]], list[Any]]


class Coordinator(PartitionCoordinator):
    def num_partitions(self) -> int:
        return 2

    def has_more(self, partition: int, newest: Any) -> bool:
        return newest is None or newest[1] < 20


class Emitter(PartitionEmitter):
    def __init__(self, row: Row) -> None:
        self.row = row

    def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, previous: Any) -> list[int]:
        start = previous[1] if previous else 0
        metadata = [start, start + 10]
        self.emit_partition_batch(attempt, collector, partition, metadata)
        return metadata

    def emit_partition_batch(self, attempt: Any, collector: Any, partition: int, metadata: Any) -> None:
        collector.emit(self.row(attempt, metadata))


class Spout(PartitionedTransactionalSpout):
    def __init__(self, row: Row) -> None:
        self.row = row

    def coordinator(self, conf: Any, context: Any) -> PartitionCoordinator:
        return Coordinator()

    def emitter(self, conf: Any, context: Any) -> PartitionEmitter:
        return Emitter(self.row)


class Numbers(Source):
    schema = "number BIGINT"

    def __init__(self, row: Row) -> None:
        self.row = row

    def spout(self) -> Spout:
        return Spout(self.row)

    def read(self, split: Any) -> Iterator[list[int]]:
        for number in range(*split):
            yield [number]


class Sums(Pipeline):
    transactional_id = "own-source"

    def __init__(self, row: Row, save: Any) -> None:
        self.source = Numbers(row)
        self.sinks = [ForeachBatch(save)]


@pytest.mark.long
@pytest.mark.parametrize("row", [lambda attempt, split: [split], lambda attempt, split: [attempt, split]])
def test_a_split_is_emitted_with_or_without_the_attempt(row: Row) -> None:
    log = Log()

    def save(result: DataFrame, txid: int) -> None:
        if txid == 2 and "failed" not in log:
            log.append("failed")
            raise ValueError("once")
        log.append((txid, sorted(number for (number,) in result.collect())))

    with LocalCluster() as cluster:
        cluster.submit("own", Sums(row, save).topology(), CONF)
        cluster.wait_until(lambda: len(log) >= 3, timeout=60)
    assert [one for one in log if one != "failed"][:2] == [
        (txid, sorted([*range(10 * txid - 10, 10 * txid)] * 2)) for txid in (1, 2)
    ]


def test_a_row_that_is_no_split_ends_the_worker_with_one_sentence() -> None:
    with LocalCluster() as cluster, pytest.raises(TaskFailedError) as caught:
        cluster.submit("own", Sums(lambda attempt, split: split, print).topology(), CONF)
        cluster.wait_until(lambda: False, timeout=60)
    error = caught.value.__cause__
    assert isinstance(error, EmitError)
    assert str(error).startswith(
        "component 'pipeline': the spout of the source emitted [0, 10] on stream 'default' for transaction 1 "
    )
    assert str(error).endswith("; [split] was expected, or [attempt, split] with that attempt")


class Once(TransactionCoordinator):
    def is_ready(self) -> bool:
        return True

    def initialize_transaction(self, txid: int, previous: Any) -> int:
        if txid > 1:
            raise FailedException("there is one batch")
        return txid


class Scripted(TransactionEmitter):
    """An emitter without partitions, of which nothing is known but what it does."""

    def __init__(self, emit: Callable[[Any], object]) -> None:
        self.emit = emit

    def emit_batch(self, attempt: Any, metadata: Any, collector: Any) -> None:
        return self.emit(collector)  # type: ignore[return-value]


class ScriptedSpout(TransactionalSpout):
    outputs = ["split"]

    def __init__(self, emit: Callable[[Any], object]) -> None:
        self.emit = emit

    def coordinator(self, conf: Any, context: Any) -> TransactionCoordinator:
        return Once()

    def emitter(self, conf: Any, context: Any) -> TransactionEmitter:
        return Scripted(self.emit)


class ScriptedNumbers(Numbers):
    def spout(self) -> Any:
        return ScriptedSpout(self.row)  # type: ignore[arg-type]


class ScriptedSums(Sums):
    def __init__(self, emit: Callable[[Any], object], save: Any) -> None:
        self.source = ScriptedNumbers(emit)  # type: ignore[arg-type]
        self.sinks = [ForeachBatch(save)]


def test_splits_that_are_returned_instead_of_emitted_are_no_empty_batch() -> None:
    with LocalCluster() as cluster, pytest.raises(TaskFailedError) as caught:
        cluster.submit("own", ScriptedSums(lambda collector: [[[0, 10]]], print).topology(), CONF)
        cluster.wait_until(lambda: False, timeout=60)
    assert "Scripted.emit_batch returned a list; a returned value is ignored; emit instead" in str(caught.value)


def test_a_replay_with_another_number_of_splits_is_reported() -> None:
    sizes = Log()

    def emit(collector: Any) -> None:
        sizes.append(1)
        collector.emit_many([[[0, 10]]] * len(sizes))

    def save(result: DataFrame, txid: int) -> None:
        raise FailedException("again")

    with LocalCluster() as cluster:
        cluster.submit("own", ScriptedSums(emit, save).topology(), CONF)
        cluster.wait_until(lambda: any("emitted 2 tuples, but 1 the" in str(one) for one in cluster.errors("own")), 60)
