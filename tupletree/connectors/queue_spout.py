"""QueueSpout: a spout over any QueueSource, which the connectors of queues derive from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from tupletree._replay import Pending
from tupletree._wire.fail_reasons import FailReason
from tupletree.backoff import FOREVER, RECONNECT, Backoff
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.connectors.arguments import check_instance, check_whole
from tupletree.connectors.formats import Format, FormatError, checked_format
from tupletree.connectors.held import Held
from tupletree.connectors.pump import Connected, Pump
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.source_thread import Broken, Lost, register_thread
from tupletree.errors import UnavailableError
from tupletree.outputs import DEFAULT_STREAM
from tupletree.replaying_spout import REFUSED_AT_A_TIME, ReplayingSpout


class QueueSpout(ReplayingSpout):
    """Emits the messages of a queue, and acknowledges each when its tuple tree is complete.

    **At least once.** A message stays in the queue until its tree is complete. If the tree fails, the message is
    emitted again after the pauses of ``retry``: a queue that counts deliveries gets it back, and delivers it to
    whichever task asks. If the worker or the connection dies, the queue delivers again all messages that were not
    acknowledged.

    **Giving up.** With ``set_dead_letters``, or a ``retry`` with ``max_attempts``, a message is given up after the last
    attempt: it leaves as a dead letter, or is reported and rejected (set aside by the queue where it can, see the
    connector). The attempts are those that the queue counts; otherwise the task counts, and counts anew if it dies. A
    message that cannot be decoded is given up at once. One that cannot be decoded for now, as a service that the format
    asks is away, waits in the task, and those that follow wait behind it; no attempt is counted.

    **Back-pressure.** At most ``max_in_flight`` messages per task are delivered and not acknowledged; a deactivated
    topology receives none. The time limits of messages in process are extended by a thread of their own, for as long as
    the worker lives.

    Attributes:
        format: decodes messages; its fields are the spout's outputs.
        max_in_flight: the maximum number of messages per task that are delivered and not acknowledged.
        retry: the attempts and the pauses between them.
        reconnect: the pauses between attempts to connect.
    """

    retry: Backoff = FOREVER
    reconnect: Backoff = RECONNECT
    _is_ordered = False

    def __init__(self, source: QueueSource, format: Format | None = None, *, max_in_flight: int = 1000) -> None:
        check_instance(type(self).__name__, "source", source, QueueSource, "an instance of a QueueSource")
        check_whole(type(self).__name__, "max_in_flight", max_in_flight)
        self.source = source
        self.format = checked_format(self, format)
        self.outputs = self.format.outputs  # type: ignore[misc]  # set per instance, unlike in other spouts
        self.blocking = self.format.blocking or self.blocking
        self.max_in_flight = max_in_flight

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        limit = conf["topology.max.spout.pending"]
        prefetch = self.max_in_flight if limit is None else min(limit, self.max_in_flight)
        self._deliveries: dict[Pending, Delivery] = {}
        self._rejected: set[Pending] = set()
        self._run = uuid4().hex[:8]  # ids made of handles are those of no other run of the task
        self._generation = 0
        self._held: Held[Delivery] = Held(self.reconnect)
        self._pump = Pump(self.source, prefetch, context.task_index, self.reconnect)
        register_thread(context, self._pump, "queue", self.source.title)
        self._pump.start()

    def close(self) -> None:
        self._pump.close()

    def activate(self) -> None:
        self._pump.pause(False)

    def deactivate(self) -> None:
        self._pump.pause(True)

    def next_tuple(self) -> None:
        if self._send_due():
            return
        if self._held.message is not None:
            if self._held.is_due(self.context.clock()):
                self._begin(self._held.message)
            return
        for _ in range(REFUSED_AT_A_TIME):
            event = self._pump.poll()
            if not isinstance(event, Delivery):
                self._apply(event)
                return
            if self._begin(event):
                return

    def _apply(self, event: Any) -> None:
        match event:
            case Connected(generation):
                self._generation = generation
            case Lost(error):
                self._replay.reset()
                self._deliveries.clear()
                self._rejected.clear()
                self.collector.report_error(UnavailableError(f"{self.source.title}: no connection: {error}"))
            case Broken(error):
                raise error

    def _begin(self, delivery: Delivery) -> bool:
        """Emit a message, or keep it for later. Return false if it is refused and reported: nothing is emitted."""
        row: Sequence[Any] = [delivery.data]
        error = FormatError(delivery.problem) if delivery.problem else None
        if error is None:
            try:
                row = self.format.decode_delivery(delivery.data, delivery.headers)
            except FormatError as failure:
                error = failure
            except UnavailableError as failure:
                self._held.hold(delivery, self.context.clock())
                self.collector.report_error(failure)
                return True
        self._held.clear()
        id = delivery.id or f"{delivery.handle} of connection {self._run}-{self._generation}"
        pending = self._replay.begin(row, DEFAULT_STREAM, id)
        pending.attempts = max(0, (delivery.deliveries or 1) - 1)
        self._deliveries[pending] = delivery
        if error is None:
            self._send(pending)
            return True
        self._replay.count_attempt(pending, FailReason.of(self.context.component_id, self.context.task_id, error))
        self._give_up(pending)
        return self.dead_letters is not None

    def fail_because(self, msg_id: Any, reason: FailReason | None) -> None:
        pending: Pending = msg_id
        delivery = self._deliveries.get(pending)
        if delivery is None or pending.stream == self.dead_letters or not self.source.counts:
            super().fail_because(pending, reason)
            return
        if self._replay.count_attempt(pending, reason):
            self._give_up(pending)
        elif self._replay.done(pending):
            del self._deliveries[pending]
            self._pump.release(self._generation, delivery.handle, self.retry.pause_s(max(1, pending.attempts)))

    def _give_up(self, pending: Pending) -> None:
        if self.dead_letters is None:
            self._rejected.add(pending)
        super()._give_up(pending)

    def _finish(self, pending: Pending) -> None:
        delivery = self._deliveries.pop(pending, None)
        if delivery is None:
            return
        if pending in self._rejected:
            self._rejected.remove(pending)
            self._pump.reject(self._generation, delivery.handle)
        else:
            self._pump.acknowledge(self._generation, delivery.handle)
