"""Outbox tables of PostgreSQL 12 or newer: a table as a queue, from which tasks take rows with SKIP LOCKED.

An application inserts a message in the transaction that changes its data, so that both happen or neither does.

Rows in process are leased, not locked: a delivery sets ``locked_until``, commits, and leaves no lock behind. A row lock
would return rows at once when a worker dies. It lives in a transaction, however, which acknowledges all of its rows
together or none; which keeps VACUUM from removing any row meanwhile, as long as its slowest message takes; and whose
locked rows every other query visits first, so that queries slow down with the number of messages in process. With an
index on ``locked_until``, leased rows lie behind those that are due, and no query sees them.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from tupletree._stores.postgres import PostgresAddress, first_line, library
from tupletree.connectors.arguments import check_seconds, check_text
from tupletree.connectors.formats import Format
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import Sink, SinkBolt
from tupletree.errors import FailedException, UnavailableError, UsageError

MAX_LAG: Final = 100_000
"""Waiting rows are counted up to this number."""

ROW_ERRORS: Final = ("22", "23", "44", "54", "P0")
"""Classes of the errors of a row: data, constraints, check options, limits of sizes, exceptions that triggers raise."""

# A cast to character or bit, as PostgreSQL names these types, would leave the first character alone.
_COLUMNS = """
    SELECT attname, CASE atttypid WHEN 'bpchar'::regtype THEN 'bpchar' WHEN 'bit'::regtype THEN 'varbit'
        ELSE atttypid::regtype::text END, EXISTS (
        SELECT FROM pg_index
        WHERE indrelid = attrelid AND indisunique AND indnkeyatts = 1 AND indkey[0] = attnum AND indpred IS NULL
    )
    FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_LOCKED_UNTIL = "ALTER TABLE {} ADD COLUMN locked_until timestamptz NOT NULL DEFAULT now()"


class OutboxSpout(QueueSpout):
    """Emits the rows of a table, and deletes each when its tree is complete.

    The table has a unique column ``key``, the message in a column ``data`` (bytea, text, json or jsonb), and a column
    ``locked_until timestamptz NOT NULL DEFAULT now()``, with an index. A column ``deliveries``, an integer, counts the
    attempts, also across workers. ``data=None``: the message is the row, as a JSON object.

    A message that fails is due again after the pause. One that is given up without dead letters stays in the table with
    ``locked_until = 'infinity'``. Messages of a worker that is gone are due ``lease_s`` after their last extension. So
    are those of a worker that stalls for so long, which are processed twice. Messages come in no order.

    ``processed``: a column of type timestamptz; processed rows are marked there and kept.
    ``poll_every_s``: the pause between looks at an empty table. ``channel``: each NOTIFY on it ends the pause.
    Raises UsageError for a wrong argument, and if the package psycopg is missing. A table that is missing, or lacks one
    of the columns, ends the worker with an error that says so.
    """

    def __init__(
        self,
        url: str,
        table: str,
        format: Format | None = None,
        *,
        key: str = "id",
        data: str | None = "data",
        processed: str | None = None,
        lease_s: float = 60,
        poll_every_s: float = 0.25,
        channel: str | None = None,
        max_in_flight: int = 1000,
    ) -> None:
        given = {name: text for name, text in (("processed", processed), ("channel", channel)) if text is not None}
        source = OutboxSource("OutboxSpout", url, table, data, key=key, **given)
        for name, seconds in (("lease_s", lease_s), ("poll_every_s", poll_every_s)):
            check_seconds("OutboxSpout", name, seconds)
        source.key, source.processed, source.channel = key, processed, channel
        source.lease_s, source.keep_every_s, source.poll_every_s = lease_s, lease_s / 3, poll_every_s
        super().__init__(source, format, max_in_flight=max_in_flight)


class OutboxBolt(SinkBolt):
    """Inserts each tuple as a row, in the column ``data``; the other columns get their defaults.

    A tuple is acked when its row is committed. A batch whose answer is lost is inserted again. A message that the
    column does not take, such as bytes that are not JSON, fails alone and is not retried.
    Raises UsageError for a wrong argument, and if the package psycopg is missing.
    """

    def __init__(self, url: str, table: str, format: Format | None = None, *, data: str = "data") -> None:
        super().__init__(OutboxSink("OutboxBolt", url, table, data), format)


class _Outbox:
    """The table of a source or sink, and a connection. ``texts``: further arguments to check."""

    title: ClassVar[str] = "PostgreSQL"
    lost_on: ClassVar[tuple[type[Exception], ...]] = (UnavailableError,)

    def __init__(self, user: str, url: str, table: str, data: str | None, **texts: str) -> None:
        given = {"url": url, "table": table, **({} if data is None else {"data": data}), **texts}
        for name, text in given.items():
            check_text(user, name, text, is_secret=name == "url")
        self.user, self.table, self.data = user, table, data
        self.address = PostgresAddress(user, url, timeout_s=10)
        self.client: Any = None

    def connect(self, required: Mapping[str, str]) -> dict[str, tuple[str, bool]]:
        """Connect. Return type and uniqueness of the table's columns. ``required``: columns, and what adds each."""
        sql = library(self.user).sql
        name = sql.Identifier(*self.table.split("."))
        with self.errors():
            client: Any = self.address.connect()
            try:
                rows = client.execute(_COLUMNS, [name.as_string(client)]).fetchall()
                columns = {column: (kind, is_unique) for column, kind, is_unique in rows}
                if not columns:
                    raise UsageError(f"{self.user}: {self.address.where} has no table {self.table!r}")
                for column, remedy in required.items():
                    if column not in columns:
                        raise UsageError(f"{self.user}: table {self.table!r} has no column {column!r}{remedy}")
            except BaseException:
                client.close()
                raise
        self.client, self._name, self._sql = client, name, sql.SQL
        self._column = sql.Identifier
        return columns

    def statement(self, text: str, **parts: Any) -> Any:
        """Return a statement on the table. ``parts``: further fragments."""
        return self._sql(text).format(table=self._name, **parts)

    def errors(self) -> contextlib.AbstractContextManager[None]:
        return self.address.translated(self.table)

    def close(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(Exception):
                client.close()


class OutboxSource(_Outbox, QueueSource):
    """A table as a source. A handle is the row's key."""

    has_delays: ClassVar[bool] = True
    key: str
    processed: str | None
    channel: str | None
    lease_s: float
    poll_every_s: float
    keep_every_s: float  # a third of lease_s

    def open(self, prefetch: int, task_index: int) -> None:
        optional = [name for name in (self.data, self.processed) if name is not None]
        remedy = ": " + _LOCKED_UNTIL.format(self.table)
        columns = self.connect({self.key: "", **dict.fromkeys(optional, ""), "locked_until": remedy})
        kind, is_unique = columns[self.key]
        if not is_unique:
            raise UsageError(f"OutboxSpout: table {self.table!r}, column {self.key!r}: a unique index was expected")
        self.counts = "deliveries" in columns
        self._prepare(kind, "" if self.data is None else columns[self.data][0])
        self._poll_at_s, self._is_notified = 0.0, False
        with self.errors():
            if self.channel is not None:
                self.client.add_notify_handler(self._notify)
                self.client.execute(self._sql("LISTEN {}").format(self._column(self.channel)))

    def _prepare(self, kind: str, data_kind: str) -> None:
        """Compose the statements."""
        column, sql = self._column, self._sql
        key = column(self.key)
        if self.data is None:
            data = sql("convert_to((to_jsonb(queue) - 'locked_until' - 'deliveries')::text, 'UTF8')")
        else:
            data = sql("queue.{}" if data_kind == "bytea" else "convert_to(queue.{}::text, 'UTF8')")
            data = data.format(column(self.data))
        count = sql(", deliveries = coalesce(deliveries, 0) + 1" if self.counts else "")
        self._take = self.statement(
            "WITH due AS MATERIALIZED ("
            " SELECT {key} AS due_key FROM {table} WHERE locked_until <= now() ORDER BY locked_until"
            " LIMIT %s FOR UPDATE SKIP LOCKED) "
            "UPDATE {table} AS queue SET locked_until = now() + make_interval(secs => %s){count} "
            "FROM due WHERE queue.{key} = due_key RETURNING queue.{key}, {data}, {deliveries}",
            key=key,
            count=count,
            data=data,
            deliveries=sql("queue.deliveries" if self.counts else "NULL"),
        )
        # Rows set aside stay so, whoever believes that they are in process.
        which = sql(f" WHERE {{}} = ANY(%s::{kind}[]) AND locked_until < 'infinity'").format(key)
        update = self.statement("UPDATE {table} SET locked_until = ")
        self._lease = update + sql("now() + make_interval(secs => %s)") + which
        self._set_aside = update + sql("'infinity'") + which
        self._done = self.statement("DELETE FROM {table}") + which
        if self.processed is not None:
            self._done = update + sql("'infinity', {} = now()").format(column(self.processed)) + which
        count_due = "SELECT count(*) FROM (SELECT FROM {table} WHERE locked_until <= now() LIMIT %s) AS due"
        self._count_due = self.statement(count_due)

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        if not self._is_due(wait_s):
            return []
        self._is_notified = False
        with self.errors():
            rows = self.client.execute(self._take, [limit, self.lease_s]).fetchall()
        self._poll_at_s = 0.0 if rows else time.monotonic() + self.poll_every_s
        return [self._delivery(*row) for row in rows]

    def acknowledge(self, handles: Sequence[Any]) -> None:
        self._execute(self._done, list(handles))

    def release(self, handles: Sequence[Any], delay_s: float) -> None:
        self._execute(self._lease, delay_s, list(handles))

    def reject(self, handles: Sequence[Any]) -> None:
        self._execute(self._set_aside, list(handles))

    def keep(self, handles: Sequence[Any]) -> None:
        self._execute(self._lease, self.lease_s, list(handles))

    def lag(self) -> int:
        with self.errors():
            return int(self.client.execute(self._count_due, [MAX_LAG]).fetchone()[0])

    def _execute(self, statement: Any, *parameters: Any) -> None:
        with self.errors():
            self.client.execute(statement, parameters)

    def _is_due(self, wait_s: float) -> bool:
        """Wait until it is time for a look at the table, or the server says something; at most ``wait_s``."""
        left_s = self._poll_at_s - time.monotonic()
        if self._is_notified or left_s <= 0:
            return True
        poll = select.poll()
        with self.errors():
            poll.register(self.client.fileno(), select.POLLIN)
        return bool(poll.poll(min(wait_s, left_s) * 1000)) or left_s <= wait_s

    def _notify(self, notification: Any) -> None:
        self._is_notified = True

    def _delivery(self, key: Any, data: bytes | None, deliveries: int | None) -> Delivery:
        problem = f"the column {self.data!r} is NULL" if data is None else ""
        return Delivery(data or b"", key, str(key), deliveries, problem=problem)


class OutboxSink(_Outbox, Sink):
    """A table as a sink."""

    data: str

    def open(self) -> None:
        kind = self.connect({self.data: ""})[self.data][0]
        value = "message" if kind == "bytea" else f"convert_from(message, 'UTF8')::{kind}"
        insert = f"INSERT INTO {{table}} ({{data}}) SELECT {value} FROM unnest(%s::bytea[]) AS message"
        self._insert = self.statement(insert, data=self._column(self.data))

    def write(self, messages: Sequence[SinkMessage]) -> Mapping[int, FailedException]:
        refused: dict[int, FailedException] = {}
        with self.errors():
            if self._insert_all([message.data for message in messages]) is None:
                return refused
            for index, message in enumerate(messages):
                if (error := self._insert_all([message.data])) is not None:
                    text = f"table {self.table!r} takes no message such as this: {first_line(error)}"
                    refused[index] = FailedException(text, retry=False)
        return refused

    def _insert_all(self, messages: list[bytes]) -> Exception | None:
        """Insert messages, all or none. Return the error if the table does not take one of them."""
        psycopg = library(self.user)
        try:
            self.client.execute(self._insert, [messages])
        except psycopg.Error as error:
            if (error.sqlstate or "")[:2] in ROW_ERRORS:
                found: Exception = error
                return found
            raise
        return None
