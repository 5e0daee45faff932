"""The store in memory does what every store does; ZooKeeper's is held to the same in tests/integration."""

from __future__ import annotations

import pytest
from store_conformance import StoreConformance

from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import Create, Node


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    def test_what_was_written_is_there_after_close(self, store: MemoryStore) -> None:
        store.write([Create("/a", b"data")])
        store.close()
        assert store.get("/a") == Node(b"data", 0)
