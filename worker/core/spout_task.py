"""Spout tasks and their pending trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import GeneratorType
from typing import Any

from tupletree._chained import Chained
from tupletree._wire.fail_reasons import FailReason, decode
from tupletree.collector import SpoutCollector
from tupletree.component import RAISE_FAILED, Spout, TopologyContext, ignores_fails
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.outputs import PROGRESS_STREAM

from .chained_collector import ChainedCollector
from .collectors import TaskSpoutCollector
from .counts import NEVER, TreeCounts, own_streams, sample_every
from .output_streams import OutStream
from .pending_trees import pending_trees
from .task import Environment, Task

NO_REASONS: Mapping[int, bytes] = {}


class PendingTree:
    """A pending tree whose latency is measured, or which is not of the first stream. Others are their message ids.

    ``emitted_s``: negative if the latency is not measured. ``counts``: of the tree's stream.
    """

    __slots__ = ("counts", "emitted_s", "msg_id")

    def __init__(self, msg_id: Any, emitted_s: float, counts: TreeCounts) -> None:
        self.msg_id = msg_id
        self.emitted_s = emitted_s
        self.counts = counts


def message_of(entry: Any) -> Any:
    """Return the message id of a pending tree."""
    return entry.msg_id if type(entry) is PendingTree else entry


class SpoutTask(Task):
    """A task of a spout, with its pending trees.

    A pending tree ends with a verdict of its acker or with its timeout here, whichever comes first. The other is then
    ignored. So a lost verdict never means a lost message.
    """

    def __init__(
        self,
        spout: Spout,
        context: TopologyContext,
        streams: dict[str, OutStream],
        env: Environment,
        max_pending: int | None,
        chained: Chained | None = None,
    ) -> None:
        super().__init__(spout, context, streams, env)
        self.spout = spout
        own = own_streams(name for name in streams if chained is None or name != PROGRESS_STREAM)
        self.trees = {stream: TreeCounts() for stream in own}
        self.first_stream = own[0] if own else ""
        self._first = self.trees[self.first_stream] if own else TreeCounts()
        self.collector = TaskSpoutCollector(self, streams, env.ids())
        self._chain = None if chained is None else ChainedCollector(chained, context, self.collector)
        self._output: SpoutCollector = self._chain or self.collector  # to which the spout emits
        spout.collector = self._output
        self.max_pending = max_pending or None
        self.pending = pending_trees()  # message ids, or PendingTree
        self.tracked = 0  # trees begun so far
        self._sample_every = sample_every(context.conf["topology.stats.sample.rate"])
        self._clock = env.clock
        self.uncommitted = 0  # complete trees that wait for a checkpoint
        self.rows: Any = None  # a generator that next_tuple returned, until it is exhausted
        self.tell_acked: Callable[[Any], None] | None = None  # if set, replaces spout.ack (aligned checkpoints)
        self.tell_failed: Callable[[Any, FailReason | None], None] | None = None
        self.is_dry = False  # the last next_tuple emitted nothing
        self._unsettled: list[tuple[Any, str, BaseException | None]] = []  # see ``settle``
        self._is_deaf = ignores_fails(spout)
        self.reasons: Mapping[int, bytes] = NO_REASONS  # of the failed trees that are being reported to the spout
        self.fail_because: Callable[[Any, FailReason | None], None] | None = getattr(spout, "fail_because", None)

    def open(self) -> None:
        self.is_open = True
        if self._chain is not None:
            with self.set_up:
                self._chain.setup()
        self.begin(self.spout, "open", self.context.conf, self.context, self._output)
        if self.participant is not None:
            self.participant.opened()

    def activate(self) -> None:
        """Call the spout's ``activate``: the topology is active again."""
        activate: Callable[[], object] = self.spout.activate
        with self.set_up:
            self.refuse(self.spout, "activate", activate())

    def deactivate(self) -> None:
        """Call the spout's ``deactivate``: the topology is no longer active."""
        deactivate: Callable[[], object] = self.spout.deactivate
        with self.set_up:
            self.refuse(self.spout, "deactivate", deactivate())

    def close(self) -> None:
        if self.is_open:
            try:
                self.tear_down(self.spout, "close")
            finally:
                if self._chain is not None:
                    self._chain.teardown()

    @property
    def room(self) -> float:
        """Number of further trees that ``topology.max.spout.pending`` allows; infinity without a limit."""
        if self.max_pending is None or not self.is_tracked:
            return math.inf
        return self.max_pending - len(self.pending) - self.uncommitted

    def track(self, root: int, value: int, msg_id: Any, counts: TreeCounts | None) -> None:
        entry = msg_id
        if self.tracked % self._sample_every == 0 and self._sample_every < NEVER:
            entry = PendingTree(msg_id, self._clock(), counts or self._first)
        elif counts is not None:
            entry = PendingTree(msg_id, -1.0, counts)
        self.pending.add(root, entry)
        self.tracked += 1
        self.updates.add_init(root, value, self.task_id)

    def poll(self, most: int) -> bool:
        """Call ``next_tuple`` until it emits nothing, ``most`` tuples are emitted, or ``room`` is used up.

        Return True if the spout emitted.

        Raises:
            TaskFailedError: ``next_tuple`` raised.
        """
        next_tuple: Callable[[], object] = self.spout.next_tuple
        collector = self.collector
        first = emits = collector.emits
        self.is_dry = False
        enough = self.tracked + self.room
        while emits - first < most and self.tracked < enough and not self.must_yield:
            left = most - (emits - first)
            if self.tracked + left > enough:
                left = int(enough - self.tracked)
            collector.emits_until = emits + left
            try:
                returned = self.rows or next_tuple()
                if returned is not None:
                    if type(returned) is GeneratorType:
                        self._emit_next(returned)
                    else:
                        self.refuse(self.spout, "next_tuple", returned)
            except (Exception, SystemExit) as error:
                raise self.failure(error) from error
            if collector.emits == emits:
                self.is_dry = True
                break
            emits = collector.emits
        collector.emits_until = 0
        return emits != first

    def _emit_next(self, rows: Any) -> None:
        """Emit the next row of a generator that ``next_tuple`` returned; a None row means that there is no row now."""
        self.rows = rows
        for row in rows:
            if row is not None:
                self._output.emit(row)
            return
        self.rows = None

    def report_progress(self) -> None:
        """Send the progress of the chain in event time, if it has any, to the tasks that wait for watermarks."""
        progress = self.context.source_progress
        if progress is not None and self.is_open:
            for time in progress.report():
                self.collector.emit([time], None, PROGRESS_STREAM)

    def end_of_input(self) -> None:
        """Report that nothing can be late any more, as all sources are at their end."""
        progress = self.context.source_progress
        if progress is not None:
            progress.end()
            self.report_progress()

    def acked_untracked(self, msg_id: Any, stream: str) -> None:
        """Ack a message that has no tree: at once if it was emitted while tracking is off, else in ``settle``."""
        self.counters.acked += 1
        counts = self.trees.get(stream, self._first)
        counts.acked += 1
        ack: Callable[[Any], object] = self.tell_acked or self.spout.ack
        returned = ack(msg_id)
        if returned is not None:
            self.refuse(self.spout, "ack", returned)

    def settle(self, msg_id: Any, stream: str, error: BaseException | None) -> None:
        """Ack a message of which nothing is under way, or fail it for an error, as if a bolt had failed its tuple.

        The spout is in the middle of an emit, and hears of the message in a later call. With tracking off, an emitted
        message is acked at once. With aligned checkpoints, the participant hears at once, as it tells the spout later.
        An error other than FailedException ends the worker. ``msg_id``: None if the message is not tracked.
        ``stream``: the stream that the message counts for; "" for the first of the component.
        """
        is_fatal = False
        if error is not None:
            is_fatal = not isinstance(error, FailedException)
            self.has_failed_tuples = True  # no checkpoint covers the message, whenever the error takes effect
            if isinstance(error, ReportedFailedException):
                self.report_error(error)
        if msg_id is None and not is_fatal:
            return
        if not is_fatal and (not self.is_tracked or self.tell_acked is not None):
            self._settle(msg_id, stream, error)
            return
        if is_fatal:
            self.must_yield = True
        if not self._unsettled:
            self.context.call_soon(self._settle_all)
        self._unsettled.append((msg_id, stream, error))

    def _settle_all(self) -> None:
        unsettled = self._unsettled
        self._unsettled = []
        counters, first = self.counters, self._first
        ack: Callable[[Any], object] = self.tell_acked or self.spout.ack
        for msg_id, stream, error in unsettled:
            if error is not None:
                self._settle(msg_id, stream, error)
                continue
            counters.acked += 1
            counts = self.trees.get(stream, first)
            counts.acked += 1
            returned = ack(msg_id)
            if returned is not None:
                self.refuse(self.spout, "ack", returned)

    def _settle(self, msg_id: Any, stream: str, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, FailedException):
            raise self.failure(error, RAISE_FAILED) from error
        if error is None or not self.is_tracked:
            self.acked_untracked(msg_id, stream)
            return
        self.trees.get(stream, self._first).failed += 1
        self._fail_message(msg_id, FailReason.of(self.component_id, self.task_id, error))

    def on_acked(self, roots: Sequence[int]) -> None:
        """Ack trees that ackers reported complete."""
        counters = self.counters
        ack: Callable[[Any], object] = self.tell_acked or self.spout.ack
        for entry in self.pending.pop_many(roots):
            counters.acked += 1
            if type(entry) is PendingTree:
                tree = entry
                counts = tree.counts
                counts.acked += 1
                if tree.emitted_s >= 0:
                    latency_s = self._clock() - tree.emitted_s
                    counters.completed(latency_s)
                    counts.completed(latency_s)
                returned = ack(tree.msg_id)
            else:
                self._first.acked += 1
                returned = ack(entry)
            if returned is not None:
                self.refuse(self.spout, "ack", returned)

    def on_failed(self, roots: Sequence[int]) -> None:
        """Call the spout's ``fail`` for trees that a bolt failed, or that are considered lost."""
        if self.reasons:
            for root in roots:
                entry = self.pending.pop(root)
                if entry is not None:
                    self._fail(entry, decode(self.reasons.get(root, b"")))
            return
        for entry in self.pending.pop_many(roots):
            self._fail(entry)

    def on_expired(self, roots: Sequence[int]) -> None:
        """Fail trees that timed out at their ackers."""
        for entry in self.pending.pop_many(roots):
            self.counters.timeouts += 1
            self._fail(entry, self._timeout)

    def on_reset(self, roots: Iterable[int]) -> None:
        """Restart the timeout of these trees, as a bolt has requested."""
        for root in roots:
            entry = self.pending.get(root)
            if entry is not None:
                self.pending.put(root, entry)

    def rotate(self) -> None:
        """Fail the trees that have been pending since before the previous rotation. Called once per message timeout."""
        for entry in self.pending.rotate().values():
            self.counters.timeouts += 1
            self._fail(entry, self._timeout)

    def pop_pending(self) -> list[Any]:
        """Remove all pending trees and return their message ids."""
        return [message_of(entry) for entry in self.pending.pop_many(list(self.pending))]

    def pop_as_acked(self) -> list[Any]:
        """Remove all pending trees, count them as acked and return their message ids."""
        entries = self.pending.pop_many(list(self.pending))
        self.counters.acked += len(entries)
        for entry in entries:
            self._counts_of(entry).acked += 1
        return list(map(message_of, entries))

    def _counts_of(self, entry: Any) -> TreeCounts:
        """Return the counts of a pending tree's stream."""
        return entry.counts if type(entry) is PendingTree else self._first

    @property
    def _timeout(self) -> FailReason:
        timeout_s = self.context.conf["topology.message.timeout.secs"]
        return FailReason("", 0, f"TimeoutError: the tree was not complete within {timeout_s:g} s")

    def _fail(self, entry: Any, reason: FailReason | None = None) -> None:
        """Fail a pending tree."""
        self._counts_of(entry).failed += 1
        self._fail_message(message_of(entry), reason)

    def _fail_message(self, msg_id: Any, reason: FailReason | None) -> None:
        self.counters.failed += 1
        if self._is_deaf and self.tell_failed is None:
            self.counters.unheard += 1
        if self.tell_failed is not None:
            self.tell_failed(msg_id, reason)
            return
        if self.fail_because is not None:
            self.fail_because(msg_id, reason)
            return
        fail: Callable[[Any], object] = self.spout.fail
        returned = fail(msg_id)
        if returned is not None:
            self.refuse(self.spout, "fail", returned)
