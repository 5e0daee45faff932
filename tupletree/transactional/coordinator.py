"""The coordinator of a transactional topology: which batch is emitted, which commits, and what a failure takes along.

Each transaction goes through two phases, each of which is one tuple tree: the batch tree, rooted at the tuple that asks
the emitters for the batch, and the commit tree, rooted at the tuple that tells the committers to finish it.

    (none) --begin--> PROCESSING --batch tree complete--> PROCESSED --first in line--> COMMITTING --commit tree--> done
       ^                  |                                   |                            |
       +---- failed, or an earlier transaction failed --------+----------------------------+

**Invariants**, after every call:

I1  The active transactions are ``committed + 1, …, committed + n`` without a gap, n <= max_active.
I2  At most one is COMMITTING: the first. So commits happen in the order of the txids.
I3  Attempt numbers ascend along the active transactions, and every new one is higher than all before it. So whoever
    sees a newer attempt of the same or an earlier transaction knows that an older one is over (tupletree.attempt).
I4  A transaction is committed only once the commit tree of its present attempt is complete: news of any other attempt
    changes nothing.

Why a failure takes all later transactions along: the batch of a transaction begins where the batch before it ended. If
that one is emitted anew, with other contents, what follows it must be emitted anew too, or tuples would be skipped or
repeated (I3 then makes the old emissions recognisable everywhere).

**Two coordinators.** A coordinator may be replaced while it still runs somewhere, cut off. Each begins by raising the
epoch in the store; a ``Record`` is written only under the writer's own epoch. ``Record`` precedes every ``EmitCommit``,
and says which attempt is about to commit and that all before it are committed: so a deposed coordinator emits no commit
after its deposition, and of two coordinators at most one ever records a transaction as committed. What a deposed one
emitted before is over for every task that has seen the new epoch; what it still does to a task that has not is undone
or skipped by the rules of the values (rules.py), since the same transaction is not yet committed.

A crash after ``Record`` and before the commit tree is complete leaves a transaction that may be committed in part. The
next coordinator begins with exactly that transaction.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tupletree.attempt import TransactionAttempt, first_attempt

MAX_PAUSE_S = 1.0
FIRST_PAUSE_S = 0.02


class Phase(enum.Enum):
    """Where an active transaction is."""

    PROCESSING = "processing"
    PROCESSED = "processed"
    COMMITTING = "committing"


@dataclass(slots=True)
class Active:
    """A transaction that was begun and is not committed."""

    attempt: TransactionAttempt
    phase: Phase = Phase.PROCESSING


@dataclass(frozen=True, slots=True)
class Record:
    """Durable first, and only under this coordinator's epoch: ``committed`` is, and ``committing`` is about to be."""

    committed: int
    committing: TransactionAttempt | None


@dataclass(frozen=True, slots=True)
class EmitCommit:
    """Tell the committers to finish an attempt."""

    attempt: TransactionAttempt


Effect = Record | EmitCommit


class Coordinator:
    """Decides for one epoch. Effects are to be carried out in the order in which they are returned.

    ``committed``: the last transaction that an earlier coordinator recorded as committed; 0 for none.
    ``max_active``: how many transactions may be active at a time, at least 1.
    """

    def __init__(self, epoch: int, committed: int, max_active: int) -> None:
        self.epoch = epoch
        self.committed = committed
        self.max_active = max_active
        self.active: dict[int, Active] = {}  # ascending by txid
        self.failures = 0  # since the last commit
        self._next_attempt = first_attempt(epoch)
        self._not_before_s = 0.0

    def wants(self, now_s: float) -> int | None:
        """The transaction to begin next, None while there is no room or a failure is just past.

        The caller makes sure that the source has a batch for it and that its metadata is durable, then calls ``begin``.
        """
        if len(self.active) >= self.max_active or now_s < self._not_before_s:
            return None
        return self.committed + len(self.active) + 1

    def begin(self, txid: int) -> TransactionAttempt:
        """Begin the transaction that ``wants`` named; return the attempt to emit the batch under."""
        if txid != self.committed + len(self.active) + 1:
            raise ValueError(f"transaction {txid} cannot begin after {self.committed + len(self.active)}")
        attempt = TransactionAttempt(txid, self._next_attempt)
        self._next_attempt += 1
        self.active[txid] = Active(attempt)
        return attempt

    def processed(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        """The batch tree of an attempt is complete."""
        transaction = self._current(attempt)
        if transaction is None or transaction.phase is not Phase.PROCESSING:
            return ()
        transaction.phase = Phase.PROCESSED
        return self._commit_first()

    def commit_done(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        """The commit tree of an attempt is complete."""
        transaction = self._current(attempt)
        if transaction is None or transaction.phase is not Phase.COMMITTING:
            return ()
        del self.active[attempt.txid]
        self.committed = attempt.txid
        self.failures = 0
        return self._commit_first() or (Record(self.committed, None),)

    def failed(self, attempt: TransactionAttempt, now_s: float) -> Sequence[TransactionAttempt]:
        """A tree of an attempt failed; return the attempts that are over, the later ones included."""
        if self._current(attempt) is None:
            return ()
        over = [self.active.pop(txid).attempt for txid in list(self.active) if txid >= attempt.txid]
        if self.failures:  # the first time it is tried again at once
            self._not_before_s = now_s + min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self.failures, 10))
        self.failures += 1
        return over

    def is_current(self, attempt: TransactionAttempt) -> bool:
        """Whether this attempt is the one that its transaction is waiting for."""
        return self._current(attempt) is not None

    def _current(self, attempt: TransactionAttempt) -> Active | None:
        transaction = self.active.get(attempt.txid)
        return transaction if transaction is not None and transaction.attempt == attempt else None

    def _commit_first(self) -> Sequence[Effect]:
        """Commit the first transaction if it is processed."""
        first = self.active.get(self.committed + 1)
        if first is None or first.phase is not Phase.PROCESSED:
            return ()
        first.phase = Phase.COMMITTING
        return Record(self.committed, first.attempt), EmitCommit(first.attempt)
