"""Selection of the trees that are traced ("followed"), and stand-ins for tasks that show these trees to the tracer.

A tree is followed if its root is a multiple of ``one_in``. With one_in = odd * 2**n, this holds if the lowest n bits
are 0 and the root is a multiple of odd. The second condition is tested by a multiplication, which is much faster than a
division (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994, section 9). Multiply the
root, modulo 2**64, by the inverse of odd: the product is at most (2**64 - 1) // odd exactly for the multiples of odd.

This module is compiled with the hot path: every tree that is not followed pays for the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from tupletree.tuples import Tuple

from .bolt_task import BoltTask
from .counts import TreeCounts
from .spout_task import SpoutTask
from .task import Task
from .tree_tracker import TreeTracker


class TreeTracer(Protocol):
    """Receiver of the events of traced trees (worker/debugging/tracing.py)."""

    def began(self, task: Task, root: int, message: Any) -> None:
        """Record that a task began a traced tree, or took a message that has none (root 0)."""

    def on_outcome(self, task: Task, anchors: Iterable[tuple[int, int]], kind: str) -> None:
        """Record that a bolt acked or failed a tuple of these trees."""


class Followed:
    """The set of followed trees: one in ``one_in``."""

    __slots__ = ("_inverse", "_low_bits", "_mask", "_most")

    def __init__(self, one_in: int) -> None:
        power = one_in & -one_in
        self._mask = 2**64 - 1
        self._low_bits = power - 1
        self._inverse = pow(one_in // power, -1, 2**64)
        self._most = self._mask // (one_in // power)

    def holds(self, root: int) -> bool:
        """True if the tree of this root is followed. Root 0 means no tree."""
        return root != 0 and not root & self._low_bits and (root * self._inverse & self._mask) <= self._most

    def rows(self, roots: Sequence[int], start: int, stop: int) -> list[int]:
        """Return the rows from ``start`` to ``stop`` with followed roots, ascending. ``roots`` is a 64-bit array."""
        found = []
        low_bits, inverse, mask, most = self._low_bits, self._inverse, self._mask, self._most
        at = start
        while at < stop:
            root = roots[at]
            if not root & low_bits and (root * inverse & mask) <= most and root:
                found.append(at)
            at += 1
        return found

    def among(self, roots: Iterable[int]) -> list[int]:
        """Return the followed roots among the given roots."""
        return [root for root in roots if self.holds(root)]


class FollowedSpout(TreeTracker):
    """Stand-in for a spout task at its collector. Passes all other attributes through to the task."""

    def __init__(self, task: SpoutTask, followed: Followed, tracer: TreeTracer) -> None:
        self._task = task
        self._followed = followed
        self._tracer = tracer
        self.component_id = task.component_id
        self.is_tracked = task.is_tracked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def track(self, root: int, value: int, msg_id: Any, counts: TreeCounts | None) -> None:
        """Track a tree that an emit has begun, and show the tracer a followed tree."""
        self._task.track(root, value, msg_id, counts)
        if self._followed.holds(root):
            self._tracer.began(self._task, root, msg_id)

    def settle(self, msg_id: Any, stream: str, error: BaseException | None) -> None:
        """Show the tracer a message without a tree, as one with root 0, and settle it."""
        if msg_id is not None:
            self._tracer.began(self._task, 0, msg_id)
        self._task.settle(msg_id, stream, error)


class FollowedBolt(TreeTracker):
    """Stand-in for the task of a bolt that acks explicitly, like ``FollowedSpout``."""

    def __init__(self, task: BoltTask, followed: Followed, tracer: TreeTracer) -> None:
        self._task = task
        self._followed = followed
        self._tracer = tracer
        self.component_id = task.component_id
        self.is_tracked = task.is_tracked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def add_ack(self, root: int, value: int) -> None:
        """Report an ack of a tree."""
        self._task.add_ack(root, value)

    def acked(self, tup: Tuple) -> None:
        """Record that the collector acked a tuple."""
        self._task.acked(tup)
        self._trace_ack(tup)

    def acked_many(self, tuples: Sequence[Tuple]) -> None:
        """Record that the collector acked these tuples."""
        self._task.acked_many(tuples)
        for tup in tuples:
            self._trace_ack(tup)

    def failed(self, tup: Tuple) -> None:
        """Record that the collector failed a tuple."""
        self._task.failed(tup)
        self._tracer.on_outcome(self._task, tup.anchors, "fail")

    def begin_tree(self, root: int, value: int, inputs: list[Tuple]) -> None:
        """Track a tree of the task's own, which the collector began for these inputs."""
        self._task.begin_tree(root, value, inputs)
        if self._followed.holds(root):
            self._tracer.began(self._task, root, f"{len(inputs)} tuples combined")

    def _trace_ack(self, tup: Tuple) -> None:
        """Show the tracer an acked tuple if its tree is followed or if the tuple belongs to several trees."""
        if tup._root:
            if self._followed.holds(tup._root):
                self._tracer.on_outcome(self._task, tup.anchors, "ack")
        elif tup._pairs is not None:
            self._tracer.on_outcome(self._task, tup.anchors, "ack")
