"""Attempts: one try at one transaction, and which of two tries is over.

A transaction is a numbered batch. Its number, the txid, is the same however often the batch is replayed; the attempt
number tells the replays apart. Every tuple of a batch carries its attempt as the first value, so that tuples of an
earlier try are never counted with those of a later one.

Attempt numbers grow over all transactions of a topology, not for each of them, and over all its coordinators: the
upper bits are the epoch of the coordinator that chose the number, the lower ones count what it emitted. And a
coordinator that fails a transaction fails every later one with it and emits them again in order. From these two follows
the rule that lets any task recognise a dead attempt by itself:

    (txid, attempt) is over  when there is a (t, a) with  t <= txid  and  a > attempt,
                             when an attempt of a later epoch was seen, or when its txid is committed.
"""

from __future__ import annotations

from typing import NamedTuple

EPOCH_SHIFT = 32
"""An epoch has room for 2**32 attempts."""


class TransactionAttempt(NamedTuple):
    """One emission of one batch: the first value of every tuple in a transactional topology.

    Attributes:
        txid: the transaction id. 1 for the first batch, one more for each that follows; the same for every replay.
        attempt: different for every emission of any batch; a later emission has the higher number.
    """

    txid: int
    attempt: int

    @property
    def epoch(self) -> int:
        """Which incarnation of the coordinator emitted it."""
        return self.attempt >> EPOCH_SHIFT

    def __str__(self) -> str:
        return f"transaction {self.txid} (attempt {self.epoch}.{self.attempt & (1 << EPOCH_SHIFT) - 1})"


def first_attempt(epoch: int) -> int:
    """The lowest attempt number of an epoch."""
    return epoch << EPOCH_SHIFT


class Attempts:
    """What one task has seen of attempts, kept small: which are over, by the rule above.

    Nothing here may be told too late: it is safe, though wasteful, to take an attempt for living that is over, since
    whoever commits checks again. To take a living one for over would lose it; the rule never does.
    """

    def __init__(self) -> None:
        self.committed = 0
        self._floor = 0  # attempts below it are over, whatever their txid
        self._newest: dict[int, int] = {}  # txid -> its highest attempt, for txids above ``committed``

    def is_over(self, attempt: TransactionAttempt) -> bool:
        """Whether nobody waits for this attempt any more."""
        txid, number = attempt
        if txid <= self.committed or number < self._floor:
            return True
        return any(newest > number for other, newest in self._newest.items() if other <= txid)

    def has_seen(self, attempt: TransactionAttempt) -> bool:
        """Whether ``saw`` was told of exactly this attempt, which is not over."""
        return self._newest.get(attempt.txid) == attempt.attempt

    def saw(self, attempt: TransactionAttempt) -> None:
        """An attempt that is not over was seen."""
        txid, number = attempt
        self._newest[txid] = max(number, self._newest.get(txid, 0))
        self._floor = max(self._floor, first_attempt(attempt.epoch))

    def saw_committed(self, txid: int) -> None:
        """Every transaction up to ``txid`` is committed."""
        if txid > self.committed:
            self.committed = txid
            settled = [other for other in self._newest if other <= txid]
            self._floor = max([self._floor, *(self._newest.pop(other) for other in settled)])
