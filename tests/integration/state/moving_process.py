"""A process that moves the states of two tasks in a shared directory to three, in many pieces.

    python moving_process.py SHARED

It prints a line after each file that it has written, and "moved" at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tupletree import StatefulBolt, config
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import Checkpoint
from tupletree._wire.value_hash import hash_values
from tupletree.component import TopologyContext
from tupletree.state.rocksdb import bulk
from tupletree.state.rocksdb.segments import Entry
from tupletree.state.rocksdb.shared import SharedWriter
from tupletree.worker.checkpoint import contents
from tupletree.worker.checkpoint.contents import Part
from tupletree.worker.checkpoint.redistribution import redistribute

BEFORE, AFTER, TXID = 2, 3, 5


class Count(StatefulBolt):
    """Its keys are those of the grouping."""

    is_divisible = True


def owner(word: str, tasks: int) -> int:
    return hash_values([word], "count", ["word"]) % tasks


class TellingWriter(SharedWriter):
    """Tells of each segment."""

    def write_file(self, name: str, entries: Iterable[Entry]) -> int:
        size = super().write_file(name, entries)
        print("written", flush=True)
        return size


def main(shared: str) -> None:
    contents.MAX_HELD_BYTES = 50_000  # type: ignore[misc]
    bulk.MAX_SEGMENTS = 3  # type: ignore[misc]
    bulk.SharedWriter = TellingWriter  # type: ignore[misc]
    conf = config.defaults() | {
        "topology.state.provider": "rocksdb",
        "topology.state.provider.config": {"shared": shared, "directory": f"{shared}-copies"},
    }
    tasks = {"count": list(range(1, 1 + AFTER))}
    context = TopologyContext(
        topology_id="words-1-1", component_id="count", task_id=1, tasks=tasks, sources={}, targets={}, conf=conf
    )
    part = Part(Count(), context, [["word"]])
    redistribute(lambda id: part, "words", Checkpoint(TXID, Phase.COMMITTED, {"count": BEFORE}, 1), {"count": AFTER})
    print("moved", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
