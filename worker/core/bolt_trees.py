"""Trees that a bolt task begins, and the inputs that wait for each tree.

A spout's tree ends in ``ack(msg_id)`` or ``fail(msg_id)``. The tree of a bolt task ends in an ack or a fail of the
inputs from which its tuples were made:

    spout --- tree of input 1 ----+                    +--- row ---+
    spout --- tree of input 2 ----+-- bolt task -------+--- row ---+-- own tree of the task
    spout --- tree of input 3 ----+                    +--- row ---+
                 ^                                                      |
                 +---------- acked, once the own tree is complete ------+

So each row has one root, however many inputs it combines. An input is acked only after all rows made from it were
processed. If the input went into several trees, for example of several streams, it is acked after the last tree. Like
a spout's tree, an own tree ends with a verdict of its acker or with its timeout here, whichever comes first. If the
task itself is lost, its inputs are still pending at their spouts.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Callable, Iterable

from tupletree.tuples import Tuple

from ..control_messages import Control, ShardsLost, TreeVerdict, VerdictKind, WorkerLost
from ..rotating_map import RotatingMap

Inputs = list[Tuple]
Settle = Callable[[Inputs], None]


class BoltTrees:
    """Pending trees of one bolt task. ``on_acked``, ``on_failed`` and ``on_reset`` pass a tree's verdict to its inputs.

    Attributes:
        due_s: earliest time at which ``expire`` has something to do; infinity while nothing is pending.
    """

    def __init__(self, timeout_s: float | None, on_acked: Settle, on_failed: Settle, on_reset: Settle) -> None:
        self.due_s = math.inf
        self._timeout_s = timeout_s or math.inf
        self._on_acked = on_acked
        self._on_failed = on_failed
        self._on_reset = on_reset
        self._pending: RotatingMap[int, Inputs] = RotatingMap(2)
        self._waits_for: dict[Tuple, int] = {}  # number of pending trees of each input
        self._rotation_s = math.inf
        self._suspects: list[tuple[float, list[int]]] = []

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, root: int, inputs: Inputs, now_s: float) -> None:
        """Track a tree that was begun for these inputs; its root is new."""
        if self._rotation_s == math.inf:
            self._rotation_s = now_s + self._timeout_s
            self._set_due()
        self._pending.put(root, inputs)
        for tup in inputs:
            self._waits_for[tup] = self._waits_for.get(tup, 0) + 1

    def forget(self) -> None:
        """Forget all pending trees and the inputs that wait for them."""
        self._pending = RotatingMap(2)
        self._waits_for.clear()
        self._suspects.clear()
        self._rotation_s = math.inf
        self._set_due()

    def handle(self, item: Control, now_s: float) -> None:
        """Handle a verdict, a reset, or the loss of a worker or of shards."""
        match item:
            case TreeVerdict(kind=VerdictKind.ACKED):
                for inputs in self._pending.pop_many(item.roots):
                    self._on_acked([tup for tup in inputs if self._was_last(tup)])
            case TreeVerdict(kind=VerdictKind.RESET):
                self._reset(item.roots)
            case TreeVerdict():
                self._fail(item.roots)
            case WorkerLost():
                if self._pending:
                    self._suspects.append((now_s + item.grace_s, list(self._pending)))
                    self._set_due()
            case ShardsLost():
                self._fail([root for root in self._pending if root % item.count in item.shards])

    def expire(self, now_s: float) -> None:
        """Fail trees that timed out, and trees still pending at the end of the grace after the loss of a worker."""
        if self._rotation_s <= now_s:
            for inputs in self._pending.rotate().values():
                self._give_up(inputs)
            self._rotation_s = now_s + self._timeout_s if self._pending else math.inf
        due = [roots for due_s, roots in self._suspects if due_s <= now_s]
        self._suspects = [suspect for suspect in self._suspects if suspect[0] > now_s]
        for roots in due:
            self._fail(roots)
        self._set_due()

    def _set_due(self) -> None:
        self.due_s = min(self._rotation_s, *(due_s for due_s, _ in self._suspects), math.inf)

    def _fail(self, roots: Iterable[int]) -> None:
        for inputs in self._pending.pop_many(roots):
            self._give_up(inputs)

    def _give_up(self, inputs: Inputs) -> None:
        """Fail inputs, except inputs that already failed with another tree."""
        self._on_failed([tup for tup in inputs if self._waits_for.pop(tup, 0)])

    def _was_last(self, tup: Tuple) -> bool:
        """Record that a tree of an input is complete. Return True if the input waits for no other tree."""
        left = self._waits_for.pop(tup, 0) - 1
        if left > 0:
            self._waits_for[tup] = left
        return left == 0

    def _reset(self, roots: Iterable[int]) -> None:
        for root in roots:
            inputs = self._pending.get(root)
            if inputs is not None:
                self._pending.put(root, inputs)
                self._on_reset(inputs)
