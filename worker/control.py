"""What a spout executor is told from outside: how its trees ended, and what was lost.

These lie in its inbox like the batches of a bolt executor, so that spouts hear of everything on their own thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TreesAcked:
    """Trees of a spout task are complete."""

    task: int
    roots: Sequence[int]


@dataclass(frozen=True, slots=True)
class TreesFailed:
    """Trees of a spout task failed."""

    task: int
    roots: Sequence[int]


@dataclass(frozen=True, slots=True)
class TreesExpired:
    """Trees of a spout task were left alone for too long."""

    task: int
    roots: Sequence[int]


@dataclass(frozen=True, slots=True)
class TreesReset:
    """Trees of a spout task start their timeout again."""

    task: int
    roots: Sequence[int]


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker of the topology is gone: trees pending now may have been lost with it.

    They get ``grace_s`` to prove that they were not; then what is still pending of them fails.
    """

    grace_s: float


@dataclass(frozen=True, slots=True)
class ShardsLost:
    """The ledgers of these shards (root mod ``count``) are gone: what is pending there can only fail."""

    shards: frozenset[int]
    count: int


Control = TreesAcked | TreesFailed | TreesExpired | TreesReset | WorkerLost | ShardsLost
