"""``TopologyContext.shared``: one object for all tasks of a worker, also on several threads, and after rollbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from local_components import Log
from stateful_scene import ALIGNED

from tupletree import BasicBolt, BasicStatefulBolt, FailedException, TopologyBuilder
from tupletree.errors import TaskFailedError
from tupletree.testing import FeederSpout, LocalCluster, complete_topology, run_bolt


class Model:
    """Stands for what takes gigabytes."""

    def __init__(self, log: Log) -> None:
        self.log = log
        log.append("made")

    def close(self) -> None:
        self.log.append("closed")


class Scores(BasicBolt):
    outputs = ("model",)

    def __init__(self, log: Log, *, blocking: bool) -> None:
        self.log = log
        self.blocking = blocking

    def setup(self) -> None:
        self.model = self.context.shared("model", lambda: Model(self.log), Model.close)

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit([id(self.model)])

    def teardown(self) -> None:
        self.log.append("teardown")


@pytest.mark.parametrize("blocking", [False, True])
def test_tasks_of_a_worker_share_an_object_which_is_closed_after_them(blocking: bool) -> None:
    log, seen = Log(), Log()

    class Notes(BasicBolt):
        def execute(self, tup: Any, collector: Any) -> None:
            seen.append((tup.source_task, tup["model"]))

    builder = TopologyBuilder()
    feed = FeederSpout(["number"])
    numbers = builder.set_spout("numbers", feed)
    first = builder.set_bolt("first", Scores(log, blocking=blocking), parallelism=3).all_grouping(numbers)
    second = builder.set_bolt("second", Scores(log, blocking=blocking), parallelism=2).all_grouping(numbers)
    builder.set_bolt("notes", Notes()).global_grouping(first).global_grouping(second)
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        feed.feed([1])
        cluster.wait_quiet()
    assert len({task for task, _ in seen}) == 5 and len({model for _, model in seen}) == 1
    assert log == ["made", *["teardown"] * 5, "closed"]


def test_components_that_begin_anew_after_a_rollback_find_the_same_object() -> None:
    log, seen, words = Log(), Log(), FeederSpout(["word"])

    class Counts(BasicStatefulBolt):
        def setup(self) -> None:
            self.model = self.context.shared("model", lambda: Model(log), Model.close)
            seen.append(self.model)

        def execute(self, tup: Any) -> None:
            if tup["word"] == "bad":
                raise FailedException("rolls the topology back")
            self.state[tup["word"]] = True

    builder = TopologyBuilder()
    builder.set_bolt("counts", Counts()).fields_grouping(builder.set_spout("words", words), "word")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology(), ALIGNED)
        words.feed(["good"], "good")
        cluster.wait_until(lambda: words.acked == ["good"])
        words.feed(["bad"], "bad")
        cluster.wait_until(lambda: words.failed == ["bad"])
        cluster.wait_until(lambda: len(seen) >= 2)
        assert log == ["made"]
    assert all(one is seen[0] for one in seen) and log == ["made", "closed"]


def test_an_object_that_cannot_be_made_ends_the_worker_and_names_the_component() -> None:
    class Lacking(BasicBolt):
        def setup(self) -> None:
            self.context.shared("model", Path("/nonexistent/model.bin").read_bytes)

        def execute(self, tup: Any, collector: Any) -> None:
            raise NotImplementedError

    words = FeederSpout(["word"])
    builder = TopologyBuilder()
    builder.set_bolt("lacking", Lacking()).shuffle_grouping(builder.set_spout("words", words))
    with pytest.raises(
        TaskFailedError, match=r"component 'lacking' failed: FileNotFoundError: .*/nonexistent/model\.bin"
    ):
        complete_topology(builder.create_topology(), {"words": [["a"]]})


def test_a_bolt_run_alone_makes_its_object_itself() -> None:
    log = Log()
    recorder = run_bolt(Scores(log, blocking=False), [{"number": 1}, {"number": 2}])
    assert len({row[0] for row in recorder.rows()}) == 1 and log == ["made", "teardown"]
