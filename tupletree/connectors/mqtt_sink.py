"""A broker of MQTT 5 as a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.mqtt_connection import MAX_PACKETS, Broker, Connection
from tupletree.connectors.sinks import Sink
from tupletree.errors import FailedException

HEADER_BYTES: Final = 16
"""The maximum number of bytes that a PUBLISH adds to its topic and message."""
FINAL: Final = (0x90, 0x95, 0x99)
"""Reasons for which another attempt is refused too: the topic's name, the size, the payload's format."""


class TopicSink(Sink):
    """A broker as a sink. Each message has its topic."""

    title: ClassVar[str] = "MQTT"

    def __init__(self, broker: Broker, qos: int, retain: bool) -> None:
        self.broker = broker
        self._options = {"qos": qos, "retain": retain}
        self._connection: Any = None

    def open(self) -> None:
        self._confirmed: dict[int, Any] = {}
        self._connection = Connection(self.broker, "", None, MAX_PACKETS, on_publish=self._published)
        self._window = self._connection.limit("ReceiveMaximum", MAX_PACKETS)
        self._max_bytes = self._connection.limit("MaximumPacketSize", 2**28) - HEADER_BYTES

    def write(self, messages: Sequence[SinkMessage]) -> Mapping[int, FailedException]:
        try:
            self._connection.loop(0.0)
        except ConnectionError:  # lost since the last batch, of which nothing is under way
            self.close()
            self.open()
        refused: dict[int, FailedException] = {}
        sent: dict[int, int] = {}  # indices by packet id
        for index, message in enumerate(messages):
            topic, data = message.topic, message.data
            if len(topic.encode()) + len(data) > self._max_bytes:
                text = f"the broker takes no message of {len(data)} bytes: at most {self._max_bytes} with the topic"
                refused[index] = FailedException(text, retry=False)
                continue
            self._settle(sent, refused, self._window - 1)
            info = self._connection.client.publish(topic, data, **self._options)
            self._connection.check(info.rc)
            sent[info.mid] = index
        self._settle(sent, refused, 0)
        return refused

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _settle(self, sent: dict[int, int], refused: dict[int, FailedException], most: int) -> None:
        """Wait until at most ``most`` messages are not confirmed."""
        while len(sent) > most:
            self._connection.wait(lambda: bool(self._confirmed), "to a message")
            while self._confirmed:
                packet, reason = self._confirmed.popitem()
                index = sent.pop(packet)
                if reason.is_failure:
                    text = f"the broker refuses the message: {reason}"
                    refused[index] = FailedException(text, retry=reason.value not in FINAL)

    def _published(self, _client: Any, _data: Any, packet: int, reason: Any, _properties: Any) -> None:
        self._confirmed[packet] = reason
