"""The SQL of a plan for PostgreSQL, and how Spark's values are stored there.

    tinyint, smallint  smallint            string         text
    int                integer             timestamp      timestamp with time zone
    bigint             bigint              timestamp_ntz  timestamp without time zone
    float              real                date           date
    double             double precision    boolean        boolean
    decimal(p,s)       numeric(p,s)

Text is compared byte by byte, as in Spark, whatever the collation of the database.

A staging table has the columns of the result, and for each row the partition and the task attempt that wrote it, and
its place among the task's rows. Spark may run several attempts of one task; of those only the *winners*, whose reports
the job returned, are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from tupletree.attempt import TransactionAttempt
from tupletree.spark.sinks.sql_plan import Column, Kind, Role, StoredColumn, StoredTable
from tupletree.spark.sinks.sql_statements import Statements, quoted

TAGS = ("tupletree_partition", "tupletree_task", "tupletree_row")
"""The columns of a staging table before those of the result."""

_TYPES = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "date": "date",
    "boolean": "boolean",
}

_FITTING = {
    "int2": (Kind.INTEGER,),
    "int4": (Kind.INTEGER,),
    "int8": (Kind.INTEGER,),
    "numeric": (Kind.INTEGER, Kind.DECIMAL),
    "float4": (Kind.FLOAT,),
    "float8": (Kind.FLOAT,),
    "text": (Kind.STRING,),
    "varchar": (Kind.STRING,),
    "bpchar": (Kind.STRING,),
    "timestamptz": (Kind.TIMESTAMP,),
    "timestamp": (Kind.TIMESTAMP_NTZ,),
    "date": (Kind.DATE,),
    "bool": (Kind.BOOLEAN,),
}


class PostgresStatements(Statements):
    """The statements for one plan, for PostgreSQL."""

    def type_of(self, column: Column) -> str:
        if column.kind == Kind.DECIMAL:
            return column.type.replace("decimal", "numeric")
        return _TYPES[column.type]

    def sum(self, column: Column, old: str, new: str) -> str:
        return f"coalesce({old} + {new}, {old}, {new})"

    def extreme(self, column: Column, old: str, new: str) -> str:
        function = "least" if column.role == Role.MIN else "greatest"  # they pass NULL over
        return f"{function}({old}{_bytewise(column)}, {new}{_bytewise(column)})"

    def reaches(self, column: Column, old: str, new: str) -> str:
        return f"{new}{_bytewise(column)} >= {old}{_bytewise(column)}"

    def create_staging(self, staging: str) -> str:
        """A staging table. It is not logged: the server empties it if it crashes, and the commit counts its rows."""
        tags = ", ".join(f"{name} bigint NOT NULL" for name in TAGS)
        columns = ", ".join(f"{quoted(column.name)} {self.type_of(column)}" for column in self.plan.columns)
        return f"CREATE UNLOGGED TABLE {quoted(staging)} ({tags}, {columns}) WITH (autovacuum_enabled = false)"

    def copy(self, staging: str) -> str:
        """Take rows as CSV, in which NULL is nothing and an empty string is quoted."""
        return f"COPY {quoted(staging)} ({', '.join(TAGS)}, {self.columns}) FROM STDIN (FORMAT csv)"

    def touched(self, staged: str) -> str:
        """The keys of staged rows, once each, as a FROM item."""
        return f"(SELECT DISTINCT {self.keys} FROM {staged}) AS touched"

    def combined_rows(self, staged: str) -> str:
        """Staged rows, those of one key combined into one."""
        columns = [quoted(key.name) for key in self.plan.keys] + [
            self._aggregate(column) for column in self.plan.values
        ]
        return f"SELECT {', '.join(columns)} FROM {staged} GROUP BY {self.keys}"

    def _aggregate(self, column: Column) -> str:
        name = quoted(column.name)
        latest = "tupletree_partition DESC, tupletree_row DESC"
        match column.role:
            case Role.ADD:
                return f"sum({name})"
            case Role.MIN | Role.MAX if column.kind == Kind.BOOLEAN:
                return f"bool_{'and' if column.role == Role.MIN else 'or'}({name})"
            case Role.MIN | Role.MAX:
                return f"{column.role.value}({name}{_bytewise(column)})"
            case Role.LAST:
                by = next(other for other in self.plan.values if other.name == column.by)
                order = f"{quoted(by.name)}{_bytewise(by)} DESC NULLS LAST, {latest}"
                return f"(array_agg({name} ORDER BY {order}))[1]"
            case _:
                return f"(array_agg({name} ORDER BY {latest}))[1]"


def staged_rows(staging: str, winners: Iterable[tuple[int, int]]) -> str:
    """The rows that winners, partitions and task attempts, have written, as a FROM item."""
    pairs = ", ".join(f"({partition}, {task})" for partition, task in winners)
    return f"(SELECT * FROM {quoted(staging)} WHERE (tupletree_partition, tupletree_task) IN ({pairs})) AS staged"


def staging_prefix(transactional_id: str, table: str) -> str:
    """What the names of all staging tables of a sink begin with, and no other's do."""
    digest = blake2b(f"{transactional_id}\0{table}".encode(), digest_size=6).hexdigest()
    return f"tupletree_stage_{digest}_"


def staging_table(transactional_id: str, table: str, attempt: TransactionAttempt) -> str:
    """The name of the staging table of an attempt: at most 63 bytes, which is all that PostgreSQL takes."""
    return f"{staging_prefix(transactional_id, table)}{attempt.txid:x}_{attempt.attempt:x}"


def stored_table(columns: Sequence[tuple[str, str, str, bool]], indexes: Sequence[Sequence[str]]) -> StoredTable:
    """A table as PostgreSQL tells of it.

    ``columns``: name, type as it is shown, type as pg_type names it, and whether a row cannot be inserted without it.
    ``indexes``: the columns of each unique index.
    """
    found = {
        name: StoredColumn(shown, _FITTING.get(base, ()), is_required) for name, shown, base, is_required in columns
    }
    return StoredTable(found, [frozenset(index) for index in indexes])


def _bytewise(column: Column) -> str:
    return ' COLLATE "C"' if column.kind == Kind.STRING else ""
