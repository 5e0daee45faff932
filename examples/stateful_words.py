"""Word count with the counts in a state: exactly once, whatever process dies, without code for a database.

    tupletree submit examples/stateful_words.py --name words \
        -c topology.state.checkpoint.aligned=true \
        -c topology.state.provider=sqlite \
        -c 'topology.state.provider.config={"directory": "/tmp/words"}'
    tupletree checkpoints words

With aligned checkpoints, which include the position of the spout, every count is exact. Without the first -c,
positions are ignored: failed lines are emitted again, and a spout that was killed starts from the beginning. Then
counts can be too high, but never too low. A topology submitted again under the same name continues.
"""

from collections.abc import Iterator
from pydoc_data.topics import topics

from tupletree import BasicBolt, BasicStatefulBolt, ReliableSpout, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector


class Lines(ReliableSpout):
    """Reads the help on the Python language, line by line, over and over. Its position is the number of lines read."""

    outputs = ["line"]

    def __init__(self, lines: int) -> None:
        self.lines = lines

    def read(self) -> Iterator[list[str]]:
        text = [line for _, topic in sorted(topics.items()) for line in topic.splitlines() if line.strip()]
        tasks = len(self.context.component_tasks(self.context.component_id))
        for line in range(self.context.task_index, self.lines, tasks):
            yield [text[line % len(text)]]


class Split(BasicBolt):
    outputs = ["word"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> Iterator[list[str]]:
        for word in tup["line"].lower().split():
            yield [word]


class Count(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Tuple) -> None:
        self.state[tup["word"]] += 1


def topology(lines: int = 1_000_000) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(lines), parallelism=2)
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping("split", ["word"])
    return builder.create_topology()
