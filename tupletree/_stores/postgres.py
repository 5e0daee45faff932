"""Connections to PostgreSQL: opening with timeouts, a pool per process, and translation of errors."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tupletree._stores.pool import Connections, cut_after
from tupletree.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]
    Prepare = Callable[[Connection], None]

PROGRAM_LIMIT_EXCEEDED: Final = "54"
"""The class of SQLSTATE codes of statements that fail at each attempt, though the client calls them operational."""

R = TypeVar("R")


class PostgresAddress:
    """A database on a PostgreSQL server, 12 or newer, with one pool of connections in each process.

    Attributes:
        where: server and database for messages, without a password.

    Args:
        user: the class that uses the server, named in error messages.
        url: a connection string of libpq.
        timeout_s: how long to wait for a connection, and for a lock.
        prepare: called with each new connection, to create tables that do not exist.

    Raises:
        UsageError: the URL is invalid, or the package psycopg is not installed.
    """

    def __init__(self, user: str, url: str, timeout_s: float, prepare: Prepare | None = None) -> None:
        self._user = user
        self._url = url
        self._timeout_s = timeout_s
        self._prepare = prepare
        psycopg = library(user)
        try:
            parts = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error as error:
            fault = str(error)  # any other error can quote the password
            if not fault.startswith("invalid connection option"):
                fault = "it is no connection string that libpq understands"
            raise UsageError(f"{user}: url: {fault}; such as postgresql://user@host/database was expected") from None
        place = parts.get("host", "localhost"), parts.get("port", 5432), parts.get("dbname", "")
        self.where = "PostgreSQL at {}:{}, database {!r}".format(*place)

    def use(
        self, name: str, work: Callable[[Connection], R], *, kind: str = "table", limit_s: float | None = None
    ) -> R:
        """Run ``work`` with a connection that nobody else uses meanwhile. Raises the errors of ``translated``.

        ``limit_s``: the time after which the connection is cut, so that ``work`` fails; None: never.
        """

        def in_time(connection: Connection) -> R:
            with contextlib.nullcontext() if limit_s is None else cut_after(limit_s, connection.fileno()):
                return work(connection)

        with self.translated(name, kind=kind):
            return self._connections().use(in_time)

    def connect(self, **options: Any) -> Connection:
        """Open a connection in autocommit mode: each statement is a transaction, unless a transaction was begun.

        ``options``: further arguments for psycopg.
        """
        psycopg = library(self._user)
        connection: Connection = psycopg.connect(
            self._url,
            autocommit=True,  # except within connection.transaction()
            prepare_threshold=None,  # a connection pooler in between might not support prepared statements
            connect_timeout=max(2, round(self._timeout_s)),
            keepalives_idle=5,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=20_000,  # of a statement that was sent, as keepalives are of a silent connection
            application_name="tupletree",
            **options,
        )
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        wait = f"{max(1, round(self._timeout_s * 1000))}ms"
        # A worker that hangs within a transaction must not block the others.
        connection.execute(
            "SELECT set_config('lock_timeout', %s, false),"
            " set_config('idle_in_transaction_session_timeout', %s, false)",
            [wait, wait],
        )
        if self._prepare is not None:
            self._prepare(connection)
        return connection

    @contextlib.contextmanager
    def translated(self, name: str, *temporary: type[Exception], kind: str = "table") -> Iterator[None]:
        """Translate errors of the server and the client library.

        Raises:
            UnavailableError: the server cannot be reached or gave up, or one of the ``temporary`` errors occurred.
            UsageError: the server refused a statement on the table, or the ``kind`` of thing, of this name, also
                because a limit of the server is exceeded, as by a row too large for an index.
        """
        psycopg = library(self._user)
        try:
            yield
        except (psycopg.OperationalError, psycopg.InternalError, *temporary) as error:
            if (getattr(error, "sqlstate", None) or "").startswith(PROGRAM_LIMIT_EXCEEDED):
                raise self._refusal(kind, name, error) from error
            raise UnavailableError(f"{self.where}: {first_line(error)}") from error
        except psycopg.Error as error:
            raise self._refusal(kind, name, error) from error

    def _refusal(self, kind: str, name: str, error: Exception) -> UsageError:
        return UsageError(f"{self.where}: {kind} {name!r}: {first_line(error)}")

    def close(self) -> None:
        """Close idle connections. They are opened again when needed."""
        self._connections().close()

    def _connections(self) -> Connections[Connection]:
        return _connections(self._user, self._url, self._timeout_s, self._prepare, os.getpid())


def library(user: str) -> Any:
    """Import the client library. Raises UsageError, naming ``user``, if it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise UsageError(f"{user} needs the package psycopg: pip install 'tupletree[postgres]'") from error
    return psycopg


@functools.cache
def _connections(
    user: str, url: str, timeout_s: float, prepare: Prepare | None, process: int
) -> Connections[Connection]:
    address = PostgresAddress(user, url, timeout_s, prepare)
    return Connections(address.connect, lambda connection: connection.closed)


def first_line(error: Exception) -> str:
    """Return the first line of an error of the server, which says it in one sentence."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
