"""Small states in ZooKeeper, beside the progress of transactional topologies. They need no other server.

Below ``transactional.zookeeper.root``, for each namespace, with its name escaped as in a URL. Each value begins with
the number of the format (node_encoding.py):

===========================  =====================================  =====================================
node                         value                                  written
===========================  =====================================  =====================================
$states/<name>/owner         process that opened the namespace      by opening; its version names the owner
$states/<name>/committed     txid or None, all keys with values     by commit
$states/<name>/prepared      txid or None, the changes              by prepare, commit and rollback
===========================  =====================================  =====================================

These paths never collide with the nodes of a transactional id, even of an id ``$states``.

Every write is one transaction of the store, which also checks that this process still owns the namespace. A write that
raises UnavailableError may have happened, or may still happen. So the next write first reads the nodes again, and
succeeds only if they still have the versions that it has read. The size of a state is bounded, because a commit writes
the whole state.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from tupletree._stores.node_encoding import decode_record, decode_stored, encode_stored
from tupletree._stores.nodes import Check, Create, Delete, Put, StateStore
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.context import TopologyContext
from tupletree.errors import AuthorityError, ConflictError, InternalError, UsageError
from tupletree.state.buffered import BufferedState, Changes, not_prepared, superseded
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.options import parsed
from tupletree.state.reader import Entries, MappingReader, StateReader
from tupletree.state.sizes import StateSize

FOLDER: Final = "/$states"
LIMIT_BYTES: Final = 500_000
"""The maximum size of a namespace's state, and of its prepared changes. Every ZooKeeper server keeps both in memory."""

TRIES: Final = 10
"""The maximum number of attempts of a write that meets a changed version; each attempt reads and decides again."""


class ZooKeeperStateProvider(StateProvider):
    """States of at most 500,000 bytes per task, in ``transactional.zookeeper.servers`` or the cluster's ensemble.

    A LocalCluster has no ensemble: it keeps these states in memory.
    """

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        options = parsed("zookeeper", conf)
        owner = f"topology {context.topology_id}, process {os.getpid()} on {socket.gethostname()}"
        store = open_store(context.conf)
        try:
            backend = ZooKeeperBackend(namespace, store, owner)
        except BaseException:
            store.close()
            raise
        return BufferedState(namespace, backend, cache_entries=options["cache_entries"])

    def remove_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:
        with closing(open_store(context.conf)) as store:
            place = folder(namespace)
            if names := store.children(place):
                store.write([Delete(f"{place}/{name}") for name in names])
            if store.get(place) is not None:
                store.write([Delete(place)])

    def open_reader(self, namespace: str, conf: Mapping[str, Any], topology_conf: Mapping[str, Any]) -> StateReader:
        parsed("zookeeper", conf)
        return ZooKeeperReader(namespace, open_store(topology_conf))


def folder(namespace: str) -> str:
    """Return the path of a namespace. Escapes names that ZooKeeper refuses: the empty name, ``.`` and ``..``."""
    return f"{FOLDER}/{quote(namespace, safe='').replace('.', '%2E') or '%'}"


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of the node ``committed`` or ``prepared``."""

    txid: int | None
    entries: Changes


_NOTHING: Final = _Content(None, {})

Contents = Mapping[str, _Content]
"""Contents by the name of the node."""


class ZooKeeperBackend:
    """The nodes of one namespace and their contents."""

    def __init__(self, namespace: str, store: StateStore, owner: str) -> None:
        self._namespace = namespace
        self._store = store
        self._folder = folder(namespace)
        self._nodes: dict[str, tuple[_Content, int]] = {}  # with their versions
        self._is_settled = False  # True if _nodes matches the store
        self._owner = self._take_over(owner)
        self._reload()

    @property
    def committed(self) -> int | None:
        return self._content("committed").txid

    @property
    def prepared(self) -> int | None:
        return self._content("prepared").txid

    def get(self, key: bytes) -> bytes | None:
        self._complete_commit()
        return self._content("committed").entries.get(key)

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        self._complete_commit()
        yield [(key, value) for key, value in self._content("committed").entries.items() if value is not None]

    def prepare(self, txid: int, changes: Changes) -> None:
        def decide() -> Contents:
            prepared = _Content(txid, changes)
            for content in (prepared, self._merged(prepared)):
                size = len(self._encoded("committed", content))
                if size > LIMIT_BYTES:
                    raise UsageError(
                        f"state {self._namespace!r} would take {size:,} bytes, but in ZooKeeper it may take "
                        f"{LIMIT_BYTES:,}: use the provider 'postgres', 'redis' or 'sqlite'"
                    )
            return {"prepared": prepared}

        self._change(decide)

    def commit(self, txid: int) -> None:
        def decide() -> Contents:
            if self.committed == txid:
                return {}
            prepared = self._content("prepared")
            if prepared.txid != txid:
                raise not_prepared(self._namespace, txid)
            return {"committed": self._merged(prepared), "prepared": _NOTHING}

        self._change(decide)

    def rollback(self) -> None:
        self._change(lambda: {"prepared": _NOTHING})

    def close(self) -> None:
        self._store.close()

    def _change(self, decide: Callable[[], Contents]) -> None:
        """Decide on the stored contents and write the result, repeating both after a conflict."""
        for _ in range(TRIES):
            self._complete_commit()
            contents = decide()
            known = self._nodes
            writes = [
                Put(f"{self._folder}/{name}", self._encoded(name, content), known[name][1])
                for name, content in contents.items()
            ]
            if not writes:
                return
            self._is_settled = False  # until the outcome is known
            with suppress(ConflictError):
                self._store.write([Check(f"{self._folder}/owner", self._owner), *writes])
                known.update({name: (content, known[name][1] + 1) for name, content in contents.items()})
                self._is_settled = True
                return
        raise ConflictError(f"state {self._namespace!r} keeps changing: another writer is active below {self._folder}")

    def _complete_commit(self) -> None:
        if not self._is_settled:
            self._reload()

    def _reload(self) -> None:
        self._is_settled = False
        self._check_owner()
        # In this order: if a late commit of this owner happens in between, "committed" is right nevertheless, and the
        # version of "prepared" no longer fits.
        for name in ("prepared", "committed"):
            path = f"{self._folder}/{name}"
            node = self._store.get(path)
            if node is None:
                raise self._gone()
            match decode_stored(path, node.data):
                case [int() | None as txid, dict(entries)]:
                    self._nodes[name] = _Content(txid, entries), node.version
                case _:
                    raise InternalError(f"{path} does not hold a state")
        self._check_owner()  # so this backend was the owner during all reads
        self._is_settled = True

    def _take_over(self, owner: str) -> int:
        """Become the only writer and return the version of the owner node."""
        path = f"{self._folder}/owner"
        mine = encode_stored(path, owner)
        for _ in range(TRIES):
            with suppress(ConflictError):
                node = self._store.get(path)
                if node is None:
                    nothing = {name: self._encoded(name, _NOTHING) for name in ("committed", "prepared")}
                    creates = [Create(f"{self._folder}/{name}", data) for name, data in nothing.items()]
                    self._store.write([Create(path, mine), *creates])
                    return 0
                decode_stored(path, node.data)  # raises if a newer version wrote the node
                self._store.write([Put(path, mine, node.version)])
                return node.version + 1
        raise ConflictError(f"other tasks keep opening state {self._namespace!r}")

    def _check_owner(self) -> None:
        node = self._store.get(f"{self._folder}/owner")
        if node is None:
            raise self._gone()
        if node.version != self._owner:
            raise superseded(self._namespace)

    def _gone(self) -> AuthorityError:
        return AuthorityError(f"state {self._namespace!r} was removed from ZooKeeper: {self._folder} is incomplete")

    def _content(self, name: str) -> _Content:
        return self._nodes[name][0]

    def _merged(self, prepared: _Content) -> _Content:
        """Return the content of ``committed`` after a commit of ``prepared``."""
        entries = {**self._content("committed").entries, **prepared.entries}
        return _Content(prepared.txid, {key: value for key, value in entries.items() if value is not None})

    def _encoded(self, name: str, content: _Content) -> bytes:
        return encode_stored(f"{self._folder}/{name}", content.txid, dict(content.entries))


class ZooKeeperReader(StateReader):
    """The committed values of one namespace. Each call reads the whole node, which is small."""

    def __init__(self, namespace: str, store: StateStore) -> None:
        self._path = f"{folder(namespace)}/committed"
        self._store = store

    @property
    def committed(self) -> int | None:
        return self._read().committed

    def get(self, key: bytes) -> bytes | None:
        return self._read().get(key)

    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        return self._read().scan(after, limit, max_bytes)

    def size(self) -> StateSize:
        return self._read().size()

    def close(self) -> None:
        self._store.close()

    def _read(self) -> StateReader:
        node = self._store.get(self._path)
        if node is None:
            return MappingReader(None, {})
        match decode_record(self._path, node.data):
            case [int() | None as txid, dict(entries)]:
                return MappingReader(txid, entries)
        raise InternalError(f"{self._path} does not hold a state")
