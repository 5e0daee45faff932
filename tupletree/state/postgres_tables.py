"""The tables of states in PostgreSQL. postgres.py says what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tupletree._sinks.sql_statements import quoted
from tupletree.errors import UsageError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

FORMAT: Final = 1

_LOCK: Final = 0x7475706C_73746174
"""Advisory lock for creating the tables. Two concurrent creations would collide."""


class Tables:
    """Names of the tables in a schema, quoted, and what concerns all states."""

    def __init__(self, schema: str) -> None:
        self._schema = quoted(schema)
        self.states, self.entries, self.changes = (
            f"{self._schema}.{name}" for name in ("states", "state_entries", "state_changes")
        )

    def exist(self, connection: Connection) -> bool:
        """Return True if the tables exist."""
        return connection.execute("SELECT to_regclass(%s)", [self.changes]).fetchone() != (None,)

    def make(self, connection: Connection) -> None:
        """Create those of them that do not exist, and their schema."""
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            if connection.execute("SELECT to_regnamespace(%s)", [self._schema]).fetchone() == (None,):
                connection.execute(f"CREATE SCHEMA {self._schema}")
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self.states} ("
                "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE, format integer NOT NULL, "
                "owner bigint NOT NULL, committed bigint, prepared bigint, changed bigint NOT NULL)"
            )
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self.entries} ("
                "state bigint NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (state, key))"
            )
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self.changes} ("
                "state bigint NOT NULL, chunk integer NOT NULL, entries bytea NOT NULL, PRIMARY KEY (state, chunk))"
            )

    def disown(self, connection: Connection, namespace: str) -> None:
        """Take the name from a state, so that a new one can have it, and the right to write from its owner."""
        connection.execute(f"UPDATE {self.states} SET name = NULL, owner = owner + 1 WHERE name = %s", [namespace])

    def delete_disowned(self, connection: Connection, limit: int) -> bool:
        """Delete a state without a name, or ``limit`` of its entries; return False if there is none."""
        row = connection.execute(f"SELECT id FROM {self.states} WHERE name IS NULL LIMIT 1").fetchone()
        if row is None:
            return False
        deleted = connection.execute(
            f"DELETE FROM {self.entries} WHERE state = %s AND key = ANY(ARRAY("
            f"SELECT key FROM {self.entries} WHERE state = %s ORDER BY key LIMIT {limit}))",
            [row[0], row[0]],
        )
        if not deleted.rowcount:
            connection.execute(f"DELETE FROM {self.changes} WHERE state = %s", [row[0]])
            connection.execute(f"DELETE FROM {self.states} WHERE id = %s", [row[0]])
        return True


def check_format(where: str, namespace: str, format: int) -> None:
    """Raise UsageError if a newer version of Tupletree has written the state."""
    if format > FORMAT:
        raise UsageError(
            f"{where}: state {namespace!r} has format {format}, and this version of Tupletree knows formats up to "
            f"{FORMAT}: a newer version has written it"
        )
