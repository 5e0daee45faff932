"""The tasks as their collectors see them. A tracer may stand between a collector and its task (trace_filter.py)."""

from __future__ import annotations  # pure

from collections.abc import Iterable, Sequence, Sized
from typing import Any, Protocol

from tupletree.tuples import Tuple

from .ack_updates import AckUpdates
from .counts import TreeCounts


class TreeTracker:
    """Tracker of the trees that a spout's collector begins, or a bolt's collector acks: the task, or its stand-in.

    When compiled, these calls create no Python object for an id.
    """

    __slots__ = ("is_tracked",)

    is_tracked: bool

    def track(self, root: int, value: int, msg_id: Any, counts: TreeCounts | None) -> None:
        """Track a tree that an emit has begun; its root is new. ``counts``: of its stream; None for the first."""
        raise NotImplementedError

    def settle(self, msg_id: Any, stream: str, error: BaseException | None) -> None:
        """Ack a message of which nothing is under way, or fail it."""
        raise NotImplementedError

    def add_ack(self, root: int, value: int) -> None:
        """Report that ``value`` is to be xored into the ack value of ``root``, now or after a checkpoint."""
        raise NotImplementedError

    def acked(self, tup: Tuple) -> None:
        """Record that the collector acked a tuple."""
        raise NotImplementedError

    def acked_many(self, tuples: Sequence[Tuple]) -> None:
        """Record that the collector acked these tuples."""
        raise NotImplementedError


class EmittingTask(Protocol):
    """The part of a task that every collector uses."""

    component_id: str

    def report_error(self, error: BaseException) -> None:
        """Report an error of this task to the user."""


class EmittingSpoutTask(EmittingTask, Protocol):
    """The part of a spout task that its collector uses."""

    is_tracked: bool
    must_yield: bool
    trees: dict[str, TreeCounts]
    first_stream: str

    @property
    def pending(self) -> Sized:
        """The pending trees."""

    def track(self, root: int, value: int, msg_id: Any, counts: TreeCounts | None) -> None:
        """Track a tree that an emit has begun; its root is new."""

    def acked_untracked(self, msg_id: Any, stream: str) -> None:
        """Ack at once a tuple that was emitted with a message id while tracking is off."""

    def settle(self, msg_id: Any, stream: str, error: BaseException | None) -> None:
        """Ack a message of which nothing is under way, or fail it."""


class AckingTask(EmittingTask, Protocol):
    """The part of a bolt task that the collector of explicit acks uses."""

    is_tracked: bool

    @property
    def updates(self) -> AckUpdates:
        """The updates to which resets are added."""

    def add_ack(self, root: int, value: int) -> None:
        """Report that ``value`` is to be xored into the ack value of ``root``, now or after a checkpoint."""

    def fail_trees(self, roots: Iterable[int], error: BaseException | str | None) -> None:
        """Fail trees, for a reason."""

    def acked(self, tup: Tuple) -> None:
        """Record that the collector acked a tuple."""

    def acked_many(self, tuples: Sequence[Tuple]) -> None:
        """Record that the collector acked these tuples."""

    def failed(self, tup: Tuple) -> None:
        """Record that the collector failed a tuple."""

    def begin_tree(self, root: int, value: int, inputs: list[Tuple]) -> None:
        """Track a tree of the task's own, which the collector began for these inputs."""
