"""Queues and exchanges of RabbitMQ (3.10 or newer): consumers that acknowledge, publishers that wait for confirms.

A message that is given up without dead letters is rejected: RabbitMQ passes it to the queue's dead-letter exchange.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tupletree.connectors.arguments import check_flag, check_whole
from tupletree.connectors.extras import imported
from tupletree.connectors.formats import Format
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.rabbitmq_connection import (
    checked_name,
    checked_url,
    connection_errors,
    parameters,
    reading_connection,
)
from tupletree.connectors.rabbitmq_exchange import RabbitExchange
from tupletree.connectors.sinks import SinkBolt
from tupletree.errors import UsageError

MAX_PREFETCH = 65535


class RabbitSpout(QueueSpout):
    """Emits the messages of a queue, and acknowledges each when its tuple tree is complete.

        url = "amqp://user:password@localhost:5672/%2F"
        builder.set_spout("orders", RabbitSpout(url, "orders", Json(["id", "amount"]), quorum=True))

    At most ``max_in_flight`` messages per task are delivered and not acknowledged: the consumer's prefetch. A
    deactivated topology has no consumer, and keeps what it had received. RabbitMQ keeps the order of messages only
    while none fails.

    ``declare``: create the queue, durable, if there is none. An existing queue is used as it is.
    ``quorum``: the queue is a quorum queue, which counts the deliveries of each message: attempts outlive a worker.
    A classic queue does not count: the task counts, and counts anew if it dies.

    A message that is given up without dead letters is rejected: RabbitMQ drops it, or passes it to the queue's
    dead-letter exchange. RabbitMQ closes the channel of a consumer that holds a message longer than its
    ``consumer_timeout`` (30 minutes): then all messages of the task are delivered again.

    Raises UsageError for wrong arguments. The worker ends with a UsageError if pika is not installed, or if the queue
    turns out not to be a quorum queue.
    """

    def __init__(
        self,
        url: str,
        queue: str,
        format: Format | None = None,
        *,
        max_in_flight: int = 1000,
        declare: bool = True,
        quorum: bool = False,
    ) -> None:
        owner = type(self).__name__
        check_whole(owner, "max_in_flight", max_in_flight, 1, MAX_PREFETCH)
        check_flag(owner, "declare", declare)
        check_flag(owner, "quorum", quorum)
        super().__init__(RabbitQueue(url, queue, declare, quorum), format, max_in_flight=max_in_flight)


class RabbitBolt(SinkBolt):
    """Publishes each tuple as a persistent message. It is acked when RabbitMQ has confirmed the message.

        builder.set_bolt("put", RabbitBolt(url, "orders", Json(["id", "amount"]))).shuffle_grouping(orders)

    ``exchange``: by default the one that passes a message to the queue whose name is ``routing_key``. Nothing is
    declared. A message that no queue takes, or that a full queue refuses, fails its tuple, and is reported. A message
    has an id of its own, which is another one when its tuple is replayed. Raises UsageError for wrong arguments.
    """

    def __init__(self, url: str, routing_key: str, format: Format | None = None, *, exchange: str = "") -> None:
        super().__init__(RabbitExchange(url, exchange, routing_key), format)


class RabbitQueue(QueueSource):
    """A queue as a source. Handles are delivery tags, which ascend."""

    title: ClassVar[str] = "RabbitMQ"

    def __init__(self, url: str, queue: str, declare: bool, quorum: bool) -> None:
        self.url = checked_url(url)
        self.queue = checked_name("queue", queue)
        self.counts = quorum
        self._declares = declare
        self._connection: Any = None

    def open(self, prefetch: int, task_index: int) -> None:
        self._prefetch = prefetch
        self._consumer, self._window = "", 0
        self._is_cancelled = False
        self._received: deque[Delivery] = deque()
        self._tags: deque[int] = deque()  # the delivered ones, from the first that is not settled
        self._unsettled: set[int] = set()
        with connection_errors(self.url):
            connect = imported("pika", "rabbitmq").BlockingConnection
            self._connection = connect(parameters(self.url), _impl_class=reading_connection())
            self._channel = self._connection.channel()
            if self._declares:
                self._declare()
            self._channel.add_on_cancel_callback(self._cancelled)

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        if not self._received:
            with connection_errors(self.url):
                self._consume()
                self._process(wait_s)
        return [self._received.popleft() for _ in range(min(limit, len(self._received)))]

    def acknowledge(self, handles: Sequence[Any]) -> None:
        done = set(handles)
        through = self._settle(done)
        with connection_errors(self.url):
            if through:
                self._channel.basic_ack(through, multiple=True)
            for tag in sorted(tag for tag in done if tag > through):
                self._channel.basic_ack(tag)

    def release(self, handles: Sequence[Any], delay_s: float) -> None:
        self._reject(handles, requeue=True)

    def reject(self, handles: Sequence[Any]) -> None:
        self._reject(handles, requeue=False)

    def lag(self) -> int:
        with connection_errors(self.url):
            return int(self._channel.queue_declare(self.queue, passive=True).method.message_count)

    def idle(self, wait_s: float) -> None:
        with connection_errors(self.url):
            if self._consumer and len(self._unsettled) < self._prefetch:  # deactivated: leave the messages to others
                self._channel.basic_cancel(self._consumer)
                self._consumer = ""
            self._process(wait_s)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _declare(self) -> None:
        try:
            self._channel.queue_declare(self.queue, passive=True)
        except imported("pika.exceptions", "rabbitmq").ChannelClosedByBroker as error:
            if error.reply_code != 404:
                raise
            self._channel = self._connection.channel()
            kind = {"x-queue-type": "quorum"} if self.counts else None
            self._channel.queue_declare(self.queue, durable=True, arguments=kind)

    def _consume(self) -> None:
        """Have a consumer. A prefetch is that of one consumer: the first one's messages narrow that of the next."""
        if self._consumer and self._window < self._prefetch and not self._unsettled:
            self._channel.basic_cancel(self._consumer)
            self._consumer = ""
        if not self._consumer:
            self._window = self._prefetch - len(self._unsettled)
            self._channel.basic_qos(prefetch_count=self._window)
            self._consumer = self._channel.basic_consume(self.queue, self._delivered)

    def _process(self, wait_s: float) -> None:
        self._connection.process_data_events(wait_s)
        if self._is_cancelled:
            raise ConnectionError(f"queue {self.queue!r} was deleted, or has moved to another server")
        if self._channel.is_closed:
            raise ConnectionError(str(getattr(self._channel, "_closing_reason", "") or "the channel was closed"))

    def _delivered(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        headers: Mapping[str, Any] = properties.headers or {}
        problem: str = getattr(properties, "problem", "")
        count = None
        if self.counts and not problem:
            if method.redelivered and "x-delivery-count" not in headers:
                raise UsageError(f"queue {self.queue!r} counts no deliveries: it needs quorum=False")
            count = int(headers.get("x-delivery-count", 0)) + 1
        tag: int = method.delivery_tag
        self._tags.append(tag)
        self._unsettled.add(tag)
        self._received.append(Delivery(body, tag, properties.message_id or "", count, headers, problem))

    def _cancelled(self, frame: Any) -> None:
        self._is_cancelled = True

    def _reject(self, handles: Sequence[Any], *, requeue: bool) -> None:
        # Not basic.nack: it has many tags at once, but RabbitMQ 4.3 does not count it as a failed delivery.
        self._settle(set(handles))
        with connection_errors(self.url):
            for tag in handles:
                self._channel.basic_reject(tag, requeue=requeue)

    def _settle(self, done: set[int]) -> int:
        """Forget tags. Return the last one in ``done`` up to which all tags are settled with it, or 0."""
        self._unsettled -= done
        through = 0
        while self._tags and self._tags[0] not in self._unsettled:
            tag = self._tags.popleft()
            if tag in done:
                through = tag
        return through
