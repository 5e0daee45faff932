"""Small states in ZooKeeper, beside the progress of transactional topologies: nothing to install or to start.

Below ``transactional.zookeeper.root``, for each namespace, its name escaped as in a URL:

===========================  =====================================  =====================================
node                         value, after the format                written
===========================  =====================================  =====================================
$states/<name>/owner         who opened it                          by opening; its *version* is the owner
$states/<name>/committed     txid or None, all keys with values     by commit
$states/<name>/prepared      txid or None, the changes              by prepare, commit and rollback
===========================  =====================================  =====================================

No node here has the path of one that belongs to a transactional id, even if one is called ``$states``.

Every write is one store transaction with a check of the owner. After an UnavailableError it may have happened or may
yet happen; the next one begins by reading what is stored, and names its versions. A commit writes the whole state:
that is why it is bounded.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from tupletree.component import TopologyContext
from tupletree.errors import AuthorityError, ConflictError, InternalError, UsageError
from tupletree.state.buffered import BufferedState, Changes, not_prepared, superseded
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.options import parsed
from tupletree.transactional.layout import decode_stored, encode_stored
from tupletree.transactional.store import Check, Create, Put, StateStore
from tupletree.transactional.zookeeper import open_store

FOLDER: Final = "/$states"
LIMIT_BYTES: Final = 500_000
"""Of the state of a namespace, and of what is prepared at once. ZooKeeper keeps all of it in memory, on each server."""

TRIES: Final = 10
"""A write that finds another version reads and decides again, this often."""


class ZooKeeperStateProvider(StateProvider):
    """States of at most 500,000 bytes a task, in the ensemble of ``transactional.zookeeper.servers`` or the cluster's.

    In a LocalCluster, which has none, they are in the cluster's memory.
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


def folder(namespace: str) -> str:
    """Where a namespace is. ZooKeeper takes neither an empty name nor one of dots."""
    return f"{FOLDER}/{quote(namespace, safe='').replace('.', '%2E') or '%'}"


@dataclass(frozen=True, slots=True)
class _Content:
    """Of the node ``committed`` or ``prepared``."""

    txid: int | None
    entries: Changes


_NOTHING: Final = _Content(None, {})

Contents = Mapping[str, _Content]
"""By the name of the node."""


class ZooKeeperBackend:
    """The nodes of one namespace, and what is in them."""

    def __init__(self, namespace: str, store: StateStore, owner: str) -> None:
        self._namespace = namespace
        self._store = store
        self._folder = folder(namespace)
        self._nodes: dict[str, tuple[_Content, int]] = {}  # with their versions
        self._is_settled = False  # that what is known here is what is stored
        self._owner = self._take_over(owner)
        self._reload()

    @property
    def committed(self) -> int | None:
        return self._content("committed").txid

    @property
    def prepared(self) -> int | None:
        return self._content("prepared").txid

    def get(self, key: bytes) -> bytes | None:
        self._settle()
        return self._content("committed").entries.get(key)

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        self._settle()
        yield [(key, value) for key, value in self._content("committed").entries.items() if value is not None]

    def prepare(self, txid: int, changes: Changes) -> None:
        def decide() -> Contents:
            prepared = _Content(txid, changes)
            for content in (prepared, self._merged(prepared)):
                size = len(self._encoded("committed", content))
                if size > LIMIT_BYTES:
                    raise UsageError(
                        f"state {self._namespace!r} would take {size:,} bytes, and in ZooKeeper it may take "
                        f"{LIMIT_BYTES:,}: keep it with the provider 'redis' or 'sqlite'"
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
        """Write what is decided on what is stored."""
        for _ in range(TRIES):
            self._settle()
            contents = decide()
            known = self._nodes
            writes = [
                Put(f"{self._folder}/{name}", self._encoded(name, content), known[name][1])
                for name, content in contents.items()
            ]
            if not writes:
                return
            self._is_settled = False  # until it is known what the store made of it
            with suppress(ConflictError):
                self._store.write([Check(f"{self._folder}/owner", self._owner), *writes])
                known.update({name: (content, known[name][1] + 1) for name, content in contents.items()})
                self._is_settled = True
                return
        raise ConflictError(f"state {self._namespace!r} keeps changing: somebody else writes below {self._folder}")

    def _settle(self) -> None:
        if not self._is_settled:
            self._reload()

    def _reload(self) -> None:
        self._is_settled = False
        self._check_owner()
        # In this order: if a late commit of its own comes in between, what is committed is right all the same, and the
        # version of the other no longer fits.
        for name in ("prepared", "committed"):
            path = f"{self._folder}/{name}"
            node = self._store.get(path)
            if node is None:
                raise self._gone()
            match decode_stored(path, node.data):
                case [int() | None as txid, dict(entries)]:
                    self._nodes[name] = _Content(txid, entries), node.version
                case _:
                    raise InternalError(f"{path} holds something else than a state")
        self._check_owner()  # all of it was read while this was the owner
        self._is_settled = True

    def _take_over(self, owner: str) -> int:
        """Become the only writer; return the version that says so."""
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
                decode_stored(path, node.data)  # refuses what a newer version wrote
                self._store.write([Put(path, mine, node.version)])
                return node.version + 1
        raise ConflictError(f"others keep opening state {self._namespace!r} at the same time")

    def _check_owner(self) -> None:
        node = self._store.get(f"{self._folder}/owner")
        if node is None:
            raise self._gone()
        if node.version != self._owner:
            raise superseded(self._namespace)

    def _gone(self) -> AuthorityError:
        return AuthorityError(f"state {self._namespace!r} was removed from ZooKeeper: {self._folder} is not whole")

    def _content(self, name: str) -> _Content:
        return self._nodes[name][0]

    def _merged(self, prepared: _Content) -> _Content:
        """What is committed once ``prepared`` is."""
        entries = {**self._content("committed").entries, **prepared.entries}
        return _Content(prepared.txid, {key: value for key, value in entries.items() if value is not None})

    def _encoded(self, name: str, content: _Content) -> bytes:
        return encode_stored(f"{self._folder}/{name}", content.txid, dict(content.entries))
