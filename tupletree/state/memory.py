"""States in this process: the default, for counts that can restart from zero, and for tests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tupletree.context import TopologyContext
from tupletree.state.buffered import BufferedState, Changes, not_prepared, superseded
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.options import parsed
from tupletree.state.reader import Entries, MappingReader, StateReader
from tupletree.state.sizes import Counted, Known


class MemoryStateProvider(StateProvider):
    """States that last as long as this object: a restarted task begins with an empty state.

    Values are stored as bytes, so a value that another provider refuses is refused here too.
    """

    is_durable = False

    def __init__(self) -> None:
        self._namespaces: dict[str, Namespace] = {}

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        options = parsed("memory", conf)
        backend = MemoryBackend(namespace, self._namespaces.setdefault(namespace, Namespace()))
        return BufferedState(namespace, backend, cache_entries=options["cache_entries"], is_durable=False)

    def remove_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:
        removed = self._namespaces.pop(namespace, None)
        if removed is not None:
            removed.owner += 1

    def open_reader(self, namespace: str, conf: Mapping[str, Any], topology_conf: Mapping[str, Any]) -> StateReader:
        parsed("memory", conf)
        return MemoryReader(self._namespaces, namespace)


@dataclass(slots=True)
class Namespace:
    """The stored data of a namespace. ``owner``: the number of times that the namespace was opened."""

    owner: int = 0
    committed: int | None = None
    prepared: int | None = None
    entries: dict[bytes, bytes] = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)  # held by a commit, and by a reader


class MemoryBackend:
    """One namespace. Only the backend that opened it last can write."""

    def __init__(self, namespace: str, stored: Namespace) -> None:
        self._namespace = namespace
        self._stored = stored
        stored.owner += 1
        self._owner = stored.owner

    @property
    def committed(self) -> int | None:
        return self._stored.committed

    @property
    def prepared(self) -> int | None:
        return self._stored.prepared

    def get(self, key: bytes) -> bytes | None:
        return self._stored.entries.get(key)

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        yield self._stored.entries.items()

    def prepare(self, txid: int, changes: Changes) -> None:
        stored = self._checked()
        stored.prepared, stored.changes = txid, dict(changes)

    def commit(self, txid: int) -> None:
        stored = self._checked()
        if stored.committed == txid:
            return
        if stored.prepared != txid:
            raise not_prepared(self._namespace, txid)
        with stored.lock:
            for key, value in stored.changes.items():
                if value is None:
                    stored.entries.pop(key, None)
                else:
                    stored.entries[key] = value
            stored.committed, stored.prepared, stored.changes = txid, None, {}

    def rollback(self) -> None:
        stored = self._checked()
        stored.prepared, stored.changes = None, {}

    def close(self) -> None:
        """Do nothing: the data stays with the provider."""

    def _checked(self) -> Namespace:
        if self._stored.owner != self._owner:
            raise superseded(self._namespace)
        return self._stored


class MemoryReader(StateReader):
    """The committed values of a namespace of this process."""

    def __init__(self, namespaces: Mapping[str, Namespace], name: str) -> None:
        self._namespaces = namespaces
        self._name = name

    @contextlib.contextmanager
    def held(self) -> Iterator[bool]:
        """Yield True while no commit can begin, and False, without waiting, if one is under way or another reads."""
        lock = self._stored.lock
        is_held = lock.acquire(blocking=False)
        try:
            yield is_held
        finally:
            if is_held:
                lock.release()

    @property
    def committed(self) -> int | None:
        return self._stored.committed

    def get(self, key: bytes) -> bytes | None:
        stored = self._stored
        with stored.lock:
            return stored.entries.get(key)

    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        stored = self._stored
        with stored.lock:
            return MappingReader(None, stored.entries).scan(after, limit, max_bytes)

    def count(self) -> Counted:
        stored = self._stored
        with stored.lock:
            return MappingReader(None, stored.entries).count()

    def known(self) -> Known:
        return Known(keys=len(self._stored.entries))

    @property
    def _stored(self) -> Namespace:
        return self._namespaces.get(self._name) or Namespace()
