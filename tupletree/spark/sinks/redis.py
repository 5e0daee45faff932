"""Results as Redis hashes, one per key.

    <prefix>:<key>               hash: column -> value (redis_values.py)
    <prefix>#about               hash: format, transactional_id, and the mark: txid, attempt
    <prefix>#undo                list: the hashes as they were before the last transaction; opaque rule only
    <prefix>#staged              set: the names of all staged keys
    <prefix>#staged:<txid>.<attempt>:<unique>    hash: part -> a chunk of rows

Spark's tasks write their rows to staged keys. Each run of a task writes to a key of its own, and the job returns the
keys. Keys of runs that Spark did not use (a failed run, or a slower duplicate) are not returned; they are discarded
later. The commit passes the keys to one script (redis_script.py), which Redis runs in isolation: readers see all of a
batch or nothing.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PythonException

from tupletree._sinks.redis_commits import Staged, check_owner, merge, stage
from tupletree._sinks.redis_values import checked_columns, hash_name, packed
from tupletree._sinks.sql_rules import Writer
from tupletree._stores.redis import RedisAddress, warn_if_forgetful
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.sink import Sink, SinkScope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMAT = 1


class RedisHashes(Sink):
    """Each row of the result creates or changes the hash ``<prefix>:<key>``. The fields of the hash are the columns.

    Redis 5 or newer, not a Redis Cluster. Needs ``pip install 'tupletree[redis]'``, also on Spark's executors.

    Args:
        url: as redis-py takes it, for example ``redis://host:6379/0``; executors must reach it too.
        prefix: the prefix of all keys in Redis. It belongs to one sink of one pipeline.
        key: the column, or columns, that identify a hash. ``hash_name`` returns the name of the hash of a key.
        add: columns to add up: integers (64 bits, exact) or doubles.
        min: columns that keep the least value.
        max: columns that keep the greatest value, by Spark's order: strings by bytes, NaN above all numbers.
        replace: columns that keep the value of the last batch.
        timeout_s: time to wait for a connection and for an answer. A commit is one command. It takes a second or two
            for 100,000 rows of a few columns, during which Redis answers no other client.

    The result must have these columns and no others. They can be numbers, strings, booleans, dates and times (in UTC,
    of a fixed width: ``2024-05-06T07:08:09.000000Z``), and, except for keys, binary. NULL is ignored when values are
    added or compared, and removes the field of a ``replace`` column; a hash without fields does not exist. Several rows
    with one key are merged one after the other, in no particular order.

    Exactly once needs a durable Redis: ``appendonly yes`` and ``appendfsync always``, and no eviction.

    A value that cannot be merged (an integer that overflows, a field written by another program) raises UsageError, and
    nothing of its batch is stored.
    """

    def __init__(
        self,
        url: str,
        prefix: str,
        key: str | Sequence[str],
        *,
        add: str | Sequence[str] = (),
        min: str | Sequence[str] = (),
        max: str | Sequence[str] = (),
        replace: str | Sequence[str] = (),
        timeout_s: float = 30.0,
    ) -> None:
        if not isinstance(prefix, str) or not prefix or "#" in prefix:
            raise UsageError(f"RedisHashes: prefix is {prefix!r}; a name without '#' was expected")
        self.prefix = prefix
        self.key = _names("key", key)
        rules = {"add": add, "min": min, "max": max, "replace": replace}
        columns = [(name, rule) for rule, names in rules.items() for name in _names(rule, names)]
        self.rules = dict(columns)
        if not self.key or not columns:
            raise UsageError("RedisHashes: a key and at least one column in add, min, max or replace were expected")
        names = [*self.key, *(name for name, _ in columns)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UsageError(f"RedisHashes: column {twice[0]!r} is named twice; each column has one role")
        self._address = RedisAddress("RedisHashes", url, timeout_s)
        self._id = ""
        self._is_opaque = False

    def __repr__(self) -> str:
        return f"<RedisHashes {self.prefix!r}, {self._address}>"

    @property
    def target(self) -> str:
        return f"prefix {self.prefix!r} of {self._address}"

    def hash_name(self, *key: Any) -> str:
        """Return the name in Redis of the hash of a key."""
        return hash_name(self.prefix, key)

    def open(self, scope: SinkScope) -> None:
        self._id, self._is_opaque = scope.transactional_id, scope.is_opaque
        about = f"{self.prefix}#about"
        with self._address.client() as client:
            warn_if_forgetful(self._address)
            client.hsetnx(about, "format", FORMAT)
            client.hsetnx(about, "transactional_id", self._id)
            found, owner = client.hmget(about, "format", "transactional_id")
            if int(found) > FORMAT:
                raise UsageError(f"{self!r} was written by a newer version of Tupletree (format {int(found)})")
            check_owner(repr(self), owner, self._id)
            self._remove_staged(client, "")  # all left by earlier drivers: this driver has staged nothing yet

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> Staged:
        types = [(field.name, field.dataType.typeName()) for field in result.schema.fields]
        columns = checked_columns(repr(self), self.key, self.rules, types)
        names = [*self.key, *(column.name for column in columns)]
        rows = result.select([f"`{name.replace('`', '``')}`" for name in names])
        rows = rows.toDF(*(f"c{number}" for number in range(len(names))))  # mapInArrow trips over dots in names
        stager = Stager(self._address, f"{self.prefix}#staged", self._staged_name(attempt), len(self.key))
        try:
            keys = rows.mapInArrow(stager, "name STRING, parts BIGINT").collect()
        except PythonException as error:
            if away := re.search(r"^tupletree\.errors\.UnavailableError: (.*)$", str(error), re.MULTILINE):
                raise UnavailableError(away[1]) from error
            raise
        return Staged(columns, [(row.name, row.parts) for row in keys])

    def commit(self, attempt: TransactionAttempt, staged: Staged) -> None:
        writer = Writer(self._id, f"{self.prefix}#about", f"{self.prefix}#undo", self._is_opaque)
        with self._address.client() as client:
            merge(client, repr(self), writer, attempt, self.prefix, f"{self.prefix}#staged", staged)
        self.discard(attempt, staged)  # keys of task runs that Spark did not use

    def discard(self, attempt: TransactionAttempt, staged: Any) -> None:
        with contextlib.suppress(UnavailableError), self._address.client() as client:  # a key left behind expires
            self._remove_staged(client, self._staged_name(attempt))

    def close(self) -> None:
        self._address.close()

    def _staged_name(self, attempt: TransactionAttempt) -> str:
        return f"{self.prefix}#staged:{attempt.txid}.{attempt.attempt}:"

    def _remove_staged(self, client: Any, start: str) -> None:
        """Delete the staged keys whose names begin with ``start``."""
        index = f"{self.prefix}#staged"
        for name in client.smembers(index):
            if name.startswith(start.encode()):
                client.pipeline().delete(name).srem(index, name).execute()


class Stager:
    """Function that Spark calls in its Python workers: takes rows, yields the key that holds them, if there are any."""

    def __init__(self, address: RedisAddress, index: str, start: str, keys: int) -> None:
        self._address = address
        self._index = index
        self._start = start
        self._keys = keys

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Unique per run: a task that is retried, or runs twice, comes here twice.
        name = self._start + uuid.uuid4().hex
        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        with self._address.client() as client:
            parts = stage(client, self._index, name, packed(rows, self._keys))
        if parts:
            yield pa.RecordBatch.from_pydict({"name": [name], "parts": pa.array([parts], pa.int64())})


def _names(what: str, columns: str | Sequence[str]) -> list[str]:
    names = [columns] if isinstance(columns, str) else list(columns)
    if not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"RedisHashes: {what} is {columns!r}; names of columns were expected")
    return names
