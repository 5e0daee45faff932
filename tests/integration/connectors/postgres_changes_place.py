"""PostgreSQL with logical replication; a table of its own with a publication and the name of a slot."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from postgres_outbox_place import OutboxServer

from tupletree.connectors.log_source import Assigned, LogFollower, Records
from tupletree.connectors.messages import LogRecord
from tupletree.connectors.pgoutput import Change
from tupletree.connectors.postgres_changes import PostgresChanges
from tupletree.testing import wait_until


class ChangesServer(OutboxServer):
    options: Sequence[str] = ("wal_level=logical", "max_replication_slots=50", "max_wal_senders=50")


class ChangesPlace:
    """A table ``id, city`` in a schema of its own, with a publication and a slot of the same name."""

    def __init__(self, server: ChangesServer) -> None:
        self.server = server
        self.name = f"s{uuid.uuid4().hex[:8]}"
        self.table = f"{self.name}.towns"
        self.execute(f"CREATE SCHEMA {self.name}")
        self.execute(f"CREATE TABLE {self.table} (id bigint PRIMARY KEY, city text)")
        self.execute(f"CREATE PUBLICATION {self.name} FOR TABLE {self.table}")

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.server.url, autocommit=True)

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self.connect() as client:
            cursor = client.execute(statement, parameters)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def insert(self, first: int, last: int, city: str = "Ulm") -> None:
        self.execute(
            f"INSERT INTO {self.table} SELECT id, %s FROM generate_series(%s::int, %s::int) AS id", city, first, last
        )

    def rows(self) -> dict[int, str]:
        return dict(self.execute(f"SELECT id, city FROM {self.table}"))

    def slots(self) -> dict[str, bool]:
        """The place's slots, and whether each is temporary."""
        return dict(
            self.execute(
                "SELECT slot_name, temporary FROM pg_replication_slots WHERE slot_name LIKE %s", f"{self.name}%"
            )
        )

    def source(self, **options: Any) -> PostgresChanges:
        return PostgresChanges(self.server.url, self.name, self.name, **options)

    def drop(self) -> None:
        """Drop the slots, so that the server need not keep what they hold."""
        for name, is_temporary in self.slots().items():
            if not is_temporary:
                self.execute("SELECT pg_drop_replication_slot(%s)", name)


class Reading:
    """What a follower has read. ``position``: behind that."""

    def __init__(self, follower: LogFollower) -> None:
        self.follower = follower
        self.records: list[LogRecord] = []
        self.sizes: list[int] = []
        self.position = 0

    def poll(self, limit: int = 1000) -> bool:
        """Poll once. Return false if there was nothing."""
        events = self.follower.poll(limit, 0.05)
        for event in events:
            match event:
                case Assigned(_, start):
                    self.position = start
                case Records(_, records, behind):
                    assert behind >= self.position
                    self.sizes.append(len(records))
                    self.records += records
                    self.position = behind
        return bool(events)

    def wait(self, count: int) -> list[Change]:
        """Read until there are ``count`` records, and the log has no more. Return all changes."""
        wait_until(lambda: not self.poll() and len(self.records) >= count, 60, what=f"{count} changes are read")
        return self.changes

    @property
    def changes(self) -> list[Change]:
        return [record.data for record in self.records]

    def table(self) -> dict[int, str]:
        """The table that the changes make."""
        rows: dict[int, str] = {}
        for change in self.changes:
            if change.new is None:
                rows.pop(change.key["id"], None)
            else:
                rows[change.key["id"]] = change.new["city"]
        return rows


@contextmanager
def running_server() -> Iterator[ChangesServer]:
    server = ChangesServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@contextmanager
def starting(place: ChangesPlace) -> Iterator[Callable[..., Reading]]:
    """A function that starts reading the place's changes on a connection of its own, which ends with the block."""
    sources: list[PostgresChanges] = []

    def started(position: int | None = None, **options: Any) -> Reading:
        source = place.source(**options)
        source.open()
        sources.append(source)
        return Reading(source.follow(None if position is None else {place.name: position}, 0, 1))

    try:
        yield started
    finally:
        for source in sources:
            source.close()


def processed(reading: Reading, place: ChangesPlace) -> None:
    """Tell the server that everything read is processed."""
    reading.follower.processed({place.name: reading.position})
