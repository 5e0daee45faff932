"""PostgreSQL on a port; an outbox table in it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Sequence
from typing import Any

import psycopg
from queue_places import QueuePlace, free_port

from tests.integration.transactional.database_servers import PostgresServer
from tupletree.connectors.formats import Format
from tupletree.connectors.postgres_outbox import OutboxBolt, OutboxSpout
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import SinkBolt


class OutboxServer(PostgresServer):
    """PostgreSQL on a port of the loopback interface."""

    options: Sequence[str] = ()

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self.url = self.url_at(self.port)

    def command(self) -> Sequence[str]:
        settings = [f"port={self.port}", "listen_addresses=127.0.0.1", *self.options]
        return [*super().command(), *(part for setting in settings for part in ("-c", setting))]

    def kill_all(self) -> None:
        """End all its processes with SIGKILL, as a machine that dies, and wait until they have ended.

        One that is left, even for a moment, holds the shared memory, and the server refuses to start again.
        """
        os.kill(self.processes()[0], signal.SIGSTOP)  # it starts no other process any more
        with contextlib.ExitStack() as ended:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    process = os.pidfd_open(pid)
                    ended.callback(os.close, process)
                    ended.callback(select.select, [process], [], [], 30)
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            self.stop()

    def url_at(self, port: int) -> str:
        return f"postgresql://tupletree@127.0.0.1:{port}/postgres"


class OutboxPlace(QueuePlace):
    kind = "bytea"

    def __init__(self, server: Any, name: str) -> None:
        super().__init__(server, name)
        self.execute(
            f"CREATE TABLE {name} (id bigserial PRIMARY KEY, data {self.kind}, deliveries integer NOT NULL DEFAULT 0, "
            "locked_until timestamptz NOT NULL DEFAULT now())"
        )
        self.execute(f"CREATE INDEX ON {name} (locked_until)")

    @property
    def url(self) -> str:
        return str(self.server.url_at(self.port))

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.server.url, autocommit=True) as client:
            cursor = client.execute(statement, parameters)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def spout(self, format: Format, max_in_flight: int = 1000, **options: Any) -> QueueSpout:
        return OutboxSpout(self.url, self.name, format, **{"lease_s": 2, "max_in_flight": max_in_flight, **options})

    def bolt(self, format: Format) -> SinkBolt:
        return OutboxBolt(self.url, self.name, format)

    def put(self, messages: Sequence[bytes]) -> None:
        self.execute(f"INSERT INTO {self.name} (data) SELECT unnest(%s::{self.kind}[])", list(messages))

    def unacknowledged(self) -> int:
        return int(self.execute(f"SELECT count(*) FROM {self.name} WHERE locked_until < 'infinity'")[0][0])

    def rejected(self) -> int:
        return int(self.execute(f"SELECT count(*) FROM {self.name} WHERE locked_until = 'infinity'")[0][0])

    def drain(self) -> list[bytes]:
        return [row[0] for row in self.execute(f"DELETE FROM {self.name} RETURNING data")]
