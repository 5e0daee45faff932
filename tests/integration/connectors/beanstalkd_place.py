"""beanstalkd, with a log of its messages on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import greenstalk
from queue_places import QueuePlace, QueueServer

from tupletree.connectors.beanstalkd import BeanstalkBolt, BeanstalkSpout
from tupletree.connectors.formats import Format
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import SinkBolt


class BeanstalkServer(QueueServer):
    program = "beanstalkd"

    def command(self) -> Sequence[str]:
        return ["/usr/bin/beanstalkd", "-l", "127.0.0.1", "-p", str(self.port), "-b", str(self.directory), "-f", "0"]


class BeanstalkPlace(QueuePlace):
    max_bytes = 65535

    def client(self) -> Any:
        return contextlib.closing(
            greenstalk.Client(("127.0.0.1", self.server.port), encoding=None, use=self.name, watch=self.name)
        )

    def spout(self, format: Format, max_in_flight: int = 1000) -> QueueSpout:
        address = f"127.0.0.1:{self.port}"
        return BeanstalkSpout(address, self.name, format, max_in_flight=max_in_flight, keep_every_s=0.5)

    def bolt(self, format: Format) -> SinkBolt:
        return BeanstalkBolt(f"127.0.0.1:{self.port}", self.name, format)

    def put(self, messages: Sequence[bytes]) -> None:
        with self.client() as client:
            for message in messages:
                client.put(message, ttr=2)

    def unacknowledged(self) -> int:
        with self.client() as client:
            stats = client.stats_tube(self.name)
            return sum(stats[f"current-jobs-{state}"] for state in ("ready", "reserved", "delayed"))

    def rejected(self) -> int:
        with self.client() as client:
            return int(client.stats_tube(self.name)["current-jobs-buried"])

    def drain(self) -> list[bytes]:
        found: list[bytes] = []
        with self.client() as client, contextlib.suppress(greenstalk.TimedOutError):
            while True:
                job = client.reserve(timeout=0)
                found.append(job.body)
                client.delete(job)
        return found
