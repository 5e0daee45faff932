"""Counting: when has a task every tuple of a batch, and which of its control tuples may be acked when.

The tuples of a batch are not tracked one by one; that would cost as much again as processing them. Instead every task
counts what it sends to each receiving task, and when it is finished with a batch it *reports* to each of them how many
tuples that were. Reports, and the coordinator's commit tuples, are **control tuples**: they are tracked, and so they
alone make up the two trees of a transaction (coordinator.py).

**Assumption.** Between one sending and one receiving task tuples arrive in the order in which they were sent and at
most once; any of them may be lost. Then a report closes its channel: when it arrives, everything that will ever come
from its sender for that attempt is there, and it is complete exactly if the number is right.

**Invariants**, for each attempt at each task:

I1  A batch is finished at most once, and only after a report with the right number from every task upstream and, at a
    committer, after its commit tuple. So it has every tuple that was sent to it for that attempt, and no other.
I2  A control tuple is acked only when what it stands for cannot be lost any more without a tree failing (below).
I3  An attempt that is over (tupletree.attempt) is never finished; its control tuples are failed as soon as that is
    known, so that its trees end at once rather than at their timeout.

**What is acked when.** A component is *late* if it is a committer or downstream of one: it finishes in the commit
phase. All others are early and finish in the processing phase.

    control tuple, arriving at       an early component        a late component
    report of an early component     held until finished       acked at once
    report of a late component       (there is none)           held until finished
    commit tuple                     (there is none)           held until finished

A report of a task is anchored to a control tuple that the task holds, so the tree goes on downstream. The batch tree is
complete when every early task has finished and every late one has all early reports: that is the end of the processing
phase. The commit tree is complete when every late task has finished.

An early report that a late task has acked is lost if that task crashes before the commit. The new incarnation of the
task knows nothing of the batch; the first control tuple of the commit phase finds the early reports missing, which
cannot happen otherwise, and is failed: the whole transaction is replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tupletree.attempt import Attempts, TransactionAttempt

Control = Any
"""A control tuple, as the caller knows it: it is only handed back."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Ack these control tuples: what they stand for is safe."""

    held: Sequence[Control]


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail these control tuples. ``why`` is a sentence for the log; empty: the ordinary end of an old attempt."""

    held: Sequence[Control]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """Everything is there: let the component finish the batch, report downstream anchored to ``anchor``; then call
    ``finished``, or ``failed`` if the component fails the batch."""

    attempt: TransactionAttempt
    anchor: Control


@dataclass(frozen=True, slots=True)
class Forget:
    """The component's own state of these attempts is of no use any more."""

    attempts: Sequence[TransactionAttempt]


Effect = Ack | Fail | Finish | Forget


@dataclass(slots=True)
class Batch:
    """What a task knows of one attempt."""

    attempt: TransactionAttempt
    received: dict[int, int] = field(default_factory=dict)  # sending task -> its tuples so far
    reported: set[int] = field(default_factory=set)  # the tasks upstream whose report was right
    held: list[Control] = field(default_factory=list)
    has_commit: bool = False
    is_finished: bool = False
    is_failed: bool = False


class BatchCounts:
    """The books of one task over the batches it takes part in.

    ``upstream``: the tasks that it receives tuples of a batch from, each with whether their component is late.
    ``is_committer``: whether a batch waits for its commit tuple as well.
    """

    def __init__(self, upstream: Mapping[int, bool], is_committer: bool) -> None:
        self.upstream = dict(upstream)
        self.is_committer = is_committer
        self.is_late = is_committer or any(upstream.values())
        self.batches: dict[TransactionAttempt, Batch] = {}
        self.attempts = Attempts()
        self._early = {task for task, is_late in upstream.items() if not is_late}

    def batch(self, attempt: TransactionAttempt) -> tuple[Batch | None, Sequence[Effect]]:
        """The batch that a tuple of this attempt belongs to, begun if it is new; None if nobody waits for the tuple.

        The caller adds the tuple to ``received`` itself: that is what it does for every tuple, and this for a few.
        """
        batch = self.batches.get(attempt)
        if batch is not None:
            return (None if batch.is_failed else batch), ()
        if self.attempts.is_over(attempt):
            return None, ()
        self.attempts.saw(attempt)
        effects = self._drop([other for other in self.batches if self.attempts.is_over(other)])
        batch = self.batches[attempt] = Batch(attempt)
        return batch, effects

    def report(
        self, attempt: TransactionAttempt, sender: int, count: int, committed: int, control: Control
    ) -> Sequence[Effect]:
        """A task upstream has finished the batch and says that it sent ``count`` tuples to this one.

        ``committed``: a transaction that was committed, with all before it, when the report's batch was begun.
        """
        effects = self.saw_committed(committed)
        batch, more = self.batch(attempt)
        effects += more
        if batch is None:
            return [*effects, Fail([control])]
        is_early_to_late = self.is_late and not self.upstream[sender]
        if batch.is_finished or sender in batch.reported:
            return [*effects, *self._told_twice(batch, control, is_early_to_late)]
        received = batch.received.get(sender, 0)
        if received != count:
            why = f"{attempt}: {received} of {count} tuples of task {sender} arrived"
            return [*effects, *self._fail(batch, control, why)]
        if self.upstream[sender] and not self._has_early(batch):
            return [*effects, *self._fail(batch, control, f"{attempt}: what was processed of it is lost")]
        batch.reported.add(sender)
        if is_early_to_late:
            effects.append(Ack([control]))
        else:
            batch.held.append(control)
        return [*effects, *self._finish_if_complete(batch)]

    def commit(self, attempt: TransactionAttempt, control: Control) -> Sequence[Effect]:
        """The coordinator wants this attempt committed: all before it are."""
        effects = self.saw_committed(attempt.txid - 1)
        batch, more = self.batch(attempt)
        effects += more
        if batch is None:
            return [*effects, Fail([control])]
        if batch.is_finished or batch.has_commit:
            return [*effects, *self._told_twice(batch, control, False)]
        if not self._has_early(batch):
            return [*effects, *self._fail(batch, control, f"{attempt}: what was processed of it is lost")]
        batch.has_commit = True
        batch.held.append(control)
        return [*effects, *self._finish_if_complete(batch)]

    def finished(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        """The component has finished the batch and its reports are emitted."""
        batch = self.batches[attempt]
        batch.is_finished = True
        held, batch.held = batch.held, []
        return [Ack(held), Forget([attempt])]

    def failed(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        """The component fails the batch. What comes of it from now on is failed at once."""
        batch = self.batches.get(attempt)
        return [] if batch is None or batch.is_failed else self._fail(batch, None, "")

    def saw_committed(self, txid: int) -> list[Effect]:
        """Every transaction up to ``txid`` is committed: their batches are not needed any more."""
        if txid <= self.attempts.committed:
            return []
        self.attempts.saw_committed(txid)
        return self._drop([attempt for attempt in self.batches if self.attempts.is_over(attempt)])

    def _has_early(self, batch: Batch) -> bool:
        return self._early <= batch.reported

    def _finish_if_complete(self, batch: Batch) -> list[Effect]:
        if len(batch.reported) < len(self.upstream) or (self.is_committer and not batch.has_commit):
            return []
        return [Finish(batch.attempt, batch.held[-1])]

    @staticmethod
    def _told_twice(batch: Batch, control: Control, was_acked: bool) -> list[Effect]:
        """The copy of a control tuple ends as the first one does: now if that has been acked."""
        if batch.is_finished or was_acked:
            return [Ack([control])]
        batch.held.append(control)
        return []

    @staticmethod
    def _fail(batch: Batch, control: Control, why: str) -> list[Effect]:
        batch.is_failed = True
        held = [*batch.held, *([] if control is None else [control])]
        batch.held = []
        batch.received.clear()
        return [Fail(held, why), Forget([batch.attempt])]

    def _drop(self, attempts: Iterable[TransactionAttempt]) -> list[Effect]:
        dropped = [self.batches.pop(attempt) for attempt in attempts]
        if not dropped:
            return []
        held = [control for batch in dropped for control in batch.held]
        return [*([Fail(held)] if held else []), Forget([batch.attempt for batch in dropped])]
