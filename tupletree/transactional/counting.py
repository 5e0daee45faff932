"""Tuple counting: detects when a task has every tuple of a batch, and decides when control tuples are acked.

The tuples of a batch are not tracked individually; this would cost as much again as processing them. Instead every task
counts the tuples that it sends to each receiving task. When it has finished a batch, it *reports* the count to each of
these tasks. Reports and the coordinator's commit tuples are **control tuples**: only they are tracked, and they form
the two trees of a transaction (coordinator.py).

**Assumption.** Between one sending and one receiving task tuples arrive in order and at most once; any tuple can be
lost. So a report closes its channel: when the report arrives, no further tuple of that attempt can come from its
sender, and the received tuples are complete if and only if their number equals the reported count.

**Invariants**, for each attempt at each task:

I1  A batch is finished at most once, and only after a report with the right number from every task upstream and, at a
    committer, after its commit tuple. So it has exactly the tuples that were sent to it for that attempt.
I2  A control tuple is acked only when any loss of the work that it represents would make a tree fail (see below).
I3  An attempt that is over (tupletree.attempt) is never finished. Its control tuples are failed as soon as the task
    knows this, so that its trees end immediately rather than by timeout.
I4  A committer finishes the batches of a group in txid order, each after it has finished the one before.

**Time of acks.** A component is *late* if it is a committer or downstream of a committer: it finishes in the commit
phase. All other components are *early* and finish in the processing phase.

    control tuple, arriving at       an early component        a late component
    report of an early component     held until finished       acked immediately
    report of a late component       (there is none)           held until finished
    commit tuple                     (there is none)           held until its last batch is finished

A report of a task is anchored to a control tuple that the task holds, so the tree continues downstream. The batch tree
is complete when every early task has finished and every late task has all early reports: this ends the processing
phase. The commit tree is complete when every late task has finished.

An early report that a late task has acked is lost if that task crashes before the commit. The new incarnation of the
task does not know the batch. When it gets the first control tuple of the commit phase, the early reports are missing,
which is possible only after such a crash. The control tuple is failed, and the whole transaction is replayed.
"""

from __future__ import annotations  # pure

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tupletree.attempt import Attempts, TransactionAttempt

Control = Any
"""A control tuple of the caller, opaque to this module and only returned in effects."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Ack these control tuples: the work that they represent is safe."""

    held: Sequence[Control]


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail these control tuples. ``why``: log message, empty for the normal end of an old attempt."""

    held: Sequence[Control]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """The batch is complete: let the component finish it, and report downstream, anchored to ``anchor``.

    Then call ``finished``, or ``failed`` if the component fails the batch.
    """

    attempt: TransactionAttempt
    anchor: Control


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the component's own data of these attempts."""

    attempts: Sequence[TransactionAttempt]


Effect = Ack | Fail | Finish | Forget


@dataclass(slots=True)
class Batch:
    """The data of one attempt at one task."""

    attempt: TransactionAttempt
    received: dict[int, int] = field(default_factory=dict)  # sending task -> number of tuples received
    reported: set[int] = field(default_factory=set)  # upstream tasks whose reported count was right
    held: list[Control] = field(default_factory=list)
    commit: Control = None  # the commit tuple
    after: Batch | None = field(default=None, repr=False, compare=False)  # the next batch of its group
    must_wait: bool = False  # for the batch before it in its group
    is_finished: bool = False
    is_failed: bool = False


class BatchCounts:
    """The counts of one task for all of its current batches.

    ``upstream``: the tasks that send tuples of a batch to this task; the value is true if their component is late.
    ``is_committer``: true if a batch also waits for its commit tuple.
    """

    def __init__(self, upstream: Mapping[int, bool], is_committer: bool) -> None:
        self.upstream = dict(upstream)
        self.is_committer = is_committer
        self.is_late = is_committer or any(upstream.values())
        self.batches: dict[TransactionAttempt, Batch] = {}
        self.attempts = Attempts()
        self._early = {task for task, is_late in upstream.items() if not is_late}

    def batch(self, attempt: TransactionAttempt) -> tuple[Batch | None, Sequence[Effect]]:
        """Return the batch of a tuple's attempt, begun if it is new, or None if the tuple is not needed any more.

        The caller updates ``received`` itself for every tuple, and calls this method only for batches unknown to it.
        """
        batch = self.batches.get(attempt)
        if batch is not None:
            return (None if batch.is_failed else batch), ()
        if self.attempts.is_over(attempt):
            return None, ()
        ends_others = self.attempts.saw(attempt)
        effects = self._drop([other for other in self.batches if self.attempts.is_over(other)] if ends_others else [])
        batch = self.batches[attempt] = Batch(attempt)
        return batch, effects

    def report(
        self, attempt: TransactionAttempt, sender: int, count: int, committed: int, control: Control
    ) -> Sequence[Effect]:
        """Process a report: an upstream task has finished the batch and sent ``count`` tuples to this task.

        ``committed``: a transaction that was already committed, with all earlier transactions, when the batch began.
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
            return [*effects, *self._fail(batch, control, f"{attempt}: its early reports are lost")]
        batch.reported.add(sender)
        if is_early_to_late:
            effects.append(Ack([control]))
        else:
            batch.held.append(control)
        return [*effects, *self._finish_if_complete(batch)]

    def commit(self, group: Sequence[TransactionAttempt], control: Control) -> Sequence[Effect]:
        """Process a commit tuple: the coordinator commits this group; all earlier transactions are committed."""
        effects = self.saw_committed(group[0].txid - 1)
        batches: list[Batch] = []
        for attempt in group:
            batch, more = self.batch(attempt)
            effects += more
            if batch is None:
                return [*effects, Fail([control])]
            batches.append(batch)
        if batches[0].commit is not None:
            return [*effects, *self._told_twice(batches[-1], control, False)]
        for batch in batches:
            if not self._has_early(batch):
                return [*effects, *self._fail(batch, control, f"{batch.attempt}: its early reports are lost")]
        for batch in batches:
            batch.commit = control
        for batch, after in itertools.pairwise(batches):
            batch.after, after.must_wait = after, True
        batches[-1].held.append(control)
        return [*effects, *self._finish_if_complete(batches[0])]

    def finished(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        """Record that the component has finished the batch and that its reports are emitted."""
        batch = self.batches[attempt]
        batch.is_finished = True
        held, batch.held = batch.held, []
        effects: list[Effect] = [Ack(held), Forget([attempt])]
        after, batch.after = batch.after, None
        if after is not None:
            after.must_wait = False
            effects += self._finish_if_complete(after)
        return effects

    def failed(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        """Record that the component fails the batch. All further control tuples of it are failed immediately."""
        batch = self.batches.get(attempt)
        return [] if batch is None or batch.is_failed else self._fail(batch, None, "")

    def saw_committed(self, txid: int) -> list[Effect]:
        """Record that every transaction up to ``txid`` is committed, and drop their batches."""
        if txid <= self.attempts.committed:
            return []
        self.attempts.saw_committed(txid)
        return self._drop([attempt for attempt in self.batches if self.attempts.is_settled(attempt)])

    def _has_early(self, batch: Batch) -> bool:
        return self._early <= batch.reported

    def _finish_if_complete(self, batch: Batch) -> list[Effect]:
        if len(batch.reported) < len(self.upstream) or (self.is_committer and batch.commit is None) or batch.must_wait:
            return []
        return [Finish(batch.attempt, batch.held[-1] if batch.held else batch.commit)]

    @staticmethod
    def _told_twice(batch: Batch, control: Control, was_acked: bool) -> list[Effect]:
        """Treat the duplicate of a control tuple like the original: ack it if the original was acked, else hold it."""
        if batch.is_finished or was_acked:
            return [Ack([control])]
        batch.held.append(control)
        return []

    @staticmethod
    def _fail(batch: Batch, control: Control, why: str) -> list[Effect]:
        """Fail a batch, and those after it in its group, which can never be finished."""
        held = [] if control is None else [control]
        attempts = []
        one: Batch | None = batch
        while one is not None:
            one.is_failed = True
            held += one.held
            one.held = []
            one.received.clear()
            attempts.append(one.attempt)
            one = one.after
        return [Fail(held, why), Forget(attempts)]

    def _drop(self, attempts: Iterable[TransactionAttempt]) -> list[Effect]:
        dropped = [self.batches.pop(attempt) for attempt in attempts]
        if not dropped:
            return []
        held = [control for batch in dropped for control in batch.held]
        return [*([Fail(held)] if held else []), Forget([batch.attempt for batch in dropped])]
