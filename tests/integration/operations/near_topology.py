"""A topology whose bolt notes where it executes, in files; submitted with this module as its code."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tupletree import BasicBolt, Spout, Topology, TopologyBuilder


class Numbers(Spout):
    """Emits numbers below the number in the file ``wanted``."""

    outputs = ("number",)

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.number = 0
        self.wanted = 0

    def setup(self) -> None:
        Path(self.directory, "pid").write_text(str(os.getpid()))

    def next_tuple(self) -> None:
        if self.number >= self.wanted:
            self.wanted = int(Path(self.directory, "wanted").read_text())
        if self.number < self.wanted:
            self.collector.emit([self.number], self.number)
            self.number += 1


class Notes(BasicBolt):
    """Notes each tuple. In the spout's worker it is slow if there is a file ``slow``."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def execute(self, tup: Any, collector: Any) -> None:
        is_near = Path(self.directory, "pid").read_text() == str(os.getpid())
        if is_near and Path(self.directory, "slow").exists():
            time.sleep(0.05)
        with open(Path(self.directory, "near" if is_near else "far"), "a", encoding="utf-8") as file:
            file.write(".")


def topology(directory: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(directory))
    builder.set_bolt("notes", Notes(directory), 2).shuffle_grouping("numbers")
    return builder.create_topology()
