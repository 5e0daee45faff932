"""An exchange of RabbitMQ as a sink: batches are published without a round trip for each message.

pika's BlockingChannel waits for the confirm of each message before it publishes the next one. So a Publisher has a
SelectConnection, which publishes a whole batch and then reads the confirms, on a thread of its own, which also answers
heartbeats while there is nothing to publish.

    bolt's thread                publisher's thread                 RabbitMQ
      | -- _publish ---------------> | -- basic.publish, n times -----> |
      |                              | <- basic.return ---------------- |  no queue takes it
      |                              | <- basic.ack, multiple --------- |  in any order
      |                              | <- basic.nack ------------------ |  a queue is full
      | <- outcome: refused, error - |
"""

from __future__ import annotations

import contextlib
import queue
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from tupletree.connectors.extras import imported
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.rabbitmq_connection import checked_name, checked_url, gathering_connection, lost, parameters
from tupletree.connectors.sinks import Sink
from tupletree.errors import FailedException, ReportedFailedException

CLOSE_S: Final = 5.0

Refused = Mapping[int, FailedException]


class RabbitExchange(Sink):
    """An exchange as a sink."""

    title: ClassVar[str] = "RabbitMQ"

    def __init__(self, url: str, exchange: str, routing_key: str) -> None:
        self.url = checked_url(url)
        self.exchange = checked_name("exchange", exchange, min_bytes=0)
        self.routing_key = checked_name("routing_key", routing_key, min_bytes=0 if exchange else 1)
        self._publisher: Publisher | None = None

    def open(self) -> None:
        self._publisher = Publisher(self.url, self.exchange, self.routing_key)
        try:
            self._publisher.connect()
        except ConnectionError:
            self.close()
            raise

    def write(self, messages: Sequence[SinkMessage]) -> Refused:
        assert self._publisher is not None
        return self._publisher.publish(messages)

    def close(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            with contextlib.suppress(Exception):
                publisher.close()


class Publisher(threading.Thread):
    """A connection that publishes to one exchange with one routing key."""

    def __init__(self, url: str, exchange: str, routing_key: str) -> None:
        super().__init__(name="RabbitMQ-publisher", daemon=True)
        self._pika = imported("pika", "rabbitmq")
        self._url, self._exchange, self._routing_key = url, exchange, routing_key
        self._outcomes: queue.SimpleQueue[Exception | dict[int, FailedException]] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._id = uuid.uuid4().hex
        self._next_tag = self._first_tag = 1  # of the next message, and of the batch
        self._unconfirmed: set[int] = set()
        self._confirmed_through = 0
        self._refused: dict[int, FailedException] = {}
        self._connection = gathering_connection()(
            parameters(url), self._opened, on_open_error_callback=self._closed, on_close_callback=self._closed
        )

    # Any thread

    def connect(self) -> None:
        """Return when the connection stands. Raises ConnectionError."""
        self.start()
        self._outcome()

    def publish(self, messages: Sequence[SinkMessage]) -> Refused:
        """Publish messages, and return those that were refused, by position. Raises ConnectionError."""
        self._connection.ioloop.add_callback_threadsafe(lambda: self._publish(messages))
        return self._outcome()

    def close(self) -> None:
        """Disconnect."""
        if self.is_alive():
            self._connection.ioloop.add_callback_threadsafe(self._close)
            self.join(CLOSE_S)
        if not self.is_alive():
            self._connection.ioloop.close()

    def _outcome(self) -> Refused:
        outcome = self._outcomes.get()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    # The publisher's thread

    def run(self) -> None:
        try:
            self._connection.ioloop.start()
        except Exception as error:
            self._error = error
        self._outcomes.put(lost(self._url, self._error or ConnectionError("it was closed")))

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._channel_closed)
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._confirmed, callback=lambda frame: self._outcomes.put({}))

    def _publish(self, messages: Sequence[SinkMessage]) -> None:
        first = self._first_tag = self._next_tag
        self._next_tag += len(messages)
        self._unconfirmed.update(range(first, self._next_tag))
        properties = self._pika.BasicProperties(delivery_mode=2)
        with self._connection.gather():
            for tag, message in enumerate(messages, first):
                properties.message_id = f"{self._id}-{tag}"
                self._channel.basic_publish(self._exchange, self._routing_key, message.data, properties, mandatory=True)

    def _returned(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        where = f"exchange {self._exchange!r} with routing key {self._routing_key!r}"
        error = ReportedFailedException(f"RabbitMQ: no queue takes what is published to {where}: {method.reply_text}")
        self._refused[int(properties.message_id.rpartition("-")[2]) - self._first_tag] = error

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        tags = range(self._confirmed_through + 1, method.delivery_tag + 1) if method.multiple else [method.delivery_tag]
        if method.multiple:
            self._confirmed_through = method.delivery_tag
        if isinstance(method, self._pika.spec.Basic.Nack):
            error = ReportedFailedException(f"RabbitMQ: a queue of exchange {self._exchange!r} is full, or has failed")
            self._refused.update((tag - self._first_tag, error) for tag in tags if tag in self._unconfirmed)
        self._unconfirmed.difference_update(tags)
        if not self._unconfirmed:
            refused, self._refused = self._refused, {}
            self._outcomes.put(refused)

    def _channel_closed(self, channel: Any, reason: BaseException) -> None:
        self._error = self._error or reason
        if self._connection.is_open:
            self._connection.close()

    def _closed(self, connection: Any, reason: BaseException | str) -> None:
        self._error = self._error or (reason if isinstance(reason, BaseException) else ConnectionError(reason))
        self._connection.ioloop.stop()

    def _close(self) -> None:
        if self._connection.is_open:
            self._connection.close()
