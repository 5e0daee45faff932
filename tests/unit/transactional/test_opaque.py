"""Opaque spouts: batches may change at a replay, and still every number is committed once, in order."""

from __future__ import annotations

import random
from typing import Any

import pytest
from interrupted_store import InterruptedStore, interruptions
from partition_sources import ID, Kept, OpaqueNumbers, OpaqueNumbersEmitter, Source, attempt, context

from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import StateStore
from tupletree.attempt import TransactionAttempt
from tupletree.errors import FailedException, UnavailableError, UsageError
from tupletree.transactional.coordinator import Coordinator, EmitCommit, Record
from tupletree.transactional.layout import partition_path
from tupletree.transactional.opaque import KIND, OpaqueEmitter, OpaqueSpoutAdapter
from tupletree.transactional.partition_states import Partitions
from tupletree.transactional.partitioned import KIND as PARTITIONED
from tupletree.transactional.progress import Progress


@pytest.fixture
def store() -> MemoryStore:
    """With a coordinator of epoch 1."""
    store = MemoryStore()
    Progress.take_over(store, ID, "the test")
    return store


def emitter(store: StateStore, source: Source, index: int = 0, tasks: int = 1) -> OpaqueEmitter:
    return OpaqueEmitter("spout", OpaqueNumbersEmitter(source), Partitions(store, ID, KIND), index, tasks)


def emit(task: OpaqueEmitter, txid: int, number: int = 0, partitions: int = 1, epoch: int = 1) -> list[Any]:
    """What one attempt emits."""
    kept = Kept()
    task.emit_batch(attempt(txid, number, epoch), partitions, kept)
    return kept.numbers


def test_each_batch_begins_where_the_one_before_ended_committed_or_not(store: MemoryStore) -> None:
    task = emitter(store, Source([9], take=2))
    assert [emit(task, txid, txid) for txid in (1, 2, 3)] == [[1, 2], [3, 4], [5, 6]]
    for txid in (1, 2, 3):
        task.commit(attempt(txid, txid))
    assert emit(task, 4, 4) == [7, 8]
    assert emit(emitter(store, Source([9], take=2)), 4, 5) == [7, 8], "a new incarnation"


def test_a_replay_may_be_another_batch_and_takes_the_later_ones_along(store: MemoryStore) -> None:
    source = Source([9], take=3)
    task = emitter(store, source)
    assert [emit(task, txid, txid) for txid in (1, 2)] == [[1, 2, 3], [4, 5, 6]]
    source.take = 2
    assert [emit(task, txid, txid + 2) for txid in (1, 2)] == [[1, 2], [3, 4]]
    task.commit(attempt(1, 3))
    with pytest.raises(FailedException, match="was not emitted by this incarnation"):
        task.commit(attempt(2, 2))


def test_a_partition_that_is_away_emits_nothing_and_goes_on_later(store: MemoryStore) -> None:
    source = Source([9, 9], take=2)
    task = emitter(store, source)
    source.away.add(0)
    assert emit(task, 1, 1, partitions=2) == [1001, 1002]
    task.commit(attempt(1, 1))
    source.away.clear()
    assert emit(task, 2, 2, partitions=2) == [1, 2, 1003, 1004]


def test_nothing_is_written_down_before_the_commit(store: MemoryStore) -> None:
    task = emitter(store, Source([9], take=2))
    emit(task, 1)
    assert store.get(partition_path(ID, 0)) is None


def test_an_emitter_that_died_between_emission_and_commit_fails_the_commit(store: MemoryStore) -> None:
    source = Source([9], take=2)
    emit(emitter(store, source), 1, 1)
    task = emitter(store, source)
    assert emit(task, 2, 2) == [1, 2], "it knows nothing of transaction 1"
    with pytest.raises(FailedException, match=r"transaction 1 \(attempt 1.1\): its batch was not emitted by this"):
        task.commit(attempt(1, 1))
    assert [emit(task, txid, txid + 2) for txid in (1, 2)] == [[1, 2], [3, 4]]
    for txid in (1, 2):
        task.commit(attempt(txid, txid + 2))


def test_a_commit_that_failed_elsewhere_is_replayed_from_the_same_place(store: MemoryStore) -> None:
    source = Source([9], take=2)
    task = emitter(store, source)
    emit(task, 1, 1)
    task.commit(attempt(1, 1))
    emit(task, 2, 2)
    task.commit(attempt(2, 2))  # and the emitter dies, or another committer fails
    source.take = 1
    for replaying in (emitter(store, source), task):
        assert emit(replaying, 2, 3) == [3]
    task.commit(attempt(2, 3))
    assert emit(task, 3, 4) == [4]


def test_a_commit_that_is_told_twice_commits_once(store: MemoryStore) -> None:
    task = emitter(store, Source([9], take=2))
    emit(task, 1)
    task.commit(attempt(1))
    task.commit(attempt(1))
    assert emit(task, 2, 1) == [3, 4]


def test_an_older_attempt_does_not_replace_a_newer_one(store: MemoryStore) -> None:
    source = Source([9], take=3)
    old, older = emitter(store, source), emitter(InterruptedStore(store, at=1), source)
    for number, task in enumerate((older, old)):
        emit(task, 1, number)
    source.take = 2
    new = emitter(store, source)
    emit(new, 1, 2)
    new.commit(attempt(1, 2))
    with pytest.raises(FailedException, match="another writer was first"):
        old.commit(attempt(1, 1))
    with pytest.raises(UnavailableError):
        older.commit(attempt(1, 0))
    with pytest.raises(FailedException, match="a later attempt has recorded partition 0"):
        older.commit(attempt(1, 0))  # it has looked anew
    assert [emit(task, 2, 3) for task in (older, old, new)] == [[3, 4]] * 3


def test_a_batch_that_began_at_a_position_that_is_over_is_not_committed(store: MemoryStore) -> None:
    source = Source([9], take=2)
    old, new = emitter(store, source), emitter(store, source)
    emit(old, 1, 1)
    assert emit(new, 2, 2) == [1, 2], "of transaction 1 it knows nothing: the other incarnation emitted it"
    old.commit(attempt(1, 1))
    with pytest.raises(FailedException):
        new.commit(attempt(2, 2))
    assert emit(new, 2, 3) == [3, 4]
    new.commit(attempt(2, 3))


def test_an_incarnation_that_looked_before_the_other_wrote_does_not_commit(store: MemoryStore) -> None:
    source = Source([9], take=2)
    old, new = emitter(store, source), emitter(store, source)
    emit(old, 1, 1)
    emit(new, 1, 2)
    old.commit(attempt(1, 1))
    with pytest.raises(FailedException, match="another writer was first"):
        new.commit(attempt(1, 2))
    assert emit(new, 1, 3) == [1, 2]
    new.commit(attempt(1, 3))


def test_a_commit_of_a_deposed_coordinator_changes_nothing(store: MemoryStore) -> None:
    source = Source([9], take=2)
    task = emitter(store, source)
    emit(task, 1)
    Progress.take_over(store, ID, "another")
    with pytest.raises(FailedException, match="another writer was first: /numbers/coordinator/epoch"):
        task.commit(attempt(1))
    assert emit(task, 1, epoch=2) == [1, 2]
    task.commit(attempt(1, epoch=2))


def test_a_change_of_the_metadata_that_was_handed_out_changes_nothing(store: MemoryStore) -> None:
    task = emitter(store, Source([9], take=2))
    emit(task, 1)
    for number in range(3):
        assert emit(task, 2, number) == [3, 4], "the source adds to the list that it is handed"
    task.commit(attempt(1))
    assert emit(task, 2, 4) == [3, 4]


def test_an_emitter_without_a_partition_takes_part(store: MemoryStore) -> None:
    task = emitter(store, Source([9], take=2), index=1, tasks=2)
    assert emit(task, 1) == []
    task.commit(attempt(1))


def test_two_positions_are_kept_of_a_partition(store: MemoryStore) -> None:
    task = emitter(store, Source([900], take=1))
    for txid in range(1, 301):
        task.cleanup_before(txid - 1)
        emit(task, txid)
        task.commit(attempt(txid))
        assert list(Partitions(store, ID, KIND)[0].states) == [txid - 1, txid][-txid:]
    assert store.children(f"/{ID}/user") == ["0"]


def test_states_of_a_partitioned_spout_are_refused(store: MemoryStore) -> None:
    Partitions(store, ID, PARTITIONED).write(attempt(1), {0: {1: [b"", 0, 0]}})
    with pytest.raises(UsageError, match=r"/numbers/user/0 was written by a spout of another kind \(partitioned, this"):
        emit(emitter(store, Source([9], take=2)), 2)


def test_the_coordinator_is_ready_while_a_partition_has_more_than_was_committed(store: MemoryStore) -> None:
    source = Source([2, 2], take=2)
    adapter = OpaqueSpoutAdapter(ID, OpaqueEnds(source), open_store=lambda _: store)
    task = adapter.emitter({}, context())
    assert adapter.coordinator({}, context()).is_ready()
    task.emit_batch(attempt(1), 2, Kept())
    assert adapter.coordinator({}, context()).is_ready()
    task.commit(attempt(1))
    assert not adapter.coordinator({}, context()).is_ready()


class OpaqueEnds(OpaqueNumbers):
    """The coordinator reads the metadata of the opaque emitter, a list."""

    def coordinator(self, conf: Any, context: Any) -> Any:
        coordinator = super().coordinator(conf, context)
        sizes = self.source.sizes

        class Ends(type(coordinator)):  # type: ignore[misc]
            def has_more(self, partition: int, newest: Any) -> bool:
                return (newest[0] if newest else 0) < sizes[partition]

        return Ends(self.source)


def commit_all(task: OpaqueEmitter, source: Source, txids: range) -> list[int]:
    """Emit and commit transaction after transaction, each until it succeeds; return what was committed."""
    committed: list[int] = []
    number = 0
    for txid in txids:
        while True:
            number += 1
            source.take = 2 + number % 2
            try:
                batch = emit(task, txid, number, partitions=2)
                task.commit(attempt(txid, number))
                break
            except (FailedException, UnavailableError):
                continue
        committed += batch
    return committed


def test_a_store_that_is_away_at_any_moment_skips_and_repeats_nothing() -> None:
    """Each scenario is interrupted at one operation, whose effect comes at once, late, or never."""
    for at, lateness in interruptions():
        store = MemoryStore()
        Progress.take_over(store, ID, "the test")
        interrupted = InterruptedStore(store, at, lateness)
        source = Source([99, 99], take=2)
        committed = commit_all(emitter(interrupted, source), source, range(1, 5))
        for partition in range(2):
            mine = [number for number in committed if number // 1000 == partition]
            assert mine == list(range(partition * 1000 + 1, partition * 1000 + 1 + len(mine)))
        if not interrupted.interrupted:
            return


class Chaos:
    """A coordinator and the incarnations of one emitter, driven at random: batch and commit tuples are lost or arrive
    at a dead incarnation, trees fail, incarnations and coordinators are replaced and their predecessors go on.

    ``done`` is what is recorded as committed: for each transaction what the attempt that committed had emitted.
    """

    PARTITIONS = 2

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = MemoryStore()
        self.source = Source([999] * self.PARTITIONS, take=3)
        self.emitters = [self.incarnation()]
        self.emitted: dict[TransactionAttempt, list[int]] = {}
        self.done: dict[int, list[int]] = {}
        self.late: list[tuple[OpaqueEmitter, TransactionAttempt]] = []
        self.take_over()

    def incarnation(self) -> OpaqueEmitter:
        return emitter(self.store, self.source)

    def take_over(self) -> None:
        self.progress = Progress.take_over(self.store, ID, "the test")
        self.coordinator = Coordinator(self.progress.epoch, self.progress.committed, max_active=3)

    def any_emitter(self) -> OpaqueEmitter:
        """Mostly the newest."""
        return self.random.choice(self.emitters) if self.random.random() < 0.2 else self.emitters[-1]

    def step(self) -> None:
        self.source.take = self.random.randint(0, 4)
        self.source.away = {number for number in range(self.PARTITIONS) if self.random.random() < 0.1}
        what = self.random.random()
        if what < 0.04:
            self.emitters = [*self.emitters[-2:], self.incarnation()]
        elif what < 0.06:
            self.take_over()
        elif what < 0.12 and self.coordinator.active:
            self.fail(self.random.choice([transaction.attempt for transaction in self.coordinator.active.values()]))
        elif what < 0.18 and self.late:
            task, attempt = self.late.pop(self.random.randrange(len(self.late)))
            self.commit_at(task, attempt)
        else:
            self.begin()

    def begin(self) -> None:
        txid = self.coordinator.wants(1e9)
        if txid is None:
            first = self.coordinator.active[self.coordinator.committed + 1].attempt
            if first in self.emitted:
                self.finish(first)
            else:
                self.fail(first)  # its batch tuple was lost
            return
        attempt = self.coordinator.begin(txid)
        if self.random.random() < 0.9:
            kept = Kept()
            self.any_emitter().emit_batch(attempt, self.PARTITIONS, kept)
            self.emitted[attempt] = kept.numbers

    def finish(self, attempt: TransactionAttempt) -> None:
        for effect in self.coordinator.processed(attempt):
            match effect:
                case Record(committed, committing):
                    self.progress.record(committed, committing)
                case EmitCommit((attempt,)):
                    self.commit(attempt)

    def commit(self, attempt: TransactionAttempt) -> None:
        task = self.any_emitter()
        if self.random.random() < 0.1:
            self.late.append((task, attempt))
        elif self.commit_at(task, attempt) and self.random.random() < 0.9:  # else the ack is lost
            self.coordinator.commit_done(attempt)
            if self.random.random() < 0.9:  # else the coordinator dies before it has recorded it
                self.progress.record(attempt.txid)
                self.done[attempt.txid] = self.emitted[attempt]
            else:
                self.take_over()
            return
        self.fail(attempt)

    def commit_at(self, task: OpaqueEmitter, attempt: TransactionAttempt) -> bool:
        try:
            task.commit(attempt)
        except FailedException:
            return False
        return True

    def fail(self, attempt: TransactionAttempt) -> None:
        self.coordinator.failed(attempt, 0.0)

    def check(self) -> None:
        assert list(self.done) == list(range(1, len(self.done) + 1))
        for partition in range(self.PARTITIONS):
            mine = [number for batch in self.done.values() for number in batch if number // 1000 == partition]
            assert mine == list(range(partition * 1000 + 1, partition * 1000 + 1 + len(mine)))


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_every_number_is_committed_once_and_in_order(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(600):
        chaos.step()
        chaos.check()
    assert len(chaos.done) > 30
