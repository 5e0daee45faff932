"""The SQL of a plan for PostgreSQL, and the mapping of Spark's types.

    tinyint, smallint  smallint            string         text
    int                integer             timestamp      timestamp with time zone
    bigint             bigint              timestamp_ntz  timestamp without time zone
    float              real                date           date
    double             double precision    boolean        boolean
    decimal(p,s)       numeric(p,s)

Text is compared byte by byte, as in Spark, whatever the collation of the database.

A staging table has the columns of the result and, for each row, the partition and the task attempt that wrote the row,
and its position among the task's rows. Spark can run several attempts of one task. Only the *winners* are read: the
attempts whose reports the job returned.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from tupletree._sinks.sql_plan import Column, Kind, Role, StoredColumn, StoredTable
from tupletree._sinks.sql_statements import Statements, quoted
from tupletree.attempt import TransactionAttempt

TAGS = ("tupletree_partition", "tupletree_task", "tupletree_row")
"""The columns of a staging table that precede the columns of the result."""

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
        function = "least" if column.role == Role.MIN else "greatest"  # both ignore NULL
        return f"{function}({old}{_bytewise(column)}, {new}{_bytewise(column)})"

    def reaches(self, column: Column, old: str, new: str) -> str:
        return f"{new}{_bytewise(column)} >= {old}{_bytewise(column)}"

    def create_staging(self, staging: str, *, is_temporary: bool = False) -> str:
        """Return the statement that creates a staging table.

        The table is unlogged: the server empties it after a crash, so the commit counts its rows. ``is_temporary``: the
        table ends with its transaction instead.
        """
        tags = ", ".join(f"{name} bigint NOT NULL" for name in TAGS)
        columns = ", ".join(f"{quoted(column.name)} {self.type_of(column)}" for column in self.plan.columns)
        if is_temporary:
            return f"CREATE TEMPORARY TABLE {quoted(staging)} ({tags}, {columns}) ON COMMIT DROP"
        return f"CREATE UNLOGGED TABLE {quoted(staging)} ({tags}, {columns}) WITH (autovacuum_enabled = false)"

    def copy(self, staging: str) -> str:
        """Return the statement that copies rows as CSV. NULL is an empty field, and an empty string is quoted."""
        return f"COPY {quoted(staging)} ({', '.join(TAGS)}, {self.columns}) FROM STDIN (FORMAT csv)"

    def touched(self, staged: str) -> str:
        """Return the distinct keys of staged rows, as a FROM item."""
        return f"(SELECT DISTINCT {self.keys} FROM {staged}) AS touched"

    def combined_rows(self, staged: str) -> str:
        """Return the staged rows, with rows of the same key combined into one."""
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
    """Return the rows written by winners (partition, task attempt), as a FROM item."""
    pairs = ", ".join(f"({partition}, {task})" for partition, task in winners)
    return f"(SELECT * FROM {quoted(staging)} WHERE (tupletree_partition, tupletree_task) IN ({pairs})) AS staged"


def staging_prefix(transactional_id: str, table: str) -> str:
    """Return the unique prefix of the names of a sink's staging tables."""
    digest = blake2b(f"{transactional_id}\0{table}".encode(), digest_size=6).hexdigest()
    return f"tupletree_stage_{digest}_"


def staging_table(transactional_id: str, table: str, attempt: TransactionAttempt) -> str:
    """Return the name of an attempt's staging table: at most 63 bytes, the limit of PostgreSQL."""
    return f"{staging_prefix(transactional_id, table)}{attempt.txid:x}_{attempt.attempt:x}"


def stored_table(columns: Sequence[tuple[str, str, str, bool]], indexes: Sequence[Sequence[str]]) -> StoredTable:
    """Return a table as described by PostgreSQL.

    ``columns``: name, displayed type, type name in pg_type, and True if a row cannot be inserted without the column.
    ``indexes``: the columns of each unique index.
    """
    found = {
        name: StoredColumn(shown, _FITTING.get(base, ()), is_required) for name, shown, base, is_required in columns
    }
    return StoredTable(found, [frozenset(index) for index in indexes])


def _bytewise(column: Column) -> str:
    return ' COLLATE "C"' if column.kind == Kind.STRING else ""
