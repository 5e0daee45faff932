"""Limits of workers' memory, and the capacity that a supervisor announces."""

from __future__ import annotations

import json
import os
import re

import pytest

from tupletree._process_table import HAS_PROC, resident_bytes
from tupletree.config import defaults
from tupletree.supervisor.capacity import Capacity, usable_mb
from tupletree.supervisor.memory_limits import MemoryLimit, memory_limits
from tupletree.v1 import topology_pb2 as pb


def record(**conf: object) -> pb.TopologyRecord:
    return pb.TopologyRecord(id="t", tasks={"a": 2, "b": 1}, conf_json=json.dumps(conf))


def assignment(memory_mb: float) -> pb.Assignment:
    runs = [pb.ExecutorRange(first_task=task, last_task=task) for task in (1, 2, 3)]
    mine = pb.WorkerAssignment(supervisor_id="s", port=1, executors=runs, memory_mb=memory_mb)
    other = pb.WorkerAssignment(supervisor_id="other", port=2, executors=runs, memory_mb=memory_mb)
    return pb.Assignment(topology_id="t", workers=[mine, other])


def test_a_worker_has_the_limit_that_the_scheduler_gave_it_or_that_its_topology_sets() -> None:
    components = (("a", 2), ("b", 1))
    assert memory_limits([assignment(384)], {"t": record()}, "s") == {1: MemoryLimit("t", 384, components)}
    own = record(**{"topology.worker.memory.limit.mb": 100})
    assert memory_limits([assignment(384)], {"t": own}, "s") == {1: MemoryLimit("t", 100, components, True)}
    assert memory_limits([assignment(0)], {"t": own}, "s") == {1: MemoryLimit("t", 100, components, True)}


def test_the_processor_time_of_a_worker_is_that_of_its_executors_where_the_scheduler_gave_it_room() -> None:
    needs = {"a": pb.ComponentNeeds(cpu_percent=30), "b": pb.ComponentNeeds(cpu_percent=15)}
    declared = pb.TopologyRecord(id="t", tasks={"a": 2, "b": 1}, needs=needs)
    assert memory_limits([assignment(384)], {"t": declared}, "s")[1].cpu_percent == 75
    declared.conf_json = json.dumps({"topology.worker.memory.limit.mb": 100})
    assert memory_limits([assignment(0)], {"t": declared}, "s")[1].cpu_percent == 0, "the even scheduler"


@pytest.mark.parametrize(
    "conf", [{}, {"topology.worker.memory.limit.mb": None}, {"topology.worker.memory.limit.mb": "x"}]
)
def test_under_the_even_scheduler_no_worker_has_a_limit(conf: dict[str, object]) -> None:
    assert memory_limits([assignment(0)], {"t": record(**conf)}, "s") == {}
    assert memory_limits([assignment(384)], {}, "s") == {}, "its topology is being removed"


def test_the_sentence_names_components_use_and_limit() -> None:
    limit = MemoryLimit("t", 256, (("a", 2), ("b", 1)))
    assert not limit.is_exceeded(384, 128)
    assert limit.is_exceeded(385, 128)
    assert limit.sentence(2000, 128) == (
        "it uses 2,000 MB of memory, and its limit is 256 MB (what the scheduler gave its executors) with a margin "
        "of 128 MB; its executors, by component: 'a' (2), 'b' (1): declare more with set_memory_load, or find what "
        "holds the memory"
    )
    assert "(topology.worker.memory.limit.mb)" in MemoryLimit("t", 9, (), True).sentence(10, 0)


@pytest.mark.skipif(not HAS_PROC, reason="needs /proc")
def test_the_memory_of_a_session_is_that_of_its_processes() -> None:
    session = os.getsid(0)
    with open("/proc/self/status", encoding="utf-8") as file:
        found = re.search(r"VmRSS:\s+(\d+) kB", file.read())
    assert found is not None
    assert resident_bytes({session})[session] >= int(found[1]) * 1024 * 0.9
    assert resident_bytes(()) == {}


def test_a_capacity_is_configured_or_that_of_the_machine() -> None:
    own = {"supervisor.cpu.capacity": 150, "supervisor.memory.capacity.mb": 2000, "supervisor.resources": {"gpu": 2}}
    assert Capacity.from_conf({**defaults(), **own}) == Capacity(150.0, 2000.0, {"gpu": 2.0})
    found = Capacity.from_conf(defaults())
    assert found.cpu_percent >= 100 and found.cpu_percent % 100 == 0 and found.memory_mb > 0 and found.resources == {}
    assert (usable_mb(8192), usable_mb(1000)) == (7168, 500)
