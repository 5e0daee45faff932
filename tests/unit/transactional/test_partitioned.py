"""Partitioned spouts: a replayed batch is the same batch, and the batches of a partition join without a gap."""

from __future__ import annotations

import random
from typing import Any

import pytest
from interrupted_store import InterruptedStore, interruptions
from partition_sources import ID, Kept, Numbers, NumbersEmitter, Source, attempt, context, emit, emitter

from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import Put
from tupletree.errors import (
    ConflictError,
    FailedException,
    ReportedFailedException,
    UnavailableError,
    UnregisteredTypeError,
    UsageError,
)
from tupletree.transactional.checksum import CHUNK, ChecksumCollector
from tupletree.transactional.layout import partition_path
from tupletree.transactional.opaque import KIND as OPAQUE
from tupletree.transactional.partition_states import Partitions
from tupletree.transactional.partitioned import (
    KIND,
    PartitionedEmitter,
    PartitionedSpoutAdapter,
)
from tupletree.transactional.progress import Progress


@pytest.fixture
def store() -> MemoryStore:
    """With a coordinator of epoch 1."""
    store = MemoryStore()
    Progress.take_over(store, ID, "the test")
    return store


def test_each_batch_begins_where_the_one_before_ended(store: MemoryStore) -> None:
    task = emitter(store, Source([5], take=2))
    assert [emit(task, txid) for txid in range(1, 5)] == [[1, 2], [3, 4], [5], []]


def test_a_batch_takes_of_every_partition_and_the_tasks_share_them_out(store: MemoryStore) -> None:
    source = Source([9] * 5, take=1)
    shares = [emit(emitter(store, source, index, tasks=3), 1, partitions=5) for index in range(3)]
    assert shares == [[1, 3001], [1001, 4001], [2001]]


def test_a_replay_is_the_same_batch_whatever_became_of_the_source(store: MemoryStore) -> None:
    source = Source([5], take=2)
    task = emitter(store, source)
    first = [emit(task, txid) for txid in (1, 2)]
    source.take = 3
    assert [emit(task, txid, number=7) for txid in (1, 2)] == first
    assert [emit(emitter(store, source), txid, number=8) for txid in (1, 2)] == first, "a new incarnation"
    assert emit(task, 3) == [5]


def test_a_partition_that_is_added_begins_at_its_beginning(store: MemoryStore) -> None:
    task = emitter(store, Source([9, 9], take=2))
    assert emit(task, 1, partitions=1) == [1, 2]
    assert emit(task, 2, partitions=2) == [3, 4, 1001, 1002]
    assert emit(task, 1, number=1, partitions=1) == [1, 2]


def test_a_transaction_that_was_skipped_has_nothing_at_every_replay(store: MemoryStore) -> None:
    task = emitter(store, Source([9], take=2))
    assert emit(task, 1) == [1, 2]
    assert emit(task, 3) == [3, 4], "the batch tuple of transaction 2 was lost"
    assert emit(task, 2, number=1) == []
    assert emit(task, 3, number=2) == [3, 4]
    assert emit(emitter(store, Source([9], take=2)), 2, number=3) == []
    task.cleanup_before(2)
    assert emit(task, 4) == [5, 6]
    assert emit(task, 3, number=4) == [3, 4]


def test_a_batch_that_fails_half_way_is_not_written_down(store: MemoryStore) -> None:
    source = Source([9, 9], take=2)
    task = emitter(store, source)
    source.away.add(1)
    with pytest.raises(FailedException, match="partition 1 is away"):
        emit(task, 1, partitions=2)
    assert store.get(partition_path(ID, 0)) is None
    source.away.clear()
    source.take = 3
    assert emit(task, 1, number=1, partitions=2) == [1, 2, 3, 1001, 1002, 1003]


def test_what_lies_behind_the_commit_is_left_out_of_the_next_write(store: MemoryStore) -> None:
    task = emitter(store, Source([9000], take=1))
    sizes = []
    for txid in range(1, 1001):
        task.cleanup_before(txid - 3)
        emit(task, txid)
        assert set(Partitions(store, ID, KIND)[0].states) == set(range(max(1, txid - 3), txid + 1))
        node = store.get(partition_path(ID, 0))
        assert node is not None
        sizes.append(len(node.data))
    assert max(sizes) < 250
    assert store.children(f"/{ID}/user") == ["0"]


def test_a_change_of_the_metadata_that_was_handed_out_changes_nothing(store: MemoryStore) -> None:
    source = Source([9], take=2)
    task = emitter(store, source)
    source.away.add(1)
    assert emit(task, 1) == [1, 2]
    with pytest.raises(FailedException):  # after partition 0 changed its copy of what transaction 1 returned
        emit(task, 2, partitions=2)
    assert emit(task, 2, number=1) == [3, 4]


class Unfaithful(NumbersEmitter):
    """Emits other numbers at a replay."""

    def __init__(self, source: Source, replayed: list[int]) -> None:
        super().__init__(source)
        self.replayed = replayed

    def emit_partition_batch(self, attempt: Any, collector: Any, partition: int, metadata: Any) -> None:
        collector.emit_many([attempt, number] for number in self.replayed)


@pytest.mark.parametrize(
    ("replayed", "what"),
    [
        ([1], "emitted 1 tuples, but 2 the first time"),
        ([1, 2, 3], "emitted 3 tuples, but 2 the first time"),
        ([1, 3], "emitted 2 tuples that differ from those of the first time"),
        ([2, 1], "emitted 2 tuples that differ from those of the first time"),
    ],
)
def test_another_batch_for_the_same_transaction_is_found_out(
    store: MemoryStore, replayed: list[int], what: str
) -> None:
    source = Unfaithful(Source([9], take=2), replayed)
    task = PartitionedEmitter("lines", source, Partitions(store, ID, KIND), 0, 1)
    emit(task, 1)
    with pytest.raises(ReportedFailedException) as caught:
        emit(task, 1, number=1)
    assert str(caught.value) == (
        f"component 'lines', partition 0, transaction 1: {what}; a transactional spout must emit the same batch for "
        f"the same transaction: if its fields or its format were changed, submit it as it was until the transaction is "
        f"committed; for a source that cannot, use an OpaquePartitionedTransactionalSpout"
    )
    source.replayed = [1, 2]
    assert emit(task, 1, number=2) == [1, 2], "nothing of the wrong batch is kept"


def test_the_checksum_is_of_the_tuples_and_not_of_how_they_were_emitted() -> None:
    rows = [[attempt(1), "word", number] for number in range(3 * CHUNK + 5)]
    one_by_one, at_once, mixed = (ChecksumCollector(Kept()) for _ in range(3))
    for row in rows:
        one_by_one.emit(row)
    at_once.emit_many(iter(rows))
    mixed.emit_many(rows[:100])
    mixed.emit([attempt(1, 9), *rows[100][1:]])
    mixed.emit_many(rows[101:])
    assert one_by_one.checksum() == at_once.checksum() == mixed.checksum()
    other_stream = ChecksumCollector(Kept())
    other_stream.emit_many(rows, "other")
    assert other_stream.checksum() != one_by_one.checksum()


def test_tuples_that_cannot_be_encoded_are_compared_by_their_number(store: MemoryStore) -> None:
    class Objects(NumbersEmitter):
        count = 2

        def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, previous: Any) -> int:
            collector.emit_many([attempt, object()] for _ in range(2))
            return 2

        def emit_partition_batch(self, attempt: Any, collector: Any, partition: int, metadata: int) -> None:
            collector.emit_many([attempt, object()] for _ in range(self.count))

    source = Objects(Source([9], take=2))
    task = PartitionedEmitter("lines", source, Partitions(store, ID, KIND), 0, 1)
    emit(task, 1)
    emit(task, 1, number=1)
    source.count = 3
    with pytest.raises(ReportedFailedException, match="emitted 3 tuples, but 2 the first time"):
        emit(task, 1, number=2)


def test_metadata_that_cannot_be_stored_is_named(store: MemoryStore) -> None:
    class Careless(NumbersEmitter):
        def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, previous: Any) -> Any:
            return object()

    task = PartitionedEmitter("lines", Careless(Source([9], take=2)), Partitions(store, ID, KIND), 0, 1)
    with pytest.raises(
        UnregisteredTypeError, match=r"component 'lines': the metadata of a batch of partition 0 cannot"
    ):
        emit(task, 1)


def test_an_attempt_of_a_deposed_coordinator_writes_nothing(store: MemoryStore) -> None:
    task = emitter(store, Source([9], take=2))
    emit(task, 1)
    Progress.take_over(store, ID, "another")
    with pytest.raises(FailedException, match=r"another writer was first: /numbers/coordinator/epoch"):
        emit(task, 2)
    assert set(Partitions(store, ID, KIND)[0].states) == {1}
    assert emit(task, 2, epoch=2) == [3, 4]


def test_two_incarnations_never_write_down_batches_that_begin_at_the_same_place(store: MemoryStore) -> None:
    source = Source([9], take=2)
    old, new = emitter(store, source), emitter(store, source)
    assert emit(old, 1) == [1, 2]
    assert emit(new, 1, number=1) == [1, 2]
    emit(old, 2)
    with pytest.raises(FailedException, match="another writer was first"):
        emit(new, 3)  # it had looked before the old one wrote: it would begin where transaction 2 began
    assert emit(new, 3, number=1) == [5, 6], "a conflict makes it look anew"
    with pytest.raises(FailedException, match="another writer was first"):
        emit(old, 4)


def test_a_store_that_is_away_at_any_moment_changes_no_batch() -> None:
    """Each scenario is interrupted at one operation, whose effect comes at once, late, or never."""
    for at, lateness in interruptions():
        store = MemoryStore()
        Progress.take_over(store, ID, "the test")
        interrupted = InterruptedStore(store, at, lateness)
        source = Source([9, 9], take=2)
        task = emitter(interrupted, source)
        reported: dict[int, list[int]] = {}
        number = 0
        for txid in (1, 2, 1, 2, 3):
            source.take = 2 + number % 2
            while True:
                number += 1
                try:
                    batch = emit(task, txid, number, partitions=2)
                    break
                except (FailedException, UnavailableError):
                    continue
            assert reported.setdefault(txid, batch) == batch
        for partition in range(2):
            mine = [number for txid in sorted(reported) for number in reported[txid] if number // 1000 == partition]
            assert mine == list(range(partition * 1000 + 1, partition * 1000 + 1 + len(mine)))
        if not interrupted.interrupted:
            return


def test_states_of_another_kind_of_spout_are_refused(store: MemoryStore) -> None:
    Partitions(store, ID, OPAQUE).write(attempt(1), {0: {1: [1, b""]}})
    with pytest.raises(
        UsageError, match=r"/numbers/user/0 was written by a spout of another kind \(opaque, this one is"
    ):
        emit(emitter(store, Source([9], take=2)), 2)


def test_states_of_a_newer_version_are_refused(store: MemoryStore) -> None:
    emit(emitter(store, Source([9], take=2)), 1)
    path = partition_path(ID, 0)
    store.write([Put(path, bytes([0x93, 99, 1, 2]), 0)])
    with pytest.raises(UsageError, match=r"/numbers/user/0 was written by a newer version of Tupletree \(format 99"):
        emit(emitter(store, Source([9], take=2)), 2)


def test_a_write_names_the_version_it_was_planned_on(store: MemoryStore) -> None:
    one, other = Partitions(store, ID, KIND), Partitions(store, ID, KIND)
    for partitions in (one, other):
        assert partitions[0].version is None
    one.write(attempt(1), {0: {1: "one"}})
    with pytest.raises(FailedException) as caught:
        other.write(attempt(1, 1), {0: {1: "other"}})
    assert isinstance(caught.value.__cause__, ConflictError)
    assert other[0].states == {1: "one"}


def test_the_adapter_declares_what_the_spout_does_and_shares_partitions_by_task(store: MemoryStore) -> None:
    adapter = PartitionedSpoutAdapter(ID, Numbers(Source([9] * 3, take=1)), open_store=lambda _: store)
    kept = Kept()
    task = adapter.emitter({}, context(task=2, tasks=2))
    task.emit_batch(attempt(1), 3, kept)
    assert kept.numbers == [1001]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_incarnation_emits_a_transaction_it_is_the_same_batch_and_the_next_one_joins(seed: int) -> None:
    """Up to three transactions are under way, tuples are lost, and dead incarnations go on."""
    chance = random.Random(seed)
    store = MemoryStore()
    Progress.take_over(store, ID, "the test")
    source = Source([999, 999], take=2)
    tasks = [emitter(store, source)]
    reported: dict[int, list[int]] = {}
    committed = 0
    for number in range(600):
        if chance.random() < 0.05:
            tasks = [*tasks[-2:], emitter(store, source)]
        source.take = chance.randint(0, 4)
        task = tasks[-1] if chance.random() < 0.7 else chance.choice(tasks)
        txid = committed + chance.randint(1, 3)
        task.cleanup_before(committed)
        try:
            batch = emit(task, txid, number, partitions=2)
        except FailedException:
            continue
        assert reported.setdefault(txid, batch) == batch
        if committed + 1 in reported and chance.random() < 0.5:
            committed += 1
    assert committed > 50
    for partition in range(2):
        mine = [number for txid in range(1, committed + 1) for number in reported[txid] if number // 1000 == partition]
        assert mine == list(range(partition * 1000 + 1, partition * 1000 + 1 + len(mine)))
