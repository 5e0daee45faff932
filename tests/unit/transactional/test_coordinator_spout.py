"""The spout that the coordinator runs in: what it begins, replays and records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coordinator_scene import ID, Away, Endless, Process

from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import Node, Put, Write
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError
from tupletree.testing.local_cluster import SimulatedClock
from tupletree.transactional.coordinator_spout import Tree
from tupletree.transactional.layout import decode_progress, progress_path
from tupletree.transactional.streams import attempts_of


def test_a_commit_leaves_before_the_store_is_asked_for_what_begins_next() -> None:
    process = Process(MemoryStore(), "one", SimulatedClock(), pending=3)
    first, second, third = process.take()
    assert [attempt.txid for _, attempt in (first, second, third)] == [1, 2, 3]
    process.spout.ack(first)
    process.spout.ack(second)
    assert process.take() == [(Tree.COMMIT, first[1])]
    process.spout.ack((Tree.COMMIT, first[1]))
    assert process.take() == [(Tree.COMMIT, second[1])]
    assert [attempt.txid for _, attempt in process.take()] == [4]
    assert process.take() == []


def test_the_limit_of_active_transactions_follows_the_configuration() -> None:
    process = Process(MemoryStore(), "one", SimulatedClock(), pending=1)
    [first] = process.take()
    process.conf["topology.max.spout.pending"] = 3
    assert [attempt.txid for _, attempt in process.take()] == [2, 3]
    process.conf["topology.max.spout.pending"] = 1
    process.spout.ack(first)
    assert process.take() == [(Tree.COMMIT, first[1])]
    process.spout.ack((Tree.COMMIT, first[1]))
    assert process.take() == [], "two are active, and none begins until they have ended"


class Counted:
    """A store that counts its writes and can be away. ``loses_replies``: it writes, and the reply is lost."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.writes: list[Sequence[Write]] = []
        self.loses_replies = False

    def get(self, path: str) -> Node | None:
        return self.store.get(path)

    def children(self, path: str) -> list[str]:
        return self.store.children(path)

    def write(self, writes: Sequence[Write]) -> None:
        self.writes.append(writes)
        self.store.write(writes)
        if self.loses_replies:
            raise UnavailableError("the reply was lost")

    def close(self) -> None:
        self.store.close()


def test_transactions_that_begin_together_take_one_request() -> None:
    store = Counted()
    process = Process(store, "one", SimulatedClock(), pending=30)
    assert len(process.take()) == 30
    begun = store.writes[2]  # behind those that raise the epoch
    assert len(begun) == 1 + 30  # the check of the epoch, and the metadata of each
    process.spout.fail((Tree.BATCH, attempt_of(process, 1)))
    store.writes.clear()
    assert len(process.take()) == 30
    assert store.writes == []  # replays write nothing


def test_large_metadata_is_spread_over_several_requests() -> None:
    source = Endless()
    source.initialize_transaction = lambda txid, previous: b"x" * 90_000  # type: ignore[method-assign]
    store = Counted()
    process = Process(store, "one", SimulatedClock(), pending=5, source=source)
    assert len(process.take()) == 5
    assert [len(writes) - 1 for writes in store.writes[2:]] == [2, 2, 1]


def attempt_of(process: Process, txid: int) -> TransactionAttempt:
    assert process.spout._coordinator is not None
    return process.spout._coordinator.active[txid].attempt


def test_what_begins_together_does_not_leave_before_it_is_durable() -> None:
    store, clock = Counted(), SimulatedClock()
    process = Process(store, "one", clock, pending=3)
    store.loses_replies = True
    for _ in range(4):
        assert process.take() == []  # twice for the epoch, and what begins
        clock.now_s += 1
    store.loses_replies = False
    assert [attempt.txid for _, attempt in process.take()] == [1, 2, 3]


def test_what_can_begin_does_so_while_the_source_is_away_or_slow() -> None:
    clock = SimulatedClock()
    source = Endless()
    process = Process(MemoryStore(), "one", clock, pending=5, source=source)

    def away(txid: int, previous: Any) -> Any:
        if txid > 3:
            raise UnavailableError("the source is away")
        return txid

    def slow(txid: int, previous: Any) -> Any:
        clock.now_s += 0.004
        return txid

    source.initialize_transaction = away  # type: ignore[method-assign]
    for _ in range(2):
        assert [attempt.txid for _, attempt in process.take()] == [1, 2, 3]
        assert process.take() == []
        assert process.collector.errors.pop() == "the source is away"
        process.spout.fail((Tree.BATCH, attempt_of(process, 1)))
        clock.now_s += 1
    source.initialize_transaction = slow  # type: ignore[method-assign]
    assert [attempt.txid for _, attempt in process.take()] == [1, 2, 3, 4, 5]
    process = Process(MemoryStore(), "two", clock, pending=5, source=source)
    assert [[attempt.txid for _, attempt in process.take()] for _ in range(3)] == [[1, 2], [3, 4], [5]]


def test_a_source_whose_batches_depend_on_those_before_begins_one_at_a_time() -> None:
    source = Endless()
    source.begins_together = False
    process = Process(MemoryStore(), "one", SimulatedClock(), pending=3, source=source)
    assert [attempt.txid for _ in range(4) for _, attempt in process.take()] == [1, 2, 3]


def test_groups_are_recorded_and_told_whole() -> None:
    store = Counted()
    process = Process(store, "one", SimulatedClock(), pending=5, in_groups=True)
    batches = process.take()
    for batch in batches:
        process.spout.ack(batch)
    attempts = [attempt for _, attempt in batches]
    assert process.collector.values == [*process.collector.values[:-1], [attempts[0], []]]
    assert process.take() == [(Tree.COMMIT, attempts[0])]
    store.writes.clear()
    process.spout.ack((Tree.COMMIT, attempts[0]))
    assert process.take() == [(Tree.COMMIT, attempts[1])]
    assert process.collector.values[-1] == [attempts[1], [attempt.attempt for attempt in attempts[2:]]]
    assert attempts_of(process.collector.values[-1]) == tuple(attempts[1:])
    [record] = store.writes
    path = progress_path(ID)
    [put] = [write for write in record if write.path == path]
    assert isinstance(put, Put)
    assert decode_progress(path, put.data) == (1, tuple(attempts[1:]))
    process.spout.ack((Tree.COMMIT, attempts[1]))
    assert process.spout.committed == 5


def test_transactions_that_fail_again_and_again_are_reported_after_a_while_and_then_seldom() -> None:
    clock = SimulatedClock()
    process = Process(MemoryStore(), "one", clock)
    for failures in range(1, 101):
        clock.now_s += 10
        [batch] = process.take()
        process.spout.fail(batch)
        assert len(process.collector.errors) == (failures >= 5) + (failures >= 100)
    assert (
        "no transaction of 'count' has committed for 5 attempts; transaction 1 was not processed"
        in (process.collector.errors[0])
    )


def test_a_source_that_complains_is_asked_less_and_less_often_and_at_once_after_it_has_answered() -> None:
    clock = SimulatedClock()
    away = Away()
    process = Process(MemoryStore(), "one", clock, source=away)
    for _ in range(6_000):
        clock.now_s += 0.01
        assert process.take() == []
    assert process.collector.errors == ["nobody is there"] * 16  # after 0.2, 0.4, 0.8, 1.6, 3.2 and then each 5 s
    away.is_ready = lambda: True  # type: ignore[method-assign]
    clock.now_s += 5
    assert len(process.take()) == 1


def test_deactivated_it_commits_what_is_under_way_and_begins_nothing() -> None:
    process = Process(MemoryStore(), "one", SimulatedClock())
    [batch] = process.take()
    process.spout.deactivate()
    process.spout.ack(batch)
    [commit] = process.collector.take()
    process.spout.ack(commit)
    assert (commit, process.spout.committed) == ((Tree.COMMIT, batch[1]), 1)
    assert process.take() == []
    process.spout.activate()
    assert process.take()[0][1].txid == 2


def test_deactivated_it_does_not_replay_what_failed_until_it_is_active_again() -> None:
    process = Process(MemoryStore(), "one", SimulatedClock())
    [batch] = process.take()
    process.spout.deactivate()
    process.spout.fail(batch)
    process.spout.ack(batch)
    assert process.collector.take() == []
    process.spout.activate()
    assert process.take()[0][1].txid == 1
