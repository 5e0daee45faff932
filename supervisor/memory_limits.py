"""Limits of the memory of workers: which worker has which limit, and the sentences that a worker beyond it gets.

The resource scheduler says in the assignment how much memory the executors of a worker were given;
``topology.worker.memory.limit.mb`` replaces that, under every scheduler. A worker without either has no limit. A limit
may be exceeded by a margin, which also covers the interpreter and its libraries.
"""

from __future__ import annotations  # pure

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tupletree.parallelism import tasks_of_record
from tupletree.v1.topology_pb2 import Assignment, TopologyRecord, WorkerAssignment

_OWN_LIMIT: Final = "topology.worker.memory.limit.mb"


@dataclass(frozen=True)
class MemoryLimit:
    """The limit of the worker of a topology in a slot, and the executors that share it."""

    topology_id: str
    memory_mb: float
    components: tuple[tuple[str, int], ...]  # with the number of executors, ascending by name
    is_configured: bool = False  # by the topology's own key
    cpu_percent: float = 0.0  # processor time of the executors together; 0: the scheduler gave none

    def is_exceeded(self, used_mb: float, margin_mb: float) -> bool:
        return used_mb > self.memory_mb + margin_mb

    def sentence(self, used_mb: float, margin_mb: float) -> str:
        """Explain why the supervisor ends the worker."""
        return f"it uses {used_mb:,.0f} MB of memory, and {self._explained(margin_mb)}"

    def kernel_sentence(self, margin_mb: float) -> str:
        """Explain why the kernel has ended the worker."""
        most = self.memory_mb + margin_mb
        return (
            f"the kernel ended it with its children, as they needed more than {most:,.0f} MB of memory, and "
            f"{self._explained(margin_mb)}"
        )

    def _explained(self, margin_mb: float) -> str:
        shown = ", ".join(f"'{name}' ({count})" for name, count in self.components)
        source = _OWN_LIMIT if self.is_configured else "what the scheduler gave its executors"
        return (
            f"its limit is {self.memory_mb:,.0f} MB ({source}) with a margin of {margin_mb:,.0f} MB; its executors, by "
            f"component: {shown}: declare more with set_memory_load, or find what holds the memory"
        )


def memory_limits(
    assignments: Iterable[Assignment], records: Mapping[str, TopologyRecord], supervisor_id: str
) -> dict[int, MemoryLimit]:
    """Return the limits of the workers of a supervisor, by port."""
    limits = {}
    for assignment in sorted(assignments, key=lambda one: (one.epoch, one.topology_id)):
        record = records.get(assignment.topology_id)
        for worker in assignment.workers if record is not None else ():
            if worker.supervisor_id != supervisor_id or record is None:
                continue
            own = _own_limit_mb(record.conf_json)
            limit_mb = own or worker.memory_mb
            if limit_mb > 0:
                components = _components(record, worker)
                cpu = _cpu_percent(record, components) if worker.memory_mb > 0 else 0.0
                limits[worker.port] = MemoryLimit(record.id, limit_mb, components, own is not None, cpu)
    return limits


def _cpu_percent(record: TopologyRecord, components: tuple[tuple[str, int], ...]) -> float:
    return sum(record.needs[name].cpu_percent * count for name, count in components if name in record.needs)


def _own_limit_mb(conf_json: str) -> float | None:
    """Return the limit that the topology sets itself. One that is malformed sets none."""
    try:
        value = json.loads(conf_json or "{}").get(_OWN_LIMIT)
        return float(value) if value and value > 0 else None
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None


def _components(record: TopologyRecord, worker: WorkerAssignment) -> tuple[tuple[str, int], ...]:
    ranges = tasks_of_record(record)
    firsts = {executor.first_task for executor in worker.executors}
    found = Counter(name for name, ids in ranges.items() for first in firsts if first in ids)
    return tuple(sorted(found.items()))
