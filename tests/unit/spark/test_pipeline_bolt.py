"""The task of a pipeline and the threads of its driver, which are at work before it is prepared."""

from __future__ import annotations

from collections.abc import Callable

from file_topology import context

from tupletree.spark import MemorySource, Pipeline
from tupletree.spark.pipeline_bolt import PipelineBolt
from tupletree.transactional.partitioned import PartitionedSpoutAdapter


def test_a_session_that_is_there_at_once_may_be_ready_before_the_task_is() -> None:
    source = MemorySource([[[1]]], "number BIGINT", 1)
    bolt = PipelineBolt("numbers", Pipeline(), PartitionedSpoutAdapter("numbers", source.spout()))
    calls: list[Callable[[], None]] = []
    bolt.context = context()
    bolt.context.call_soon = calls.append
    bolt.ready()
    assert len(calls) == 1, "the task hears of it once it is prepared"
