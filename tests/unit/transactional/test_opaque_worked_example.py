"""An opaque source whose transaction fails once, step by step: tuples 1 to 140 in transactions A, B and C; A fails.

The source is opaque: when A is replayed, it goes away after tuple 40. "By failing all subsequent transactions, this
would happen": A emits 1-40, B emits 41-90, C emits 91-140, and no tuple is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from partition_sources import ID, Kept, context
from stored_metadata import store_metadata

from tupletree._stores.memory_nodes import MemoryStore
from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.errors import FailedException
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.coordinator import Coordinator, EmitCommit, Record
from tupletree.transactional.opaque import OpaqueSpoutAdapter
from tupletree.transactional.progress import Progress
from tupletree.transactional.spouts import (
    CommittingEmitter,
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
)

A, B, C = 1, 2, 3  # their txids


class Queue(OpaquePartitionedTransactionalSpout, PartitionCoordinator, OpaquePartitionEmitter):
    """One partition with the tuples 1, 2, 3, …, of which a batch takes 50, or fewer if the partition goes away."""

    outputs = ["attempt", "tuple"]
    goes_away_after = 1_000_000

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        return self

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionEmitter:
        return self

    def num_partitions(self) -> int:
        return 1

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> int:
        last = previous or 0
        for number in range(last + 1, last + 51):
            if number > self.goes_away_after:
                break
            collector.emit([attempt, number])
            last = number
        return last


class Scene:
    """A coordinator and the one emitter of an opaque spout, on one store."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.queue = Queue()
        self.progress = Progress.take_over(self.store, ID, "the test")
        self.coordinator = Coordinator(self.progress.epoch, self.progress.committed, max_active=2)
        adapter = OpaqueSpoutAdapter(ID, self.queue, open_store=lambda _: self.store)
        self.source = adapter.coordinator({}, context("queue:coordinator"))
        self.emitter = adapter.emitter({}, context("queue"))
        assert isinstance(self.emitter, CommittingEmitter)
        self.emitted: dict[TransactionAttempt, list[int]] = {}
        self.committed: list[int] = []

    def emit(self, txid: int) -> TransactionAttempt:
        """Begin the transaction that is next and emit its batch."""
        assert self.coordinator.wants(0.0) == txid
        previous = self.progress.metadata.get(txid - 1)
        partitions = store_metadata(self.progress, txid, self.source.initialize_transaction(txid, previous))
        attempt = self.coordinator.begin(txid)
        kept = Kept()
        self.emitter.emit_batch(attempt, partitions, kept)
        self.emitted[attempt] = kept.numbers
        return attempt

    def commit(self, attempt: TransactionAttempt) -> list[object]:
        """Both phases of the commit; return what comes after it."""
        self.progress.record(attempt.txid - 1, (attempt,))
        self.emitter.commit(attempt)
        self.committed += self.emitted[attempt]
        return list(self.coordinator.commit_done(attempt))


def numbers(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def test_the_worked_example() -> None:
    scene = Scene()
    coordinator, emitted = scene.coordinator, scene.emitted

    # 1. Transaction A emits tuples 1-50.
    a = scene.emit(A)
    assert emitted[a] == numbers(1, 50)

    # 2. Transaction B emits tuples 51-100.
    b = scene.emit(B)
    assert emitted[b] == numbers(51, 100)
    assert coordinator.processed(b) == (), "B is processed, but commits after A"

    # 3. Transaction A fails (and causes transaction B to fail).
    assert coordinator.failed(a, 0.0) == [a, b]
    assert not coordinator.active
    assert coordinator.processed(a) == coordinator.processed(b) == (), "whatever is still heard of them"

    # 4. Transaction A emits tuples 1-40: then the partition is away.
    scene.queue.goes_away_after = 40
    a_again = scene.emit(A)
    assert (a_again.txid, a_again.attempt > b.attempt) == (A, True)
    assert emitted[a_again] == numbers(1, 40)

    # 5. Transaction B emits tuples 41-90: it begins where the new A ended, though that is not committed.
    scene.queue.goes_away_after = 1_000_000
    b_again = scene.emit(B)
    assert emitted[b_again] == numbers(41, 90)
    assert coordinator.wants(0.0) is None, "two may be active"

    # 6. Transaction A commits.
    assert coordinator.processed(b_again) == ()
    assert coordinator.processed(a_again) == (Record(0, (a_again,)), EmitCommit((a_again,)))
    assert scene.commit(a_again) == [Record(A, (b_again,)), EmitCommit((b_again,))]
    assert scene.committed == numbers(1, 40)

    # 7. Transaction B commits.
    assert scene.commit(b_again) == [Record(B)]
    assert scene.committed == numbers(1, 90)

    # 8. Transaction C emits tuples 91-140.
    c = scene.emit(C)
    assert emitted[c] == numbers(91, 140)
    assert coordinator.processed(c) == (Record(B, (c,)), EmitCommit((c,)))
    assert scene.commit(c) == [Record(C)]
    assert scene.committed == numbers(1, 140), "none skipped, none repeated"


def test_without_failing_the_subsequent_transaction_its_commit_is_refused() -> None:
    """The bad scenario: A emits 1-40 at its replay and commits, and then B with its tuples 51-100: 41-50 would
    be skipped. Should a commit tuple of the old B ever come, the emitter refuses it."""
    scene = Scene()
    a, b = scene.emit(A), scene.emit(B)
    scene.coordinator.failed(a, 0.0)
    scene.queue.goes_away_after = 40
    a_again = scene.emit(A)
    scene.coordinator.processed(a_again)
    scene.commit(a_again)
    assert scene.committed == numbers(1, 40)
    with pytest.raises(FailedException, match="its batch was not emitted by this incarnation of the emitter"):
        scene.emitter.commit(b)


def test_the_next_coordinator_goes_on_behind_what_is_committed() -> None:
    """The example, stopped after step 6 and taken up by a new coordinator and a new emitter under the same id."""
    scene = Scene()
    scene.queue.goes_away_after = 40
    a = scene.emit(A)
    scene.queue.goes_away_after = 1_000_000
    b = scene.emit(B)
    scene.coordinator.processed(a)
    scene.commit(a)
    scene.progress.record(A)

    after = Scene(scene.store)
    for txid, batch in ((B, numbers(41, 90)), (C, numbers(91, 140))):
        attempt = after.emit(txid)
        assert after.emitted[attempt] == batch
        after.coordinator.processed(attempt)
        after.commit(attempt)
    assert scene.committed + after.committed == numbers(1, 140)
    with pytest.raises(FailedException, match="another writer was first: /numbers/coordinator/epoch"):
        scene.emitter.commit(b)
