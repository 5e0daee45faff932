"""The message ids of the tuples that are sampled in a spout, for event loggers.

A tuple is sampled where its target is chosen, which does not know the message. The collector names it right after:

    emit(values, "m1")    chosen and sampled    held until ...    the collector tracks or acks "m1"    told with "m1"
    emit(values)          chosen and sampled    held until ...    the task takes its next call          told without

So a stand-in for the task at its collector shows the ids while the task is sampled, and only then. Tuples belong to
the message if the collector has counted exactly one emit since they were chosen: those of ``emit_tree`` are several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tupletree._replay import Pending
from tupletree.hooks import SampledTuple

from ..core.counts import TreeCounts
from ..core.spout_task import SpoutTask
from ..core.tree_tracker import TreeTracker
from ..hooks.stand_ins import HookedTracker, put_on, take_off

Tell = Callable[[SampledTuple], object]


class SampledMessages:
    """The sampled tuples of a spout task whose message is not known yet. On the task's thread, but ``attach``."""

    def __init__(self, task: SpoutTask, tell: Tell) -> None:
        self._task = task
        self._tell = tell
        self._held: list[tuple[int, SampledTuple]] = []  # with the emits that the collector had counted before

    def attach(self) -> Callable[[], None]:
        """Begin to see the message ids of the task; return a function that ends it. Both on the event loop's thread."""
        stand_in = put_on(self._task, lambda inner: _SampledSpout(inner, self.known))
        return lambda: take_off(self._task, stand_in)

    def hold(self, sampled: SampledTuple) -> None:
        """Hold a tuple until its message is known, at most until the task takes its next call."""
        if not self._held:
            self._task.context.call_soon(self.release)
        self._held.append((self._task.collector.emits, sampled))

    def known(self, msg_id: Any) -> None:
        """Tell of the tuples of the message that the collector has just emitted, and of those before it."""
        if self._held:
            held, self._held = self._held, []
            message = msg_id.id if type(msg_id) is Pending else msg_id  # a message of a ReplayingSpout
            last = self._task.collector.emits - 1
            for emits, sampled in held:
                self._tell(sampled._replace(message_id=message) if emits == last else sampled)

    def release(self) -> None:
        """Tell of all tuples that are held: they have no message."""
        held, self._held = self._held, []
        for _, sampled in held:
            self._tell(sampled)


class _SampledSpout(HookedTracker):
    """Stand-in for a spout task. ``known``: called with each message id before the task hears of the message."""

    def __init__(self, inner: TreeTracker, known: Callable[[Any], None]) -> None:
        super().__init__(inner)
        self._known = known

    def track(self, root: int, value: int, msg_id: Any, counts: TreeCounts | None) -> None:
        """Track a tree that an emit has begun."""
        self._known(msg_id)
        self.inner.track(root, value, msg_id, counts)

    def acked_untracked(self, msg_id: Any, stream: str) -> None:
        """Ack a message without a tree."""
        self._known(msg_id)
        self.inner.acked_untracked(msg_id, stream)

    def settle(self, msg_id: Any, stream: str, error: BaseException | None) -> None:
        """Settle a message of which nothing is under way."""
        self._known(msg_id)
        self.inner.settle(msg_id, stream, error)
