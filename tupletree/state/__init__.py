"""States of stateful bolts and their providers. See docs/guides/state.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.reader import StateReader

if TYPE_CHECKING:
    from tupletree.state.memory import MemoryStateProvider
    from tupletree.state.postgres import PostgresStateProvider
    from tupletree.state.redis import RedisStateProvider
    from tupletree.state.rocksdb.provider import RocksDBStateProvider
    from tupletree.state.sqlite import SqliteStateProvider
    from tupletree.state.zookeeper import ZooKeeperStateProvider

__all__ = [
    "KeyValueState",
    "MemoryStateProvider",
    "PostgresStateProvider",
    "RedisStateProvider",
    "RocksDBStateProvider",
    "SqliteStateProvider",
    "StateProvider",
    "StateReader",
    "ZooKeeperStateProvider",
]

_LATE = {
    "MemoryStateProvider": "tupletree.state.memory",
    "PostgresStateProvider": "tupletree.state.postgres",
    "RedisStateProvider": "tupletree.state.redis",
    "RocksDBStateProvider": "tupletree.state.rocksdb.provider",
    "SqliteStateProvider": "tupletree.state.sqlite",
    "ZooKeeperStateProvider": "tupletree.state.zookeeper",
}


def __getattr__(name: str) -> Any:
    """Import a provider on first access: most workers need one provider or none."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)
