"""The spouts over rows in memory: what a batch takes, when they are quiet, and every mistake in their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from partition_sources import ID, Kept, attempt, context
from stored_metadata import store_metadata

from tupletree._stores.memory_nodes import MemoryStore
from tupletree.errors import UsageError
from tupletree.outputs import FieldsDeclarer
from tupletree.transactional.memory import MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout
from tupletree.transactional.opaque import OpaqueSpoutAdapter
from tupletree.transactional.partitioned import PartitionedSpoutAdapter
from tupletree.transactional.progress import Progress
from tupletree.transactional.spouts import CommittingEmitter, TransactionalSpout

WORDS = {0: [["a"], ["b"], ["c"]], 1: [["d"]]}


class Run:
    """A topology's spout without the topology: batch after batch, each committed, until it is quiet."""

    def __init__(self, store: MemoryStore, adapter: TransactionalSpout) -> None:
        progress = Progress.take_over(store, ID, "the test")
        coordinator, emitter = adapter.coordinator({}, context()), adapter.emitter({}, context())
        self.batches: list[list[Any]] = []
        while coordinator.is_ready():
            txid = progress.committed + 1
            metadata = coordinator.initialize_transaction(txid, progress.metadata.get(txid - 1))
            this, kept = attempt(txid, epoch=progress.epoch), Kept()
            store_metadata(progress, txid, metadata)
            emitter.emit_batch(this, metadata, kept)
            if isinstance(emitter, CommittingEmitter):
                emitter.commit(this)
            progress.record(txid)
            self.batches.append(kept.numbers)


def transactional(store: MemoryStore, data: Any = WORDS) -> list[list[Any]]:
    spout = MemoryTransactionalSpout(data, ["word"], 2)
    return Run(store, PartitionedSpoutAdapter(ID, spout, open_store=lambda _: store)).batches


def opaque(store: MemoryStore, away: Path | None = None) -> list[list[Any]]:
    spout = OpaqueMemoryTransactionalSpout(WORDS, ["word"], 2, away)
    return Run(store, OpaqueSpoutAdapter(ID, spout, open_store=lambda _: store)).batches


@pytest.mark.parametrize("run", [transactional, opaque])
def test_batches_take_of_every_partition_until_all_is_taken_and_a_restart_is_quiet(run: Any) -> None:
    store = MemoryStore()
    assert run(store) == [["a", "b", "d"], ["c"]]
    assert run(store) == []


def test_rows_that_are_added_are_taken_after_a_restart() -> None:
    store = MemoryStore()
    transactional(store)
    assert transactional(store, [[["a"], ["b"], ["c"], ["x"]], [["d"]]]) == [["x"]]


def test_a_partition_that_is_away_waits_and_one_that_goes_away_gives_what_it_can(tmp_path: Path) -> None:
    store = MemoryStore()
    (tmp_path / "0").touch()
    assert opaque(store, tmp_path) == [["d"]]
    (tmp_path / "0").write_text("1")
    assert opaque(store, tmp_path) == [["a"]]
    (tmp_path / "0").unlink()
    assert opaque(store, tmp_path) == [["b", "c"]]


@pytest.mark.parametrize("kind", [MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout])
def test_the_first_field_is_the_attempt(kind: Any) -> None:
    declarer = FieldsDeclarer("spout")
    kind(WORDS, ["word"], 1).declare_output_fields(declarer)
    assert declarer.streams["default"].fields == ("attempt", "word")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (WORDS, "word", 1),
            r"fields is 'word'; a list of the names of a row's values was expected, without 'attempt'",
        ),
        ((WORDS, ["attempt"], 1), r"fields is \['attempt'\]; a list of the names"),
        ((WORDS, ["word"], 0), r"max_rows_per_batch is 0; a number of rows, at least 1, was expected"),
        ((WORDS, ["word"], None), r"max_rows_per_batch is None; a number of rows"),
        (({1: [["a"]]}, ["word"], 1), r"the partitions of data are 1; 0, 1, 2, … were expected"),
        (({0: [], "a": []}, ["word"], 1), r"the partitions of data are 0, a; 0, 1, 2, … were expected"),
        (([1, 2], ["word"], 1), r"partition 0 of data is 1; a list of rows was expected"),
        (([[["a"], "b"]], ["word"], 1), r"row 1 of partition 0 is 'b'; a list of 1 values was expected, for word"),
        (([[["a", 1]]], ["word"], 1), r"row 0 of partition 0 is \['a', 1\]; a list of 1 values"),
    ],
)
@pytest.mark.parametrize("kind", [MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout])
def test_a_mistake_in_the_arguments_is_named(kind: Any, arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"{kind.__name__}: {message}"):
        kind(*arguments)
