"""Stand-ins for a task at its collector, which show the trees that a spout begins and the acks of a bolt, for hooks.

``inner``: the next stand-in, or the task, or the tracer's stand-in for it (worker/core/trace_filter.py), which
``exchange`` replaces. Hooks put stand-ins on in the task's thread, tracing and sampling in that of the event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from tupletree.tuples import Tuple

from ..core.bolt_task import BoltTask
from ..core.counts import TreeCounts
from ..core.spout_task import SpoutTask
from ..core.tree_tracker import TreeTracker

_changing: Final = threading.Lock()


class HookedTracker(TreeTracker):
    """Base class of stand-ins. Passes all other attributes through to ``inner``."""

    def __init__(self, inner: TreeTracker) -> None:
        self.inner: Any = inner
        self.is_tracked = inner.is_tracked

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def track(self, root: int, value: int, msg_id: Any, counts: TreeCounts | None) -> None:
        """Track a tree that an emit has begun."""
        self.inner.track(root, value, msg_id, counts)

    def settle(self, msg_id: Any, stream: str, error: BaseException | None) -> None:
        """Settle a message of which nothing is under way."""
        self.inner.settle(msg_id, stream, error)

    def add_ack(self, root: int, value: int) -> None:
        """Report an ack of a tree."""
        self.inner.add_ack(root, value)


class HookedSpout(HookedTracker):
    """Stand-in for a spout task. ``began``: called with the message id of each tree."""

    def __init__(self, inner: TreeTracker, began: Callable[[Any], None]) -> None:
        super().__init__(inner)
        self._began = began

    def track(self, root: int, value: int, msg_id: Any, counts: TreeCounts | None) -> None:
        """Track a tree that an emit has begun."""
        self._began(msg_id)
        self.inner.track(root, value, msg_id, counts)


class HookedBolt(HookedTracker):
    """Stand-in for the task of a bolt that acks explicitly."""

    def __init__(self, inner: TreeTracker, acked: Callable[[Tuple], None], failed: Callable[[Tuple], None]) -> None:
        super().__init__(inner)
        self._on_acked = acked
        self._on_failed = failed

    def acked(self, tup: Tuple) -> None:
        """Record that the collector acked a tuple."""
        self.inner.acked(tup)
        self._on_acked(tup)

    def acked_many(self, tuples: Sequence[Tuple]) -> None:
        """Record that the collector acked these tuples."""
        self.inner.acked_many(tuples)
        for tup in tuples:
            self._on_acked(tup)

    def failed(self, tup: Tuple) -> None:
        """Record that the collector failed a tuple."""
        self.inner.failed(tup)
        self._on_failed(tup)


def exchange(task: SpoutTask | BoltTask, inner: TreeTracker) -> None:
    """Let the task's collector see ``inner`` instead of what it sees now, below all stand-ins of this module."""
    with _changing:
        tracker: Any = task.collector._task
        if not isinstance(tracker, HookedTracker):
            task.collector._task = cast(Any, inner)
            return
        while isinstance(tracker.inner, HookedTracker):
            tracker = tracker.inner
        tracker.inner = inner


Made = TypeVar("Made", bound=HookedTracker)


def put_on(task: SpoutTask | BoltTask, make: Callable[[TreeTracker], Made]) -> Made:
    """Let the task's collector see a stand-in, made of what it sees now, and return the stand-in."""
    with _changing:
        stand_in = make(cast(Any, task.collector._task))
        task.collector._task = cast(Any, stand_in)
    return stand_in


def take_off(task: SpoutTask | BoltTask, stand_in: HookedTracker) -> None:
    """Let the task's collector see what it saw without a stand-in. Does nothing if the stand-in is not there."""
    with _changing:
        above: Any = None
        tracker: Any = task.collector._task
        while tracker is not stand_in:
            if not isinstance(tracker, HookedTracker):
                return
            above, tracker = tracker, tracker.inner
        if above is None:
            task.collector._task = stand_in.inner
        else:
            above.inner = stand_in.inner
