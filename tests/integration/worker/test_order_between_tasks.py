"""The order of tuples from one task to another, on two real workers: small rows and large, a slow receiver."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree.testing import DevCluster, wait_until

NUMBERS = 6_000
LARGE = "x" * 300_000  # comes in pieces


class Numbers(Spout):
    """Emits 0, 1, 2, … on two streams, some with a large value."""

    outputs = {"default": ["number", "value"], "other": ["number", "value"]}

    def setup(self) -> None:
        self.number = 0

    def next_tuple(self) -> None:
        for _ in range(50):
            if self.number < NUMBERS:
                value = LARGE if self.number % 200 == 7 else ""
                self.collector.emit([self.number, value], self.number)
                self.collector.emit([self.number, ""], stream="other")
                self.number += 1


class Order(BasicBolt):
    """Notes how many came, and what came after a later one of the same task and stream. The first task is slow."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def setup(self) -> None:
        self.latest: dict[str, int] = {}
        self.came, self.late = 0, 0

    def execute(self, tup: Any, collector: Any) -> None:
        if self.context.task_index == 0 and self.came % 100 == 0:
            time.sleep(0.01)
        sender = f"{tup.source_task}/{tup.source_stream}"
        self.late += tup["number"] <= self.latest.get(sender, -1)
        self.latest[sender] = tup["number"]
        self.came += 1

    def tick(self) -> None:
        found = {"came": self.came, "late": self.late, "senders": len(self.latest)}
        noted = Path(self.directory, f"{self.context.task_id}")
        noted.with_suffix(".new").write_text(json.dumps(found))
        noted.with_suffix(".new").rename(noted.with_suffix(".json"))


def test_tuples_of_a_task_and_stream_come_to_each_task_in_the_order_of_their_emits(tmp_path: Path) -> None:
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Numbers(), parallelism=2)
    order = builder.set_bolt("order", Order(str(tmp_path)), parallelism=3)
    order.shuffle_grouping(numbers).fields_grouping(numbers, ["number"], "other")
    conf = {
        "topology.workers": 2,
        "topology.max.spout.pending": 2_000,
        "topology.tick.tuple.freq.secs": 0.2,
        "topology.executor.receive.buffer.size": 200,  # the slow task makes its senders wait
    }

    def noted() -> list[dict[str, int]]:
        return [json.loads(one.read_text()) for one in tmp_path.glob("*.json")]

    with DevCluster(slots=2) as cluster:
        cluster.client.submit("order", builder.create_topology(), conf)
        wait_until(lambda: sum(one["came"] for one in noted()) >= 4 * NUMBERS, 90, what="all have come")
        assert [one["late"] for one in noted()] == [0, 0, 0]
        assert sum(one["came"] for one in noted()) == 4 * NUMBERS, "no replay that would come late"
        assert max(one["senders"] for one in noted()) == 4, "two tasks with two streams each"
        workers = cluster.client.describe("order").workers
    assert len(workers) == 2
