"""A program of streams that counts the words of a topic, and adds up their lengths, in tables.

lines -- flat_map --+-- key_by -- count --> words
                    +-- key_by -- map -- sum --> letters
"""

from __future__ import annotations

from tupletree import Topology
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.streams import StreamBuilder
from tupletree.streams.builder import Guarantee


def counting(spout: KafkaSpout, words: TransactionalSink, letters: TransactionalSink, guarantee: Guarantee) -> Topology:
    """Return the program, with the sinks of its two tables."""
    builder = StreamBuilder(parallelism=2)
    split = builder.source(spout, name="lines", parallelism=2).flat_map(str.split)
    split.key_by(lambda word: word).count().sink(words, fields=["word", "times"])
    split.key_by(lambda word: word[0]).map(len).sum(name="lengths").sink(letters, fields=["letter", "length"])
    return builder.topology(guarantee)
