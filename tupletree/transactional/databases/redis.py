"""Tables in Redis.

    <prefix>:<table>          hash: key -> {"txid": 7, "value": 3, "previous": 2}; no "previous" where there was none
    <prefix>:<table>:txids    sorted set: key by the txid of its row
    <prefix>:<table>:about    hash: format, mark ("txid attempt"), version (grows with each change)

A change is a compare-and-set: it decides on the rows that it has read, then one atomic Lua script compares them with
the stored rows and writes. The script compares only what the decision has read: the rows of its keys, the mark, and the
version if the decision has read all rows of a transaction. So tasks with disjoint keys do not conflict.

Durability depends on the configuration of Redis. With ``appendonly yes`` and ``appendfsync always`` a commit survives a
crash of Redis. Otherwise the last second or more can be lost, and a replica that takes over lacks the writes that had
not reached it. Lost writes stay missing from the values, because the topology has recorded them as committed. The same
holds for keys that an eviction policy drops.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from tupletree._stores.redis import KeyInUseError, RedisAddress, warn_if_forgetful
from tupletree.attempt import TransactionAttempt
from tupletree.errors import UnavailableError
from tupletree.transactional.databases.contract import Changes, Database, Row, View
from tupletree.transactional.databases.encoding import FORMAT, check_format, check_table, encode, not_ours

R = TypeVar("R")

_ANY = "-"
"""Placeholder for a version or a mark: do not compare it."""

_COMPARE_AND_SET = """
local rows, txids, about = KEYS[1], KEYS[2], KEYS[3]
local at = 0
local function take() at = at + 1; return ARGV[at] end

local version, mark = take(), take()
if version ~= '-' and version ~= (redis.call('HGET', about, 'version') or '') then return 0 end
if mark ~= '-' and mark ~= (redis.call('HGET', about, 'mark') or '') then return 0 end
for _ = 1, tonumber(take()) do
  local key = take()
  if take() ~= (redis.call('HGET', rows, key) or '') then return 0 end
end

local format, new_mark = take(), take()
if format == '-' then return 1 end
redis.call('HSETNX', about, 'format', format)
redis.call('HINCRBY', about, 'version', 1)
if new_mark ~= '-' then redis.call('HSET', about, 'mark', new_mark) end
for _ = 1, tonumber(take()) do
  local key = take()
  redis.call('HDEL', rows, key)
  redis.call('ZREM', txids, key)
end
for _ = 1, tonumber(take()) do
  local key, txid, row = take(), take(), take()
  redis.call('HSET', rows, key, row)
  redis.call('ZADD', txids, txid, key)
end
return 1
"""


class RedisDatabase(Database):
    """A Redis server, 5 or newer, not a Redis Cluster. Needs ``pip install 'tupletree[redis]'``.

    Args:
        url: a redis-py URL, for example ``redis://host:6379/0`` or ``unix:///run/redis.sock``.
        prefix: the prefix of all keys in Redis.
        timeout_s: how long to wait for a connection and for a reply.
    """

    def __init__(self, url: str, prefix: str = "tupletree", *, timeout_s: float = 5.0) -> None:
        self._address = RedisAddress("RedisDatabase", url, timeout_s, decodes=True)
        self._prefix = prefix
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"<RedisDatabase {self._prefix!r}, {self._address}>"

    def apply(self, table: str, decide: Callable[[View], Changes]) -> Changes:
        names = self._names(table)
        deadline = time.monotonic() + self._timeout_s

        def work(client: Any) -> Changes:
            while True:
                view = _View(client, table, names)
                try:
                    changes = decide(view)
                except Exception:
                    # The rows that the decision has read might be inconsistent: if so, decide again.
                    if view.write(Changes()):
                        raise
                else:
                    if view.write(changes):
                        return changes
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"{self._address}: table {table!r} is changed concurrently; the batch is retried"
                    )

        return self._use(table, work)

    def read(self, table: str, keys: Collection[str] | None = None) -> dict[str, Row]:
        names = self._names(table)

        def work(client: Any) -> dict[str, Row]:
            view = _View(client, table, names)
            if keys is not None:
                return view.rows(keys)
            return {key: _decoded(row) for key, row in client.hgetall(names[0]).items()}

        return self._use(table, work)

    def close(self) -> None:
        self._address.close()

    def _names(self, table: str) -> tuple[str, str, str]:
        rows = f"{self._prefix}:{check_table(table)}"
        return rows, f"{rows}:txids", f"{rows}:about"

    def _use(self, table: str, work: Callable[[Any], R]) -> R:
        # If a command is sent again although it had succeeded, its comparison fails, and the rule decides again.
        try:
            with self._address.client() as client:
                warn_if_forgetful(self._address)
                return work(client)
        except KeyInUseError as error:
            raise not_ours(table) from error


class _View:
    """The View of a decision, which records what the decision has read."""

    def __init__(self, client: Any, table: str, names: tuple[str, str, str]) -> None:
        self._client = client
        self._table = table
        self._names = names
        rows, _, about = names
        found, self._mark, self._version = client.hmget(about, "format", "mark", "version")
        if found is None and client.exists(rows):  # unless the table was created between these commands
            found = client.hget(about, "format")
            if found is None:
                raise not_ours(table)
        check_format(table, int(found or 0))
        self._seen: dict[str, str] = {}
        self._compare_mark = self._compare_version = False

    def mark(self) -> TransactionAttempt | None:
        self._compare_mark = True
        return TransactionAttempt(*map(int, self._mark.split())) if self._mark else None

    def rows(self, keys: Collection[str]) -> dict[str, Row]:
        wanted = list(keys)
        found = self._client.hmget(self._names[0], wanted) if wanted else []
        for key, row in zip(wanted, found, strict=True):
            self._seen.setdefault(key, row or "")
        return {key: _decoded(row) for key, row in zip(wanted, found, strict=True) if row}

    def rows_of(self, txid: int) -> Mapping[str, Row]:
        self._compare_version = True
        return self.rows(self._client.zrangebyscore(self._names[1], txid, txid))

    def write(self, changes: Changes) -> bool:
        """Write the changes if everything that was read is unchanged; otherwise return False."""
        mark = _ANY if changes.mark is None else f"{changes.mark.txid} {changes.mark.attempt}"
        arguments: list[str | int] = [
            (self._version or "") if self._compare_version else _ANY,
            (self._mark or "") if self._compare_mark else _ANY,
            len(self._seen),
        ]
        for key, row in self._seen.items():
            arguments += key, row
        arguments += FORMAT if changes != Changes() else _ANY, mark, len(changes.deletes), *changes.deletes
        arguments.append(len(changes.puts))
        for key, put in changes.puts.items():
            arguments += key, put.txid, _encoded(self._table, key, put)
        return bool(self._client.register_script(_COMPARE_AND_SET)(keys=self._names, args=arguments))


def _encoded(table: str, key: str, row: Row) -> str:
    previous = f',"previous":{encode(table, key, row.previous)}' if row.has_previous else ""
    return f'{{"txid":{row.txid},"value":{encode(table, key, row.value)}{previous}}}'


def _decoded(text: str) -> Row:
    row = json.loads(text)
    return Row(row["txid"], row["value"], row.get("previous"), "previous" in row)
