"""Addresses of stores of dead letters: an SQLite file, or Redis."""

from __future__ import annotations

import os

from tupletree.dead_letters.redis_letters import RedisLetters
from tupletree.dead_letters.sqlite_letters import SqliteLetters
from tupletree.dead_letters.store import DeadLetterStore
from tupletree.errors import UsageError


def open_store(url: str, *, timeout_s: float | None = None) -> DeadLetterStore:
    """Return the store at ``sqlite:PATH`` or ``redis://HOST:PORT/DB?prefix=NAME``.

    ``timeout_s``: the time after which a call gives up and raises UnavailableError. By default a call waits ten seconds
    for a lock or for an answer of the server, and takes as long as it needs. A file system that hangs is waited for.

    Raises:
        UsageError: the URL is neither.
    """
    if url.startswith("sqlite:") and url.removeprefix("sqlite:").strip("/"):
        return SqliteLetters(url.removeprefix("sqlite:"), timeout_s)
    if url.startswith(("redis://", "rediss://", "unix://")):
        return RedisLetters(url, timeout_s)
    raise UsageError(f"a store of dead letters is sqlite:PATH or redis://HOST:PORT/DB, not {url!r}")


def checked_store(url: str) -> str:
    """Return the address of a store as it is anywhere on this machine: a path is made absolute. Raises UsageError."""
    open_store(url)
    return f"sqlite:{os.path.abspath(path)}" if (path := url.removeprefix("sqlite:")) != url else url
