"""Questions to the states of a LocalCluster while a component is replaced, or after one raised."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tupletree import BasicStatefulBolt, FailedException, ReliableSpout, TopologyBuilder
from tupletree.errors import TaskFailedError
from tupletree.testing import LocalCluster, wait_until
from tupletree.testing.simulation.external import external

ALIGNED = {"topology.state.checkpoint.aligned": True, "topology.state.checkpoint.interval.ms": 20}


class Gates:
    """Where the count's first copy waits at its end."""

    def __init__(self) -> None:
        self.at_end, self.may_end = threading.Event(), threading.Event()


class Words(ReliableSpout):
    outputs = ("word",)

    def read(self) -> Any:
        yield from (["a"], ["b"], ["a"])


class Count(BasicStatefulBolt):
    default_factory = int

    def __init__(self, gates: Any) -> None:
        self.gates = gates

    def execute(self, tup: Any) -> None:
        if tup["word"] == "b" and not self.gates.may_end.is_set():
            raise FailedException("not yet")
        self.state[tup["word"]] += 1

    def teardown(self) -> None:
        self.gates.at_end.set()
        self.gates.may_end.wait(10)


class Broken(BasicStatefulBolt):
    def execute(self, tup: Any) -> None:
        raise ValueError("no")


def topology(bolt: Any) -> Any:
    builder = TopologyBuilder()
    builder.set_bolt("count", bolt).shuffle_grouping(builder.set_spout("words", Words()))
    return builder.create_topology()


def test_a_question_is_answered_by_the_copy_that_replaces_the_one_asked() -> None:
    gates = Gates()
    answers: list[Any] = []
    with LocalCluster() as cluster:
        cluster.submit("words", topology(Count(external(lambda: gates))), ALIGNED)
        wait_until(gates.at_end.is_set)
        [inbox] = [one.inbox for one in cluster._topologies["words"].engine.executors if one.component_id == "count"]
        asking = threading.Thread(target=lambda: answers.append(cluster.state("words", "count")))
        asking.start()
        wait_until(lambda: bool(inbox))
        gates.may_end.set()
        asking.join()
        assert len(answers) == 1
        cluster.wait_until(lambda: cluster.state("words", "count") == {"a": 2, "b": 1})


def test_the_error_of_a_component_is_the_answer() -> None:
    with LocalCluster() as cluster:
        cluster.submit("words", topology(Broken()), ALIGNED)
        with pytest.raises(TaskFailedError, match=r"component 'count' failed: ValueError: no"):
            wait_until(lambda: cluster.state("words", "count"))
