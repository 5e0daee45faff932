"""SinkBolt: a bolt that writes tuples to another system, and acks each when the system has confirmed it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from tupletree.batching_bolt import BatchingBolt
from tupletree.connectors.formats import Format, FormatError, Raw
from tupletree.errors import FailedException, ReportedFailedException, UnavailableError


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
        """Connect."""

    @abstractmethod
    def write(self, messages: Sequence[bytes]) -> None:
        """Write messages in their order, and return when the system has confirmed all of them."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect. Never raises, also after ``lost_on``."""


class SinkBolt(BatchingBolt):
    """Writes each tuple as a message, in batches. At least once: a tuple whose batch fails is written again.

    A tuple is acked when the system has confirmed its message. While the system is away, tuples fail, and are replayed
    after the pauses of their spout. A tuple that the format cannot write fails without a retry.
    """

    blocking = True
    max_batch, max_wait_s = 500, 0.01

    def __init__(self, sink: Sink, format: Format | None = None) -> None:
        self.sink = sink
        self.format = format or Raw()

    def setup(self) -> None:
        self._is_open = False

    def teardown(self) -> None:
        self._close()

    def execute_batch(self, tuples: list[Any]) -> None:
        messages = []
        for tup in tuples:
            try:
                messages.append(self.format.encode(tup))
            except FormatError as error:
                self.collector.fail(tup, FailedException(str(error), retry=False))
        if not messages:
            return
        try:
            if not self._is_open:
                self.sink.open()
                self._is_open = True
            self.sink.write(messages)
        except self.sink.lost_on as error:
            self._close()
            lost = UnavailableError(f"{self.sink.title}: the connection is lost: {error}")
            raise ReportedFailedException(str(lost)) from error

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.sink.close()
