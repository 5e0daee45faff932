"""A coordinator in its spout: the topology's process with its collector and its clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tupletree._stores.nodes import StateStore
from tupletree.attempt import TransactionAttempt
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.errors import ReportedFailedException
from tupletree.testing.local_cluster import SimulatedClock
from tupletree.transactional.coordinator_spout import CoordinatorSpout, Tree
from tupletree.transactional.spouts import TransactionalSpout, TransactionCoordinator

ID = "count"


class Endless(TransactionalSpout, TransactionCoordinator):
    """A source that always has a batch."""

    def coordinator(self, conf: Any, context: Any) -> TransactionCoordinator:
        return self

    def initialize_transaction(self, txid: int, previous: Any) -> Any:
        return txid


class Away(Endless):
    """A source that cannot be reached."""

    def is_ready(self) -> bool:
        raise ReportedFailedException("nobody is there")


class Emitted(SpoutCollector):
    """What a coordinator emitted and reported, until it is asked for."""

    def __init__(self) -> None:
        self.values: list[Sequence[Any]] = []
        self.trees: list[tuple[Tree, TransactionAttempt]] = []
        self.errors: list[str] = []

    def emit(self, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> tuple[int, ...]:
        self.values.append(values)
        self.trees.append(msg_id)
        return ()

    def report_error(self, error: BaseException) -> None:
        self.errors.append(str(error))

    def take(self) -> list[tuple[Tree, TransactionAttempt]]:
        trees, self.trees = self.trees, []
        return trees


class Process:
    """A coordinator of one of several topologies on one store."""

    def __init__(
        self,
        store: StateStore,
        topology_id: str,
        clock: SimulatedClock,
        pending: int = 1,
        source: TransactionalSpout | None = None,
        in_groups: bool = False,
    ) -> None:
        self.collector = Emitted()
        self.spout = CoordinatorSpout(ID, source or Endless(), open_store=lambda conf: store, clock=clock)
        self.spout.commits_in_groups = in_groups
        context = TopologyContext(
            topology_id=topology_id, component_id="c", task_id=1, tasks={"c": [1]}, sources={}, targets={}, conf={}
        )
        self.conf: dict[str, Any] = {"topology.max.spout.pending": pending}
        self.spout.open(self.conf, context, self.collector)

    def take(self) -> list[tuple[Tree, TransactionAttempt]]:
        self.spout.next_tuple()
        return self.collector.take()

    def commit_one(self) -> int:
        """Commit what it begins next, and return its txid."""
        for _ in Tree:
            [(tree, attempt)] = self.take()
            self.spout.ack((tree, attempt))
        return attempt.txid
