"""Redis on a port, which writes every command to disk before it answers; a stream in it with a group."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import redis
from queue_places import QueuePlace, QueueServer

from tupletree.connectors.formats import Format
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.redis_streams import RedisStreamBolt, RedisStreamSpout
from tupletree.connectors.sinks import SinkBolt


class RedisStreamsServer(QueueServer):
    program = "redis-server"

    def command(self) -> Sequence[str]:
        where = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory)]
        return [self.program, *where, "--save", "", "--appendonly", "yes", "--appendfsync", "always"]

    def answers(self) -> bool:
        """True if it has loaded its data."""
        with contextlib.suppress(redis.RedisError), redis.Redis(port=self.port) as client:
            return bool(client.ping())
        return False


class RedisStreamsPlace(QueuePlace):
    def client(self) -> Any:
        return redis.Redis(port=self.server.port, protocol=2)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def spout(self, format: Format, max_in_flight: int = 1000, **options: Any) -> QueueSpout:
        options = {"claim_after_s": 2, "rejected": f"{self.name}-rejected", **options}
        return RedisStreamSpout(self.url, self.name, "readers", format, max_in_flight=max_in_flight, **options)

    def bolt(self, format: Format) -> SinkBolt:
        return RedisStreamBolt(self.url, self.name, format)

    def put(self, messages: Sequence[bytes]) -> None:
        with self.client() as client:
            for message in messages:
                client.xadd(self.name, {"data": message})

    def unacknowledged(self) -> int:
        """The entries that are pending, and those after the last one that the group has delivered."""
        with self.client() as client:
            last, pending = "0-0", 0
            if client.exists(self.name):
                for group in client.xinfo_groups(self.name):
                    last, pending = group["last-delivered-id"].decode(), group["pending"]
            return pending + len(client.xrange(self.name, f"({last}"))

    def rejected(self) -> int:
        with self.client() as client:
            return int(client.xlen(f"{self.name}-rejected"))

    def drain(self) -> list[bytes]:
        with self.client() as client:
            found = [fields[b"data"] for _, fields in client.xrange(self.name)]
            client.delete(self.name)
        return found
