"""The word count of stateful_topology.py, split in the executor of its spout.

    text (spout: lines -> words) --fields--> count (stateful)

Some lines fail in the chain when a task meets them first, and some have no word.
"""

from __future__ import annotations

from stateful_topology import COUNT_TASKS, SPOUT_TASKS, WORD, Count, DurableLines, PositionedLines

from tupletree import FailedException, TopologyBuilder
from tupletree.streams.chained_spout import chained

FAILS_EVERY = 700


class SplitLines:
    """A chain that emits the words of a line."""

    def setup(self, context):
        self.failed = set()

    def bind(self, emit):
        def run(row):
            number, line = row
            words = WORD.findall(line)
            for word in words[:-1]:
                emit("words", [word])
            if number % FAILS_EVERY == 0 and number not in self.failed:
                self.failed.add(number)
                raise FailedException(f"line {number} fails at first")
            for word in words[-1:]:
                emit("words", [word])

        return run

    def teardown(self):
        """Nothing is open."""


def chained_topology(directory, *, aligned, rate, lines):
    builder = TopologyBuilder()
    spout = (PositionedLines if aligned else DurableLines)(str(directory), rate / SPOUT_TASKS, lines)
    builder.set_spout("text", chained(spout, SplitLines(), {"words": ["word"]}), SPOUT_TASKS)
    builder.set_bolt("count", Count(), COUNT_TASKS).fields_grouping("text", ["word"], "words")
    return builder.create_topology()
