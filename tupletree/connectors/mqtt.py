"""Topics of MQTT 5 brokers: a spout with a session per task and manual acknowledgements, and a bolt that publishes.

MQTT cannot return one message to the broker: a failed message stays with its task until it is processed or given up.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from tupletree.connectors.arguments import check, check_flag, check_text, check_whole
from tupletree.connectors.formats import Format, FormatError
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.mqtt_connection import MAX_PACKETS, Broker, Connection, filter_error, topic_error
from tupletree.connectors.mqtt_sink import TopicSink
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import SinkBolt
from tupletree.errors import UsageError
from tupletree.tuples import Tuple

WEEK_S: Final = 7 * 24 * 3600
FOREVER_S: Final = 2**32 - 1
"""The time to live of sessions that never end, for brokers."""

_log = logging.getLogger(__name__)


class MqttSpout(QueueSpout):
    """Emits the messages of a topic, and acknowledges each when its tree is complete. MQTT 5, QoS 1.

        MqttSpout("localhost:1883", "orders/#", Json(["id", "amount"]), client_id="shop", group="billing")

    Each task has a session at the broker, ``<client_id>-<task index>``, which begins when the task first connects. It
    keeps messages for ``session_s`` seconds while the task is away, as far as the broker's limits allow. ``group``:
    the tasks share the messages (``$share/<group>/<topic>``); without a group there may be only one task.

    A failed message is emitted again by the same task, which counts its attempts, and counts anew after a lost
    connection. A message that is given up without dead letters is acknowledged: nothing is set aside. Messages that
    were published with QoS 0 are delivered at most once, and are dropped while ``max_in_flight`` wait to be emitted.

    ``host``: HOST or HOST:PORT. ``tls``: True, or a mapping with paths of PEM files, ``ca_certs``, ``certfile`` and
    ``keyfile``. Raises UsageError for wrong options.
    """

    def __init__(
        self,
        host: str,
        topic: str,
        format: Format | None = None,
        *,
        client_id: str,
        group: str | None = None,
        max_in_flight: int = 1000,
        session_s: int = WEEK_S,
        username: str | None = None,
        password: str | None = None,
        tls: bool | Mapping[str, str] = False,
    ) -> None:
        owner = type(self).__name__
        check_text(owner, "client_id", client_id)
        check(owner, "topic", topic, isinstance(topic, str), "a text")
        if error := filter_error(topic):
            raise UsageError(f"{owner}: topic: {error}")
        is_group = group is None or (isinstance(group, str) and not topic_error(group) and "/" not in group)
        check(owner, "group", group, is_group, "a name without /, + and #, or None,")
        check_whole(owner, "max_in_flight", max_in_flight, 1, MAX_PACKETS)
        check_whole(owner, "session_s", session_s, 1, FOREVER_S)
        source = Session(Broker(host, username, password, tls, owner), topic, client_id, group, session_s)
        super().__init__(source, format, max_in_flight=max_in_flight)


class MqttBolt(SinkBolt):
    """Publishes each tuple. It is acked when the broker has confirmed the message, with QoS 1: at least once.

    A confirmed message is the broker's; subscribers need not have it yet, and there may be none. With QoS 0 a tuple is
    acked when its message is sent, which the broker may not get. ``topic``: a text, or a function of the tuple such as
    ``operator.itemgetter("topic")``. A tuple whose topic is wrong, or whose message is larger than the broker takes,
    fails without a retry. ``host``, ``username``, ``password``, ``tls``: as of MqttSpout. Raises UsageError for wrong
    options.
    """

    def __init__(
        self,
        host: str,
        topic: str | Callable[[Tuple], str],
        format: Format | None = None,
        *,
        qos: int = 1,
        retain: bool = False,
        username: str | None = None,
        password: str | None = None,
        tls: bool | Mapping[str, str] = False,
    ) -> None:
        owner = type(self).__name__
        check(owner, "topic", topic, isinstance(topic, str) or callable(topic), "a text, or a function of the tuple,")
        if isinstance(topic, str) and (error := topic_error(topic)):
            raise UsageError(f"{owner}: topic: {error}")
        check_whole(owner, "qos", qos, 0, 1)
        check_flag(owner, "retain", retain)
        self.topic = topic
        super().__init__(TopicSink(Broker(host, username, password, tls, owner), qos, retain), format)

    def message(self, tup: Tuple, data: bytes) -> SinkMessage:
        topic = self.topic if isinstance(self.topic, str) else self.topic(tup)
        error = topic_error(topic) if isinstance(topic, str) else f"a topic is a text, not {type(topic).__name__}"
        if error:
            raise FormatError(f"the tuple cannot be published: {error}")
        return SinkMessage(data, topic=topic)


class Session(QueueSource):
    """A session with one subscription as a source."""

    title: ClassVar[str] = "MQTT"

    def __init__(self, broker: Broker, topic: str, client_id: str, group: str | None, session_s: int) -> None:
        self.broker = broker
        self.topic = topic if group is None else f"$share/{group}/{topic}"
        self.client_id = client_id
        self.group = group
        self.session_s = session_s
        self._has_session = False
        self._connection: Any = None

    def open(self, prefetch: int, task_index: int) -> None:
        if task_index and self.group is None:
            raise UsageError("MqttSpout: several tasks without a group would each emit all messages: set group")
        self._prefetch = prefetch
        self._number = 0
        self._packets: dict[str, tuple[int, Delivery]] = {}  # by handle, as packet ids are used again
        self._waiting: deque[Delivery] = deque()
        name = f"{self.client_id}-{task_index}"
        self._connection = Connection(self.broker, name, self.session_s, prefetch, on_message=self._received)
        if self._has_session and not self._connection.resumes:
            _log.warning("MQTT: the broker has lost session %s, with the messages that were in it", name)
        self._connection.subscribe(self.topic)
        self._has_session = True

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        waiting, before = self._waiting, -1
        self._connection.loop(0.0 if waiting else wait_s)
        while before < len(waiting) < limit:
            before = len(waiting)
            self._connection.loop(0.0)
        return [waiting.popleft() for _ in range(min(limit, len(waiting)))]

    def acknowledge(self, handles: Sequence[Any]) -> None:
        for handle in handles:
            packet, _ = self._packets.pop(handle)
            if packet:
                self._connection.check(self._connection.client.ack(packet, 1))

    def release(self, handles: Sequence[Any], delay_s: float) -> None:
        for handle in handles:
            packet, delivery = self._packets[handle]
            again = replace(delivery, deliveries=(delivery.deliveries or 0) + 1)
            self._packets[handle] = packet, again
            self._waiting.append(again)

    def idle(self, wait_s: float) -> None:
        self._connection.loop(wait_s)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _received(self, _client: Any, _data: Any, message: Any) -> None:
        packet = message.mid if message.qos else 0
        if not packet and len(self._waiting) >= self._prefetch:
            return
        self._number += 1
        properties = dict(getattr(message.properties, "UserProperty", ()))
        headers = {"topic": message.topic, "retain": bool(message.retain), "properties": properties}
        handle = f"{message.topic} {self._number}"
        delivery = Delivery(bytes(message.payload), handle, deliveries=1, headers=headers)
        self._packets[handle] = packet, delivery
        self._waiting.append(delivery)
