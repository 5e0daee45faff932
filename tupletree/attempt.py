"""Attempts at transactions, and the rule that recognises dead attempts.

A transaction is a numbered batch. Its number, the txid, is the same for every replay of the batch; the attempt number
distinguishes the replays. Every tuple of a batch carries its attempt as the first value, so that tuples of an earlier
attempt are never counted with those of a later attempt.

Attempt numbers increase across all transactions and all coordinators of a topology, not per transaction: the upper bits
are the epoch of the coordinator that chose the number, the lower bits count the coordinator's emissions. When a
coordinator fails a transaction, it also fails every later transaction and emits all of them again in order. From these
two facts follows the rule by which any task recognises a dead attempt on its own:

    (txid, attempt) is over  when there is a (t, a) with  t <= txid  and  a > attempt,
                             when an attempt of a later epoch was seen, or when its txid is committed.
"""

from __future__ import annotations  # pure

from typing import NamedTuple

EPOCH_SHIFT = 32
"""Each epoch has room for 2**32 attempts."""


class TransactionAttempt(NamedTuple):
    """One emission of one batch: the first value of every tuple in a transactional topology.

    Attributes:
        txid: the transaction id: 1 for the first batch, incremented per batch, the same for every replay.
        attempt: unique per emission of any batch; a later emission has a higher number.
    """

    txid: int
    attempt: int

    @property
    def epoch(self) -> int:
        """The epoch of the coordinator that emitted this attempt."""
        return self.attempt >> EPOCH_SHIFT

    def __str__(self) -> str:
        return f"transaction {self.txid} (attempt {self.epoch}.{self.attempt & (1 << EPOCH_SHIFT) - 1})"


def first_attempt(epoch: int) -> int:
    """Return the lowest attempt number of an epoch."""
    return epoch << EPOCH_SHIFT


class Attempts:
    """The attempts seen by one task, kept small, to decide by the rule above which attempts are over.

    Late information is harmless: treating a dead attempt as alive is safe, though wasteful, since every commit checks
    again. Treating a live attempt as over would lose the attempt; the rule never does.
    """

    def __init__(self) -> None:
        self.committed = 0
        self._floor = 0  # attempts below this number are over, whatever their txid
        self._newest: dict[int, int] = {}  # txid -> its highest attempt, for txids above ``committed``
        self._last = 0  # the highest txid seen
        self._highest = 0  # the highest attempt number seen

    def is_over(self, attempt: TransactionAttempt) -> bool:
        """True if this attempt is over: nothing waits for it."""
        if self.is_settled(attempt):
            return True
        txid, number = attempt
        if number >= self._highest:
            return False
        return any(newest > number for other, newest in self._newest.items() if other <= txid)

    def has_seen(self, attempt: TransactionAttempt) -> bool:
        """True if ``saw`` was called with exactly this attempt, which must not be over."""
        return self._newest.get(attempt.txid) == attempt.attempt

    def is_settled(self, attempt: TransactionAttempt) -> bool:
        """True if the attempt is over because of a commit or a later epoch, whatever attempts were seen besides."""
        return attempt.txid <= self.committed or attempt.attempt < self._floor

    def saw(self, attempt: TransactionAttempt) -> bool:
        """Record an attempt that is not over. Return False if no attempt seen before can be over because of it."""
        txid, number = attempt
        first = first_attempt(attempt.epoch)
        ends_others = txid <= self._last or first > self._floor
        self._newest[txid] = max(number, self._newest.get(txid, 0))
        self._floor = max(self._floor, first)
        self._last, self._highest = max(self._last, txid), max(self._highest, number)
        return ends_others

    def saw_committed(self, txid: int) -> None:
        """Record that every transaction up to ``txid`` is committed."""
        if txid > self.committed:
            self.committed = txid
            settled = [other for other in self._newest if other <= txid]
            self._floor = max([self._floor, *(self._newest.pop(other) for other in settled)])
