"""Changes of PostgreSQL as a log: what is refused, and what the server has dropped, moved on from or ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from postgres_changes_place import ChangesPlace, ChangesServer, Reading, processed, running_server, starting
from postgres_outbox_place import OutboxServer

from tupletree.connectors.log_source import DeletedError
from tupletree.connectors.postgres_changes import PostgresChanges
from tupletree.errors import UnavailableError, UsageError

pytestmark = pytest.mark.skipif(bool(ChangesServer.missing()), reason=ChangesServer.missing() or "it is installed")


@pytest.fixture(scope="module")
def server() -> Iterator[ChangesServer]:
    with running_server() as running:
        yield running


@pytest.fixture
def place(server: ChangesServer) -> Iterator[ChangesPlace]:
    place = ChangesPlace(server)
    yield place
    place.drop()


@pytest.fixture
def start(place: ChangesPlace) -> Iterator[Any]:
    """Starts reading the place's changes on a connection of its own."""
    with starting(place) as started:
        yield started


def test_positions_that_the_slot_has_left_are_reported(place: ChangesPlace, start: Any) -> None:
    reading = start()
    reading.wait(0)
    place.insert(1, 1)
    reading.wait(1)
    processed(reading, place)
    older = start(reading.records[0].position)
    with pytest.raises(DeletedError, match=f"slot '{place.name}' has moved on: changes before .* are gone"):
        older.wait(0)
    place.insert(2, 2)
    assert [change.key["id"] for change in older.wait(1)] == [2]


def test_a_dropped_slot_is_named(place: ChangesPlace, start: Any) -> None:
    reading = start()
    reading.wait(0)
    processed(reading, place)
    place.insert(1, 1)
    reading.wait(1)
    place.execute("SELECT pg_drop_replication_slot(%s)", place.name)
    with pytest.raises(UsageError, match=f'slot .{place.name}.: replication slot "{place.name}" does not exist$'):
        processed(reading, place)
    with pytest.raises(UsageError, match=f"slot '{place.name}' was dropped, and with it the changes since the last"):
        start(reading.position)
    source = place.source()
    source.open()
    with closing(source), pytest.raises(UsageError, match=f"has no replication slot '{place.name}'$"):
        source.bounds(place.name)


def test_a_slot_of_another_kind_is_refused(place: ChangesPlace, start: Any) -> None:
    place.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", place.name)
    text = f"slot '{place.name}' is not a logical slot of this database with pgoutput$"
    with pytest.raises(UsageError, match=text):
        start()


@pytest.mark.long
def test_a_slot_whose_changes_the_server_has_dropped_is_refused() -> None:
    server = ChangesServer()
    server.options = (*server.options, "max_slot_wal_keep_size=1MB")
    try:
        server.start()
        place = ChangesPlace(server)
        place.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", place.name)
        for id in range(5):
            place.insert(id, id)
            place.execute("SELECT pg_switch_wal()")
        place.execute("CHECKPOINT")
        source = place.source()
        source.open()
        text = f"the server has dropped changes that slot '{place.name}' needs: SELECT pg_drop_replication_slot"
        with closing(source), pytest.raises(UsageError, match=text):
            source.follow(None, 0, 1)
    finally:
        server.close()


def test_a_publication_that_is_missing_is_refused(place: ChangesPlace) -> None:
    source = PostgresChanges(place.server.url, "nothing", place.name)
    with pytest.raises(UsageError, match=r"there is no publication 'nothing': CREATE PUBLICATION … was expected$"):
        source.open()


def test_a_user_without_rights_is_refused(place: ChangesPlace, start: Any) -> None:
    place.execute(f"CREATE ROLE {place.name} LOGIN")
    url = place.server.url.replace("tupletree@", f"{place.name}@")
    source = PostgresChanges(url, place.name, place.name)
    with pytest.raises(UsageError, match=r"its user may not replicate: ALTER ROLE … REPLICATION was expected$"):
        source.open()
    place.execute(f"ALTER ROLE {place.name} REPLICATION")
    place.execute(f"GRANT USAGE ON SCHEMA {place.name} TO {place.name}")
    source.open()
    with closing(source), pytest.raises(UsageError, match=r"permission denied for table towns$"):
        Reading(source.follow(None, 0, 1)).wait(1)


def test_a_server_without_logical_replication_is_refused() -> None:
    server = OutboxServer()
    try:
        server.start()
        with pytest.raises(UsageError, match=r"wal_level is replica: ALTER SYSTEM SET wal_level .* were expected$"):
            PostgresChanges(server.url, "shop", "shop").open()
    finally:
        server.close()


def test_a_connection_that_the_server_ends_is_a_lost_one(place: ChangesPlace, start: Any) -> None:
    reading = start()
    reading.wait(0)
    processed(reading, place)
    place.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'")
    place.insert(1, 1)
    with pytest.raises(UnavailableError):
        reading.wait(1)
    assert len(start().wait(1)) == 1
