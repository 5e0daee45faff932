"""What an executor is told from outside, beside tuples: calls of its own components; and a spout executor how its trees
ended and what was lost.

These lie in its inbox like the batches of a bolt executor, so that components hear of everything on their own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tupletree.component import TopologyContext


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


@dataclass(frozen=True, slots=True)
class Call:
    """A component of a task asked for a call on the task's own thread (``context.call_soon``).

    It is not made if the component has been replaced since: then ``context`` is not that of the task any more.
    """

    task: int
    function: Callable[[], None]
    context: TopologyContext


Control = TreesAcked | TreesFailed | TreesExpired | TreesReset | WorkerLost | ShardsLost
