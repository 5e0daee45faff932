"""Store of progress, checkpoints and small states: a small tree of versioned nodes, changed atomically.

A cluster uses ZooKeeper (zookeeper_nodes.py). ``MemoryStore`` (memory_nodes.py) is an in-process store for
LocalCluster and for the simulation, which crashes everything around the store.
"""

from __future__ import annotations  # pure

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tupletree.errors import AuthorityError, UsageError

TRIES = 20
"""The maximum number of attempts of a write that meets conflicts. More conflicts in a row indicate a fault."""


class DeposedError(AuthorityError):
    """Another coordinator has taken over. ``successor``: its owner name, empty if the name cannot be read."""

    def __init__(self, message: str, successor: str) -> None:
        super().__init__(message)
        self.successor = successor


@dataclass(frozen=True, slots=True)
class Check:
    """The node must be at ``version``."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node that must not exist; its version is then 0.

    Missing parents are created first, empty, and can stay even if the transaction fails. Alternatively, the same
    transaction creates them one by one.
    """

    path: str
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Put:
    """Replace the data of a node that must be at ``version``; its version then increases by one."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node of any version. It must exist and have no children."""

    path: str


Write = Check | Create | Put | Delete


@dataclass(frozen=True, slots=True)
class Node:
    """The data and version stored at a path."""

    data: bytes
    version: int


def next_version(version: int) -> int:
    """Return the version of a node after one more write: a signed 32-bit number, as in ZooKeeper."""
    return (version + 1 + 2**31) % 2**32 - 2**31


class StateStore(Protocol):
    """Nodes by path, for example ``/global-count/coordinator/progress``. Thread-safe.

    Every method raises UnavailableError if the store cannot be reached in time. A write then happened, did not happen,
    or can still happen later. One call of ``write`` takes at most ``MAX_BYTES``; more raises a UsageError that names
    the path.
    """

    def get(self, path: str) -> Node | None:
        """Return the node, or None. Linearizable: every earlier write by any client is visible."""

    def children(self, path: str) -> list[str]:
        """Return the child names of a node, sorted; empty if it does not exist. Every earlier write is visible."""

    def write(self, writes: Sequence[Write]) -> None:
        """Apply all writes or none.

        Raises ConflictError, naming the path, if a node is not in the state that a write expects.
        """

    def close(self) -> None:
        """Release the connection."""


MAX_BYTES = 1_000_000
"""The maximum size of one transaction. ZooKeeper drops the connection of a client that sends over 1,048,575 bytes."""

_BYTES_PER_WRITE = 100  # overhead of ZooKeeper's protocol


def check_size(writes: Sequence[Write]) -> None:
    """Raise a UsageError that names the largest write if a transaction is too large for a store."""
    sizes = [(len(one.path.encode()) + (len(one.data) if isinstance(one, Create | Put) else 0), one) for one in writes]
    total = sum(size + _BYTES_PER_WRITE for size, _ in sizes)
    if total > MAX_BYTES:
        largest, write = max(sizes, key=lambda pair: pair[0])
        raise UsageError(
            f"{write.path} would take {largest:,} bytes, together with the other writes of its transaction {total:,}: "
            f"a transaction takes at most {MAX_BYTES:,}"
        )
