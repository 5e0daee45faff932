"""What every StateStore does. A test module subclasses this and has a fixture ``store``, empty at first."""

from __future__ import annotations

import threading

import pytest

from tupletree._stores.nodes import MAX_BYTES, Check, Create, Delete, Node, Put, StateStore, Write
from tupletree.errors import ConflictError, UsageError


class StoreConformance:
    def test_what_does_not_exist_is_none_and_has_no_children(self, store: StateStore) -> None:
        assert store.get("/a") is None
        assert store.get("/a/b") is None
        assert store.children("/a") == []

    def test_a_created_node_is_at_version_0_and_its_missing_parents_are_there_and_empty(
        self, store: StateStore
    ) -> None:
        store.write([Create("/a/b/c", b"data")])
        assert store.get("/a/b/c") == Node(b"data", 0)
        assert store.get("/a/b") == Node(b"", 0)
        assert store.children("/a/b") == ["c"]
        assert store.children("/a") == ["b"]
        assert store.children("/") == ["a"]

    def test_children_are_sorted_names(self, store: StateStore) -> None:
        store.write([Create(f"/a/{name}") for name in ("c", "a", "b", "10", "9")])
        assert store.children("/a") == ["10", "9", "a", "b", "c"]

    def test_a_put_raises_the_version_by_one(self, store: StateStore) -> None:
        store.write([Create("/a", b"0")])
        store.write([Put("/a", b"1", 0)])
        store.write([Put("/a", b"", 1)])
        assert store.get("/a") == Node(b"", 2)

    def test_a_node_created_again_begins_at_version_0(self, store: StateStore) -> None:
        store.write([Create("/a", b"0")])
        store.write([Put("/a", b"1", 0)])
        store.write([Delete("/a")])
        assert store.get("/a") is None
        store.write([Create("/a", b"2")])
        assert store.get("/a") == Node(b"2", 0)

    def test_a_delete_asks_for_no_version_and_leaves_the_parent(self, store: StateStore) -> None:
        store.write([Create("/a/b", b"0")])
        store.write([Put("/a/b", b"1", 0)])
        store.write([Delete("/a/b")])
        assert store.get("/a") == Node(b"", 0)
        assert store.children("/a") == []

    def test_names_may_hold_any_letters(self, store: StateStore) -> None:
        store.write([Create("/wörter zählen, 数/x 1", b"data")])
        assert store.get("/wörter zählen, 数/x 1") == Node(b"data", 0)
        assert store.children("/wörter zählen, 数") == ["x 1"]

    @pytest.mark.parametrize(
        ("write", "path"),
        [
            (Check("/a", 0), "/a"),
            (Check("/none", 0), "/none"),
            (Create("/a/b"), "/a/b"),
            (Put("/a", b"", 0), "/a"),
            (Put("/a", b"", 2), "/a"),
            (Put("/none", b"", 0), "/none"),
            (Delete("/a"), "/a"),  # it has children
            (Delete("/none"), "/none"),
        ],
    )
    @pytest.mark.parametrize("position", [0, 1, 2, 3])
    def test_one_conflict_anywhere_undoes_the_whole_and_names_its_path(
        self, store: StateStore, write: Write, path: str, position: int
    ) -> None:
        store.write([Create("/a", b"0"), Create("/a/b", b"b"), Create("/c", b"c")])
        store.write([Put("/a", b"1", 0)])
        others: list[Write] = [Create("/a/new", b"new"), Put("/c", b"changed", 0), Delete("/a/b")]
        if isinstance(write, Create | Delete):
            others[2] = Put("/a/b", b"changed", 0)
        with pytest.raises(ConflictError, match=path):
            store.write([*others[:position], write, *others[position:]])
        assert store.get("/a") == Node(b"1", 1)
        assert store.get("/a/b") == Node(b"b", 0)
        assert store.get("/c") == Node(b"c", 0)
        assert store.children("/a") == ["b"]

    def test_later_writes_of_a_transaction_see_the_earlier_ones(self, store: StateStore) -> None:
        store.write([Create("/a", b"0"), Check("/a", 0), Put("/a", b"1", 0), Create("/a/b"), Check("/a", 1)])
        store.write([Delete("/a/b"), Delete("/a")])
        assert store.get("/a") is None

    def test_several_changes_of_one_node_are_undone_together(self, store: StateStore) -> None:
        store.write([Create("/a", b"0"), Create("/b", b"b")])
        with pytest.raises(ConflictError, match="/a"):
            store.write([Put("/a", b"1", 0), Delete("/b"), Create("/b", b"new"), Put("/a", b"2", 1), Check("/a", 9)])
        assert (store.get("/a"), store.get("/b")) == (Node(b"0", 0), Node(b"b", 0))

    def test_parents_that_were_deleted_are_created_again(self, store: StateStore) -> None:
        for _ in range(2):
            store.write([Create("/a/b/c", b"data")])
            assert store.get("/a/b/c") == Node(b"data", 0)
            for path in ("/a/b/c", "/a/b", "/a"):
                store.write([Delete(path)])

    def test_nothing_to_write_is_nothing_written(self, store: StateStore) -> None:
        store.write([])
        assert store.children("/") == []

    def test_almost_a_megabyte_fits(self, store: StateStore) -> None:
        data = b"x" * (MAX_BYTES - 1000)
        store.write([Create("/a", data)])
        assert store.get("/a") == Node(data, 0)

    def test_a_node_too_large_is_refused_with_its_path_and_size(self, store: StateStore) -> None:
        with pytest.raises(UsageError, match=r"^/a/large would take 1,000,008 bytes"):
            store.write([Create("/a/small"), Create("/a/large", b"x" * MAX_BYTES)])
        assert store.get("/a/small") is None

    def test_nodes_too_large_together_are_refused_with_the_sum(self, store: StateStore) -> None:
        store.write([Create("/a")])
        part = b"x" * (MAX_BYTES // 3)
        with pytest.raises(UsageError, match=r"^/a/1 would take 333,337 bytes, together .* 1,333,746"):
            store.write([Create("/a/1", part), Create("/a/2", part), Create("/a/3", part), Put("/a", part, 0)])
        assert store.children("/a") == []

    def test_of_threads_that_change_one_version_one_succeeds(self, store: StateStore) -> None:
        store.write([Create("/a", b"0")])
        start = threading.Barrier(8)
        outcomes: list[str] = []

        def change(number: int) -> None:
            start.wait()
            try:
                store.write([Put("/a", str(number).encode(), 0), Create(f"/a/{number}")])
                outcomes.append("done")
            except ConflictError:
                outcomes.append("conflict")

        threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["conflict"] * 7 + ["done"]
        node = store.get("/a")
        assert node is not None
        assert (node.version, store.children("/a")) == (1, [node.data.decode()])
