"""An outage of what a topology writes to, while its log goes on: the messages that failed are stored up to a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.local_components import DoBasic, Log
from tupletree import FailedException, TopologyBuilder
from tupletree._replay import MAX_WAITING
from tupletree.connectors.files import FileSpout
from tupletree.connectors.formats import Text
from tupletree.connectors.log_spout import READ_AHEAD
from tupletree.testing import LocalCluster

COUNT = 2 * MAX_WAITING


def test_a_log_is_read_no_further_while_the_most_messages_wait(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{number}\n" for number in range(COUNT)))
    seen, is_back = Log(), Log()

    def step(tup: Any, collector: Any) -> None:
        seen.append(tup[0])
        if not is_back:
            raise FailedException("the database is away")

    builder = TopologyBuilder()
    source = builder.set_spout("lines", FileSpout(lines, Text(), are_complete=True))
    builder.set_bolt("step", DoBasic(step)).shuffle_grouping(source)
    with LocalCluster(simulated_time=True) as cluster:
        # What is in flight when the last of them fails is executed too.
        cluster.submit("t", builder.create_topology(), {"topology.max.spout.pending": READ_AHEAD // 2})
        cluster.wait_until(lambda: len(seen) >= MAX_WAITING)
        cluster.wait_quiet()
        assert len(seen) < MAX_WAITING + READ_AHEAD
        is_back.append(True)
        cluster.advance(1)
        cluster.wait_until(lambda: len(set(seen)) == COUNT)
