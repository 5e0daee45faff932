"""Tables of PostgreSQL as queues: columns of every kind, notifications, rows that are kept, refusals."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from postgres_outbox_place import OutboxPlace, OutboxServer

from tupletree.connectors.formats import Text
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.postgres_outbox import OutboxSink, OutboxSource, OutboxSpout
from tupletree.connectors.queue_source import Delivery
from tupletree.errors import UnavailableError, UsageError
from tupletree.testing import wait_until

pytestmark = pytest.mark.skipif(bool(OutboxServer.missing()), reason=OutboxServer.missing() or "it is installed")


@pytest.fixture(scope="module")
def server() -> Iterator[OutboxServer]:
    running = OutboxServer()
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
def place(server: OutboxServer) -> OutboxPlace:
    return OutboxPlace(server, f"q{uuid.uuid4().hex[:8]}")


@pytest.fixture
def open_source(place: OutboxPlace) -> Iterator[Any]:
    """Opens sources on the place's table."""
    sources: list[OutboxSource] = []

    def opened(**options: Any) -> OutboxSource:
        source = OutboxSpout(place.url, place.name, **options).source
        assert isinstance(source, OutboxSource)
        sources.append(source)
        source.open(1000, 0)
        return source

    yield opened
    for source in sources:
        source.close()


def received(source: OutboxSource, limit: int = 100) -> list[Delivery]:
    found: list[Delivery] = []
    wait_until(lambda: bool(found.extend(source.receive(limit, 0.1)) or found), 20)
    return found


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        ("text", "Grüße", "Grüße".encode()),
        ("jsonb", '{"b": 1,  "a": 2}', b'{"a": 2, "b": 1}'),
        ("json", '{"b": 1,  "a": 2}', b'{"b": 1,  "a": 2}'),
        ("bytea", b"\xff\x00", b"\xff\x00"),
    ],
)
def test_columns_of_several_types_carry_messages(
    place: OutboxPlace, open_source: Any, kind: str, value: Any, data: bytes
) -> None:
    place.execute(f"ALTER TABLE {place.name} DROP COLUMN data, ADD COLUMN data {kind}")
    place.execute(f"INSERT INTO {place.name} (data) VALUES (%s)", value)
    [delivery] = received(open_source())
    assert (delivery.data, delivery.deliveries, delivery.problem) == (data, 1, "")


def test_a_row_can_be_the_message_and_its_key_of_any_type(place: OutboxPlace, open_source: Any) -> None:
    place.execute(
        f"ALTER TABLE {place.name} DROP COLUMN id, DROP COLUMN data, DROP COLUMN deliveries, "
        'ADD COLUMN "the key" uuid PRIMARY KEY DEFAULT gen_random_uuid(), ADD COLUMN city text'
    )
    place.execute(f"INSERT INTO {place.name} (city) VALUES ('Ulm')")
    source = open_source(key="the key", data=None)
    [delivery] = received(source)
    assert json.loads(delivery.data) == {"city": "Ulm", "the key": delivery.id}
    assert (delivery.deliveries, source.counts) == (None, False)
    source.acknowledge([delivery.handle])
    assert place.unacknowledged() == 0


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("char(26)", "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("varchar(30)", "a" * 30),
        ("bit(4)", "1010"),
        ("numeric(9, 2)", "1.25"),
    ],
)
def test_keys_of_a_fixed_length_are_found_again(place: OutboxPlace, open_source: Any, kind: str, key: str) -> None:
    place.execute(f"ALTER TABLE {place.name} DROP COLUMN id, ADD COLUMN id {kind} PRIMARY KEY")
    place.execute(f"INSERT INTO {place.name} (id, data) VALUES (%s::text::{kind}, 'x')", key)
    source = open_source()
    [delivery] = received(source)
    source.acknowledge([delivery.handle])
    assert place.unacknowledged() == 0


def test_rows_without_a_message_are_given_up_at_once(place: OutboxPlace, open_source: Any) -> None:
    place.execute(f"INSERT INTO {place.name} (data) VALUES (NULL)")
    [delivery] = received(open_source())
    assert delivery.problem == "the column 'data' is NULL"


def test_processed_rows_can_be_marked_and_kept(place: OutboxPlace, open_source: Any) -> None:
    place.execute(f"ALTER TABLE {place.name} ADD COLUMN sent_at timestamptz")
    place.put([b"one", b"two"])
    source = open_source(processed="sent_at")
    first, second = received(source)
    source.acknowledge([first.handle])
    source.reject([second.handle])
    marked = place.execute(f"SELECT id, sent_at IS NOT NULL, locked_until = 'infinity' FROM {place.name} ORDER BY id")
    assert marked == [(first.handle, True, True), (second.handle, False, True)]
    assert source.lag() == 0


def test_a_notification_ends_the_pause_between_two_looks(place: OutboxPlace, open_source: Any) -> None:
    source = open_source(poll_every_s=3600, channel="outbox news")
    assert source.receive(10, 0) == []
    place.put([b"one"])
    assert source.receive(10, 0) == []
    place.execute("SELECT pg_notify('outbox news', '')")
    [delivery] = received(source)
    assert delivery.data == b"one"


def test_two_tasks_take_different_rows_and_a_lease_that_is_over_returns_them(
    place: OutboxPlace, open_source: Any
) -> None:
    place.put([b"%d" % number for number in range(10)])
    first, second = open_source(lease_s=0.5), open_source(poll_every_s=0.05)
    taken = received(first, 6)
    others = received(second, 100)
    assert sorted(one.data for one in [*taken, *others]) == [b"%d" % number for number in range(10)]
    again: list[Delivery] = []
    wait_until(lambda: again.extend(second.receive(100, 0.1)) or len(again) == 6, 20)
    assert {one.deliveries for one in again} == {2}


def test_a_row_that_is_set_aside_is_not_brought_back_by_an_older_delivery(place: OutboxPlace, open_source: Any) -> None:
    place.put([b"one"])
    source = open_source()
    [delivery] = received(source)
    source.reject([delivery.handle])
    for act in (source.keep, source.acknowledge, lambda handles: source.release(handles, 0)):
        act([delivery.handle])
    assert place.rejected() == 1


@pytest.mark.parametrize(
    ("change", "options", "text"),
    [
        ("DROP TABLE {}", {}, r"OutboxSpout: PostgreSQL at .* has no table '{}'$"),
        (
            "ALTER TABLE {} DROP COLUMN locked_until",
            {},
            "OutboxSpout: table '{}' has no column 'locked_until': "
            r"ALTER TABLE {} ADD COLUMN locked_until timestamptz NOT NULL DEFAULT now\(\)$",
        ),
        ("SELECT", {"data": "payload"}, "OutboxSpout: table '{}' has no column 'payload'$"),
        ("SELECT", {"processed": "sent_at"}, "OutboxSpout: table '{}' has no column 'sent_at'$"),
        ("SELECT", {"key": "data"}, "OutboxSpout: table '{}', column 'data': a unique index was expected$"),
    ],
)
def test_tables_that_are_no_outbox_are_refused(
    place: OutboxPlace, open_source: Any, change: str, options: dict[str, Any], text: str
) -> None:
    place.execute(change.format(place.name))
    with pytest.raises(UsageError, match=text.replace("{}", place.name)):
        open_source(**options)


def test_a_user_without_the_right_to_delete_is_refused(place: OutboxPlace) -> None:
    place.put([b"one"])
    place.execute(f"CREATE ROLE {place.name} LOGIN")
    place.execute(f"GRANT SELECT, UPDATE ON {place.name} TO {place.name}")
    source = OutboxSpout(place.url.replace("tupletree@", f"{place.name}@"), place.name).source
    try:
        source.open(10, 0)
        [delivery] = source.receive(10, 0)
        with pytest.raises(UsageError, match=f"table '{place.name}': permission denied for table {place.name}$"):
            source.acknowledge([delivery.handle])
    finally:
        source.close()


def test_a_message_that_the_column_does_not_take_fails_alone(place: OutboxPlace) -> None:
    place.execute(f"ALTER TABLE {place.name} DROP COLUMN data, ADD COLUMN data jsonb CHECK (data <> '3')")
    sink = OutboxSink("OutboxBolt", place.url, place.name, "data")
    sink.open()
    try:
        refused = sink.write([SinkMessage(data) for data in (b"1", b"{", b"\xff", b"3", b"2")])
    finally:
        sink.close()
    assert sorted(refused) == [1, 2, 3]
    assert not any(error.retry for error in refused.values())
    assert "invalid input syntax for type json" in str(refused[1])
    assert place.execute(f"SELECT data FROM {place.name} ORDER BY id") == [(1,), (2,)]


REFUSES_3 = """
    CREATE FUNCTION {0}_refuses() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.data = '3' THEN RAISE EXCEPTION 'three is taken'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER refuses BEFORE INSERT ON {0} FOR EACH ROW EXECUTE FUNCTION {0}_refuses()"""


def test_a_message_that_a_trigger_or_an_index_does_not_take_fails_alone(place: OutboxPlace) -> None:
    place.execute(f"ALTER TABLE {place.name} DROP COLUMN data, ADD COLUMN data text UNIQUE")
    place.execute(REFUSES_3.format(place.name))
    long = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(250)).encode()
    sink = OutboxSink("OutboxBolt", place.url, place.name, "data")
    sink.open()
    try:
        refused = sink.write([SinkMessage(data) for data in (b"1", b"3", long, b"2")])
    finally:
        sink.close()
    assert sorted(refused) == [1, 2]
    assert not any(error.retry for error in refused.values())
    assert "three is taken" in str(refused[1])
    assert place.execute(f"SELECT data FROM {place.name} ORDER BY id") == [("1",), ("2",)]


@pytest.mark.parametrize("kind", ["char(5)", "varchar(5)"])
def test_a_message_that_is_too_long_for_its_column_is_refused_and_never_cut(place: OutboxPlace, kind: str) -> None:
    place.execute(f"ALTER TABLE {place.name} DROP COLUMN data, ADD COLUMN data {kind}")
    sink = OutboxSink("OutboxBolt", place.url, place.name, "data")
    sink.open()
    try:
        assert sorted(sink.write([SinkMessage(b"hello"), SinkMessage(b"hello world")])) == [1]
    finally:
        sink.close()
    assert place.execute(f"SELECT data FROM {place.name}") == [("hello",)]


def test_a_connection_that_the_server_ends_is_a_lost_one(place: OutboxPlace, open_source: Any) -> None:
    source = open_source(poll_every_s=3600)
    assert source.receive(10, 0) == []
    [pid] = place.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'tupletree'")[0]
    place.execute("SELECT pg_terminate_backend(%s)", pid)
    with pytest.raises(UnavailableError):
        wait_until(lambda: source.receive(10, 0.1) and False, 20)


@pytest.mark.long
def test_no_message_is_lost_when_all_processes_of_the_server_are_killed(place: OutboxPlace) -> None:
    place.put([b"%d" % number for number in range(100)])
    spout = place.spout(Text())
    source = spout.source
    source.open(100, 0)
    taken = source.receive(50, 0)
    source.acknowledge([one.handle for one in taken[:20]])
    place.server.kill_all()
    with pytest.raises(UnavailableError):
        source.acknowledge([taken[20].handle])
    source.close()
    place.server.start()
    source.open(100, 0)
    rest: set[bytes] = set()
    wait_until(lambda: rest.update(one.data for one in source.receive(100, 0.1)) or len(rest) == 80, 30)
    source.close()
    assert rest.isdisjoint(one.data for one in taken[:20])
