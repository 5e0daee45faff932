"""kill -9 of the worker in the middle of a snapshot, and of all of PostgreSQL: no row is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import killed_changes
import killed_topology
import psycopg
import pytest
from killed_changes import appending_keys
from killed_topology import done
from postgres_changes_place import ChangesPlace, ChangesServer

from tests.integration.transactional.database_servers import running
from tupletree.connectors.postgres_changes import PostgresChangesSpout
from tupletree.testing import DevCluster, wait_until

ROWS = 4_000


@pytest.fixture
def place() -> Iterator[ChangesPlace]:
    with running(ChangesServer) as server:
        yield ChangesPlace(server)


class Writer(threading.Thread):
    """Inserts rows, one transaction each, and connects again when the server is back."""

    def __init__(self, place: ChangesPlace) -> None:
        super().__init__(daemon=True)
        self.place = place
        self.ends = threading.Event()

    def run(self) -> None:
        id = 1_000_000
        insert: Any = f"INSERT INTO {self.place.table} VALUES (%s, 'Ulm')"
        while not self.ends.is_set():
            try:
                with self.place.connect() as client:
                    while not self.ends.wait(0.002):
                        id += 1
                        client.execute(insert, [id])
            except psycopg.OperationalError:
                self.ends.wait(0.1)


@pytest.mark.long
def test_no_row_is_lost_with_the_worker_or_the_server(place: ChangesPlace, tmp_path: Path) -> None:
    place.insert(1, ROWS)
    writer = Writer(place)
    writer.start()
    with DevCluster(slots=2, ackers=1) as cluster:
        spout = PostgresChangesSpout(place.server.url, place.name, place.name)
        conf = {"topology.max.spout.pending": 200}
        code = [killed_topology.__file__, killed_changes.__file__]
        cluster.client.submit("changes", appending_keys(spout, tmp_path), conf, code=code)
        wait_until(lambda: len(done(tmp_path)) > ROWS * 0.2, 60, what="it reads the snapshot")
        cluster.kill("worker", 0)
        place.execute(f"DELETE FROM {place.table} WHERE id <= 10")
        wait_until(lambda: place.name in place.slots(), 60, what="the snapshot is processed")
        wait_until(lambda: len(done(tmp_path)) > ROWS * 1.1, 60, what="it reads changes")
        place.server.kill_all()
        place.server.start()
        before = len(done(tmp_path))
        wait_until(lambda: len(done(tmp_path)) > before + 200, 60, what="it goes on with the server")
        cluster.kill("worker", 0)
        writer.ends.set()
        writer.join()
        rows = {str(id) for id in place.rows()}
        wait_until(lambda: rows <= done(tmp_path).keys(), 60, what="every row has come")
        assert all(done(tmp_path)[str(id)] >= 2 for id in range(1, 11)), "deletions have come, too"
        cluster.client.kill("changes", wait_secs=0)
        wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 30, what="its workers end")
