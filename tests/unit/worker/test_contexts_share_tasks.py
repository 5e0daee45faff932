"""The memory of contexts: in proportion to the tasks, not to their square."""

from __future__ import annotations

import tracemalloc

from local_components import Do

from tupletree import TopologyBuilder, config
from tupletree.component import TopologyContext
from tupletree.parallelism import tasks_of
from tupletree.testing import FeederSpout


def bytes_of_contexts(count: int) -> int:
    """What the contexts of a component with so many tasks take."""
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout").set_num_tasks(count)
    tasks = tasks_of(builder.create_topology().spec(), config.defaults())
    tracemalloc.start()
    try:
        contexts = [
            TopologyContext(
                topology_id="t", component_id="bolt", task_id=task, tasks=tasks, sources={}, targets={}, conf={}
            )
            for task in tasks["bolt"]
        ]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [context.task_index for context in contexts] == list(range(count))
    assert contexts[-1].component_tasks("bolt") == list(tasks["bolt"])
    return taken


def test_a_context_takes_as_much_memory_among_2000_tasks_as_among_1000() -> None:
    bytes_of_contexts(10)  # what is made once
    assert bytes_of_contexts(2000) < 2.2 * bytes_of_contexts(1000)
