"""Rotating state: stored data of the transactions that still matter, one node per transaction.

A folder of the store holds a node for each txid, named by the txid. A state is written before anything that depends on
it, read when a batch is replayed, and deleted once its transaction is behind the last commit. So a folder stays small,
no matter how many transactions there were.

**Invariant.** The cache is the content of the store at the time of loading, plus exactly the writes that the store has
accepted since. This class only plans a write, as a value. The caller passes the write to the store, in one transaction
with everything else that must happen at the same time, and calls ``applied`` only if the transaction succeeds. After
any error the cache is unchanged, but the store can have changed (the reply can be lost), so the caller must load again.
Nobody else writes to the folder under the same epoch.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tupletree._stores.node_encoding import decode_stored, encode_stored
from tupletree._stores.nodes import Create, Delete, Node, Write
from tupletree.errors import InternalError


class RotatingState:
    """The states of one folder, by txid.

    ``nodes``: the nodes of the folder by name. Raises InternalError or UsageError, naming the path, if a node cannot be
    read. A state is any value that can be sent in a tuple. Each lookup returns a new copy.
    """

    def __init__(self, folder: str, nodes: Mapping[str, Node]) -> None:
        self.folder = folder
        for name, node in nodes.items():
            if not _is_txid(name):
                raise InternalError(f"{folder}/{name} was not written by Tupletree: expected a transaction id")
            decode_stored(f"{folder}/{name}", node.data)
        self._nodes = {int(name): node for name, node in nodes.items()}

    @property
    def txids(self) -> list[int]:
        """The transactions that have a state, ascending."""
        return sorted(self._nodes)

    def has(self, txid: int) -> bool:
        """True if the transaction has a state, even if the state is None."""
        return txid in self._nodes

    def get(self, txid: int) -> Any:
        """Return the state of a transaction, or None if it has none."""
        node = self._nodes.get(txid)
        return None if node is None else decode_stored(self._path(txid), node.data)[0]

    def previous(self, txid: int) -> Any:
        """Return the state of the closest earlier transaction that has one, or None."""
        earlier = [other for other in self._nodes if other < txid]
        return self.get(max(earlier)) if earlier else None

    def has_later(self, txid: int) -> bool:
        """True if a later transaction has a state."""
        return any(other > txid for other in self._nodes)

    def plan_create(self, txid: int, state: Any) -> Create:
        """Return the write that creates the state of a transaction. ValueError if the transaction has a state."""
        if txid in self._nodes:
            raise ValueError(f"{self._path(txid)} exists")
        return Create(self._path(txid), encode_stored(self._path(txid), state))

    def plan_cleanup(self, before: int) -> Sequence[Delete]:
        """Return the writes that delete the states of all transactions below ``before``."""
        return [Delete(self._path(txid)) for txid in self.txids if txid < before]

    def applied(self, writes: Iterable[Write]) -> None:
        """Update the cache with writes that the store has accepted. Writes outside this folder are ignored."""
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
