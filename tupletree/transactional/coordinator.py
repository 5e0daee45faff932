"""Coordinator of a transactional topology: decides which batch is emitted, which commits, and which must be replayed.

Each transaction goes through two phases. Each phase is one tuple tree: the batch tree, rooted at the tuple that
requests the batch from the emitters, and the commit tree, rooted at the tuple that tells the committers to finish it.

    (none) --begin--> PROCESSING --batch tree complete--> PROCESSED --first in line--> COMMITTING --commit tree--> done
       ^                  |                                   |                            |
       +---- failed, or an earlier transaction failed --------+----------------------------+

**Invariants**, after every call:

I1  The active transactions are ``committed + 1, …, committed + n`` without a gap, n <= max_active.
I2  At most one active transaction is COMMITTING: the first. So transactions commit in txid order.
I3  Attempt numbers increase along the active transactions, and every new attempt number is higher than all earlier
    numbers. So a task that sees a newer attempt of the same or an earlier transaction knows that an older attempt is
    over (tupletree.attempt).
I4  A transaction is committed only when the commit tree of its current attempt is complete. Acks and failures of other
    attempts are ignored.

A failure invalidates all later transactions too, because the batch of a transaction begins where the preceding batch
ended. If the preceding batch is replayed with other contents, all later batches must be emitted again; otherwise tuples
would be skipped or repeated. By I3 the old emissions are recognizable everywhere.

**Two coordinators.** A coordinator can be replaced while it is still running, for example behind a network partition.
Each coordinator begins by raising the epoch in the store, and a ``Record`` is written only under the writer's own
epoch. A ``Record`` precedes every ``EmitCommit``. It names the attempt that is about to commit, and states that all
earlier transactions are committed. So a deposed coordinator emits no commit without a ``Record`` from before its
deposition, and of two coordinators at most one records a transaction as committed. Attempts of a deposed coordinator
are over for every task that has seen the new epoch. Their effects on other tasks are undone or skipped by the update
rules (rules.py), because the same transaction is not yet committed.

A crash after ``Record`` and before the commit tree is complete leaves a transaction that is possibly committed in part.
The next coordinator begins with exactly this transaction.
"""

from __future__ import annotations  # pure

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tupletree.attempt import TransactionAttempt, first_attempt

MAX_PAUSE_S = 1.0
FIRST_PAUSE_S = 0.02


class Phase(enum.Enum):
    """The phase of an active transaction."""

    PROCESSING = "processing"
    PROCESSED = "processed"
    COMMITTING = "committing"


@dataclass(slots=True)
class Active:
    """A transaction that has begun and is not committed."""

    attempt: TransactionAttempt
    phase: Phase = Phase.PROCESSING


@dataclass(frozen=True, slots=True)
class Record:
    """Store durably before the next effect, and only under this coordinator's epoch.

    ``committed``: the last committed transaction. ``committing``: the attempt that is about to commit.
    """

    committed: int
    committing: TransactionAttempt | None


@dataclass(frozen=True, slots=True)
class EmitCommit:
    """Tell the committers to finish an attempt."""

    attempt: TransactionAttempt


Effect = Record | EmitCommit


class Coordinator:
    """Makes the decisions of one epoch. Effects must be carried out in the order in which they are returned.

    ``committed``: the last transaction that an earlier coordinator recorded as committed; 0 for none.
    ``max_active``: maximum number of active transactions, at least 1.
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
        """Return the transaction to begin next. None while there is no room, and for a pause after a failure.

        The caller ensures that the source has a batch for this transaction and that its metadata is durable, then calls
        ``begin``.
        """
        if len(self.active) >= self.max_active or now_s < self._not_before_s:
            return None
        return self.committed + len(self.active) + 1

    def begin(self, txid: int) -> TransactionAttempt:
        """Begin the transaction that ``wants`` returned; return the attempt under which to emit the batch."""
        if txid != self.committed + len(self.active) + 1:
            raise ValueError(f"transaction {txid} cannot begin: the next is {self.committed + len(self.active) + 1}")
        attempt = TransactionAttempt(txid, self._next_attempt)
        self._next_attempt += 1
        self.active[txid] = Active(attempt)
        return attempt

    def processed(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        """Record that the batch tree of an attempt is complete."""
        transaction = self._current(attempt)
        if transaction is None or transaction.phase is not Phase.PROCESSING:
            return ()
        transaction.phase = Phase.PROCESSED
        return self._commit_first()

    def commit_done(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        """Record that the commit tree of an attempt is complete."""
        transaction = self._current(attempt)
        if transaction is None or transaction.phase is not Phase.COMMITTING:
            return ()
        del self.active[attempt.txid]
        self.committed = attempt.txid
        self.failures = 0
        return self._commit_first() or (Record(self.committed, None),)

    def failed(self, attempt: TransactionAttempt, now_s: float) -> Sequence[TransactionAttempt]:
        """Record that a tree of an attempt failed; return all attempts that are over, including later transactions."""
        if self._current(attempt) is None:
            return ()
        over = [self.active.pop(txid).attempt for txid in list(self.active) if txid >= attempt.txid]
        if self.failures:  # the first retry is immediate
            self._not_before_s = now_s + min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self.failures, 10))
        self.failures += 1
        return over

    def is_current(self, attempt: TransactionAttempt) -> bool:
        """True if this is the current attempt of its transaction."""
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
