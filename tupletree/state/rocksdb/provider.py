"""Provider of states larger than memory, for clusters of several machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tupletree.context import TopologyContext
from tupletree.state.buffered import BufferedState
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.options import parsed
from tupletree.state.reader import StateReader
from tupletree.state.rocksdb.backend import RocksDBBackend
from tupletree.state.rocksdb.bulk import SharedBulkState
from tupletree.state.rocksdb.copy_folders import remove_copies
from tupletree.state.rocksdb.local import library
from tupletree.state.rocksdb.reader import SharedReader
from tupletree.state.rocksdb.shared import SharedDirectory
from tupletree.state.rocksdb.stores import store_of


class RocksDBStateProvider(StateProvider):
    """States in a directory or object store that all machines share, each read from a copy on its task's machine.

    Configuration: ``shared``: the directory that the machines share, or an address such as ``s3://bucket/states``;
    ``directory``: where a machine keeps its copies, on a local disk; for an address ``storage_options`` and
    ``timeout_s``.
    """

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        options = parsed("rocksdb", conf)
        library()
        backend = RocksDBBackend(namespace, options["directory"], options["shared"], options)
        return BufferedState(namespace, backend, cache_entries=options["cache_entries"])

    def open_bulk(self, namespace: str, conf: Mapping[str, Any]) -> SharedBulkState:
        """Open a namespace without a copy on this machine. See BulkProvider."""
        options = parsed("rocksdb", conf)
        return SharedBulkState(namespace, store_of(options["shared"], options))

    def remove_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:
        options = parsed("rocksdb", conf)
        store = store_of(options["shared"], options)
        SharedDirectory(namespace, store).remove()
        remove_copies(namespace, options["directory"], store.address)

    def open_reader(self, namespace: str, conf: Mapping[str, Any], topology_conf: Mapping[str, Any]) -> StateReader:
        options = parsed("rocksdb", conf)
        return SharedReader(namespace, store_of(options["shared"], options))
