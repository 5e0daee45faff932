"""RetryingSpout: replays and dead letters around any spout that emits with message ids (``set_retry``)."""

from __future__ import annotations  # pure

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tupletree._kept_rows import kept_row
from tupletree._replay import Pending
from tupletree._signatures import is_generator
from tupletree._stored_states import is_positioned
from tupletree.backoff import Backoff
from tupletree.collector import SpoutCollector
from tupletree.component import Spout, TopologyContext
from tupletree.errors import UsageError
from tupletree.replaying_spout import ReplayingSpout

SEVERAL: Final = ""
"""The stream of a stored message that is emitted by ``emit_tree``. Its row is a list of streams and values."""


class RetryingSpout(ReplayingSpout):
    """Wraps a spout, and stores each message that the spout emits until the message is processed or given up.

    The wrapped spout's ``ack`` is called in both cases; its ``fail`` is never called. Its ``next_tuple`` is not called
    while ``max_ahead`` messages are stored: those that wait to be emitted again do not count towards
    ``topology.max.spout.pending``, and an outage would fill the memory with new ones.

    Attributes:
        max_ahead: the number of stored messages from which on no new ones are asked for; an attribute of this name of
            the wrapped spout replaces it.
    """

    max_ahead: int = 100_000
    _is_ordered = False

    def __init__(self, spout: Spout, retry: Backoff) -> None:
        if is_generator(spout.next_tuple):
            name = type(spout).__name__
            raise UsageError(
                f"{name}.next_tuple yields rows without message ids, which cannot be emitted again: emit with msg_id, "
                f"or derive from ReliableSpout"
            )
        self.spout = spout
        self.retry = retry
        self.max_ahead = getattr(spout, "max_ahead", self.max_ahead)
        self.blocking = spout.blocking
        self.paces_itself = spout.paces_itself

    def declare_output_fields(self, declarer: Any) -> None:
        self.spout.declare_output_fields(declarer)

    def component_configuration(self) -> Mapping[str, Any]:
        return self.spout.component_configuration()

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        if is_positioned(self.spout) and conf["topology.state.checkpoint.aligned"]:
            raise UsageError(
                f"spout '{context.component_id}' is positioned, and aligned checkpoints reset it to its positions: "
                f"remove set_retry and set_dead_letters"
            )
        own = RetryingCollector(self, collector)
        self.spout.context = context
        self.spout.collector = own
        self.spout.open(conf, context, own)

    def setup(self) -> None:
        self.spout.setup()

    def teardown(self) -> None:
        self.spout.teardown()

    def blob_updated(self, name: str, path: str) -> None:
        self.spout.blob_updated(name, path)

    def close(self) -> None:
        self.spout.close()

    def activate(self) -> None:
        self.spout.activate()

    def deactivate(self) -> None:
        self.spout.deactivate()

    def next_tuple(self) -> Any:
        if self._send_due() or len(self._replay.lane) >= self.max_ahead:
            return None
        return self.spout.next_tuple()

    def begin(self, row: Sequence[Any], msg_id: Any, stream: str, task: int | None) -> tuple[int, ...]:
        """Emit a message of the spout."""
        pending = self._replay.begin(kept_row(row), stream, msg_id)
        pending.target = task
        return self._send(pending)

    def begin_tree(self, rows: Iterable[tuple[str, Sequence[Any]]], msg_id: Any) -> int:
        """Emit a message of the spout that has any number of tuples."""
        given = [_kept(one) for one in rows]
        return self.collector.emit_tree(given, self._replay.begin(given, SEVERAL, msg_id))

    def _send(self, pending: Pending) -> tuple[int, ...]:
        if pending.stream != SEVERAL:
            return super()._send(pending)
        assert pending.row is not None
        self.collector.emit_tree(pending.row, pending)
        return ()

    def _finish(self, pending: Pending) -> None:
        self.spout.ack(pending.id)


class RetryingCollector(SpoutCollector):
    """The collector of the wrapped spout. Tuples with a message id are stored until they are processed."""

    def __init__(self, spout: RetryingSpout, collector: SpoutCollector) -> None:
        self._spout = spout
        self._collector = collector

    def emit(self, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> tuple[int, ...]:
        if msg_id is None:
            return self._collector.emit(values, None, stream)
        return self._spout.begin(values, msg_id, stream, None)

    def emit_many(self, rows: Iterable[Sequence[Any]], msg_ids: Iterable[Any] | None = None) -> int:
        if msg_ids is None:
            return self._collector.emit_many(rows)
        count = 0
        for row, msg_id in zip(rows, msg_ids, strict=True):
            self.emit(row, msg_id)
            count += 1
        return count

    def emit_tree(self, rows: Iterable[tuple[str, Sequence[Any]]], msg_id: Any = None) -> int:
        if msg_id is None:
            return self._collector.emit_tree(rows)
        return self._spout.begin_tree(rows, msg_id)

    def emit_direct(self, task: int, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> None:
        if msg_id is None:
            self._collector.emit_direct(task, values, None, stream)
        else:
            self._spout.begin(values, msg_id, stream, task)

    def report_error(self, error: BaseException) -> None:
        self._collector.report_error(error)

    @property
    def pending(self) -> int:
        return self._collector.pending


def _kept(given: Any) -> Any:
    """Return an element of the rows of ``emit_tree``, to be emitted again later. The emit refuses what is no pair."""
    return (given[0], kept_row(given[1])) if isinstance(given, tuple | list) and len(given) == 2 else given
