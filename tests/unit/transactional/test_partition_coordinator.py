"""The coordinator of a spout with partitions: how many there are, and whether they have more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interrupted_store import InterruptedStore
from partition_sources import ID, Numbers, NumbersCoordinator, Source, context, emit, emitter

from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import StateStore
from tupletree._wire.codec import decode_value
from tupletree.errors import ReportedFailedException
from tupletree.transactional.partition_states import Partitions
from tupletree.transactional.partitioned import KIND, PAUSE_S, PartitionedSpoutAdapter, PartitionsCoordinator
from tupletree.transactional.progress import Progress
from tupletree.transactional.spouts import PartitionCoordinator, TransactionCoordinator


@pytest.fixture
def store() -> MemoryStore:
    """With a coordinator of epoch 1."""
    store = MemoryStore()
    Progress.take_over(store, ID, "the test")
    return store


def coordinator_of(
    source: PartitionCoordinator, store: StateStore, clock: Callable[[], float] = lambda: 1.0
) -> PartitionsCoordinator:
    partitions = Partitions(store, ID, KIND)
    return PartitionsCoordinator("spout:coordinator", source, partitions, lambda state: decode_value(state[0]), clock)


class TestCoordinator:
    def coordinator(self, store: StateStore, source: Source) -> TransactionCoordinator:
        adapter = PartitionedSpoutAdapter(ID, Numbers(source), open_store=lambda _: store)
        return adapter.coordinator({}, context("spout:coordinator"))

    def test_the_metadata_is_the_number_of_partitions(self, store: MemoryStore) -> None:
        source = Source([9], take=2)
        coordinator = self.coordinator(store, source)
        assert coordinator.initialize_transaction(1, None) == 1
        source.sizes.append(9)
        assert coordinator.initialize_transaction(2, 1) == 2

    def test_the_lag_is_what_the_source_says(self, store: MemoryStore) -> None:
        class Behind(NumbersCoordinator):
            def lag(self) -> dict[str, int]:
                return {"numbers": 7}

        source = Source([9], take=2)
        assert coordinator_of(Behind(source), store).lag() == {"numbers": 7}
        assert self.coordinator(store, source).lag() is None

    def test_a_source_hears_of_every_partition_though_one_always_has_more(self, store: MemoryStore) -> None:
        class Asked(NumbersCoordinator):
            def has_more(self, partition: int, newest: Any) -> bool:
                asked.append(partition)
                return super().has_more(partition, newest)

        asked: list[int] = []
        coordinator = coordinator_of(Asked(Source([9, 9, 9], take=2)), store)
        assert all(coordinator.is_ready() for _ in range(4))
        assert asked == [0, 1, 2, 0]

    def test_fewer_partitions_than_before_begin_nothing(self, store: MemoryStore) -> None:
        with pytest.raises(
            ReportedFailedException, match=r"'spout:coordinator': the source has 1 partitions, but had 3 before"
        ):
            self.coordinator(store, Source([9], take=2)).initialize_transaction(2, 3)

    def test_what_is_no_number_of_partitions_is_named(self, store: MemoryStore) -> None:
        class Names(PartitionCoordinator):
            def num_partitions(self) -> Any:
                return ["a", "b"]

            def has_more(self, partition: int, newest: Any) -> bool:
                return True

        coordinator = coordinator_of(Names(), store)
        for ask in (coordinator.is_ready, lambda: coordinator.initialize_transaction(1, None)):
            with pytest.raises(ReportedFailedException, match=r"num_partitions returned \['a', 'b'\]; an integer"):
                ask()

    def test_it_is_ready_while_a_partition_has_more_than_was_emitted(self, store: MemoryStore) -> None:
        now_s = 0.0
        source = Source([2, 3], take=2)
        coordinator = coordinator_of(NumbersCoordinator(source), store, lambda: now_s)
        task = emitter(store, source)
        for txid in (1, 2):
            assert coordinator.is_ready()
            emit(task, txid, partitions=2)
        assert not coordinator.is_ready()
        source.sizes[0] = 3
        assert not coordinator.is_ready(), "the partitions were looked at a moment ago"
        now_s += PAUSE_S
        assert coordinator.is_ready()
        emit(task, 3, partitions=2)
        assert not self.coordinator(store, source).is_ready(), "after a restart"

    def test_a_source_that_is_not_ready_is_not_looked_at(self, store: MemoryStore) -> None:
        class NotReady(NumbersCoordinator):
            def is_ready(self) -> bool:
                return False

        assert not coordinator_of(NotReady(Source([9], take=2)), InterruptedStore(store, at=0)).is_ready()

    def test_a_forgotten_return_is_an_error(self, store: MemoryStore) -> None:
        class Forgets(NumbersCoordinator):
            def is_ready(self) -> bool:
                return None  # type: ignore[return-value]

        class ForgetsMore(NumbersCoordinator):
            def has_more(self, partition: int, newest: Any) -> bool:
                return None  # type: ignore[return-value]

        for method, kind in (("is_ready", Forgets), ("has_more", ForgetsMore)):
            with pytest.raises(ReportedFailedException, match=f"{method} returned None; True or False was expected"):
                coordinator_of(kind(Source([9], take=2)), store).is_ready()

    def test_a_source_that_does_not_say_costs_no_look_at_the_store(self, store: MemoryStore) -> None:
        class Plain(PartitionCoordinator):
            def num_partitions(self) -> int:
                return 1

        assert coordinator_of(Plain(), InterruptedStore(store, at=0)).is_ready()
