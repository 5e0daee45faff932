"""How a topology says where its streams are exchanged, and how that is found by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tupletree import TopologyBuilder
from tupletree.errors import UsageError
from tupletree.spark.streaming import ExportBatchBolt, ExportBolt, IngestSpout, TransactionalIngestSpout
from tupletree.spark.streaming.endpoint import EXPORT, INGEST, endpoint
from tupletree.transactional import TransactionalTopologyBuilder

SCHEMA = "word STRING, count BIGINT"


def configurations(topology):
    return [json.loads(component.conf_json or "{}") for component in topology.outline().components]


@pytest.fixture
def transactional():
    spout = TransactionalIngestSpout("in", SCHEMA, stream="scores")
    builder = TransactionalTopologyBuilder("t", "spout", spout)
    builder.set_bolt("out", ExportBatchBolt("out", SCHEMA, stream="counts"), 2).shuffle_grouping("spout")
    builder.set_bolt("late", ExportBatchBolt("late", "word STRING", stream="late")).shuffle_grouping("spout")
    return configurations(builder.create_topology())


def test_a_stream_is_found_by_its_name_on_either_side(transactional):
    found = endpoint("t", transactional, EXPORT, "counts")
    assert found.directory == str(Path("out").absolute())
    assert found.columns().simpleString() == "struct<word:string,count:bigint>"
    assert endpoint("t", transactional, INGEST, None).stream == "scores"


def test_a_stream_that_is_not_there_or_not_the_only_one_is_told_in_a_sentence(transactional):
    for stream, fault in {
        "x": "topology 't' exports no stream 'x'; it exports 'counts', 'late'",
        None: "topology 't' exports 'counts', 'late': option 'stream' must name exactly one of them",
    }.items():
        with pytest.raises(UsageError, match=fault):
            endpoint("t", transactional, EXPORT, stream)
    with pytest.raises(UsageError, match="topology 't' ingests no stream"):
        endpoint("t", [{}], INGEST, None)


def test_an_ordinary_topology_says_it_as_well_and_its_own_settings_come_after():
    builder = TopologyBuilder()
    builder.set_spout("in", IngestSpout("in", SCHEMA))
    out = builder.set_bolt("out", ExportBolt("out", SCHEMA, max_delay_s=2)).shuffle_grouping("in")
    [_, conf] = configurations(builder.create_topology())
    assert conf["topology.tick.tuple.freq.secs"] == 2
    out.add_configuration("topology.tick.tuple.freq.secs", 5)
    topology = builder.create_topology()
    assert configurations(topology)[1]["topology.tick.tuple.freq.secs"] == 5
    assert endpoint("t", configurations(topology), EXPORT, None).stream == "default"


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: ExportBatchBolt("", SCHEMA), "the directory of an exchange is ''"),
        (lambda: ExportBatchBolt("d", "word"), "the schema 'word' ends where a type was expected"),
        (lambda: ExportBatchBolt("d", SCHEMA, stream=""), "the stream of an exchange is ''"),
        (lambda: ExportBolt("d", SCHEMA, rows_per_segment=0), "ExportBolt: rows_per_segment is 0"),
        (lambda: ExportBolt("d", SCHEMA, max_delay_s=0.5), "ExportBolt: max_delay_s is 0.5"),
        (lambda: TransactionalIngestSpout("d", "attempt STRING"), "no column may be called 'attempt'"),
        (lambda: TransactionalIngestSpout("d", SCHEMA, micro_batches=0), "micro_batches is 0"),
    ],
)
def test_arguments_that_are_none_are_refused_in_a_sentence(make, fault):
    with pytest.raises(UsageError) as error:
        make()
    assert fault in str(error.value)
