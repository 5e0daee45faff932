"""Opaque partitions: the source cannot emit the same batch twice, and still every number counts exactly once.

    python -m examples.opaque_partitions
    tupletree submit examples/opaque_partitions.py --name queues -c topology.max.spout.pending=2

Three queues hold the numbers from 1 to 300, each on its own machine. When the second batch is already in the database,
there is an accident: the batch fails, and at that moment the machine of queue 1 becomes unavailable. The replayed batch
is smaller, since it ends where queue 1 can be read no further. The changes of the first attempt to the database are
undone. The next batch is also emitted again, starting at the new end of the replayed batch. When the machine is back,
queue 1 continues where it was left.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tupletree import Topology, TopologyContext, Tuple
from tupletree.transactional import (
    BatchBolt,
    BatchCollector,
    Committer,
    FailedException,
    OpaqueMap,
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    SqliteDatabase,
    TransactionalTopologyBuilder,
    TransactionAttempt,
)

QUEUES = 3
NUMBERS = 300  # in each queue
TAKE = 50  # maximum from each queue for a batch


class Machines:
    """The machines of the queues. While one is down, a file gives the last number that can be read of its queue."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def readable(self, queue: int) -> int:
        try:
            return int((self.directory / f"queue-{queue}").read_text())
        except FileNotFoundError:
            return NUMBERS

    def take_away(self, queue: int, last: int) -> None:
        new = self.directory / "new"
        new.write_text(str(last))
        new.rename(self.directory / f"queue-{queue}")

    def bring_back(self, queue: int) -> None:
        (self.directory / f"queue-{queue}").unlink(missing_ok=True)


def say(line: str) -> None:
    print(line + "\n", end="")  # in one write: several tasks print


class Queues(OpaquePartitionedTransactionalSpout):
    """Emits the readable numbers of each queue. The metadata of a batch is its last number."""

    outputs = ["queue", "number"]

    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> "QueuesCoordinator":
        return QueuesCoordinator(self.machines)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> "QueueEmitter":
        return QueueEmitter(self.machines)


class QueuesCoordinator(PartitionCoordinator):
    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    def num_partitions(self) -> int:
        return QUEUES

    def has_more(self, partition: int, newest: int | None) -> bool:
        return (newest or 0) < self.machines.readable(partition)


class QueueEmitter(OpaquePartitionEmitter):
    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: int | None
    ) -> int:
        first = (previous or 0) + 1
        last = max(first - 1, min(first - 1 + TAKE, self.machines.readable(partition)))
        for number in range(first, last + 1):
            collector.emit([partition, number])
        if last >= first or last < NUMBERS:
            say(f"{attempt}: queue {partition} emits {f'{first} to {last}' if last >= first else 'nothing'}")
        return last


class AddUp(BatchBolt, Committer):
    """Adds the count and the sum of the numbers of each queue to the table. Simulates the accident."""

    def __init__(self, table: OpaqueMap, machines: Machines) -> None:
        self.table = table
        self.machines = machines

    def setup(self) -> None:
        self.totals: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        self.totals[f"queue {tup['queue']}, numbers"] += 1
        self.totals[f"queue {tup['queue']}, sum"] += tup["number"]

    def finish_batch(self) -> None:
        self.table.add(self.batch_id, self.totals)  # in every commit, even if there is nothing to add
        told = f"{self.batch_id}: adds {sum(n for key, n in self.totals.items() if 'numbers' in key)} numbers"
        if self.batch_id.txid == 2 and self.machines.readable(1) == NUMBERS:
            self.machines.take_away(1, 90)
            say(f"{told}\n                             but fails, and queue 1 can be read up to 90 only")
            raise FailedException("an accident")
        say(told)
        if self.batch_id.txid == 4:
            self.machines.bring_back(1)


def totals(directory: str) -> OpaqueMap:
    """Return the table of totals of the topology in ``directory``."""
    return OpaqueMap(SqliteDatabase(Path(directory, "totals.db")), "totals")


def expected() -> dict[str, int]:
    """Return the contents of the table once every number has counted exactly once."""
    sums = {f"queue {queue}, sum": NUMBERS * (NUMBERS + 1) // 2 for queue in range(QUEUES)}
    return {f"queue {queue}, numbers": NUMBERS for queue in range(QUEUES)} | sums


def topology(directory: str | None = None) -> Topology:
    """Add up into an SQLite file in ``directory`` (by default a new temporary directory)."""
    directory = directory or tempfile.mkdtemp(prefix="opaque-partitions-")
    machines = Machines(directory)
    builder = TransactionalTopologyBuilder("opaque-partitions", "queues", Queues(machines), QUEUES)
    builder.set_bolt("add-up", AddUp(totals(directory), machines)).global_grouping("queues")
    return builder.create_topology()


def main() -> None:
    from tupletree.testing import LocalCluster

    with tempfile.TemporaryDirectory(prefix="opaque-partitions-") as directory, LocalCluster() as cluster:
        cluster.submit("queues", topology(directory), {"topology.max.spout.pending": 2})
        cluster.wait_until(lambda: totals(directory).items() == expected(), timeout=60)
    print(f"Each of the {QUEUES * NUMBERS} numbers counted exactly once.")


if __name__ == "__main__":
    main()
