"""A real PostgreSQL server for a bench. It ends with the process that started it, even if that process is killed."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tupletree.errors import UsageError
from tupletree.testing import wait_until


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the URL of a fresh server, which writes to the disk before it answers, as PostgreSQL does by default.

    Raises:
        UsageError: PostgreSQL is not installed.
    """
    binaries = _binaries()
    with tempfile.TemporaryDirectory(prefix="bench-postgres-") as directory:
        data, begin = f"{directory}/data", ["setpriv", "--pdeathsig", "QUIT"]
        if os.getuid() == 0:  # PostgreSQL refuses to be root
            user = pwd.getpwnam("postgres")
            os.chown(directory, user.pw_uid, user.pw_gid)
            begin += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        initdb = [f"{binaries}/initdb", "-D", data, "-U", "bench", "--auth=trust", "--no-locale", "--encoding=UTF8"]
        subprocess.run([*begin, *initdb], stdout=subprocess.DEVNULL, cwd="/", check=True)
        command = [f"{binaries}/postgres", "-D", data, "-k", directory, "-c", "listen_addresses="]
        process = subprocess.Popen(
            [*begin, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )
        url = f"postgresql://bench@/postgres?host={directory}"
        try:
            wait_until(lambda: _answers(url), 30, what="postgres answers")
            yield url
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait()


def _binaries() -> Path:
    """Return the directory of PostgreSQL's programs, which Debian keeps off PATH, by version."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    places = sorted(Path("/usr/lib/postgresql").glob("[0-9]*/bin"), key=lambda path: int(path.parent.name))
    if not places:
        raise UsageError("PostgreSQL is not installed: sh deploy/setup/servers.sh")
    return places[-1]


def _answers(url: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False
