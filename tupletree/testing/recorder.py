"""Collectors that record what a component emits, acks and fails, for unit tests without a topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from tupletree._wire.codec import encode_columns
from tupletree.collector import BasicCollector, BoltCollector, SpoutCollector
from tupletree.errors import EmitError
from tupletree.outputs import DEFAULT_STREAM
from tupletree.tuples import Tuple, record_fields


@dataclass(frozen=True)
class Emitted:
    """One emit. ``anchors``: the tuples that it is anchored to; ``task``: the receiver of a direct emit."""

    row: list[Any]
    stream: str = DEFAULT_STREAM
    anchors: tuple[Tuple, ...] = ()
    msg_id: Any = None
    task: int | None = None


class Recorder:
    """A record of what a component has done with its collector: a spout's, a bolt's or a basic bolt's.

        recorder = Recorder()
        spout.collector = recorder.spout_collector
        spout.next_tuple()
        assert recorder.rows() == [["a line"]]

    ``streams``: the fields of each stream, against which emitted rows are checked, as is whether their values can
    travel between workers; None: no check.

    Attributes:
        emitted: the emits, in order.
        acked, failed: tuples, in order. ``errors``: the reported errors.
        empty: the ids of the messages that ``emit_tree`` emitted without a tuple, in order.
        spout_collector, bolt_collector, basic_collector: the collectors that record here.
    """

    def __init__(self, component: str = "test", streams: Mapping[str, Sequence[str]] | None = None) -> None:
        self.emitted: list[Emitted] = []
        self.acked: list[Tuple] = []
        self.failed: list[Tuple] = []
        self.errors: list[BaseException] = []
        self.empty: list[Any] = []
        self.anchors: Sequence[Tuple] = ()
        """The tuples to which emits without anchors are anchored: the input of a bolt that anchors automatically."""
        self.spout_collector: SpoutCollector = _SpoutRecorder(self)
        self.bolt_collector: BoltCollector = _BoltRecorder(self)
        self.basic_collector: BasicCollector = _BasicRecorder(self)
        self._component = component
        self._streams = streams

    def rows(self, stream: str = DEFAULT_STREAM) -> list[list[Any]]:
        """Return the rows emitted on a stream, in order."""
        return [one.row for one in self.emitted if one.stream == stream]

    def record(self, values: Sequence[Any], stream: str, anchors: Any, msg_id: Any, task: int | None) -> None:
        """Record an emit.

        Raises:
            EmitError: the row is not a list of values, or does not fit its stream.
            UnregisteredTypeError: the fields of the stream are known, and a value cannot travel between workers.
        """
        if is_dataclass(values) and not isinstance(values, type):
            values = [getattr(values, name) for name in record_fields(type(values))]
        if isinstance(values, str | bytes | bytearray | set | frozenset | Mapping) or not isinstance(values, Iterable):
            raise EmitError(f"component {self._component!r}: a row is a list of values, not {values!r}; emit [value]")
        values = list(values)
        if self._streams is not None:
            self._check(self._streams, values, stream)
        if anchors is None:
            anchors = self.anchors
        held = (anchors,) if isinstance(anchors, Tuple) else tuple(anchors)
        self.emitted.append(Emitted(values, stream, held, msg_id, task))

    def _check(self, streams: Mapping[str, Sequence[str]], values: Sequence[Any], stream: str) -> None:
        if stream not in streams:
            known = ", ".join(streams) or "none"
            raise EmitError(f"component {self._component!r} declares no stream {stream!r} (declared: {known})")
        fields = streams[stream]
        if len(values) != len(fields):
            raise EmitError(
                f"component {self._component!r} emitted {len(values)} values on stream {stream!r}, which declares "
                f"{len(fields)}: {', '.join(fields)}"
            )
        encode_columns([[value] for value in values], self._component, fields, stream)


class _SpoutRecorder(SpoutCollector):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._pending = 0

    def emit(self, values: Sequence[Any], msg_id: Any = None, stream: str = DEFAULT_STREAM) -> tuple[int, ...]:
        self.emit_tree([(stream, values)], msg_id)
        return ()

    def emit_many(self, rows: Iterable[Sequence[Any]], msg_ids: Iterable[Any] | None = None) -> int:
        given = list(rows)
        for row, msg_id in zip(given, [None] * len(given) if msg_ids is None else msg_ids, strict=True):
            self.emit(row, msg_id)
        return len(given)

    def emit_tree(self, rows: Iterable[tuple[str, Sequence[Any]]], msg_id: Any = None) -> int:
        emitted = self._recorder.emitted
        before = len(emitted)
        try:
            for stream, values in rows:
                self._recorder.record(values, stream, (), msg_id, None)
        except BaseException:
            del emitted[before:]
            raise
        count = len(emitted) - before
        if msg_id is not None and count == 0:
            self._recorder.empty.append(msg_id)
        self._pending += msg_id is not None and count > 0
        return count

    def emit_direct(self, task: int, values: Sequence[Any], msg_id: Any = None, stream: str = DEFAULT_STREAM) -> None:
        self._recorder.record(values, stream, (), msg_id, task)
        self._pending += msg_id is not None

    def report_error(self, error: BaseException) -> None:
        self._recorder.errors.append(error)

    def has_room(self) -> bool:
        return False  # a test calls ``next_tuple`` for each tuple

    @property
    def pending(self) -> int:
        return self._pending


class _BasicRecorder(BasicCollector):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def emit(self, values: Sequence[Any], stream: str = DEFAULT_STREAM) -> tuple[int, ...]:
        self._recorder.record(values, stream, None, None, None)
        return ()

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = DEFAULT_STREAM) -> int:
        return sum(self.emit(row, stream) == () for row in rows)

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = DEFAULT_STREAM) -> None:
        self._recorder.record(values, stream, None, None, task)

    def report_error(self, error: BaseException) -> None:
        self._recorder.errors.append(error)


class _BoltRecorder(BoltCollector):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def emit(self, values: Sequence[Any], anchors: Any = None, stream: str = DEFAULT_STREAM) -> tuple[int, ...]:
        self._recorder.record(values, stream, anchors, None, None)
        return ()

    def emit_many(self, rows: Iterable[Sequence[Any]], anchors: Any = None, stream: str = DEFAULT_STREAM) -> int:
        return sum(self.emit(row, anchors, stream) == () for row in rows)

    def emit_direct(self, task: int, values: Sequence[Any], anchors: Any = None, stream: str = DEFAULT_STREAM) -> None:
        self._recorder.record(values, stream, anchors, None, task)

    def emit_combined(
        self, rows: Iterable[Sequence[Any]], inputs: Sequence[Tuple], stream: str = DEFAULT_STREAM
    ) -> int:
        count = self.emit_many(rows, inputs, stream)
        self.ack_many(inputs)
        return count

    def ack(self, tup: Tuple) -> None:
        self._recorder.acked.append(tup)

    def ack_many(self, tuples: Sequence[Tuple]) -> None:
        self._recorder.acked += tuples

    def fail(self, tup: Tuple, error: BaseException | str | None = None) -> None:
        self._recorder.failed.append(tup)

    def reset_timeout(self, tup: Tuple) -> None:
        """Do nothing: there is no timeout."""

    def report_error(self, error: BaseException) -> None:
        self._recorder.errors.append(error)
