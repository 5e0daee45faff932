"""Versions of states that cannot be: refused when the topology is built."""

from __future__ import annotations

import pytest

from tupletree import BasicStatefulBolt, TopologyBuilder
from tupletree.errors import TopologyError
from tupletree.testing import FeederSpout
from tupletree.windows import Count as Tuples
from tupletree.windows import StatefulWindowedBolt


class Executing:
    state_version = 2

    def execute(self, tup):
        pass


class Nothing(Executing, BasicStatefulBolt):
    pass


class Text(Executing, BasicStatefulBolt):
    state_version = "2"


class Sums(StatefulWindowedBolt):
    state_version = 2

    def __init__(self):
        self.with_tumbling_window(Tuples(3)).with_message_id_field("word")

    def execute_window(self, window):
        pass

    def migrate_value(self, key, value, version):
        return value


class Generator(Executing, BasicStatefulBolt):
    def migrate_value(self, key, value, version):
        yield value


class Short(Executing, BasicStatefulBolt):
    def migrate_value(self, key, value):
        return value


@pytest.mark.parametrize(
    ("bolt", "sentence"),
    [
        (Nothing, "state_version is 2, and there is no migrate_value: define migrate_value.key, value, version., "),
        (Generator, "Generator.migrate_value has a 'yield'"),
        (Short, "Short.migrate_value"),
        (Text, "state_version is '2'; a number from 1 on was expected"),
        (Sums, "state_version is 2, and the states of a StatefulWindowedBolt cannot be migrated"),
    ],
)
def test_a_version_that_cannot_be_is_refused_when_the_topology_is_built(bolt, sentence):
    with pytest.raises(TopologyError, match=f"bolt 'count': {sentence}"):
        counting(bolt()).create_topology()


def counting(bolt):
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"]))
    builder.set_bolt("count", bolt).fields_grouping("words", ["word"])
    return builder
