"""What the store holds of each partition of a spout: one node, with the states of the transactions that still matter.

A state is what the emitter of the partition must know of one transaction; there is one for each transaction that is not
behind the commit, and at least one as soon as there was any. They lie in a single node, so that its version is a fence:

**Invariant.** A state is added only by somebody who knew every state of the partition at that moment. For a write names
the version of the node that it was planned on. So two incarnations of an emitter, both of which are asked for batches
for a moment, never write down two batches that begin at the same place: one of them fails, reads anew, and goes on from
what the other one wrote. Nodes of their own for each transaction would not do: the two would write different nodes.

A write that is carried out late, after its reply was given up for lost, fails in the same way, or makes the next one
fail once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.errors import ConflictError, FailedException, InternalError, UsageError
from tupletree.transactional.layout import decode_stored, encode_stored, epoch_check, partition_path
from tupletree.transactional.store import Create, Put, StateStore, Write, next_version


@dataclass(frozen=True, slots=True)
class PartitionStates:
    """The states of one partition by txid, as of a version of its node; None: there is no node."""

    states: Mapping[int, Any]
    version: int | None

    def newest_before(self, txid: int) -> int | None:
        """The closest earlier transaction that has a state."""
        return max((other for other in self.states if other < txid), default=None)

    def has_later(self, txid: int) -> bool:
        """Whether a later transaction has a state."""
        return any(other > txid for other in self.states)


class Partitions:
    """The partitions of one spout, as far as this task has looked at them.

    ``kind``: what kind of spout, for whoever changes it and keeps the transactional id.
    """

    def __init__(self, store: StateStore, transactional_id: str, kind: str) -> None:
        self._store = store
        self._id = transactional_id
        self._kind = kind
        self._known: dict[int, PartitionStates] = {}

    def __getitem__(self, partition: int) -> PartitionStates:
        """What is known of a partition; read if that is nothing.

        Raises UnavailableError; UsageError if a newer version or another kind of spout wrote it.
        """
        if partition not in self._known:
            self._known[partition] = self.load(partition)
        return self._known[partition]

    def load(self, partition: int) -> PartitionStates:
        """What the store holds of a partition now."""
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
        raise InternalError(f"{path} holds something else than the states of a partition")

    def write(self, attempt: TransactionAttempt, changed: Mapping[int, Mapping[int, Any]]) -> None:
        """Replace the states of some partitions, all in one transaction and only for a coordinator that still leads.

        Raises FailedException if somebody else wrote or leads; UnavailableError: then it may have been written. After
        either, what was known is forgotten.
        """
        writes: list[Write] = [epoch_check(self._id, attempt)]
        after = dict(self._known)
        for partition, states in changed.items():
            path = partition_path(self._id, partition)
            data = encode_stored(path, self._kind, dict(states))
            version = self[partition].version
            writes.append(Create(path, data) if version is None else Put(path, data, version))
            after[partition] = PartitionStates(states, 0 if version is None else next_version(version))
        self._known = {}  # until it is known what the store made of it
        try:
            self._store.write(writes)
        except ConflictError as error:
            raise FailedException(f"{attempt}: somebody else was first: {error}") from error
        self._known = after

    def forget(self) -> None:
        """Read everything anew when it is next needed."""
        self._known = {}

    def close(self) -> None:
        """Give the store up."""
        self._store.close()
