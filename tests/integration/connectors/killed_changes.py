"""A topology on the changes of a table, which writes down the key of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from killed_topology import Append

from tupletree import BasicBolt, Topology, TopologyBuilder
from tupletree.connectors.postgres_changes import PostgresChangesSpout


class Keys(BasicBolt):
    outputs = ["text"]

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit([str(tup["key"]["id"])])


def appending_keys(spout: PostgresChangesSpout, directory: Path) -> Topology:
    builder = TopologyBuilder()
    changes = builder.set_spout("changes", spout)
    keys = builder.set_bolt("keys", Keys()).shuffle_grouping(changes)
    builder.set_bolt("append", Append(directory), parallelism=2).shuffle_grouping(keys)
    return builder.create_topology()
