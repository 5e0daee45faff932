"""Real servers for the tests of databases, in directories of their own. They end with the process that started them."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
import redis

from tupletree._devcluster.guard import Guard
from tupletree.testing.wait import wait_until


class Server:
    """A server on a socket in a directory of its own."""

    crash = signal.SIGKILL
    """What ends it at once, without a chance to write anything down."""

    privileges: Sequence[str] = ()
    """Arguments of setpriv."""

    def __init__(self, name: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"tupletree-{name}-"))
        self._guard = Guard(str(self.directory), remove=True)
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str:
        """Why it cannot run here, or nothing."""
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        """What to run."""
        raise NotImplementedError

    def answers(self) -> bool:
        """True if it serves."""
        raise NotImplementedError

    def start(self) -> None:
        with open(self.directory / "log", "ab") as log:
            # The kernel ends it with its parent, however that ends.
            with_parent = ["setpriv", "--pdeathsig", self.crash.name.removeprefix("SIG"), *self.privileges]
            self._process = subprocess.Popen(
                [*with_parent, *self.command()], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/"
            )
        wait_until(self._answers_or_ended, 60, what=f"{self.command()[0]} answers")
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.command()[0]} ended: " + (self.directory / "log").read_text()[-2000:])

    def _answers_or_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None or self.answers()

    def stop(self) -> None:
        """Let it crash, if it runs."""
        if self._process is not None:
            self._process.send_signal(self.crash)
            self._process.wait()

    def processes(self) -> list[int]:
        """The ids of its processes."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [self._process.pid, *map(int, children)]

    def close(self) -> None:
        self.stop()
        self._guard.close()


AnyServer = TypeVar("AnyServer", bound=Server)


@contextlib.contextmanager
def running(kind: type[AnyServer]) -> Iterator[AnyServer]:
    """A server that runs. Skips the test, with the reason, if it cannot run here."""
    if reason := kind.missing():
        pytest.skip(reason)
    server = kind()
    try:
        server.start()
        yield server
    finally:
        server.close()


def table_rows(url: str, table: str, query: str) -> list[Any]:
    """The rows of a query; none as long as its table does not exist."""
    with psycopg.connect(url) as database:
        if database.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,):
            return []
        return database.execute(query).fetchall()


class RedisServer(Server):
    """Redis that writes every command to disk before it answers."""

    def __init__(self) -> None:
        super().__init__("redis")
        self.url = f"unix://{self.directory}/redis.sock"

    @staticmethod
    def missing() -> str:
        return "" if shutil.which("redis-server") else "redis-server is not installed: sh deploy/setup/servers.sh"

    def command(self) -> Sequence[str]:
        where = ["--port", "0", "--unixsocket", f"{self.directory}/redis.sock", "--dir", str(self.directory)]
        return ["redis-server", *where, "--save", "", "--appendonly", "yes", "--appendfsync", "always"]

    def answers(self) -> bool:
        with contextlib.suppress(redis.RedisError), redis.Redis.from_url(self.url) as client:
            return bool(client.ping())
        return False


class PostgresServer(Server):
    """PostgreSQL. It refuses to be root: then it runs as the user of Debian's package, or as nobody."""

    crash = signal.SIGQUIT  # it recovers from this as from SIGKILL, but takes its children and its memory along

    def __init__(self) -> None:
        super().__init__("postgres")
        self.url = f"postgresql://tupletree@/postgres?host={self.directory}"
        self._data = str(self.directory / "data")
        if os.getuid() == 0:
            user = _unprivileged()
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self.privileges = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        initdb = [f"{_postgres_binaries()}/initdb", "-D", self._data, "-U", "tupletree", "--auth=trust", "--no-sync"]
        made = subprocess.run(
            ["setpriv", *self.privileges, *initdb, "--no-locale", "--encoding=UTF8"],
            capture_output=True,
            cwd="/",
            check=False,
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr.decode()}")

    @staticmethod
    def missing() -> str:
        return "" if _postgres_binaries() else "PostgreSQL is not installed: sh deploy/setup/servers.sh"

    def command(self) -> Sequence[str]:
        # Tests do not cut the power: what the kernel has is safe.
        options = ["-c", "listen_addresses=", "-c", "fsync=off"]
        return [f"{_postgres_binaries()}/postgres", "-D", self._data, "-k", str(self.directory), *options]

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url):
            return True
        return False


def _postgres_binaries() -> Path | None:
    """Where they are: Debian keeps them off PATH, by version."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = [int(path.parts[-3]) for path in Path("/usr/lib/postgresql").glob("[0-9]*/bin/initdb")]
    return Path(f"/usr/lib/postgresql/{max(versions)}/bin") if versions else None


def _unprivileged() -> pwd.struct_passwd:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")
