"""Stored partitions of a spout: one node per partition, with the states of the transactions that still matter.

A state is the data that the partition's emitter needs for one transaction. A partition keeps the states of transactions
from the last committed one on, and always its newest state. All states of a partition are in a single node, whose
version serves as a fence:

**Invariant.** A state is added only by an emitter that knew every state of the partition at that moment, because a
write names the version of the node on which it was planned. Suppose that two incarnations of an emitter are briefly
asked for batches at the same time. They never store two batches that begin at the same position: one of them fails,
reads again, and continues from the state that the other has written. Separate nodes for each transaction would not
suffice, because the two emitters would write different nodes.

A late write, executed after its reply was given up for lost, fails in the same way, or makes the next write fail once.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tupletree._stores.node_encoding import decode_stored, encode_stored
from tupletree._stores.nodes import Create, Put, StateStore, Write, next_version
from tupletree.attempt import TransactionAttempt
from tupletree.errors import ConflictError, FailedException, InternalError, UsageError
from tupletree.transactional.layout import epoch_check, partition_path


@dataclass(frozen=True, slots=True)
class PartitionStates:
    """The states of one partition by txid, and the version of its node (None if there is no node)."""

    states: Mapping[int, Any]
    version: int | None

    def newest_before(self, txid: int) -> int | None:
        """Return the closest earlier transaction that has a state, or None."""
        return max((other for other in self.states if other < txid), default=None)

    def has_later(self, txid: int) -> bool:
        """True if a later transaction has a state."""
        return any(other > txid for other in self.states)


class Partitions:
    """The partitions of one spout, with a cache of the partitions that this task has read.

    ``kind``: the kind of spout, to detect a change of the kind under the same transactional id.
    """

    def __init__(self, store: StateStore, transactional_id: str, kind: str) -> None:
        self._store = store
        self._id = transactional_id
        self._kind = kind
        self._known: dict[int, PartitionStates] = {}

    def __getitem__(self, partition: int) -> PartitionStates:
        """Return the states of a partition from the cache, or read them.

        Raises UnavailableError; UsageError if a newer version or another kind of spout wrote the node.
        """
        if partition not in self._known:
            self._known[partition] = self.load(partition)
        return self._known[partition]

    def load(self, partition: int) -> PartitionStates:
        """Read the states of a partition from the store."""
        path = partition_path(self._id, partition)
        node = self._store.get(path)
        if node is None:
            return PartitionStates({}, None)
        match decode_stored(path, node.data):
            case [self._kind, dict(states)]:
                return PartitionStates(states, node.version)
            case [str(kind), dict()]:
                raise UsageError(
                    f"{path} was written by a spout of another kind ({kind}, this one is {self._kind}); "
                    f"use another transactional id"
                )
        raise InternalError(f"{path} does not hold the states of a partition")

    def write(self, attempt: TransactionAttempt, changed: Mapping[int, Mapping[int, Any]]) -> None:
        """Replace the states of some partitions in one transaction, if the attempt's coordinator still leads.

        Raises FailedException if another writer has written or taken over. Raises UnavailableError if the store cannot
        be reached; the states are then possibly written. Both errors clear the cache.
        """
        writes: list[Write] = [epoch_check(self._id, attempt)]
        after = dict(self._known)
        for partition, states in changed.items():
            path = partition_path(self._id, partition)
            data = encode_stored(path, self._kind, dict(states))
            version = self[partition].version
            writes.append(Create(path, data) if version is None else Put(path, data, version))
            after[partition] = PartitionStates(states, 0 if version is None else next_version(version))
        self._known = {}  # until the outcome is known
        try:
            self._store.write(writes)
        except ConflictError as error:
            raise FailedException(f"{attempt}: another writer was first: {error}") from error
        self._known = after

    def forget(self) -> None:
        """Clear the cache."""
        self._known = {}

    def close(self) -> None:
        """Close the store."""
        self._store.close()
