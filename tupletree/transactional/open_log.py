"""The log of a coordinator or an emitter: its connection, its errors, and the rows of its messages."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from tupletree.connectors.formats import Format, FormatError, decoded
from tupletree.connectors.log_source import LogSource
from tupletree.connectors.messages import LogRecord
from tupletree.errors import ReportedFailedException, UnavailableError
from tupletree.transactional.bolts import BatchCollector


class LogFault(ReportedFailedException):
    """A fault of a log, told with the component that reads it."""


class OpenLog:
    """A log that is opened when it is used, and closed when the connection is lost.

    ``source``: a copy of the given log, since coordinator and emitter each have a connection.
    """

    def __init__(self, source: LogSource, component_id: str) -> None:
        self.source = copy.copy(source)
        self._component_id = component_id
        self._is_open = False

    @contextlib.contextmanager
    def use(self) -> Iterator[LogSource]:
        """Return the open log. Raises LogFault if the connection is lost meanwhile, or for a fault of the log."""
        source = self.source
        try:
            if not self._is_open:
                source.open()
                self._is_open = True
            yield source
        except LogFault:
            raise
        except source.lost_on as error:
            self.close()
            if isinstance(error, OSError) and error.filename is not None:
                raise self.fault(f"{error.filename} cannot be read: {error.strerror}", ": ") from error
            raise self.fault(f"{source.title}: no connection: {error}") from error
        except (ReportedFailedException, UnavailableError) as error:
            raise self.fault(error) from error

    def fault(self, what: object, separator: str = ", ") -> LogFault:
        """Return an error that names the component."""
        return LogFault(f"component {self._component_id!r}{separator}{what}")

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.source.close()


class RowDecoder:
    """Makes rows of messages: the fields of a format, and chosen metadata."""

    def __init__(self, log: OpenLog, format: Format, metadata: Sequence[str]) -> None:
        self._log = log
        self._format = format
        self._picked = [log.source.metadata_fields.index(name) for name in metadata]

    def row(self, name: str, record: LogRecord, collector: BatchCollector) -> Sequence[Any] | None:
        """Return the row of a message, or None after reporting why there is none. Raises UnavailableError."""
        try:
            row = decoded(self._format, record.data)
        except FormatError as error:
            place = self._log.source.place(name, record.position)
            collector.report_error(self._log.fault(f"{place}: {error}; the message is left out"))
            return None
        return [*row, *[record.metadata[index] for index in self._picked]] if self._picked else row
