"""The spout that the coordinator runs in, when another coordinator of the same id takes over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import Node, Put, StateStore, Write
from tupletree.attempt import TransactionAttempt
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.errors import ReportedFailedException, UnavailableError
from tupletree.testing.local_cluster import SimulatedClock
from tupletree.transactional import coordinator_spout
from tupletree.transactional.coordinator_spout import CoordinatorSpout, Tree
from tupletree.transactional.layout import decode_progress, progress_path
from tupletree.transactional.progress import Progress
from tupletree.transactional.spouts import TransactionalSpout, TransactionCoordinator
from tupletree.transactional.streams import attempts_of

ID = "count"


class Endless(TransactionalSpout, TransactionCoordinator):
    """A source that always has a batch."""

    def coordinator(self, conf: Any, context: Any) -> TransactionCoordinator:
        return self

    def initialize_transaction(self, txid: int, previous: Any) -> Any:
        return txid


class Away(Endless):
    """A source that cannot be reached."""

    def is_ready(self) -> bool:
        raise ReportedFailedException("nobody is there")


class Emitted(SpoutCollector):
    """What a coordinator emitted and reported, until it is asked for."""

    def __init__(self) -> None:
        self.values: list[Sequence[Any]] = []
        self.trees: list[tuple[Tree, TransactionAttempt]] = []
        self.errors: list[str] = []

    def emit(self, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> tuple[int, ...]:
        self.values.append(values)
        self.trees.append(msg_id)
        return ()

    def report_error(self, error: BaseException) -> None:
        self.errors.append(str(error))

    def take(self) -> list[tuple[Tree, TransactionAttempt]]:
        trees, self.trees = self.trees, []
        return trees


class Process:
    """A coordinator of one of several topologies on one store."""

    def __init__(
        self,
        store: StateStore,
        topology_id: str,
        clock: SimulatedClock,
        pending: int = 1,
        source: TransactionalSpout | None = None,
        in_groups: bool = False,
    ) -> None:
        self.collector = Emitted()
        self.spout = CoordinatorSpout(ID, source or Endless(), open_store=lambda conf: store, clock=clock)
        self.spout.commits_in_groups = in_groups
        context = TopologyContext(
            topology_id=topology_id, component_id="c", task_id=1, tasks={"c": [1]}, sources={}, targets={}, conf={}
        )
        self.conf: dict[str, Any] = {"topology.max.spout.pending": pending}
        self.spout.open(self.conf, context, self.collector)

    def take(self) -> list[tuple[Tree, TransactionAttempt]]:
        self.spout.next_tuple()
        return self.collector.take()

    def commit_one(self) -> int:
        """Commit what it begins next, and return its txid."""
        for _ in Tree:
            [(tree, attempt)] = self.take()
            self.spout.ack((tree, attempt))
        return attempt.txid


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


def test_deposed_by_another_topology_it_stands_still_for_good() -> None:
    store, clock = MemoryStore(), SimulatedClock()
    first, second = Process(store, "one", clock), Process(store, "two", clock)
    assert first.commit_one() == 1
    assert second.take()[0][1].epoch == 2
    first.collector.take()
    for _ in range(100):
        clock.now_s += 10
        first.spout.fail((Tree.BATCH, TransactionAttempt(2, (1 << 32) + 1)))
        assert first.take() == []
    assert "topology two, process" in first.collector.errors[0]


def test_deposed_by_a_leftover_of_its_own_topology_it_takes_over_again_after_a_pause() -> None:
    store, clock = MemoryStore(), SimulatedClock()
    new, leftover = Process(store, "one", clock), Process(store, "one", clock)
    [batch] = new.take()
    assert leftover.take()[0][1].epoch == 2  # it stood still while it was replaced, and is stopped now
    new.spout.ack(batch)
    assert new.take() == []
    clock.now_s += coordinator_spout.FIRST_PAUSE_S
    assert new.take()[0][1] == TransactionAttempt(1, 3 << 32)


def test_a_deposed_coordinator_that_only_replays_finds_out() -> None:
    """The metadata of what it replays is stored already, so it writes nothing; and emitters fail all that it emits."""
    store, clock = MemoryStore(), SimulatedClock()
    deposed = Process(store, "one", clock)
    [batch] = deposed.take()
    Progress.take_over(store, ID, "topology two, process 2")
    deposed.spout.fail(batch)
    assert deposed.take() == []
    assert deposed.collector.errors == [
        "another coordinator of transactional id 'count' has taken over: topology two, process 2"
    ]


def test_the_pause_grows_while_two_coordinators_of_one_topology_depose_each_other() -> None:
    store, clock = MemoryStore(), SimulatedClock()
    processes = [Process(store, "one", clock), Process(store, "one", clock)]
    began: list[float] = []
    epochs = 0
    for _ in range(2000):
        clock.now_s += 0.1
        for process in processes:
            for tree, attempt in process.take():
                if attempt.epoch > epochs:
                    epochs = attempt.epoch
                    began.append(clock.now_s)
                process.spout.fail((tree, attempt))
    tenures = [after - before for before, after in pairwise(began)]
    assert max(tenures) > 10 * coordinator_spout.FIRST_PAUSE_S
    assert max(tenures) < 2 * coordinator_spout.MAX_PAUSE_S


def test_its_status_tells_what_is_under_way_and_for_how_long() -> None:
    clock = SimulatedClock()
    process = Process(MemoryStore(), "one", clock, pending=2)
    assert process.spout.status() == {
        "kind": "coordinator",
        "transactional_id": ID,
        "state": "taking over",
        "committed": 0,
        "active": [],
        "failures": 0,
        "lag": None,
    }
    source: Any = process.spout.spout
    source.begins_together = False
    [first] = process.take()
    clock.now_s += 1.5
    [second] = process.take()
    clock.now_s += 0.5
    process.spout.ack(first)
    status = process.spout.status()
    assert status["state"] == "running"
    assert status["active"] == [
        {"txid": 1, "attempt": first[1].attempt, "phase": "committing", "age_s": 2.0},
        {"txid": 2, "attempt": second[1].attempt, "phase": "processing", "age_s": 0.5},
    ]
    assert json.loads(json.dumps(status)) == status
    process.spout.fail(second)
    assert (process.spout.status()["failures"], len(process.spout.status()["active"])) == (1, 1)
    process.spout.ack((Tree.COMMIT, first[1]))
    assert (process.spout.status()["failures"], process.spout.status()["committed"]) == (0, 1)


def test_it_remembers_the_age_of_what_is_active_only() -> None:
    process = Process(MemoryStore(), "one", SimulatedClock(), pending=3)
    for _ in range(60):
        for msg_id in process.take():
            process.spout.ack(msg_id)
    assert process.spout.committed > 15
    assert len(process.spout._attempts_began_s) <= 3


def test_its_status_has_the_lag_of_the_source_or_what_that_raises() -> None:
    process = Process(MemoryStore(), "one", SimulatedClock())
    source: Any = process.spout.spout
    source.lag = lambda: {"bytes": 7}
    assert process.spout.status()["lag"] == {"bytes": 7}
    source.lag = lambda: 1 / 0
    assert process.spout.status()["lag"] == {"error": "ZeroDivisionError: division by zero"}
    source.lag = lambda: 5
    assert process.spout.status()["lag"] == {"error": "TypeError: 'int' object is not iterable"}


def test_the_status_of_a_deposed_coordinator_says_so() -> None:
    store, clock = MemoryStore(), SimulatedClock()
    first, second = Process(store, "one", clock), Process(store, "two", clock)
    assert first.commit_one() == 1
    second.take()
    first.take()
    assert first.spout.status()["state"] == "deposed"
