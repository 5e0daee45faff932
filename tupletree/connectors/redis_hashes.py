"""Hashes in Redis, one for each key, as a sink.

<prefix>:<key>              hash: field -> value (tupletree/_sinks/redis_values.py)
<prefix>#about:<owner>      hash: transactional_id, and the note: txid, attempt
<prefix>#undo:<owner>       list: the hashes as they were before the last transaction; opaque rule only
<prefix>#staged:<owner>     set: the names of the owner's staged rows, <prefix>#staged:<owner>:<unique>
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tupletree._sinks.redis_commits import Staged, merge, stage
from tupletree._sinks.redis_values import Column, encoded_key, hash_name, packed, text
from tupletree._sinks.sql_plan import Kind
from tupletree._sinks.sql_rules import Writer
from tupletree._stores.redis import RedisAddress, warn_if_forgetful
from tupletree.attempt import TransactionAttempt
from tupletree.connectors.arguments import check, check_seconds, check_text
from tupletree.connectors.column_sink import ColumnSink
from tupletree.connectors.transactional_sink import Row
from tupletree.errors import UsageError

_KINDS = {Kind.INTEGER: "whole", Kind.FLOAT: "double", Kind.DECIMAL: "decimal"}
"""How the script compares values; all others are text."""


class RedisHashSink(ColumnSink):
    """Hashes ``<prefix>:<key>`` in Redis, one for each key. A later row of a key replaces the earlier row.

        RedisHashSink("redis://cache:6379/0", "totals", {"user": "string", "total": "bigint"}, key="user")

    The fields of a hash are the columns beside the key, of which there is at least one. NULL removes the field; a hash
    without fields does not exist. A commit is one script, so readers see all of it or nothing; 100,000 rows take a
    second or two, during which Redis answers no other client. ``hash_name`` returns the name of the hash of a key.

    Exactly once needs a durable Redis, 5 or newer, not a Redis Cluster: ``appendonly yes``, ``appendfsync always`` and
    no eviction.

    ``prefix``: letters, digits and underscores, at most 48. ``columns``: the fields and their types (``ColumnSink``).
    Raises UsageError for a wrong argument, and if the package redis is missing.
    """

    title: ClassVar[str] = "Redis"

    def __init__(
        self,
        url: str,
        prefix: str,
        columns: Mapping[str, str],
        key: str | Sequence[str],
        *,
        timeout_s: float = 10.0,
    ) -> None:
        super().__init__("RedisHashSink", prefix, columns, key, table_title="prefix")
        check_text("RedisHashSink", "url", url, is_secret=True)
        check_seconds("RedisHashSink", "timeout_s", timeout_s)
        if not self.plan.values:
            raise UsageError("RedisHashSink: every column is part of the key; a column beside the key was expected")
        self._address = RedisAddress("RedisHashSink", url, timeout_s)
        self._columns = [Column(column.name, "replace", _KINDS.get(column.kind, "text")) for column in self.plan.values]
        self._prefix = prefix
        self._writer: Writer | None = None

    @property
    def target(self) -> str:
        return f"prefix {self._prefix!r} of {self._address}"

    def hash_name(self, *key: Any) -> str:
        """Return the name in Redis of the hash of a key. Raises UsageError for values that the key cannot have."""
        names = self.key_fields
        check("RedisHashSink", "key", key, len(key) == len(names), f"a value for each of {', '.join(names)}")
        given = dict(zip(names, key, strict=True))
        [stored] = self.stored([[given.get(name) for name in self.fields]])
        return hash_name(self._prefix, stored[: len(key)])

    def open(self, owner: str, *, is_opaque: bool = False) -> None:
        self._writer = Writer(owner, f"{self._prefix}#about:{owner}", f"{self._prefix}#undo:{owner}", is_opaque)

    def stored(self, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
        return list(zip(*(column.to_pylist() for column in self.arrow(rows).columns), strict=True))

    def commit(self, attempt: TransactionAttempt, rows: Sequence[Row]) -> None:
        writer, stored = self._writer, self.stored(rows)
        assert writer is not None, "open comes first"
        index = f"{self._prefix}#staged:{writer.id}"
        name = f"{index}:{uuid.uuid4().hex}"
        with self._address.client(self.target) as client:
            warn_if_forgetful(self._address)
            parts = stage(client, index, name, packed(stored, len(self.plan.keys)))
            staged = Staged(self._columns, [(name, parts)] if parts else [])
            merge(client, self.target, writer, attempt, self._prefix, index, staged)

    def write(self, rows: Sequence[Row]) -> None:
        keys, names = len(self.plan.keys), [column.name for column in self._columns]
        with self._address.client(self.target) as client:
            steps = client.pipeline(transaction=True)
            for row in self.stored(rows):
                hash_ = f"{self._prefix}:{encoded_key(row[:keys])}"
                for name, value in zip(names, row[keys:], strict=True):
                    if value is None:
                        steps.hdel(hash_, name)
                    else:
                        steps.hset(hash_, name, text(value))
            steps.execute()

    def close(self) -> None:
        self._address.close()
