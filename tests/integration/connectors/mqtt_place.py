"""Mosquitto, with persistence; its queue is a session, counted in the file that Mosquitto saves."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from paho.mqtt.client import CallbackAPIVersion, Client, MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from queue_places import QueuePlace, QueueServer

from tupletree.connectors.formats import Format
from tupletree.connectors.mqtt import MqttBolt, MqttSpout
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import SinkBolt
from tupletree.testing import wait_until

HEADER_BYTES = 23
CLIENT_MESSAGE = 3
OUTGOING = 1
END = b"the end of what is drained"
MANY = 1000
PUBLISHERS = 20


class MqttServer(QueueServer):
    program = "mosquitto"

    def options(self) -> list[str]:
        """Further lines of its configuration."""
        return []

    def __init__(self) -> None:
        super().__init__()
        lines = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "persistence true",
            f"persistence_location {self.directory}/",
            "autosave_on_changes true",  # saves the whole file in each round of its loop in which something changed
            "autosave_interval 1",
            "max_queued_messages 1000000",
            f"user {pwd.getpwuid(os.getuid()).pw_name}",
            *self.options(),
        ]
        (self.directory / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    def command(self) -> Sequence[str]:
        return ["/usr/sbin/mosquitto", "-c", str(self.directory / "mosquitto.conf")]

    def saved(self) -> bytes:
        """Return the file of Mosquitto with all that it has confirmed until now.

        Mosquitto confirms a message, and saves it a moment later, between rounds of its loop. A save that ends after a
        confirmation was received has what was confirmed.
        """
        assert self._process is not None
        path = self.directory / "mosquitto.db"
        with open(path, "ab") as before:  # while it is open, no other file gets its inode
            inode = os.fstat(before.fileno()).st_ino
            self._process.send_signal(signal.SIGUSR1)
            wait_until(lambda: path.stat().st_ino != inode, 30, what="Mosquitto saves")
        return path.read_bytes()

    def queued(self, client_id: str) -> int:
        """Return the number of messages in a session that its client has not acknowledged."""
        data = self.saved()
        at, found = HEADER_BYTES, 0
        while at < len(data):
            kind, length = struct.unpack_from(">II", data, at)
            at += 8
            if kind == CLIENT_MESSAGE:
                id_length, direction = struct.unpack_from(">10xH3xB", data, at)
                found += direction == OUTGOING and data[at + 16 : at + 16 + id_length] == client_id.encode()
            at += length
        return found


class MqttPlace(QueuePlace):
    """A topic, with the session of the spout's task, which a test begins before there is a spout."""

    rejects = False
    knows_lag = False
    many = 2_000  # with each acknowledgement Mosquitto saves all that are left

    def __init__(self, server: Any, name: str) -> None:
        super().__init__(server, name)
        self.begin(0)

    def begin(self, task_index: int) -> None:
        """Begin the session of a task."""
        with self.client(f"{self.name}-{task_index}") as client:
            client.subscribe(f"$share/tasks/{self.name}", qos=1)
            wait_until(lambda: client.subscribed, 30)

    @contextlib.contextmanager
    def client(self, client_id: str = "") -> Iterator[Any]:
        """A client; with an id, of a session."""
        client: Any = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTv5)
        client.connected, client.subscribed, client.published, client.messages = False, False, 0, []
        client.on_connect = lambda *_: setattr(client, "connected", True)
        client.on_subscribe = lambda *_: setattr(client, "subscribed", True)
        client.on_publish = lambda *_: setattr(client, "published", client.published + 1)
        client.on_message = lambda _client, _data, message: client.messages.append(bytes(message.payload))
        properties = Properties(PacketTypes.CONNECT)
        if client_id:
            properties.SessionExpiryInterval = 3600
        client.connect("127.0.0.1", self.server.port, clean_start=not client_id, properties=properties)
        client.loop_start()
        try:
            wait_until(lambda: client.connected)
            yield client
        finally:
            client.disconnect()
            client.loop_stop()

    def spout(self, format: Format, max_in_flight: int = 1000) -> QueueSpout:
        address = f"127.0.0.1:{self.port}"
        return MqttSpout(address, self.name, format, client_id=self.name, group="tasks", max_in_flight=max_in_flight)

    def bolt(self, format: Format) -> SinkBolt:
        return MqttBolt(f"127.0.0.1:{self.port}", self.name, format)

    def put(self, messages: Sequence[bytes]) -> None:
        """Publish messages, in their order unless they are many.

        Mosquitto takes a message of each client, and then saves its whole file.
        """
        count = PUBLISHERS if len(messages) >= MANY else 1
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(self.client()) for _ in range(count)]
            for number, message in enumerate(messages):
                clients[number % count].publish(self.name, message, qos=1)
            wait_until(lambda: sum(one.published for one in clients) == len(messages), 30)
        self.server.saved()

    def unacknowledged(self) -> int:
        return int(self.server.queued(f"{self.name}-0"))

    def rejected(self) -> int:
        return 0

    def drain(self) -> list[bytes]:
        """What comes before a message of our own: the broker keeps the order of a session."""
        self.put([END])
        with self.client(f"{self.name}-0") as client:
            wait_until(lambda: END in client.messages, 30)
            return [message for message in client.messages if message != END]
