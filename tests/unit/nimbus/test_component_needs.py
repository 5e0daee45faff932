"""Needs of resources: declared by components, taken from keys, in the record, and replaced by updates."""

from __future__ import annotations

import json
from typing import Any

import pytest
from updates_scene import FIRST, Print, conf_of, submission, submitted, version_from, words

from tupletree import BasicBolt, Spout, TopologyBuilder, config
from tupletree.config.changes import check_changeable
from tupletree.errors import ConfigError, TopologyError, UsageError
from tupletree.nimbus.submission.validation import new_record
from tupletree.nimbus.updates import differences, updated
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

MEMORY = "topology.component.resources.onheap.memory.mb"


class Numbers(Spout):
    outputs = ["n"]


class Train(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


def header(**conf: Any) -> rpc.SubmitHeader:
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Numbers())
    train = builder.set_bolt("train", Train()).shuffle_grouping(numbers).set_cpu_load(50).set_memory_load(900)
    train.add_resource("gpu", 1).add_resource("disk", 0.5)
    spec = builder.create_topology().outline()
    return rpc.SubmitHeader(name="t", sha256="ab" * 32, size=1, spec=spec, conf_json=json.dumps(conf))


def test_a_record_has_what_components_declare_and_otherwise_what_the_keys_say() -> None:
    record = new_record(header(**{MEMORY: 300}), config.defaults(), "t-1-1", 0.0)
    assert dict(record.needs) == {
        "numbers": pb.ComponentNeeds(cpu_percent=10, memory_mb=300),
        "train": pb.ComponentNeeds(cpu_percent=50, memory_mb=900, resources={"gpu": 1, "disk": 0.5}),
    }


def test_an_executor_that_needs_more_than_a_worker_may_have_is_refused_where_that_matters() -> None:
    conf = {**config.defaults(), "nimbus.scheduler": "resource"}
    sentence = (
        r"^topology 't': an executor of component 'train' needs 900 MB, and a worker may have 768: set "
        r"topology.worker.max.heap.size.mb to 900 or more$"
    )
    with pytest.raises(UsageError, match=sentence):
        new_record(header(), conf, "t-1-1", 0.0)
    assert new_record(header(**{"topology.worker.max.heap.size.mb": 900}), conf, "t-1-1", 0.0).needs


@pytest.mark.parametrize(
    ("key", "amount"),
    [
        ("topology.component.cpu.pcore.percent", 1e308),
        (MEMORY, 1e308),
        ("topology.component.resources.map", {"gpu": 1e308}),
    ],
)
def test_amounts_whose_sum_is_infinite_are_refused(key: str, amount: Any) -> None:
    """The lists of topologies in REST, for everybody, could not be written with one."""
    with pytest.raises(UsageError, match=r"an executor of component 'numbers' needs 1e\+308 of a resource; the limit"):
        new_record(header(**{key: amount}), config.defaults(), "t-1-1", 0.0)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda bolt: bolt.set_cpu_load(-1), r"bolt 'train': .*cpu.pcore.percent' takes a number of at least 0"),
        (
            lambda bolt: bolt.set_memory_load(0),
            r"bolt 'train': .*onheap.memory.mb' takes a number of at least 1 \(MB\)",
        ),
        (
            lambda bolt: bolt.add_resource("gpu", 0),
            r"bolt 'train': .*resources.map' takes a mapping of names to numbers",
        ),
        (lambda bolt: bolt.add_resource("", 1), r"bolt 'train': .*resources.map' takes a mapping of names to numbers"),
        (lambda bolt: bolt.add_resource("gpu", True), r"bolt 'train': .*a mapping of names to numbers above 0"),
    ],
)
def test_a_wrong_declaration_is_refused(call: Any, sentence: str) -> None:
    bolt = TopologyBuilder().set_bolt("train", Train())
    with pytest.raises(TopologyError, match=sentence):
        call(bolt)


def test_a_running_topology_changes_its_needs_by_an_update_alone() -> None:
    with pytest.raises(
        ConfigError, match=r"'topology.priority' cannot be changed in a running topology: 'tupletree upd"
    ):
        check_changeable({"topology.priority": 1})
    record = submitted(FIRST)
    second = submission(words(print=Print()), "b" * 64, topology_priority=3, my_key=1)
    version = version_from(record, FIRST, second)
    assert conf_of(version)["topology.priority"] == 3
    assert differences(record, version).conf_keys == ("topology.priority",)
    version.needs["print"].memory_mb = 500
    after = updated(record, version, 0.0)
    assert after.needs["print"].memory_mb == 500
    assert after.previous.needs == record.needs
