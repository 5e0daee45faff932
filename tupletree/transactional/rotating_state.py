"""Rotating state: what is stored for the transactions that still matter, one node for each (seed 003).

A folder of the store holds a node for each txid, named by it. States are written ahead of what depends on them, looked
up when a batch is replayed, and deleted once they are behind the commit: so a folder holds few, however many
transactions there were.

**Invariant.** The cache is what the store held when it was loaded, changed by exactly the writes that the store has
taken since. A write is planned here, as a value; the caller gives it to the store, in one transaction with whatever
else must happen at the same time, and only if that succeeds calls ``applied``. After any error the cache is still what
it was, while the store may have changed (the reply may be lost): the caller loads anew. Nobody else writes to the
folder under the same epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tupletree.errors import InternalError
from tupletree.transactional.layout import decode_stored, encode_stored
from tupletree.transactional.store import Create, Delete, Node, Write


class RotatingState:
    """The states of one folder, by txid.

    ``nodes``: what the folder holds, by name. InternalError or UsageError, naming the path, if it cannot be read.
    A state is any value that can be sent in a tuple. Each look-up returns a copy of its own.
    """

    def __init__(self, folder: str, nodes: Mapping[str, Node]) -> None:
        self.folder = folder
        for name, node in nodes.items():
            if not _is_txid(name):
                raise InternalError(f"{folder}/{name} was not put there by Tupletree: a transaction id was expected")
            decode_stored(f"{folder}/{name}", node.data)
        self._nodes = {int(name): node for name, node in nodes.items()}

    @property
    def txids(self) -> list[int]:
        """The transactions that have a state, ascending."""
        return sorted(self._nodes)

    def has(self, txid: int) -> bool:
        """Whether the transaction has a state; it may be None."""
        return txid in self._nodes

    def get(self, txid: int) -> Any:
        """The state of a transaction, None if it has none."""
        node = self._nodes.get(txid)
        return None if node is None else decode_stored(self._path(txid), node.data)[0]

    def previous(self, txid: int) -> Any:
        """The state of the closest earlier transaction that has one, None if none has."""
        earlier = [other for other in self._nodes if other < txid]
        return self.get(max(earlier)) if earlier else None

    def has_later(self, txid: int) -> bool:
        """Whether a later transaction has a state."""
        return any(other > txid for other in self._nodes)

    def plan_create(self, txid: int, state: Any) -> Create:
        """The write that gives a state to a transaction that has none; ValueError if it has one."""
        if txid in self._nodes:
            raise ValueError(f"{self._path(txid)} exists")
        return Create(self._path(txid), encode_stored(self._path(txid), state))

    def plan_cleanup(self, before: int) -> Sequence[Delete]:
        """The writes that delete the states of all transactions below ``before``."""
        return [Delete(self._path(txid)) for txid in self.txids if txid < before]

    def applied(self, writes: Iterable[Write]) -> None:
        """The store has taken these writes, among which may be some that are not for this folder."""
        for write in writes:
            folder, _, name = write.path.rpartition("/")
            if folder != self.folder:
                continue
            match write:
                case Create(_, data):
                    self._nodes[int(name)] = Node(data, 0)
                case Delete():
                    del self._nodes[int(name)]
                case _:
                    raise ValueError(f"{write} was not planned here")

    def _path(self, txid: int) -> str:
        return f"{self.folder}/{txid}"


def _is_txid(name: str) -> bool:
    return name.isascii() and name.isdecimal() and name == str(int(name))
