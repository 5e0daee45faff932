"""A real Redis server for a bench. It ends with the process that started it, even if that process is killed."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import redis

from tupletree.errors import UsageError
from tupletree.testing import wait_until


@contextlib.contextmanager
def redis_server(*, is_durable: bool = False) -> Iterator[tuple[str, int]]:
    """Yield the URL and the process id of a fresh server without persistence.

    ``is_durable``: with persistence; the server writes every command to disk before it answers.

    Raises:
        UsageError: redis-server is not installed.
    """
    if not shutil.which("redis-server"):
        raise UsageError("redis-server is not installed: sh deploy/setup/servers.sh")
    with tempfile.TemporaryDirectory(prefix="bench-redis-") as directory:
        url = f"unix://{directory}/redis.sock"
        where = ["--port", "0", "--unixsocket", f"{directory}/redis.sock", "--dir", directory]
        appends = ["--appendonly", "yes", "--appendfsync", "always"] if is_durable else ["--appendonly", "no"]
        command = ["setpriv", "--pdeathsig", "KILL", "redis-server", *where, "--save", "", *appends]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/")
        try:
            wait_until(lambda: _answers(url), 30, what="redis-server answers")
            yield url, process.pid
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(redis.RedisError), redis.Redis.from_url(url) as client:
        return bool(client.ping())
    return False
