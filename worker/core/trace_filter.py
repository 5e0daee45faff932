"""Which trees are followed, asked of every root on its way; and what then stands between collectors and their tasks.

A tree is followed if its root is a multiple of ``one_in``. With one_in = odd * 2**n, that is so if the lowest n bits
are 0 and the root is a multiple of odd; which a multiplication says, much sooner than a division (Granlund and
Montgomery, "Division by Invariant Integers using Multiplication", 1994, section 9): exactly the multiples of odd give
at most (2**64 - 1) // odd when multiplied, modulo 2**64, by the number whose product with odd is 1.

Compiled where the hot path is: while few trees are followed, this is what all the others pay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tupletree.tuples import Tuple

from .ack_updates import AckUpdates, TreeTracker
from .spout_task import SpoutTask
from .tasks import BoltTask

if TYPE_CHECKING:
    from ..debugging.tracing import Tracer


class Followed:
    """One in so many trees."""

    __slots__ = ("_inverse", "_low_bits", "_mask", "_most")

    def __init__(self, one_in: int) -> None:
        power = one_in & -one_in
        self._mask = 2**64 - 1
        self._low_bits = power - 1
        self._inverse = pow(one_in // power, -1, 2**64)
        self._most = self._mask // (one_in // power)

    def holds(self, root: int) -> bool:
        """Whether the tree of this root is followed. Root 0 is no tree."""
        return root != 0 and not root & self._low_bits and (root * self._inverse & self._mask) <= self._most

    def rows(self, roots: Sequence[int], start: int, stop: int) -> list[int]:
        """Where followed roots are in this part of a column, ascending. ``roots`` is an array of 64 bits each."""
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
        """The followed ones of any roots."""
        return [root for root in roots if self.holds(root)]


class FollowedSpout(TreeTracker):
    """Stands in the place of a spout task for its collector. What it does not see goes to the task."""

    def __init__(self, task: SpoutTask, followed: Followed, tracer: Tracer) -> None:
        self._task = task
        self._followed = followed
        self._tracer = tracer
        self.component_id = task.component_id
        self.is_tracked = task.is_tracked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def track(self, root: int, value: int, msg_id: Any) -> None:
        """A tree was begun by an emit."""
        self._task.track(root, value, msg_id)
        if self._followed.holds(root):
            self._tracer.began(self._task, root, msg_id)


class FollowedBolt:
    """As ``FollowedSpout``, for a bolt that acks by hand."""

    def __init__(self, task: BoltTask, followed: Followed, tracer: Tracer) -> None:
        self._task = task
        self._followed = followed
        self._tracer = tracer
        self.component_id = task.component_id
        self.is_tracked = task.is_tracked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    @property
    def ack_updates(self) -> AckUpdates:
        """Asked for with each ack."""
        return self._task.ack_updates

    def acked(self, tup: Tuple) -> None:
        """The collector acked a tuple."""
        self._task.acked(tup)
        self._look(tup)

    def acked_many(self, tuples: Sequence[Tuple]) -> None:
        """The collector acked these tuples."""
        self._task.acked_many(tuples)
        for tup in tuples:
            self._look(tup)

    def failed(self, tup: Tuple) -> None:
        """The collector failed a tuple."""
        self._task.failed(tup)
        self._tracer.settled(self._task, tup.anchors, "fail")

    def begin_tree(self, root: int, value: int, inputs: list[Tuple]) -> None:
        """The collector emitted for these inputs in a tree of this task's own."""
        self._task.begin_tree(root, value, inputs)
        if self._followed.holds(root):
            self._tracer.began(self._task, root, f"{len(inputs)} tuples combined")

    def _look(self, tup: Tuple) -> None:
        """Show the tracer an acked tuple of a followed tree, and those of several trees."""
        if tup._root:
            if self._followed.holds(tup._root):
                self._tracer.settled(self._task, tup.anchors, "ack")
        elif tup._pairs is not None:
            self._tracer.settled(self._task, tup.anchors, "ack")
