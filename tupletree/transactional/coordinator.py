"""Coordinator of a transactional topology: decides which batch is emitted, which commits, and which must be replayed.

Each transaction goes through two phases. Each phase is one tuple tree: the batch tree, rooted at the tuple that
requests the batch from the emitters, and the commit tree, rooted at the tuple that tells the committers to finish it.

    (none) --begin--> PROCESSING --batch tree complete--> PROCESSED --first in line--> COMMITTING --commit tree--> done
       ^                  |                                   |                            |
       +---- failed, or an earlier transaction failed --------+----------------------------+

Transactions commit in groups of consecutive transactions, which share the commit tree. A group has one transaction
unless all committers of the topology permit more (GroupCommitter, ADR 0045).

**Invariants**, after every call:

I1  The active transactions are ``committed + 1, …, committed + n`` without a gap, n <= max_active.
I2  The COMMITTING transactions are one group: the first active transactions, at most max_group. No other group
    begins to commit before this group is committed whole or has failed whole. So transactions commit in txid order.
I3  Attempt numbers increase along the active transactions, and every new attempt number is higher than all earlier
    numbers. So a task that sees a newer attempt of the same or an earlier transaction knows that an older attempt is
    over (tupletree.attempt).
I4  A group is committed only when its commit tree is complete and the attempts in it are current. Acks and failures
    of other attempts are ignored.

A failure invalidates all later transactions too, because the batch of a transaction begins where the preceding batch
ended. If the preceding batch is replayed with other contents, all later batches must be emitted again; otherwise tuples
would be skipped or repeated. By I3 the old emissions are recognizable everywhere.

**Two coordinators.** A coordinator can be replaced while it is still running, for example behind a network partition.
Each coordinator begins by raising the epoch in the store, and a ``Record`` is written only under the writer's own
epoch. A ``Record`` precedes every ``EmitCommit``. It names the attempts that are about to commit, and states that all
earlier transactions are committed. So a deposed coordinator emits no commit without a ``Record`` from before its
deposition, and of two coordinators at most one records a transaction as committed. Attempts of a deposed coordinator
are over for every task that has seen the new epoch. Their effects on other tasks are undone or skipped by the update
rules (rules.py), because the same transaction is not yet committed.

A crash after ``Record`` and before the commit tree is complete leaves a group that is possibly committed in part: each
committer has finished its first transactions, possibly none or all. The next coordinator begins with exactly the first
transaction of this group.
"""

from __future__ import annotations  # pure

import enum
import itertools
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

    ``committed``: the last committed transaction. ``committing``: the attempts of the group that is about to commit.
    """

    committed: int
    committing: tuple[TransactionAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class EmitCommit:
    """Tell the committers to finish a group of attempts, in this order."""

    attempts: tuple[TransactionAttempt, ...]


Effect = Record | EmitCommit


class Coordinator:
    """Makes the decisions of one epoch. Effects must be carried out in the order in which they are returned.

    ``committed``: the last transaction that an earlier coordinator recorded as committed; 0 for none.
    ``max_active``: maximum number of active transactions, at least 1. ``max_group``: of transactions in a group.
    """

    def __init__(self, epoch: int, committed: int, max_active: int, max_group: int = 1) -> None:
        self.epoch = epoch
        self.committed = committed
        self.max_active = max_active
        self.max_group = max_group
        self.active: dict[int, Active] = {}  # ascending by txid
        self.failures = 0  # since the last commit
        self._next_attempt = first_attempt(epoch)
        self._not_before_s = 0.0

    def wants(self, now_s: float, planned: int = 0) -> int | None:
        """Return the transaction to begin next. None while there is no room, and for a pause after a failure.

        The caller ensures that the source has a batch for this transaction and that its metadata is durable, then calls
        ``begin``. ``planned``: number of transactions that the caller will begin before this one.
        """
        active = len(self.active) + planned
        return None if active >= self.max_active or now_s < self._not_before_s else self.committed + active + 1

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
        return self._commit_next()

    def commit_done(self, attempt: TransactionAttempt) -> Sequence[Effect]:
        """Record that the commit tree of a group is complete. ``attempt``: the first attempt of the group."""
        group = self._committing()
        if not group or group[0] != attempt:
            return ()
        for one in group:
            del self.active[one.txid]
        self.committed = group[-1].txid
        self.failures = 0
        return self._commit_next() or (Record(self.committed),)

    def failed(self, attempt: TransactionAttempt, now_s: float) -> Sequence[TransactionAttempt]:
        """Record that a tree of an attempt failed; return all attempts that are over, including later transactions.

        The failure of one attempt of a committing group is that of the whole group.
        """
        if self._current(attempt) is None:
            return ()
        group = self._committing()
        first = group[0].txid if attempt in group else attempt.txid
        over = [self.active.pop(txid).attempt for txid in list(self.active) if txid >= first]
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

    def _committing(self) -> tuple[TransactionAttempt, ...]:
        """Return the group that is committing."""
        return self._first(Phase.COMMITTING, len(self.active))

    def _commit_next(self) -> Sequence[Effect]:
        """Commit the first transactions that are processed, unless a group is committing."""
        group = self._first(Phase.PROCESSED, self.max_group)
        if not group:
            return ()
        for attempt in group:
            self.active[attempt.txid].phase = Phase.COMMITTING
        return Record(self.committed, group), EmitCommit(group)

    def _first(self, phase: Phase, most: int) -> tuple[TransactionAttempt, ...]:
        """Return the attempts of the first active transactions that are all in this phase, at most ``most``."""
        first = itertools.takewhile(lambda one: one.phase is phase, self.active.values())
        return tuple(one.attempt for one in itertools.islice(first, most))
