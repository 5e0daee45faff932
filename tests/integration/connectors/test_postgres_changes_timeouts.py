"""Timeouts of a role or of a database, which must not end what takes long with reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from postgres_changes_place import ChangesPlace, ChangesServer, Reading

pytestmark = pytest.mark.skipif(bool(ChangesServer.missing()), reason=ChangesServer.missing() or "it is installed")


@pytest.fixture
def place() -> Iterator[ChangesPlace]:
    server = ChangesServer()
    try:
        server.start()
        yield ChangesPlace(server)
    finally:
        server.close()


def test_a_call_that_decodes_much_takes_longer_than_the_timeout_of_its_role(place: ChangesPlace) -> None:
    place.execute("CREATE TABLE others (id bigint)")
    with closing(place.source(snapshot=False)) as source:
        source.open()
        source.follow(None, 0, 1)  # creates the slot
    place.execute("INSERT INTO others SELECT generate_series(1, 300000)")
    place.insert(1, 3)
    place.execute("ALTER ROLE tupletree SET statement_timeout = '50ms'")
    with closing(place.source()) as source:
        source.open()
        Reading(source.follow(None, 0, 1)).wait(3)
