"""Rules broken on purpose: each class is the real one with one rule left out, and Rules that put it in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from transaction_map_breaks import PlainMap, StormsOpaqueMap, ZombiesMap
from transaction_nouns import NEVER, Rules

from tupletree._stores.nodes import Create, Put
from tupletree.attempt import Attempts, TransactionAttempt
from tupletree.errors import ConflictError, FailedException, UnavailableError
from tupletree.transactional.coordinated_bolt import CoordinatedBolt
from tupletree.transactional.coordinator import Active, Coordinator, Effect, EmitCommit, Phase, Record
from tupletree.transactional.coordinator_spout import CoordinatorSpout
from tupletree.transactional.counting import Ack, Batch, BatchCounts, Control, Fail
from tupletree.transactional.emitter_bolt import EmitterBolt
from tupletree.transactional.opaque import OpaqueEmitter, OpaqueSpoutAdapter
from tupletree.transactional.partition_states import Partitions
from tupletree.transactional.partitioned import PartitionedEmitter, PartitionedSpoutAdapter
from tupletree.transactional.progress import Progress
from tupletree.tuples import Tuple

QUIET = {"loss": 0.0, "crash_every_s": NEVER, "break_every_s": NEVER, "operations": 0.0}
ONLY_MISHAPS = {**QUIET, "updates": 0.0, "mishaps": 0.01}
ONLY_UPDATES = {**QUIET, "updates": 0.4, "mishaps": 0.0, "slowest_s": 0.03, "end_s": 20.0}
GENERIC, PARTITIONED, OPAQUE = (
    {"kind": kind, **({"in_groups": False} if kind == "opaque" else {})}
    for kind in ("generic", "partitioned", "opaque")
)


def coordinating(kind: type[Coordinator]) -> type[CoordinatorSpout]:
    """The spout with another coordinator."""

    class Coordinating(CoordinatorSpout):
        def _take_over(self) -> None:
            super()._take_over()
            assert self._progress is not None
            assert self._coordinator is not None
            progress, max_group = self._progress, self._coordinator.max_group
            self._coordinator = kind(progress.epoch, progress.committed, self._max_active, max_group)

    return Coordinating


def counting(kind: type[BatchCounts]) -> type[CoordinatedBolt]:
    """The bolt with other books."""

    class Counting(CoordinatedBolt):
        def prepare(self, *arguments: Any) -> None:
            super().prepare(*arguments)
            self._counts = kind(self._counts.upstream, self._counts.is_committer)

    return Counting


# The coordinator


class CommitsWhenProcessed(Coordinator):
    def processed(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        transaction = self._current(attempt)
        if transaction is None or transaction.phase is not Phase.PROCESSING:
            return ()
        transaction.phase = Phase.COMMITTING
        return Record(self.committed, (attempt,)), EmitCommit((attempt,))


class HearsOfAnyAttempt(Coordinator):
    def _current(self, attempt: TransactionAttempt) -> Active | None:
        return self.active.get(attempt.txid)


class FailsOneOnly(Coordinator):
    """A failure takes no later transaction along: the gap is filled."""

    def wants(self, now_s: float, planned: int = 0) -> int | None:
        if planned:
            return None
        for txid in range(self.committed + 1, self.committed + 1 + self.max_active):
            if txid not in self.active:
                return txid
        return None

    def begin(self, txid: int) -> TransactionAttempt:
        self._next_attempt += 1
        attempt = TransactionAttempt(txid, self._next_attempt)
        self.active[txid] = Active(attempt)
        self.active = dict(sorted(self.active.items()))
        return attempt

    def failed(self, attempt: TransactionAttempt, now_s: float) -> Sequence[TransactionAttempt]:
        if self._current(attempt) is not None:
            del self.active[attempt.txid]
        return ()


class EmitsBeforeItRecords(Coordinator):
    def _commit_next(self) -> Sequence[Effect]:
        return tuple(reversed(super()._commit_next()))


class CountsAttemptsFromTheStart(Coordinator):
    """Attempt numbers do not tell one coordinator from another."""

    def __init__(self, epoch: int, committed: int, max_active: int, max_group: int = 1) -> None:
        super().__init__(1, committed, max_active, max_group)


class Unfenced(Progress):
    """Writes whoever has taken over meanwhile."""

    def _check_epoch(self) -> None:
        pass

    def _write(self, plan: Any) -> None:
        self.refresh()
        writes = []
        for write in plan():
            node = self._store.get(write.path)
            if isinstance(write, Create | Put) and node is not None:
                writes.append(Put(write.path, write.data, node.version))
            elif isinstance(write, Create) or node is not None:
                writes.append(write)
        self._store.write(writes)
        self._reload()


class UnfencedCoordinator(CoordinatorSpout):
    def _take_over(self) -> None:
        super()._take_over()
        assert self._progress is not None
        self._progress.__class__ = Unfenced


class WritesMetadataLater(Progress):
    """Metadata is stored when its transaction is about to commit."""

    owed: dict[int, bytes]

    def store_metadata(self) -> None:
        planned, self._planned = self._planned, {}
        self.owed |= {txid: write.data for txid, write in planned.items()}
        self.metadata.applied(planned.values())

    def record(self, committed: int, committing: Sequence[TransactionAttempt] = ()) -> None:
        for txid, data in list(self.owed.items()):
            if txid <= committed + max(1, len(committing)):
                with suppress(ConflictError):
                    self._store.write([Create(f"{self.metadata.folder}/{txid}", data)])
                del self.owed[txid]
        super().record(committed, committing)

    def _reload(self) -> None:
        super()._reload()
        creates = [Create(f"{self.metadata.folder}/{txid}", data) for txid, data in self.owed.items()]
        self.metadata.applied(creates)


class EmitsWhatIsNotDurable(CoordinatorSpout):
    def _take_over(self) -> None:
        super()._take_over()
        assert self._progress is not None
        self._progress.__class__ = WritesMetadataLater
        self._progress.owed = {}  # type: ignore[attr-defined]


# Counting


class CountsByTxid(CoordinatedBolt):
    """Tuples of another attempt of the same transaction are counted with those of the first."""

    def prepare(self, *arguments: Any) -> None:
        super().prepare(*arguments)
        self._first: dict[int, TransactionAttempt] = {}

    def _find(self, attempt: TransactionAttempt) -> Any:
        first = self._first.get(attempt.txid)
        if first is not None and first in self._running:
            return self._running[first]
        self._first[attempt.txid] = attempt
        return super()._find(attempt)

    def execute(self, tup: Tuple) -> None:
        first = self._first.get(tup.values[0].txid)
        if first in self._running and tup.source_stream != "default":
            tup.values = [first, *tup.values[1:]]
        super().execute(tup)


class TakesAnyNumber(BatchCounts):
    def report(
        self, attempt: TransactionAttempt, sender: int, count: int, committed: int, control: Control
    ) -> Sequence[Any]:
        batch = self.batches.get(attempt)
        count = 0 if batch is None else batch.received.get(sender, 0)
        return super().report(attempt, sender, count, committed, control)


class MissesNothing(BatchCounts):
    """Does not notice that it has lost the reports of the processing phase."""

    def _has_early(self, batch: Batch) -> bool:
        return True


class LetsOldAttemptsLinger(BatchCounts):
    """What belongs to an attempt that is over is neither acked nor failed."""

    def _drop(self, attempts: Any) -> list[Any]:
        return [effect for effect in super()._drop(attempts) if not isinstance(effect, Fail)]

    def report(self, *arguments: Any) -> Sequence[Any]:
        is_over = self.attempts.is_over(arguments[0])
        return [effect for effect in super().report(*arguments) if not (is_over and isinstance(effect, Fail))]


class CommitsAtOnce(CoordinatedBolt):
    """A committer that finishes in the processing phase."""

    def prepare(self, *arguments: Any) -> None:
        super().prepare(*arguments)
        self._counts = BatchCounts(self._counts.upstream, False)
        self._counts.commit = lambda attempt, control: [Ack([control])]  # type: ignore[method-assign]


# Spouts


class EmitsAgainWhenToldTwice(EmitterBolt):
    def prepare(self, *arguments: Any) -> None:
        super().prepare(*arguments)
        self._attempts.has_seen = lambda attempt: False  # type: ignore[method-assign]


class Careless(Partitions):
    """Goes on if a write fails."""

    def write(self, attempt: TransactionAttempt, changed: Mapping[int, Mapping[int, Any]]) -> None:
        with suppress(UnavailableError, FailedException):
            super().write(attempt, changed)


class ReportsWhatIsNotDurable(PartitionedSpoutAdapter):
    def emitter(self, conf: Any, context: Any) -> Any:
        emitter = super().emitter(conf, context)
        assert isinstance(emitter, PartitionedEmitter)
        emitter._partitions.__class__ = Careless
        return emitter


class StormsAttempts(Attempts):
    """Only an attempt of the same transaction says that another is over."""

    def is_over(self, attempt: TransactionAttempt) -> bool:
        txid, number = attempt
        return txid <= self.committed or number < max(self._floor, self._newest.get(txid, 0))


class StormsEmitter(EmitterBolt):
    def prepare(self, *arguments: Any) -> None:
        super().prepare(*arguments)
        self._attempts = StormsAttempts()


class StormsCounts(BatchCounts):
    def __init__(self, upstream: Mapping[int, bool], is_committer: bool) -> None:
        super().__init__(upstream, is_committer)
        self.attempts = StormsAttempts()


class TrustsItsCoordinator(OpaqueSpoutAdapter):
    """An emitter that takes it for granted that a failure takes all later transactions along."""

    def emitter(self, conf: Any, context: Any) -> Any:
        emitter = super().emitter(conf, context)

        class Trusting(OpaqueEmitter):
            def emit_batch(self, attempt: TransactionAttempt, *arguments: Any) -> None:
                later = {txid: emitted for txid, emitted in self._emitted.items() if txid > attempt.txid}
                super().emit_batch(attempt, *arguments)
                self._emitted.update(later)

            def _committed(self, attempt: TransactionAttempt) -> dict[int, dict[int, Any]]:
                emitted = self._emitted.get(attempt.txid)
                if emitted is None or emitted.attempt != attempt:
                    raise FailedException("not emitted here")
                changed = {}
                for partition, (base, reached) in emitted.moves.items():
                    positions = (reached,) if base is None else (base, reached)
                    changed[partition] = {txid: [number, metadata] for txid, number, metadata in positions}
                return changed

        emitter.__class__ = Trusting
        return emitter


class AcksTheCommitOfAnother(EmitterBolt):
    """A new incarnation of an emitter has nothing to commit of a batch that the old one emitted, and says so."""

    def _commit(self, tup: Tuple) -> None:
        if self._attempts.has_seen(tup.values[0]):
            super()._commit(tup)
        else:
            self.collector.ack(tup)


BROKEN: dict[str, tuple[Rules, str]] = {
    "commits when processed": (
        Rules(coordinator=coordinating(CommitsWhenProcessed)),
        "is about to commit after",
    ),
    "hears of any attempt": (
        Rules(coordinator=coordinating(HearsOfAnyAttempt)),
        "its (batch|commit) tree is not complete",
    ),
    "fails one only": (
        Rules(
            coordinator=coordinating(FailsOneOnly),
            emitter=StormsEmitter,
            bolt=counting(StormsCounts),
            opaque=TrustsItsCoordinator,
            shape=OPAQUE,
        ),
        "skips or repeats",
    ),
    "emits before it records": (Rules(coordinator=coordinating(EmitsBeforeItRecords)), "which is not recorded"),
    "counts attempts from the start": (
        Rules(coordinator=coordinating(CountsAttemptsFromTheStart), shape=GENERIC),
        "is emitted twice",
    ),
    "unfenced": (Rules(coordinator=UnfencedCoordinator), "records .* has taken over"),
    "emits what is not durable": (Rules(coordinator=EmitsWhatIsNotDurable, shape=GENERIC), "it was .* before"),
    "counts by txid": (Rules(bolt=CountsByTxid), "counts Tuple.* with transaction"),
    "takes any number": (Rules(bolt=counting(TakesAnyNumber)), "the truth is"),
    "misses nothing": (Rules(bolt=counting(MissesNothing)), "lingered until its timeout"),
    "lets old attempts linger": (
        Rules(bolt=counting(LetsOldAttemptsLinger), shape={"max_active": 4}, faults=ONLY_MISHAPS),
        "lingered until its timeout",
    ),
    "commits at once": (Rules(bolt=CommitsAtOnce), "which is not recorded"),
    "emits again when told twice": (
        Rules(emitter=EmitsAgainWhenToldTwice),
        "is emitted twice|anchored to a tuple that is acked",
    ),
    "reports what is not durable": (Rules(partitioned=ReportsWhatIsNotDurable, shape=PARTITIONED), "it was .* before"),
    "acks the commit of another": (Rules(emitter=AcksTheCommitOfAnother, shape=OPAQUE), "skips or repeats"),
    "plain map": (Rules(transactional_map=PlainMap, shape={**PARTITIONED, "in_groups": False}), "the truth is"),
    "storm's opaque map": (Rules(opaque_map=StormsOpaqueMap, shape=OPAQUE), "the truth is"),
    "zombies' map": (
        Rules(opaque_map=ZombiesMap, shape={**OPAQUE, "max_active": 1, "arrival_s": 0.0}, faults=ONLY_UPDATES),
        "the truth is",
    ),
}
"""Each with what the violation says."""
