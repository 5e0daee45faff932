"""The messages that connectors read and write, and the loop that emits those of a log."""

from __future__ import annotations  # pure

from collections.abc import Iterator, Sequence
from typing import Any

from tupletree._replay import Lane, Replay
from tupletree.collector import SpoutCollector
from tupletree.connectors.formats import Format, FormatError, Raw, decoded
from tupletree.errors import UnavailableError
from tupletree.outputs import DEFAULT_STREAM


class _Message:
    """A message of a connector, which is equal to one with the same values."""

    __slots__ = ()

    def _values(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._values()!r}"


class LogRecord(_Message):
    """A message of a log. Not to be changed.

    Attributes:
        data: the message, for the format.
        position: where it is in its partition.
        next: the position after it, where reading resumes.
        metadata: the values of ``LogSource.metadata_fields``.
    """

    __slots__ = ("data", "metadata", "next", "position")

    def __init__(self, data: Any, position: int, next: int, metadata: tuple[Any, ...] = ()) -> None:
        self.data = data
        self.position = position
        self.next = next
        self.metadata = metadata

    def _values(self) -> tuple[Any, ...]:
        return self.data, self.position, self.next, self.metadata


class SinkMessage(_Message):
    """A message to write. Not to be changed.

    Attributes:
        data: the tuple in the bolt's format.
        id: equal for all replays of a tuple, for systems that drop duplicates; None without ``id_field``.
        topic: where it goes, for systems in which each message says so.
        key: messages with equal keys stay in order, for systems that have keys.
    """

    __slots__ = ("data", "id", "key", "topic")

    def __init__(self, data: bytes, id: str | None = None, topic: str = "", key: bytes | None = None) -> None:
        self.data = data
        self.id = id
        self.topic = topic
        self.key = key

    def _values(self) -> tuple[Any, ...]:
        return self.data, self.id, self.topic, self.key


class LogEmitter:
    """Emits the messages of a log.

    ``picked``: the indexes of the metadata that are added to a row. ``refused``: the message at which ``run`` stopped
    and why it cannot be decoded; None if there was no room.
    """

    def __init__(self, replay: Replay, collector: SpoutCollector, format: Format, picked: Sequence[int]) -> None:
        self.refused: tuple[LogRecord, Exception] | None = None
        self._replay = replay
        self._emit = collector.emit
        self._has_room = collector.has_room
        self._decode = format.decode
        self._is_raw = type(format).decode is Raw.decode and format.takes_none
        self._format = format
        self._picked = list(picked)

    def run(self, lane: Any, records: Iterator[LogRecord]) -> bool:
        """Emit messages of a lane. Return false when none is left or the lane is revoked; true at a stop before that.

        ``records`` goes on behind the message at which this stopped.
        """
        self.refused = None
        for record in records:
            if lane.is_revoked:
                break
            try:
                row = self.row(record)
            except (FormatError, UnavailableError) as error:
                self.refused = (record, error)
                return True
            self.emit(lane, record, row)
            if not self._has_room():
                return True
        return False

    def row(self, record: LogRecord) -> Sequence[Any]:
        """Return the row of a message. Raises FormatError, or UnavailableError if another attempt can succeed."""
        data = record.data
        row: Sequence[Any]
        if self._is_raw:
            row = [data]
        else:
            row = self._decode(data) if data is not None else decoded(self._format, data)
        if self._picked:
            metadata = record.metadata
            return [*row, *[metadata[index] for index in self._picked]]
        return row

    def emit(self, lane: Lane, record: LogRecord, row: Sequence[Any]) -> None:
        """Emit the row of a message."""
        self._emit(row, self._replay.begin(row, DEFAULT_STREAM, record.position, record.next, lane))
