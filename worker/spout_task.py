"""The tasks of spouts, with the trees that they wait for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tupletree.component import Spout, TopologyContext
from tupletree.rotating import RotatingMap

from .collectors import TaskSpoutCollector
from .counts import TreesByStream, own_streams, sample_every
from .outbox import OutStream
from .tasks import Environment, Task


class SpoutTask(Task):
    """A task of a spout, with the trees it waits for.

    A pending tree ends by a verdict of its acker or by its own timeout here, whichever comes first; the other is then
    ignored. So a lost verdict is never a lost message.
    """

    def __init__(
        self,
        spout: Spout,
        context: TopologyContext,
        streams: dict[str, OutStream],
        env: Environment,
        max_pending: int | None,
    ) -> None:
        super().__init__(spout, context, streams, env)
        self.spout = spout
        own = own_streams(streams)
        self.by_stream = TreesByStream(own) if len(own) > 1 else None
        self.collector = TaskSpoutCollector(self, streams, env.ids())
        spout.collector = self.collector
        self.is_tracked = env.is_tracked
        self.max_pending = max_pending or None
        self.pending: RotatingMap[int, tuple[Any, float | None]] = RotatingMap(2)  # and when, if sampled
        self.tracked = 0  # trees begun so far
        self._cohorts = self.pending.buckets
        self._sample_every = sample_every(context.conf["topology.stats.sample.rate"])
        self._clock = env.clock
        self.uncommitted = 0  # trees that are complete and wait for a checkpoint
        self.tell_acked: Callable[[Any], None] | None = None  # in the spout's place: who tells it later, or never
        self.tell_failed: Callable[[Any], None] | None = None

    def open(self) -> None:
        self.is_open = True
        self.spout.open(self.context.conf, self.context, self.collector)
        if self.participant is not None:
            self.participant.opened()

    def activate(self) -> None:
        """The topology is active again."""
        self.spout.activate()

    def deactivate(self) -> None:
        """The topology is not active any more."""
        self.spout.deactivate()

    def close(self) -> None:
        if self.is_open:
            self.spout.close()

    @property
    def room(self) -> float:
        """How many more trees ``topology.max.spout.pending`` allows; infinity without a limit."""
        if self.max_pending is None or not self.is_tracked:
            return math.inf
        return self.max_pending - len(self.pending) - self.uncommitted

    def track(self, root: int, value: int, msg_id: Any) -> None:
        """A tree was begun by an emit; its root is new."""
        emitted_s = self._clock() if self.tracked % self._sample_every == 0 else None
        self.tracked += 1
        youngest = self._cohorts[0]
        youngest[root] = (msg_id, emitted_s)
        self.updates.add_init(root, value, self.task_id)

    def poll(self, most: int) -> bool:
        """Call ``next_tuple`` until it emits nothing, has emitted ``most``, or has no ``room``; whether it emitted.

        Raises:
            TaskFailure: ``next_tuple`` raised.
        """
        next_tuple, collector = self.spout.next_tuple, self.collector
        first = emits = collector.emits
        enough = self.tracked + self.room
        while emits - first < most and self.tracked < enough and not self.must_yield:
            try:
                next_tuple()
            except (Exception, SystemExit) as error:
                raise self.failure(error) from error
            if collector.emits == emits:
                break
            emits = collector.emits
        return emits != first

    def acked_untracked(self, msg_id: Any, stream: str) -> None:
        """A tuple with a message id was emitted while nothing is tracked: it counts as processed."""
        self.counters.acked += 1
        if self.by_stream is not None:
            self.by_stream.counts[stream].acked += 1
        (self.tell_acked or self.spout.ack)(msg_id)

    def on_acked(self, roots: Sequence[int]) -> None:
        """Ackers found these trees complete."""
        if self.by_stream is not None:
            self._acked_by_stream(self.by_stream, roots)
        counters = self.counters
        ack = self.tell_acked or self.spout.ack
        youngest = self._cohorts[0]
        for root in roots:
            entry = youngest.pop(root, None) or self.pending.pop(root)
            if entry is None:
                continue
            msg_id, emitted_s = entry
            if emitted_s is not None:
                counters.completed(self._clock() - emitted_s)
            counters.acked += 1
            ack(msg_id)

    def _acked_by_stream(self, trees: TreesByStream, roots: Sequence[int]) -> None:
        for root in roots:
            entry, counts = self.pending.get(root), trees.of(root)
            if entry is not None and entry[1] is not None and counts is not None:
                counts.completed(self._clock() - entry[1])
        trees.acked(roots)

    def on_failed(self, roots: Sequence[int]) -> None:
        """These trees failed, or are taken for lost."""
        if self.by_stream is not None:
            self.by_stream.failed(roots)
        for msg_id, _ in self.pending.pop_many(roots):
            self._fail(msg_id)

    def on_expired(self, roots: Sequence[int]) -> None:
        """Ackers saw nothing of these trees for too long."""
        if self.by_stream is not None:
            self.by_stream.failed(roots)
        for msg_id, _ in self.pending.pop_many(roots):
            self.counters.timeouts += 1
            self._fail(msg_id)

    def on_reset(self, roots: Iterable[int]) -> None:
        """A bolt asked for the timeout of these trees to begin again."""
        for root in roots:
            entry = self.pending.get(root)
            if entry is not None:
                self.pending.put(root, entry)

    def rotate(self) -> None:
        """One message timeout has passed: fail what was pending all the time since the one before."""
        expired = self.pending.rotate()
        if self.by_stream is not None:
            self.by_stream.failed(expired)
        for msg_id, _ in expired.values():
            self.counters.timeouts += 1
            self._fail(msg_id)

    def take_pending(self) -> list[Any]:
        """Forget the trees that are pending, and return their message ids."""
        if self.by_stream is not None:
            self.by_stream.forget()
        return [msg_id for msg_id, _ in self.pending.pop_many(list(self.pending))]

    def take_as_acked(self) -> list[Any]:
        """As ``take_pending``, but they count as acked."""
        self.counters.acked += len(self.pending)
        if self.by_stream is not None:
            self.by_stream.acked(list(self.pending))
        return self.take_pending()

    def _fail(self, msg_id: Any) -> None:
        self.counters.failed += 1
        (self.tell_failed or self.spout.fail)(msg_id)
