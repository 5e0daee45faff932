"""SinkBolt: a bolt that writes tuples to another system, and acks each when the system has confirmed it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from tupletree.batching_bolt import BatchingBolt
from tupletree.connectors.arguments import check_field, check_instance
from tupletree.connectors.formats import Format, FormatError, checked_format
from tupletree.connectors.messages import SinkMessage
from tupletree.errors import FailedException, ReportedFailedException, UnavailableError
from tupletree.tuples import Tuple


class Sink(ABC):
    """A system that takes messages, as one task of a bolt uses it. Made where the topology is built, and pickled.

    Attributes:
        title: the name of the system, for messages to people.
        lost_on: the exceptions that mean a lost connection: the batch fails, and ``open`` is called before the next.
    """

    title: ClassVar[str] = "sink"
    lost_on: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    @abstractmethod
    def open(self) -> None:
        """Connect. If this raises, nothing may be left open: ``close`` is not called."""

    @abstractmethod
    def write(self, messages: Sequence[SinkMessage]) -> Mapping[int, FailedException] | None:
        """Write messages in their order, and return when the system has confirmed all of them.

        Return the errors of messages that the system refuses, by index: their tuples fail alone.
        """

    @abstractmethod
    def close(self) -> None:
        """Disconnect. Never raises, also after ``lost_on``."""


class SinkBolt(BatchingBolt):
    """Writes each tuple as a message, in batches. At least once: a tuple whose batch fails is written again.

    A tuple is acked when the system has confirmed its message. While the system is away, tuples fail, and are replayed
    after the pauses of their spout. A tuple that the format cannot write fails without a retry.

    A message that the system refuses, such as one too large, fails alone.

    ``id_field``: the field with the message's id: text, a whole number or a UUID. Without one, messages have no ids.
    """

    blocking = True
    max_batch, max_wait_s = 500, 0.01
    settled_by: ClassVar[str] = ""
    """The sink of the same system that writes with checkpoints, if there is one."""

    def __init__(self, sink: Sink, format: Format | None = None, *, id_field: str | None = None) -> None:
        check_instance(type(self).__name__, "sink", sink, Sink, "an instance of a Sink")
        check_field(type(self).__name__, "id_field", id_field)
        self.sink = sink
        self.format = checked_format(self, format)
        self.id_field = id_field

    def setup(self) -> None:
        self._is_open = False

    def teardown(self) -> None:
        self._close()

    def execute_batch(self, tuples: list[Any]) -> None:
        try:
            written, messages = self._messages(tuples)
        except UnavailableError as error:  # a service that the format asks
            raise ReportedFailedException(str(error)) from error
        if not messages:
            return
        try:
            if not self._is_open:
                self.sink.open()
                self._is_open = True
            refused = self.sink.write(messages) or {}
        except self.sink.lost_on as error:
            self._close()
            lost = UnavailableError(f"{self.sink.title}: no connection: {error}")
            raise ReportedFailedException(str(lost)) from error
        for index, refusal in refused.items():
            self.collector.fail(written[index], refusal)
        for refusal in list(refused.values())[:1]:  # the others of a batch are alike
            self.collector.report_error(refusal)

    def message(self, tup: Tuple, data: bytes) -> SinkMessage:
        """Return the message of a tuple, of which the format has made ``data``. Raises FormatError."""
        return SinkMessage(data, message_id(tup, self.id_field))

    def _messages(self, tuples: list[Any]) -> tuple[list[Any], list[SinkMessage]]:
        """Return tuples with their messages, and fail those that the format cannot write."""
        try:
            encoded = self.format.encode_many(tuples)
            return tuples, [self.message(tup, data) for tup, data in zip(tuples, encoded, strict=True)]
        except FormatError:
            written, messages = [], []
        for tup in tuples:
            try:
                messages.append(self.message(tup, self.format.encode(tup)))
                written.append(tup)
            except FormatError as error:
                self.collector.fail(tup, FailedException(str(error), retry=False))
        return written, messages

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.sink.close()


def message_id(tup: Any, field: str | None) -> str | None:
    """Return the id in a field of a tuple; None if ``field`` is. Raises FormatError for a value that is no id."""
    if field is None:
        return None
    try:
        value = tup[field]
    except KeyError as error:
        raise FormatError(str(error.args[0])) from error
    text = str(value)
    if not isinstance(value, str | int | UUID) or not text.isprintable() or not text or text != text.strip():
        raise FormatError(f"field {field!r} is no id: an id is a whole number, a UUID or printable text")
    return text
