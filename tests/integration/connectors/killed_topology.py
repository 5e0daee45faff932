"""A topology on a queue whose bolt writes down each message before it is acked."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tupletree import BasicBolt, Topology, TopologyBuilder
from tupletree.replaying_spout import ReplayingSpout


class Append(BasicBolt):
    """Appends each message to a file of its task, in one write, which a kill cannot cut."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def execute(self, tup: Any, collector: Any) -> None:
        time.sleep(0.001)  # work
        handle = os.open(self.directory / f"done-{self.context.task_id}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, f"{tup['text']}\n".encode())
        finally:
            os.close(handle)


def appending(spout: ReplayingSpout, directory: Path) -> Topology:
    builder = TopologyBuilder()
    messages = builder.set_spout("messages", spout, parallelism=2)
    builder.set_bolt("append", Append(directory), parallelism=2).shuffle_grouping(messages)
    return builder.create_topology()


def done(directory: Path) -> Counter[str]:
    """How often each message was processed."""
    return Counter(line for path in directory.glob("done-*") for line in path.read_text().splitlines())
