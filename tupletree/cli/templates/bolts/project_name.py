"""project-name: how often each word stands in the lines of a file, by a spout and two bolts."""

import re
from collections.abc import Iterator
from pathlib import Path

from tupletree import BasicStatefulBolt, Topology, TopologyBuilder, Tuple, bolt
from tupletree.connectors.files import FileSpout

LINES = Path(__file__).with_name("lines.txt")
"""On a cluster, the workers read this file: the path must exist on their machines."""


@bolt(outputs=["word"])
def split(tup: Tuple) -> Iterator[list[str]]:
    """Emit the words of a line, in lower case; when all are processed, the line is."""
    for word in re.findall(r"[\w']+", tup["line"].lower()):
        yield [word]


class Count(BasicStatefulBolt):
    """The number of times that each word has come, saved in checkpoints."""

    default_factory = int

    def execute(self, tup: Tuple) -> None:
        self.state[tup["word"]] += 1


def topology() -> Topology:
    """Return the topology: what `tupletree local` and `tupletree submit` run."""
    builder = TopologyBuilder()
    lines = builder.set_spout("lines", FileSpout(LINES, are_complete=True))
    words = builder.set_bolt("split", split).shuffle_grouping(lines)
    builder.set_bolt("count", Count()).fields_grouping(words, "word")
    return builder.create_topology()
