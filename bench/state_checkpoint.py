"""Cost of a checkpoint of a large state with few changes. One process; the servers have their own.

    python -m bench.state_checkpoint --provider sqlite --keys 1000000 --changed 1000 --checkpoints 50 --json

A state of ``--keys`` counts by word is filled and checkpointed once (``first_``, which writes all keys). Then
``--changed`` random counts are raised and checkpointed, ``--checkpoints`` times: ``prepare_ms`` and ``commit_ms`` are
the medians of the two steps, ``checkpoint_ms`` and ``checkpoint_max_ms`` the median and the maximum of their sum.
``entries`` and ``bytes`` are the most that one checkpoint gave the backend to write. ``update_ns``: one get and one put
of a key in memory. ``reopen_s``: the time to open the state again and to read all its keys.

SQLite, RocksDB, PostgreSQL and Redis write to the disk before they answer, as durability requires. The reopened state
must hold the values that were put, and no checkpoint may write more entries than changed, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench import _cli
from bench._cli import WrongResultError
from bench._postgres import postgres_server
from bench._redis import redis_server
from tupletree.state.buffered import Backend, BufferedState, Changes
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.state.postgres import PostgresBackend
from tupletree.state.redis import RedisBackend
from tupletree.state.rocksdb.backend import RocksDBBackend
from tupletree.state.sqlite import SqliteBackend

SEED = 20_260_105
NAMESPACE = "bench/count/0"

State = BufferedState[str, int]


class Counted:
    """A backend that records ``entries`` and ``bytes`` of the largest prepare."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.entries = 0
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    @property
    def committed(self) -> int | None:
        return self._backend.committed

    @property
    def prepared(self) -> int | None:
        return self._backend.prepared

    def prepare(self, txid: int, changes: Changes) -> None:
        self.entries = max(self.entries, len(changes))
        self.bytes = max(self.bytes, sum(len(key) + len(value or b"") for key, value in changes.items()))
        self._backend.prepare(txid, changes)


@contextmanager
def backends(provider: str) -> Iterator[Callable[[], Backend]]:
    """Yield a function that opens one namespace of an empty store, again and again."""
    match provider:
        case "memory":
            yield partial(MemoryBackend, NAMESPACE, Namespace())
        case "sqlite":
            with tempfile.TemporaryDirectory(prefix="bench-state-") as directory:
                yield partial(SqliteBackend, NAMESPACE, str(Path(directory) / "state.db"), "full", 10.0)
        case "rocksdb":
            with tempfile.TemporaryDirectory(prefix="bench-state-") as directory:
                (Path(directory) / "shared").mkdir()
                yield partial(RocksDBBackend, NAMESPACE, f"{directory}/copies", f"{directory}/shared")
        case "postgres":
            with postgres_server() as url:
                yield partial(PostgresBackend, NAMESPACE, url, "bench", 30.0)
        case _:
            with redis_server(is_durable=True) as (url, _):
                yield partial(RedisBackend, NAMESPACE, url, "bench", 30.0)


def milliseconds(work: Callable[[], object]) -> float:
    """Return the duration of the work in milliseconds."""
    began_s = time.perf_counter()
    work()
    return (time.perf_counter() - began_s) * 1e3


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one provider.

    Raises:
        WrongResultError: values read differ from values put, or more was written than changed.
    """
    rng = random.Random(SEED)
    words = [f"word-{number:07}" for number in range(arguments.keys)]
    with backends(arguments.provider) as opened:
        counted = Counted(opened())
        state: State = BufferedState(NAMESPACE, counted)
        for word in words:
            state.put(word, 1)
        first_prepare_ms = milliseconds(lambda: state.prepare_commit(1))
        first_commit_ms = milliseconds(lambda: state.commit(1))
        first_entries, counted.entries, counted.bytes = counted.entries, 0, 0
        expected = dict.fromkeys(words, 1)
        prepares, commits, updates_ms = [], [], 0.0
        for txid in range(2, arguments.checkpoints + 2):
            changed = rng.sample(words, arguments.changed)
            updates_ms += milliseconds(lambda changed=changed: raise_counts(state, changed))  # type: ignore[misc]
            for word in changed:
                expected[word] += 1
            prepares.append(milliseconds(lambda txid=txid: state.prepare_commit(txid)))  # type: ignore[misc]
            commits.append(milliseconds(lambda txid=txid: state.commit(txid)))  # type: ignore[misc]
        state.close()
        found: dict[str, int] = {}
        reopen_ms = milliseconds(lambda: found.update(BufferedState[str, int](NAMESPACE, opened()).items()))
    if found != expected or first_entries != arguments.keys:
        raise WrongResultError("the reopened state does not hold the values that were put")
    if counted.entries > arguments.changed:
        raise WrongResultError(f"a checkpoint wrote {counted.entries} entries, but {arguments.changed} had changed")
    both = [prepare + commit for prepare, commit in zip(prepares, commits, strict=True)]
    return {
        "entries": counted.entries,
        "bytes": counted.bytes,
        "checkpoint_ms": round(statistics.median(both), 3),
        "checkpoint_max_ms": round(max(both), 3),
        "prepare_ms": round(statistics.median(prepares), 3),
        "commit_ms": round(statistics.median(commits), 3),
        "update_ns": round(updates_ms * 1e6 / (arguments.changed * arguments.checkpoints)),
        "first_entries": first_entries,
        "first_prepare_ms": round(first_prepare_ms, 1),
        "first_commit_ms": round(first_commit_ms, 1),
        "reopen_s": round(reopen_ms / 1e3, 2),
    }


def raise_counts(state: State, words: list[str]) -> None:
    """Increase counts, as a counting bolt does."""
    for word in words:
        state.put(word, (state.get(word) or 0) + 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--provider", choices=("memory", "sqlite", "rocksdb", "postgres", "redis"), default="sqlite")
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys in the state (%(default)s)")
    parser.add_argument("--changed", type=int, default=1_000, help="keys changed before each checkpoint (%(default)s)")
    parser.add_argument("--checkpoints", type=int, default=50, help="checkpoints after the first (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("state_checkpoint", __doc__, add_arguments, measure))
