"""Building transactional topologies: what is wired behind the scenes, and every mistake that can be seen."""

from __future__ import annotations

import pytest

from tupletree import BasicBolt, Bolt, Spout
from tupletree.errors import TopologyError, UsageError
from tupletree.outputs import REPORT_STREAM
from tupletree.transactional import (
    BatchBolt,
    Committer,
    GroupCommitter,
    MemoryDatabase,
    MemoryTransactionalSpout,
    OpaqueMap,
    OpaqueMemoryTransactionalSpout,
    TransactionalMap,
    TransactionalTopologyBuilder,
)
from tupletree.v1.topology_pb2 import ComponentKind, GroupingKind


class Partial(BatchBolt):
    outputs = ["attempt", "count"]


class Sum(BatchBolt, Committer):
    outputs = ["attempt", "sum"]


class Pass(BasicBolt):
    outputs = ["attempt", "word"]

    def execute(self, tup, collector):
        pass


class Plain(Bolt):
    outputs = ["word"]

    def execute(self, tup):
        pass


class PlainSpout(Spout):
    outputs = ["word"]


class NoFields(BatchBolt):
    outputs = {"empty": []}


def words():
    return MemoryTransactionalSpout({0: [["a"], ["b"]]}, ["word"], 1)


def builder():
    return TransactionalTopologyBuilder("counts", "words", words(), 2)


def inputs(topology, component):
    return {(item.source, item.stream): item.grouping for item in topology.components[component].inputs}


def test_the_spout_becomes_a_coordinator_with_one_task_and_emitters():
    topology = builder().create_topology()
    coordinator, emitters = topology.components["words:coordinator"], topology.components["words"]
    assert coordinator.kind == ComponentKind.COMPONENT_KIND_SPOUT
    assert (coordinator.parallelism, coordinator.tasks) == (1, 1)
    assert emitters.parallelism == 2
    assert inputs(topology, "words") == {("words:coordinator", "batch"): GroupingKind.GROUPING_KIND_ALL}
    assert list(emitters.outputs) == ["default", REPORT_STREAM]


def test_every_bolt_gets_the_reports_of_each_source_once_and_committers_the_commits():
    one = builder()
    one.set_bolt("partial", Partial()).shuffle_grouping("words")
    one.set_bolt("sum", Sum()).global_grouping("partial").all_grouping("words")
    topology = one.create_topology()
    direct, everyone = GroupingKind.GROUPING_KIND_DIRECT, GroupingKind.GROUPING_KIND_ALL
    assert inputs(topology, "partial")["words", REPORT_STREAM] == direct
    assert ("words:coordinator", "commit") not in inputs(topology, "partial")
    assert inputs(topology, "sum")["partial", REPORT_STREAM] == direct
    assert inputs(topology, "sum")["words", REPORT_STREAM] == direct
    assert inputs(topology, "sum")["words:coordinator", "commit"] == everyone


def test_set_committer_bolt_makes_a_committer_without_the_mark():
    one = builder()
    one.set_committer_bolt("partial", Partial()).shuffle_grouping("words")
    assert ("words:coordinator", "commit") in inputs(one.create_topology(), "partial")


def test_what_is_downstream_of_a_committer_is_late():
    one = builder()
    one.set_bolt("a", Partial()).shuffle_grouping("words")
    one.set_bolt("b", Sum()).shuffle_grouping("a")
    one.set_bolt("c", Partial()).shuffle_grouping("a").shuffle_grouping("b")
    one.set_bolt("d", Sum()).shuffle_grouping("c")
    components = one.create_topology().components
    assert components["b"].component.sources == {"a": False}
    assert components["c"].component.sources == {"a": False, "b": True}
    assert components["d"].component.sources == {"c": True}


def test_the_number_of_active_batches_set_for_the_spout_is_its_coordinators():
    one = builder()
    one.spout_declarer.set_max_spout_pending(4).set_num_tasks(6)
    components = one.create_topology().components
    assert components["words:coordinator"].conf["topology.max.spout.pending"] == 4
    assert components["words"].conf == {"topology.tasks": 6}


def test_a_topology_can_be_created_twice():
    one = builder()
    one.set_bolt("partial", Partial()).shuffle_grouping("words")
    assert inputs(one.create_topology(), "partial") == inputs(one.create_topology(), "partial")


def refused(build):
    with pytest.raises(TopologyError) as caught:
        build()
    return str(caught.value)


def test_a_plain_bolt_is_refused():
    assert refused(lambda: builder().set_bolt("x", Plain())) == (
        "component 'x': Plain is a Bolt, which acks by itself; "
        "a transactional topology takes a BatchBolt or a BasicBolt"
    )


def test_a_class_in_place_of_an_object_is_refused():
    assert "takes an object, not the class Partial" in refused(lambda: builder().set_bolt("x", Partial))


def test_a_basic_bolt_cannot_commit():
    sentence = "component 'x': a committer must be a BatchBolt, not the BasicBolt Pass"
    assert refused(lambda: builder().set_committer_bolt("x", Pass())) == sentence

    class Marked(BasicBolt, Committer):
        outputs = ["attempt"]

    assert "a committer must be a BatchBolt, not the BasicBolt Marked" in refused(
        lambda: builder().set_bolt("x", Marked())
    )


def test_anything_else_is_no_bolt():
    assert "must be a BatchBolt or a BasicBolt, not str" in refused(lambda: builder().set_bolt("x", "bolt"))


def test_a_transactional_map_behind_an_opaque_spout_is_refused():
    opaque = OpaqueMemoryTransactionalSpout({0: [["a"]]}, ["word"], 1)
    one = TransactionalTopologyBuilder("counts", "words", opaque)
    bolt = Sum()
    bolt.counts = OpaqueMap(MemoryDatabase(), "counts")
    one.set_bolt("right", bolt)
    bolt = Sum()
    bolt.counts = TransactionalMap(MemoryDatabase(), "counts")
    assert refused(lambda: one.set_bolt("wrong", bolt)) == (
        "component 'wrong': 'counts' is a TransactionalMap, which is for identical replays; "
        "replays of the opaque spout 'words' may differ: use an OpaqueMap"
    )
    builder().set_bolt("fits", bolt)


class GroupSum(Sum, GroupCommitter):
    def __init__(self, **held):
        self.__dict__.update(held)


def commit_stream(*bolts, spout=None):
    """Return the fields of the coordinator's commit tuples."""
    one = TransactionalTopologyBuilder("counts", "words", spout or words())
    for index, bolt in enumerate(bolts):
        one.set_bolt(f"bolt-{index}", bolt).global_grouping("words")
    coordinator = one.create_topology().components["words:coordinator"]
    assert coordinator.component.commits_in_groups == (len(coordinator.outputs["commit"].fields) == 2)
    return coordinator.outputs["commit"].fields


def test_transactions_commit_in_groups_if_every_committer_permits_it():
    opaque = OpaqueMemoryTransactionalSpout({0: [["a"]]}, ["word"], 1)
    assert commit_stream(GroupSum()) == ("attempt", "following")
    assert commit_stream(GroupSum(), Pass(), GroupSum()) == ("attempt", "following")
    assert commit_stream(GroupSum(), Sum()) == ("attempt",)
    assert commit_stream(Pass()) == ("attempt",)
    assert commit_stream(GroupSum(), spout=opaque) == ("attempt",)


def test_a_group_committer_holds_no_map_that_takes_one_transaction_at_a_time():
    def set_bolt(held):
        builder().set_bolt("sum", GroupSum(counts=held))

    set_bolt(TransactionalMap(MemoryDatabase(), "counts", in_groups=True))
    assert refused(lambda: set_bolt(TransactionalMap(MemoryDatabase(), "counts"))) == (
        "component 'sum': 'counts' of this GroupCommitter is a TransactionalMap for one transaction at a time: "
        "make it with in_groups=True"
    )
    assert refused(lambda: set_bolt(OpaqueMap(MemoryDatabase(), "counts"))) == (
        "component 'sum': 'counts' of this GroupCommitter is OpaqueMap, which takes one transaction at a time: "
        "use the marker Committer"
    )


def test_a_second_spout_is_refused():
    assert "has one spout" in refused(lambda: builder().set_spout("more", PlainSpout()))


@pytest.mark.parametrize("spout", [PlainSpout(), MemoryTransactionalSpout, None])
def test_a_spout_that_is_not_transactional_is_refused(spout):
    assert "the spout of a transactional topology must be" in refused(
        lambda: TransactionalTopologyBuilder("counts", "words", spout)
    )


@pytest.mark.parametrize("name", ["", "a/b", ".", "zookeeper", 7])
def test_an_id_that_cannot_name_a_node_is_refused(name):
    with pytest.raises(UsageError, match="transactional id"):
        TransactionalTopologyBuilder(name, "words", words())


def test_a_stream_without_a_field_for_the_attempt_is_refused():
    assert "stream 'empty' declares no field" in refused(lambda: builder().set_bolt("x", NoFields()))


def test_a_cycle_is_refused():
    one = builder()
    one.set_bolt("a", Partial()).shuffle_grouping("words").shuffle_grouping("b")
    one.set_bolt("b", Partial()).shuffle_grouping("a")
    assert "the bolts a, b form a cycle" in refused(one.create_topology)


def test_ticks_are_refused():
    one = builder()
    one.set_bolt("a", Partial()).shuffle_grouping("words").add_configuration("topology.tick.tuple.freq.secs", 1)
    assert "a tick belongs to no batch" in refused(one.create_topology)


def test_a_bolt_without_input_is_refused():
    one = builder()
    one.set_bolt("a", Partial())
    assert "bolt 'a' has no input" in refused(one.create_topology)


def test_the_coordinators_id_cannot_be_taken():
    assert "is in use already" in refused(lambda: builder().set_bolt("words:coordinator", Partial()))
