"""A table of PostgreSQL whose inserts are the messages of a log."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import inserted_data
import pytest
from inserted_data import InsertedData
from log_place import LogPlace
from postgres_changes_place import ChangesPlace, ChangesServer
from tcp_proxy import Proxy

from tupletree.connectors.formats import Format
from tupletree.connectors.log_spout import LogSpout
from tupletree.testing import wait_until

cloudpickle.register_pickle_by_value(inserted_data)  # workers have the library alone


@functools.cache
def running_server() -> ChangesServer:
    """One server for all tests of this process."""
    if reason := ChangesServer.missing():
        pytest.skip(reason)
    server = ChangesServer()
    atexit.register(server.close)
    server.start()
    return server


class PostgresLogPlace(LogPlace):
    """One partition, behind a proxy; the slot is there, without a snapshot."""

    PARTITIONS = 1
    metadata = ("sequence", "lsn", "transaction", "committed_at")
    lag_unit = "bytes"

    def __init__(self, directory: Path) -> None:
        self.place = ChangesPlace(running_server())
        self.place.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", self.place.name)
        self.proxy = Proxy(self.place.server.port)
        self.proxy.__enter__()
        self.count = 0

    def spout(self, format: Format, **options: Any) -> LogSpout:
        url = self.place.server.url_at(self.proxy.port)
        return LogSpout(InsertedData(url, self.place.name, self.place.name, snapshot=False), format, **options)

    def put(self, partition: int, messages: Sequence[bytes]) -> None:
        insert: Any = f"INSERT INTO {self.place.table} VALUES (%s, %s)"
        with self.place.connect() as client:
            for message in messages:  # a transaction each: the server keeps positions between transactions
                client.execute(insert, [self.count, message.hex()])
                self.count += 1

    def add_partition(self) -> int:
        return 0

    def is_processed(self) -> bool:
        [[written]] = self.place.execute("SELECT pg_current_wal_flush_lsn()")
        where = "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s"
        wait_until(lambda: self.place.execute(where, written, self.place.name)[0][0], 20)
        return True

    def leave(self) -> None:
        self.proxy.refuses = True
        self.proxy.cut()

    def come_back(self) -> None:
        self.proxy.refuses = False

    def close(self) -> None:
        self.proxy.__exit__(None, None, None)
        self.place.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE temporary AND slot_name LIKE %s",
            f"{self.place.name}%",
        )
        self.place.drop()
