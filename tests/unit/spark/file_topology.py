"""A source of files without its topology: what the coordinator decides on, and what reading the splits gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tupletree._wire.codec import decode_value, encode_value
from tupletree.attempt import TransactionAttempt, first_attempt
from tupletree.component import TopologyContext
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.spark.source import Source
from tupletree.spark.sources.files import FilesSpout
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.planned_log import LOOK_S, PlanningCoordinator


def attempt(txid: int) -> TransactionAttempt:
    return TransactionAttempt(txid, first_attempt(1))


def context(task: int = 1, tasks: int = 1) -> TopologyContext:
    """Of one of the tasks 1 to ``tasks`` of the component "source"."""
    ids = {"source": list(range(1, tasks + 1))}
    return TopologyContext(
        topology_id="files-1", component_id="source", task_id=task, tasks=ids, sources={}, targets={}, conf={}
    )


class Splits(BatchCollector):
    """Keeps the splits that are emitted."""

    def __init__(self) -> None:
        self.splits: list[Any] = []

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        assert isinstance(values[0], TransactionAttempt)
        self.splits.append(decode_value(encode_value(values[1])))
        return (9,)

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = "default") -> int:
        return sum(len(self.emit(row, stream)) for row in rows)

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        self.emit(values, stream)


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Topology:
    """Begins one transaction after the other, as the coordinator's task would, with a store that never fails.

    Without a clock each look at the files is one at what there is now.
    """

    def __init__(self, source: Source, clock: Clock | None = None) -> None:
        spout = source.spout()
        assert isinstance(spout, FilesSpout)
        self.source = source
        self.emitter = spout.emitter({}, context())
        self.clock = clock or Clock()
        self.pause_s = 0.0 if clock else 2 * LOOK_S
        self.coordinator = PlanningCoordinator(spout, "source", self.clock)
        self.metadata: list[Any] = []

    def begin(self) -> int | None:
        """The txid of a new transaction; None if the source is not ready."""
        self.clock.now_s += self.pause_s
        if not self.coordinator.is_ready():
            return None
        txid = len(self.metadata) + 1
        previous = self.metadata[-1] if self.metadata else None
        try:
            made = self.coordinator.initialize_transaction(txid, previous)
        except ReportedFailedException:
            raise
        except FailedException:
            return None
        self.metadata.append(decode_value(encode_value(made)))
        return txid

    def splits(self, txid: int) -> list[Any]:
        kept = Splits()
        self.emitter.emit_batch(attempt(txid), self.metadata[txid - 1], kept)
        return kept.splits

    def read(self, txid: int) -> list[Any]:
        """The values of the rows of a batch."""
        return rows(self.source, self.splits(txid))

    def rest(self) -> list[list[Any]]:
        """All batches until there is none."""
        batches = []
        while (txid := self.begin()) is not None:
            batches.append(self.read(txid))
        return batches


def rows(source: Source, splits: Iterable[Any]) -> list[Any]:
    """The first values of all rows."""
    return [value for split in splits for batch in source.read(split) for value in batch.column(0).to_pylist()]
