"""Where the progress of transactional topologies lives: a small tree of versioned nodes, changed atomically.

The cluster's is ZooKeeper (zookeeper.py). ``MemoryStore`` (memory_store.py) is the same in this process: for
LocalCluster, and for the simulation, which crashes everything else around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tupletree.errors import UsageError


@dataclass(frozen=True, slots=True)
class Check:
    """The node must be at ``version``."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node that must not exist; its version is then 0.

    Missing parents are created before, empty, and stay even if nothing else of the transaction does. Or the same
    transaction creates them, one by one.
    """

    path: str
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Put:
    """Replace the data of a node that must be at ``version``; its version is then the next one."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node, whatever its version. It must exist and have no children."""

    path: str


Write = Check | Create | Put | Delete


@dataclass(frozen=True, slots=True)
class Node:
    """What is stored at a path."""

    data: bytes
    version: int


def next_version(version: int) -> int:
    """The version of a node after one more write: as ZooKeeper counts, in 32 bits with a sign."""
    return (version + 1 + 2**31) % 2**32 - 2**31


class StateStore(Protocol):
    """Nodes by path, for example ``/global-count/coordinator/progress``. Any thread.

    Every method raises UnavailableError if the store cannot be reached in time; a write may then have happened or not,
    or may yet happen. One call of ``write`` takes at most ``MAX_BYTES``; more is a UsageError that names the
    path.
    """

    def get(self, path: str) -> Node | None:
        """The node, or None. What anybody wrote before is seen."""

    def children(self, path: str) -> list[str]:
        """The names below a node, sorted; none if it does not exist. What anybody wrote before is seen."""

    def write(self, writes: Sequence[Write]) -> None:
        """Do all of it, or nothing.

        Raises ConflictError, naming the path, if a node is not as a write expects.
        """

    def close(self) -> None:
        """Give the connection up."""


MAX_BYTES = 1_000_000
"""How much one transaction may write. ZooKeeper drops the connection of whoever sends it more than 1,048,575 bytes."""

_BYTES_PER_WRITE = 100  # what ZooKeeper's protocol adds


def check_size(writes: Sequence[Write]) -> None:
    """Refuse a transaction that no store would take, with a UsageError that names its largest part."""
    sizes = [(len(one.path.encode()) + (len(one.data) if isinstance(one, Create | Put) else 0), one) for one in writes]
    total = sum(size + _BYTES_PER_WRITE for size, _ in sizes)
    if total > MAX_BYTES:
        largest, write = max(sizes, key=lambda pair: pair[0])
        raise UsageError(
            f"{write.path} would take {largest:,} bytes, together with what is written at the same time {total:,}: "
            f"the store takes {MAX_BYTES:,} at a time"
        )
