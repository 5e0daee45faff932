"""Logical replication slots of PostgreSQL: the connection that reads them, and what is asked of the server.

    NAME            permanent, at the position up to which changes are processed
    NAME_snapshot   permanent, at the first change, until the rows that existed before it are processed
    NAME_<pid>      temporary, a copy of one of them, from which changes are read once; it ends with the connection

A slot that is read moves on, and the changes behind it are gone. Peeking leaves it where it is, but decodes everything
since then with each call. Reading a copy decodes each change once, and a new copy reads it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from tupletree._stores.postgres import PostgresAddress, library
from tupletree.connectors.pgoutput import Change, Relation, load
from tupletree.errors import UsageError

MAX_DECODED: Final = 100_000
"""Changes that the server decodes at a time; it ends with a transaction, and keeps them in a file if they are many."""

# A new slot waits for the transactions that are open, one after the other, and a call decodes as much as was written:
# a timeout, also of the role or the database, would end the same work again and again.
_NO_TIMEOUTS = """
    SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('lock_timeout', 'statement_timeout',
        'transaction_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout')"""
_CHECK = """
    SELECT current_setting('wal_level'),
        EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolreplication)
            OR rolname = 'rds_replication' AND pg_has_role(oid, 'member')),
        EXISTS (SELECT FROM pg_publication WHERE pubname = %s)"""
_SLOT = """
    SELECT slot_type, plugin, database = current_database(), to_jsonb(slots) ->> 'wal_status', confirmed_flush_lsn
    FROM pg_replication_slots AS slots WHERE slot_name = %s"""
_TABLES = """
    SELECT p.schemaname, p.tablename, c.relkind = 'p', to_jsonb(p) ->> 'rowfilter',
        array_agg(a.attname::text ORDER BY a.attnum), array_agg(a.atttypid::bigint ORDER BY a.attnum),
        array_agg(c.relreplident = 'f' OR coalesce(a.attnum = ANY ((i.indkey::int2[])[0 : i.indnkeyatts - 1]), false)
            ORDER BY a.attnum)
    FROM pg_publication_tables AS p
    JOIN pg_namespace AS n ON n.nspname = p.schemaname
    JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = p.tablename
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
        AND coalesce(to_jsonb(p) -> 'attnames' ? a.attname::text, true)
    LEFT JOIN pg_index AS i ON i.indrelid = c.oid
        AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
    WHERE p.pubname = %s GROUP BY 1, 2, 3, 4 ORDER BY 1, 2"""


def lsn_number(text: str) -> int:
    """Return an LSN as a number."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


class Slots:
    """A connection that speaks the replication protocol, and what it does with replication slots.

    ``name``: the slot of the source; a temporary slot of the connection is named after it.

    Raises UnavailableError if the server cannot be reached, UsageError if it refuses: the user may not replicate, the
    publication is missing, ``wal_level`` is not logical.
    """

    def __init__(self, user: str, address: PostgresAddress, name: str, publication: str) -> None:
        self._user, self._address, self.name, self._publication = user, address, name, publication
        psycopg = library(user)
        with self.errors(), contextlib.closing(address.connect()) as client:
            found: Any = client.execute(_CHECK, [publication]).fetchone()
        remedy = "ALTER SYSTEM SET wal_level = logical and a restart of the server were expected"
        self._refuse_unless(found[0] == "logical", f"wal_level is {found[0]}: {remedy}")
        self._refuse_unless(found[1], "its user may not replicate: ALTER ROLE … REPLICATION was expected")
        self._refuse_unless(found[2], f"there is no publication {publication!r}: CREATE PUBLICATION … was expected")
        with self.errors():
            # This protocol has no parameters: the client puts them into the statement.
            self._client: Any = address.connect(replication="database", cursor_factory=psycopg.ClientCursor)
            try:
                self.run(_NO_TIMEOUTS)
                self.run(
                    "SET datestyle = 'ISO, YMD'; SET timezone = 'UTC'; SET intervalstyle = 'postgres'; "
                    "SET bytea_output = 'hex'; SET client_encoding = 'UTF8'"
                )
                self.reader = f"{name}_{self.run('SELECT pg_backend_pid()').fetchone()[0]}"
            except BaseException:
                self.close()
                raise

    def run(self, statement: Any, *parameters: Any) -> Any:
        """Execute a statement."""
        with self.errors():
            return self._client.execute(statement, parameters or None)

    def position(self, slot: str) -> int | None:
        """Return the LSN up to which a slot was read; None if there is no such slot. Raises UsageError for another."""
        found = self.run(_SLOT, slot).fetchone()
        if found is None:
            return None
        kind, plugin, is_here, wal_status, lsn = found
        is_ours = kind == "logical" and plugin == "pgoutput" and is_here
        self._refuse_unless(is_ours, f"slot {slot!r} is not a logical slot of this database with pgoutput")
        drop = f"SELECT pg_drop_replication_slot('{slot}') drops it, and the next start begins with a snapshot"
        self._refuse_unless(wal_status != "lost", f"the server has dropped changes that slot {slot!r} needs: {drop}")
        return lsn_number(lsn)

    def written(self) -> int:
        """Return the LSN of the end of the write-ahead log."""
        return lsn_number(self.run("SELECT pg_current_wal_flush_lsn()").fetchone()[0])

    def create(self, slot: str) -> None:
        """Create a permanent slot at the end of the log."""
        self.run("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", slot)

    def copy(self, source: str, target: str, *, is_temporary: bool = False) -> None:
        """Create a slot at the position of another."""
        self.run("SELECT pg_copy_logical_replication_slot(%s, %s, %s)", source, target, is_temporary)

    def drop(self, slot: str) -> None:
        """Drop a slot if there is one."""
        self.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", slot)

    def advance(self, slot: str, lsn: int) -> None:
        """Move a slot on: the server may forget what is before."""
        self.run("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", slot, lsn_text(lsn))

    def end_transaction(self) -> None:
        """Give up what is being read."""
        if self._client.info.transaction_status != library(self._user).pq.TransactionStatus.IDLE:
            self.run("ROLLBACK")

    def begin_snapshot(self) -> None:
        """Create the temporary slot, and begin a transaction that sees exactly what was committed before it."""
        self.drop(self.reader)
        self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.run(f"CREATE_REPLICATION_SLOT {self.reader} TEMPORARY LOGICAL pgoutput USE_SNAPSHOT")

    def snapshot(self, limit: int) -> Iterator[list[Change]]:
        """Yield the rows of the publication's tables within the transaction, at most ``limit`` at a time."""
        sql = library(self._user).sql
        for found in self.run(_TABLES, self._publication).fetchall():
            schema, table, is_partitioned, row_filter, names, kinds, is_key = found
            # The kinds are those that changes have. A result has the type below a domain instead.
            relation = Relation(f"{schema}.{table}", list(zip(names, kinds, is_key, strict=True)))
            statement = sql.SQL("DECLARE rows NO SCROLL CURSOR FOR SELECT {} FROM {} {}").format(
                sql.SQL(", ").join(map(sql.Identifier, names)),
                sql.SQL("" if is_partitioned else "ONLY ") + sql.Identifier(schema, table),
                sql.SQL("" if row_filter is None else f"WHERE {row_filter}"),
            )
            self.run(statement)
            while (result := self.run(f"FETCH {limit} FROM rows").pgresult).ntuples:
                changes = []
                for line in range(result.ntuples):
                    values = [load(kind, result.get_value(line, column)) for column, kind in enumerate(kinds)]
                    row = dict(zip(names, values, strict=True))
                    changes.append(Change("snapshot", relation.table, relation.key_of(row), row, None))
                yield changes
            self.run("CLOSE rows")

    def messages(self, upto: int | None, limit: int) -> Iterator[list[bytes]]:
        """Read the temporary slot: yield about MAX_DECODED messages of whole transactions, ``limit`` at a time.

        ``upto``: where to end, at the first commit behind this LSN; None: at the end of the log.
        """
        names = library(self._user).sql.Identifier(self._publication).as_string(self._client)
        self.run("BEGIN")
        self.run(
            "DECLARE messages NO SCROLL CURSOR FOR SELECT data FROM pg_logical_slot_get_binary_changes("
            "%s, %s::pg_lsn, %s, 'proto_version', '1', 'publication_names', %s)",
            self.reader,
            None if upto is None else lsn_text(upto),
            MAX_DECODED,
            names,
        )
        while rows := self.run(f"FETCH {limit} FROM messages").fetchall():
            yield [row[0] for row in rows]
        self.run("COMMIT")

    def errors(self) -> contextlib.AbstractContextManager[None]:
        """Translate errors, as PostgresAddress does."""
        return self._address.translated(self.name, kind="slot")

    def close(self) -> None:
        """Disconnect. Never raises."""
        with contextlib.suppress(Exception):
            self._client.close()

    def _refuse_unless(self, condition: bool, text: str) -> None:
        if not condition:
            raise UsageError(f"{self._user}: {self._address.where}: {text}")
