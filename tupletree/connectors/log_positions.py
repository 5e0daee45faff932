"""Positions of logs that keep none themselves, in ZooKeeper, or in the memory of a LocalCluster.

Below ``transactional.zookeeper.root``, one node for each task: ``$logs/<log id>/<task index>``, its value the position
of each partition that the task has read.

Positions only grow. So a writer that was replaced changes nothing for the worse, and if the number of tasks changes,
the highest position of a partition is the one that counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import quote

from tupletree._limits import MAX_NAME
from tupletree._stores.node_encoding import decode_record, encode_stored
from tupletree._stores.nodes import TRIES, Create, Node, Put, StateStore, next_version
from tupletree._wire.names import topology_name
from tupletree.component import TopologyContext
from tupletree.errors import ConflictError, InternalError, UnavailableError, UsageError

FOLDER: Final = "/$logs"


def check_log_id(owner: str, log_id: str | None) -> None:
    """Raise UsageError, naming ``owner``, if a log id cannot be the name of a node."""
    if log_id is None:
        return
    if not isinstance(log_id, str) or not 0 < len(log_id) <= MAX_NAME or _escaped(log_id) != log_id:
        raise UsageError(
            f"{owner}: log_id is {log_id!r}; at most {MAX_NAME} letters, digits, '-', '_' and '.' were expected, not "
            "'.' first"
        )


def _escaped(name: str) -> str:
    escaped = quote(name, safe="")
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped.replace("~", "%7E")


class StoredPositions:
    """The positions of one task's share of a log, for the thread that reads the log.

    ``log_id``: by default the names of the topology and of the component.
    """

    def __init__(self, context: TopologyContext, log_id: str | None) -> None:
        if log_id is None:
            log_id = f"{_escaped(topology_name(context.topology_id))}/{_escaped(context.component_id)}"
        self._folder = f"{FOLDER}/{log_id}"
        self._path = f"{self._folder}/{context.task_index}"
        self._conf = context.conf
        self._store: StateStore | None = None
        self._node: Node | None = None  # as stored at _path
        self._own: dict[str, int] = {}  # of that node
        self._is_stale = True  # the store can differ from both
        self._rewound: dict[str, int] = {}  # positions to store although higher ones are

    def load(self) -> dict[str, int]:
        """Return the stored position of each partition, of all tasks.

        Raises UnavailableError if the store cannot be reached; InternalError if a node does not hold positions.
        """
        store = self._opened()
        found: dict[str, int] = {}
        for name in store.children(self._folder):
            path = f"{self._folder}/{name}"
            node = store.get(path)
            if node is not None:
                _raise_to(found, _decoded(path, node))
        return found

    def rewind(self, partition: str, position: int) -> None:
        """Have the next ``save`` store a lower position: the partition was created again."""
        self._rewound[partition] = position

    def save(self, positions: Mapping[str, int], kept: Collection[str] | None = None) -> None:
        """Store positions, unless higher ones are stored. ``kept``: forget all partitions but these.

        Raises UnavailableError if the store cannot be reached: they are possibly stored, and may be stored again.
        UsageError if they are too many: all those of a task, with their names, may take 1,000,000 bytes.
        """
        store = self._opened()
        for _ in range(TRIES):
            if self._is_stale:
                self._reload(store)
            merged = {**self._own, **self._rewound}
            _raise_to(merged, positions)
            if kept is not None:
                merged = {name: at for name, at in merged.items() if name in kept}
            if merged == self._own:
                return
            data, node = encode_stored(self._path, merged), self._node
            self._is_stale = True
            own = Create(self._path, data) if node is None else Put(self._path, data, node.version)
            with suppress(ConflictError):
                store.write([own, *self._lowered(store)])
                version = 0 if node is None else next_version(node.version)
                self._node, self._own, self._is_stale = Node(data, version), merged, False
                self._rewound = {}
                return
        raise UnavailableError(f"others keep writing the positions at {self._path}")

    def _lowered(self, store: StateStore) -> list[Put]:
        """Return what lowers rewound positions where tasks that had the partition have stored higher ones."""
        writes = []
        for name in store.children(self._folder) if self._rewound else ():
            path = f"{self._folder}/{name}"
            node = None if path == self._path else store.get(path)
            if node is None:
                continue
            stored = _decoded(path, node)
            lowered = {name: min(at, self._rewound.get(name, at)) for name, at in stored.items()}
            if lowered != stored:
                writes.append(Put(path, encode_stored(path, lowered), node.version))
        return writes

    def close(self) -> None:
        """Release the store."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _opened(self) -> StateStore:
        if self._store is None:
            from tupletree._stores.zookeeper_nodes import open_store  # imports ZooKeeper's client, which few logs need

            self._store = open_store(self._conf)
        return self._store

    def _reload(self, store: StateStore) -> None:
        self._node = store.get(self._path)
        self._own = {} if self._node is None else _decoded(self._path, self._node)
        self._is_stale = False


def _decoded(path: str, node: Node) -> dict[str, int]:
    match decode_record(path, node.data):
        case [dict() as positions]:
            return positions
    raise InternalError(f"{path} does not hold the positions of a log")


def _raise_to(positions: dict[str, int], others: Mapping[str, int]) -> None:
    for name, position in others.items():
        positions[name] = max(position, positions.get(name, position))
