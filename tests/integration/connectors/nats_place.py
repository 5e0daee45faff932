"""NATS with JetStream, whose streams are files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import nats
from nats.js.errors import NotFoundError
from queue_places import QueuePlace, QueueServer

from tupletree.connectors.formats import Format
from tupletree.connectors.nats import NatsBolt, NatsSpout
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import SinkBolt

ACK_WAIT_S = 2.0


class NatsServer(QueueServer):
    program = "nats-server"

    def command(self) -> Sequence[str]:
        where = ["-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.directory)]
        return ["/usr/sbin/nats-server", *where, "-js"]


class NatsPlace(QueuePlace):
    """A stream, and the consumer that the spout makes."""

    max_bytes = 1 << 20
    rejects = False  # NATS remembers a terminated message as one that it delivers no more, and counts none

    def __init__(self, server: Any, name: str) -> None:
        super().__init__(server, name)
        self.call(lambda streams: streams.add_stream(name=name, subjects=[name]))

    def call(self, act: Callable[[Any], Awaitable[Any]]) -> Any:
        """Call a function with a client of JetStream, and return what it returns."""

        async def connected() -> Any:
            client = await nats.connect(f"nats://127.0.0.1:{self.server.port}", allow_reconnect=False)
            try:
                return await act(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(connected())

    @property
    def servers(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def spout(self, format: Format, max_in_flight: int = 1000) -> QueueSpout:
        return NatsSpout(
            self.servers,
            self.name,
            stream=self.name,
            durable="all",
            format=format,
            max_in_flight=max_in_flight,
            ack_wait_s=ACK_WAIT_S,
        )

    def bolt(self, format: Format) -> SinkBolt:
        return NatsBolt(self.servers, self.name, format)

    def put(self, messages: Sequence[bytes]) -> None:
        async def publish(streams: Any) -> None:
            for message in messages:
                await streams.publish(self.name, message)

        self.call(publish)

    def unacknowledged(self) -> int:
        async def count(streams: Any) -> int:
            try:
                info = await streams.consumer_info(self.name, "all")
            except NotFoundError:  # no spout has made it yet
                messages: int = (await streams.stream_info(self.name)).state.messages
                return messages
            return int(info.num_pending + info.num_ack_pending)

        counted: int = self.call(count)
        return counted

    def rejected(self) -> int:
        return 0

    def drain(self) -> list[bytes]:
        async def take(streams: Any) -> list[bytes]:
            found: list[bytes] = []
            consumer = await streams.pull_subscribe(self.name, "all", self.name)
            while True:
                info = await streams.consumer_info(self.name, "all")
                if not info.num_pending + info.num_ack_pending:
                    return found
                messages = []
                with contextlib.suppress(TimeoutError):
                    messages = await consumer.fetch(100, timeout=0.2)
                for message in messages:
                    await message.ack_sync()
                    found.append(message.data)

        drained: list[bytes] = self.call(take)
        return drained
