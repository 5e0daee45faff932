"""Topologies that write a row for each message of a topic, once.

aligned           messages --fields--> count --fields--> out (an ExactlyOnceSinkBolt)
transactional     messages --fields--> out (a SinkCommitter)
"""

from __future__ import annotations

from typing import Any

from tupletree import BasicStatefulBolt, Topology, TopologyBuilder
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.transactional import SinkCommitter, TransactionalTopologyBuilder
from tupletree.transactional.kafka import TransactionalKafkaSpout

COLUMNS = {"partition": "int", "offset": "bigint", "word": "string", "nth": "bigint"}
KEY = ["partition", "offset"]


class Count(BasicStatefulBolt):
    """Numbers the messages of each word."""

    default_factory = int
    outputs = list(COLUMNS)

    def execute(self, tup: Any) -> Any:
        self.state[tup["word"]] += 1
        yield [tup["partition"], tup["offset"], tup["word"], self.state[tup["word"]]]


def counting(spout: KafkaSpout, sink: TransactionalSink) -> Topology:
    builder = TopologyBuilder()
    messages = builder.set_spout("messages", spout, 2)
    count = builder.set_bolt("count", Count(), 2).fields_grouping(messages, ["word"])
    builder.set_bolt("out", ExactlyOnceSinkBolt(sink), 2).fields_grouping(count, KEY)
    return builder.create_topology()


def committing(transactional_id: str, spout: TransactionalKafkaSpout, sink: TransactionalSink) -> Topology:
    builder = TransactionalTopologyBuilder(transactional_id, "messages", spout, 2)
    builder.set_bolt("out", SinkCommitter(sink, transactional_id), 2).fields_grouping("messages", KEY)
    return builder.create_topology()
