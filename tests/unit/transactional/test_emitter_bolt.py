"""The bolt that emitters run in: which attempts may commit, and when two emissions of a batch are not the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from partition_sources import attempt, context

from tupletree.attempt import TransactionAttempt
from tupletree.component import BoltCollector
from tupletree.transactional.bolts import BatchCollector, Committer
from tupletree.transactional.emitter_bolt import EmitterBolt
from tupletree.transactional.spouts import CommittingEmitter, TransactionalSpout, TransactionEmitter
from tupletree.transactional.streams import BATCH, COMMIT
from tupletree.tuples import Origin, Tuple


class Sent(BoltCollector):
    """Sends each tuple to as many tasks as ``receivers`` says next; keeps how the control tuples ended."""

    def __init__(self, receivers: Iterable[int] = ()) -> None:
        self.receivers = iter(receivers)
        self.ends: list[tuple[str, TransactionAttempt]] = []
        self.errors: list[str] = []

    def emit(self, values: Sequence[Any], anchors: Any = None, stream: str = "default") -> tuple[int, ...]:
        return tuple(range(next(self.receivers, 1)))

    def ack(self, tup: Tuple) -> None:
        self.ends.append(("ack", tup[0]))

    def fail(self, tup: Tuple) -> None:
        self.ends.append(("fail", tup[0]))

    def report_error(self, error: BaseException) -> None:
        self.errors.append(str(error))


class Emits(TransactionEmitter):
    """Emits ``sizes`` tuples, one number after the other."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes = iter(sizes)

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        collector.emit_many([attempt, number] for number in range(next(self.sizes)))


class Commits(Emits, CommittingEmitter):
    """Remembers what it was told to commit."""

    def __init__(self, sizes: Iterable[int]) -> None:
        super().__init__(sizes)
        self.committed: list[TransactionAttempt] = []

    def commit(self, attempt: TransactionAttempt) -> None:
        self.committed.append(attempt)


class Spout(TransactionalSpout):
    def __init__(self, made: TransactionEmitter) -> None:
        self.made = made

    def emitter(self, conf: Any, context: Any) -> TransactionEmitter:
        return self.made


class CommittingSpout(Spout, Committer):
    pass


def prepared(spout: TransactionalSpout, collector: Sent) -> EmitterBolt:
    bolt = EmitterBolt(spout)
    bolt.prepare({}, context(), collector)
    return bolt


def batch(bolt: EmitterBolt, one: TransactionAttempt) -> None:
    bolt.execute(Tuple([one, None, 0], 0, 0, Origin("c", 7, BATCH.id, BATCH.fields)))


def commit(bolt: EmitterBolt, one: TransactionAttempt) -> None:
    bolt.execute(Tuple([one], 0, 0, Origin("c", 7, COMMIT.id, COMMIT.fields)))


def test_an_emitter_commits_what_it_has_emitted() -> None:
    emitter, collector = Commits([2]), Sent()
    bolt = prepared(CommittingSpout(emitter), collector)
    batch(bolt, attempt(1))
    commit(bolt, attempt(1))
    assert emitter.committed == [attempt(1)]
    assert collector.ends == [("ack", attempt(1))] * 2


def test_an_emitter_is_not_told_to_commit_what_another_incarnation_emitted() -> None:
    emitter, collector = Commits([2]), Sent()
    bolt = prepared(CommittingSpout(emitter), collector)
    commit(bolt, attempt(1))
    assert emitter.committed == []
    assert collector.ends == [("fail", attempt(1))]


def test_a_replay_is_the_same_batch_whoever_its_tuples_go_to() -> None:
    collector = Sent(receivers=[1, 2, 0, 3])
    bolt = prepared(Spout(Emits([2, 2])), collector)
    batch(bolt, attempt(1, 0))
    batch(bolt, attempt(1, 1))
    assert collector.ends == [("ack", attempt(1, 0)), ("ack", attempt(1, 1))]


def test_a_replay_of_another_size_fails_and_is_reported() -> None:
    collector = Sent()
    bolt = prepared(Spout(Emits([2, 3])), collector)
    batch(bolt, attempt(1, 0))
    batch(bolt, attempt(1, 1))
    assert collector.ends == [("ack", attempt(1, 0)), ("fail", attempt(1, 1))]
    assert "transaction 1: emitted 3 tuples, but 2 the first time" in collector.errors[0]
