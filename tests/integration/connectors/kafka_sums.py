"""A transactional topology that adds up the numbers of a topic, by partition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tupletree.topology import Topology
from tupletree.transactional import (
    BatchBolt,
    Committer,
    OpaqueMap,
    SqliteDatabase,
    TransactionalMap,
    TransactionalTopologyBuilder,
)
from tupletree.transactional.kafka import OpaqueKafkaSpout


class Add(BatchBolt, Committer):
    """Adds the sum and the count of each partition to a table."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.amounts: Counter[str] = Counter()

    def execute(self, tup: Any) -> None:
        self.amounts[f"sum of {tup['partition']}"] += int(tup["text"])
        self.amounts[f"count of {tup['partition']}"] += 1

    def finish_batch(self) -> None:
        self.table.add(self.batch_id, dict(self.amounts))


def table(spout: Any, directory: Path) -> Any:
    kind = OpaqueMap if isinstance(spout, OpaqueKafkaSpout) else TransactionalMap
    return kind(SqliteDatabase(directory / "sums.db"), "sums")


def summing(transactional_id: str, spout: Any, directory: Path) -> Topology:
    builder = TransactionalTopologyBuilder(transactional_id, "numbers", spout, parallelism=2)
    builder.set_committer_bolt("add", Add(table(spout, directory))).global_grouping("numbers")
    return builder.create_topology()


def truth(numbers: dict[int, list[int]]) -> dict[str, int]:
    sums = {f"sum of {partition}": sum(values) for partition, values in numbers.items()}
    return {**sums, **{f"count of {partition}": len(values) for partition, values in numbers.items()}}
