"""Control messages to an executor: calls requested by its own components, and, for a spout executor, the outcome of
its trees and the loss of workers or ledgers.

Control messages are queued in the executor's inbox, like the batches of a bolt executor. So components are called only
on their own thread.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tupletree.component import TopologyContext


class VerdictKind(Enum):
    """The outcome of a tree (complete, failed, timed out), or a restart of its timeout."""

    ACKED = "acked"
    FAILED = "failed"
    EXPIRED = "expired"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class TreeVerdict:
    """The same outcome of several trees that one task began."""

    task: int
    kind: VerdictKind
    roots: Sequence[int]
    reasons: Mapping[int, bytes] = field(default_factory=dict)
    """The reasons of some failed trees, by root (_wire/fail_reasons.py)."""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker of the topology is gone, and trees pending now may have been lost with it.

    These trees get ``grace_s`` to complete. Trees that are still pending afterwards fail.
    """

    grace_s: float


@dataclass(frozen=True, slots=True)
class ShardsLost:
    """The ledgers of these shards (root mod ``count``) are gone. Trees pending there can only fail."""

    shards: frozenset[int]
    count: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call on a task's own thread, requested by a component (``context.call_soon`` or ``call_first``).

    The call is skipped if the component has been replaced since. In that case the task's context is no longer
    ``context``. ``context`` is None for a call of the framework, which is made whether it has been replaced or not.
    """

    task: int
    function: Callable[[], None]
    context: TopologyContext | None


@dataclass(frozen=True, slots=True)
class ConfChanged:
    """Keys of the topology's configuration have new values. They do not override those that a component sets itself."""

    changes: Mapping[str, Any]


Control = TreeVerdict | WorkerLost | ShardsLost | ConfChanged
