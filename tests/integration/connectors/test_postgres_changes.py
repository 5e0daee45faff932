"""Changes of PostgreSQL as a log: the snapshot, the order, resuming, ranges."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
from postgres_changes_place import ChangesPlace, ChangesServer, Reading, processed, running_server, starting

from tupletree.connectors.pgoutput import Change

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


def test_rows_come_first_and_then_every_kind_of_change(place: ChangesPlace, start: Any) -> None:
    place.insert(1, 3)
    reading = start()
    reading.wait(3)
    place.insert(4, 4)
    place.execute(f"UPDATE {place.table} SET city = 'Bonn' WHERE id = 4")
    place.execute(f"UPDATE {place.table} SET id = 5 WHERE id = 4")
    place.execute(f"DELETE FROM {place.table} WHERE id = 1")
    place.execute(f"TRUNCATE {place.table}")
    name = place.table
    assert reading.wait(8) == [
        *[Change("snapshot", name, {"id": id}, {"id": id, "city": "Ulm"}, None) for id in (1, 2, 3)],
        Change("insert", name, {"id": 4}, {"id": 4, "city": "Ulm"}, None),
        Change("update", name, {"id": 4}, {"id": 4, "city": "Bonn"}, None),
        Change("update", name, {"id": 5}, {"id": 5, "city": "Bonn"}, {"id": 4}),
        Change("delete", name, {"id": 1}, None, {"id": 1}),
        Change("truncate", name, {}, None, None),
    ]
    sequence, lsns = (tuple(record.metadata[at] for record in reading.records) for at in (0, 1))
    assert (sequence, lsns) == (tuple(sorted(sequence)), tuple(sorted(lsns)))
    assert len(set(sequence)) == 1 + 5
    assert all(record.metadata[2:] == (None, None) for record in reading.records[:3])


def test_rows_of_the_snapshot_and_of_changes_have_the_same_values(place: ChangesPlace, start: Any) -> None:
    place.execute(
        f"CREATE TABLE {place.name}.every (i int, f float8, n numeric, b bool, y bytea, j jsonb, u uuid, "
        "t timestamptz, a int[], c char(4), g int GENERATED ALWAYS AS (i + 1) STORED)"
    )
    place.execute(f"ALTER TABLE {place.name}.every REPLICA IDENTITY FULL")
    place.execute(f"ALTER PUBLICATION {place.name} SET TABLE {place.name}.every")
    insert = (
        f"INSERT INTO {place.name}.every VALUES (1, 'NaN', 1.50, true, '\\x00ff', '{{\"a\": 1}}', "
        "'00000000-0000-0000-0000-000000000001', '2026-01-02 03:04:05+01', '{1,2}', 'ab')"
    )
    place.execute(insert)
    reading = start()
    reading.wait(1)
    place.execute(insert)
    place.execute(f"DELETE FROM {place.name}.every WHERE ctid = '(0,1)'")
    snapshot, inserted, deleted = reading.wait(3)
    assert repr(snapshot.new) == repr(inserted.new) == repr(deleted.old)
    assert snapshot.key.keys() == inserted.key.keys() == deleted.key.keys() == set("ifnbyjutac")
    assert (snapshot.new["t"], snapshot.new["a"], snapshot.new["c"]) == ("2026-01-02 02:04:05+00", "{1,2}", "ab  ")


def test_values_of_domains_are_text_in_the_snapshot_and_in_changes(place: ChangesPlace, start: Any) -> None:
    """A change has the type of the domain; a query has the type below, by which the key of a row would be another."""
    place.execute(f"CREATE DOMAIN {place.name}.number AS bigint")
    place.execute(f"CREATE DOMAIN {place.name}.positive AS {place.name}.number CHECK (VALUE > 0)")
    place.execute(
        f"CREATE TABLE {place.name}.orders (id {place.name}.number PRIMARY KEY, n {place.name}.positive, i int)"
    )
    place.execute(f"ALTER PUBLICATION {place.name} SET TABLE {place.name}.orders")
    place.execute(f"INSERT INTO {place.name}.orders VALUES (1, 2, 3)")
    reading = start()
    reading.wait(1)
    place.execute(f"UPDATE {place.name}.orders SET i = 3")
    for change in reading.wait(2):
        assert (change.key, change.new) == ({"id": "1"}, {"id": "1", "n": "2", "i": 3}), change


def test_large_values_that_are_unchanged_are_left_out(place: ChangesPlace, start: Any) -> None:
    place.execute(f"ALTER TABLE {place.table} ALTER city SET STORAGE EXTERNAL, ADD COLUMN count int")
    place.insert(1, 1, "x" * 10_000)
    reading = start()
    place.execute(f"UPDATE {place.table} SET count = 1")
    reading.wait(1)
    place.execute(f"UPDATE {place.table} SET count = 2")
    assert reading.wait(2)[-1].new == {"id": 1, "count": 2}


def test_no_row_is_lost_or_repeated_by_writers_that_race_with_the_snapshot(place: ChangesPlace, start: Any) -> None:
    ends = threading.Event()

    def write(first: int) -> None:
        with place.connect() as client:
            for id in range(first, first + 100_000):
                if ends.is_set():
                    return
                client.execute(f"INSERT INTO {place.table} VALUES (%s, 'Ulm')", [id])  # type: ignore[call-overload]

    writers = [threading.Thread(target=write, args=[first]) for first in (0, 1_000_000, 2_000_000)]
    place.insert(5_000_000, 5_005_000)
    for writer in writers:
        writer.start()
    try:
        reading = start()
        while len(reading.records) < 7_000:
            reading.poll()
    finally:
        ends.set()
        for writer in writers:
            writer.join()
    rows = place.rows()
    reading.wait(len(rows))
    assert [change.operation for change in reading.changes] == sorted(
        (change.operation for change in reading.changes), reverse=True
    )
    assert sorted(change.key["id"] for change in reading.changes) == sorted(rows)


def test_transactions_come_in_the_order_of_their_commits(place: ChangesPlace, start: Any) -> None:
    reading = start()
    reading.wait(0)
    with place.connect() as first, place.connect() as second:
        statement: Any = f"INSERT INTO {place.table} VALUES (%s, 'Ulm')"
        for client in (first, second):
            client.execute("BEGIN")
        for id in range(6):
            (first, second)[id % 2].execute(statement, [id])
        second.execute("COMMIT")
        first.execute("COMMIT")
    assert [change.key["id"] for change in reading.wait(6)] == [1, 3, 5, 0, 2, 4]
    positions = [record.position for record in reading.records]
    assert positions == sorted(set(positions))
    first, second, third = reading.records[:3]
    assert (first.next, second.next) == (second.position, third.position)
    assert third.next > third.position + 1  # behind the commit
    assert len({record.metadata[1:] for record in reading.records}) == 2


def test_the_database_keeps_what_is_not_processed(place: ChangesPlace, start: Any) -> None:
    place.insert(1, 10)
    reading = start()
    reading.wait(10)
    assert [one for one, is_temporary in place.slots().items() if not is_temporary] == [f"{place.name}_snapshot"]
    processed(reading, place)
    assert [one for one, is_temporary in place.slots().items() if not is_temporary] == [place.name]
    place.insert(11, 20)
    reading.wait(20)
    assert [change.key["id"] for change in start().wait(10)] == list(range(11, 21))
    processed(reading, place)
    place.insert(21, 21)
    assert [change.key["id"] for change in start().wait(1)] == [21]
    assert reading.wait(21)


def test_an_interrupted_snapshot_is_repeated_with_the_deletions_since(place: ChangesPlace, start: Any) -> None:
    place.insert(1, 50)
    reading = start()
    while len(reading.records) < 20:
        reading.poll(10)
    processed(reading, place)
    place.execute(f"DELETE FROM {place.table} WHERE id <= 5")
    place.execute(f"UPDATE {place.table} SET city = 'Bonn' WHERE id = 6")
    again = start()
    again.wait(45 + 6)
    both = Reading(again.follower)
    both.records = reading.records + again.records
    assert both.table() == place.rows()


def test_a_reader_that_starts_again_reads_the_same(place: ChangesPlace, start: Any) -> None:
    reading = start()
    reading.wait(0)
    processed(reading, place)
    for first in range(0, 100, 10):
        place.insert(first, first + 9)
    reading.wait(100)
    again = start()
    again.wait(100)
    assert again.records == reading.records
    assert start(reading.records[34].next).wait(65) == reading.changes[35:]


def test_ranges_are_read_exactly_also_within_transactions(place: ChangesPlace, start: Any) -> None:
    reading = start()
    reading.wait(0)
    processed(reading, place)
    for first in range(0, 100, 20):
        place.insert(first, first + 19)
    reading.wait(100)
    source = place.source()
    source.open()
    with closing(source):
        bounds = source.bounds(place.name)
        cuts = [bounds.first, *(reading.records[at].position for at in (7, 20, 39, 61)), bounds.end]
        parts = [
            [record for records in source.read(place.name, start, end) for record in records]
            for start, end in pairwise(cuts)
        ]
        assert list(map(len, parts)) == [7, 13, 19, 22, 39]
        assert [record for part in parts for record in part] == reading.records
        repeated = [record for records in source.read(place.name, cuts[1], cuts[3]) for record in records]
        assert repeated == reading.records[7:39]


def test_changes_of_other_tables_move_the_position_on(place: ChangesPlace, start: Any) -> None:
    reading = start()
    reading.wait(0)
    place.execute(f"CREATE TABLE {place.name}.others AS SELECT generate_series(1, 1000)")
    before = reading.position
    assert reading.follower.lag() > 10_000
    reading.wait(0)
    assert (reading.records, reading.follower.lag()) == ([], 0)
    assert reading.position > before


def test_a_snapshot_takes_what_the_publication_has(place: ChangesPlace, start: Any) -> None:
    place.execute(f"ALTER TABLE {place.table} ADD COLUMN secret text DEFAULT 'x'")
    place.execute(f"ALTER PUBLICATION {place.name} SET TABLE {place.table} (id, city) WHERE (id > 2)")
    place.execute(f"CREATE TABLE {place.name}.parts (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    place.execute(f"CREATE TABLE {place.name}.low PARTITION OF {place.name}.parts FOR VALUES FROM (0) TO (9)")
    place.execute(f"ALTER PUBLICATION {place.name} ADD TABLE {place.name}.parts")
    place.execute(f"ALTER PUBLICATION {place.name} SET (publish_via_partition_root = true)")
    place.insert(1, 3)
    place.execute(f"INSERT INTO {place.name}.parts VALUES (1)")
    reading = start()
    reading.wait(2)
    place.insert(4, 4)
    place.execute(f"INSERT INTO {place.name}.parts VALUES (2)")
    assert [(change.table, change.new) for change in reading.wait(4)] == [
        (f"{place.name}.parts", {"id": 1}),
        (place.table, {"id": 3, "city": "Ulm"}),
        (place.table, {"id": 4, "city": "Ulm"}),
        (f"{place.name}.parts", {"id": 2}),
    ]


def test_without_a_snapshot_changes_begin_now(place: ChangesPlace, start: Any) -> None:
    place.insert(1, 10)
    reading = start(snapshot=False)
    reading.wait(0)
    place.insert(11, 11)
    assert [change.operation for change in reading.wait(1)] == ["insert"]
    assert place.name in place.slots()


def test_states_that_are_new_get_all_rows_and_older_ones_go_on(place: ChangesPlace, start: Any) -> None:
    place.insert(1, 5)
    reading = start(0)
    reading.wait(5)
    behind_snapshot = reading.position
    place.insert(6, 10)
    reading.wait(10)
    # The checkpoint is committed, and the task dies before it says so to the server.
    assert [change.key["id"] for change in start(behind_snapshot).wait(5)] == [6, 7, 8, 9, 10]
    processed(reading, place)
    assert [change.operation for change in start(0).wait(10)] == ["snapshot"] * 10


def test_only_the_first_task_reads(place: ChangesPlace) -> None:
    source = place.source()
    source.open()
    with closing(source):
        follower = source.follow(None, 1, 2)
        assert follower.poll(10, 0) == ()
        assert follower.lag() is None


@pytest.mark.nightly
def test_a_large_transaction_comes_in_pieces(place: ChangesPlace, start: Any) -> None:
    reading = start()
    reading.wait(0)
    processed(reading, place)
    place.insert(1, 120_000, "x" * 300)
    tracemalloc.start()
    try:
        count, last = 0, 0
        while count < 120_000:
            reading.poll()
            for record in reading.records:
                assert record.position > last
                last = record.position
            count += len(reading.records)
            reading.records.clear()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max(reading.sizes) == 1000
    assert peak < 20_000_000
    # The slot moves on when the transaction is processed to its end, and not before.
    reading.follower.processed({place.name: last})
    assert start().wait(120_000)[-1].key == {"id": 120_000}
