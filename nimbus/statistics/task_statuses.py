"""Latest status that each task of a topology reports about itself. In memory only.

Nimbus keeps at most ``MAX_BYTES_TOGETHER`` per topology and returns only valid JSON, whatever workers send.
Times are seconds of a monotonic clock.
"""

from __future__ import annotations  # pure

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tupletree._wire.statuses import MAX_BYTES_TOGETHER, decode_status, within
from tupletree.v1 import nimbus_pb2 as rpc

STALE_S = 5.0  # a worker's statuses expire after this time without a report


@dataclass(frozen=True)
class _Said:
    """Latest status of a task."""

    worker_id: str
    at_s: float
    text: str


class Statuses:
    """Statuses of one topology's tasks."""

    def __init__(self) -> None:
        self._said: dict[int, _Said] = {}

    def __bool__(self) -> bool:
        return bool(self._said)

    def report(self, worker_id: str, present: Collection[int], told: Mapping[int, str], now_s: float) -> None:
        """Replace the statuses of a worker's tasks by those in ``told``. ``present``: the tasks of the worker."""
        kept = {
            task_id: said
            for task_id, said in self._said.items()
            if said.worker_id != worker_id and task_id not in present and now_s - said.at_s <= STALE_S
        }
        limit = MAX_BYTES_TOGETHER - sum(len(said.text.encode()) for said in kept.values())
        new = within(limit, [(task_id, text) for task_id, text in told.items() if task_id in present])
        self._said = kept | {task_id: _Said(worker_id, now_s, text) for task_id, text in new}

    def of(self, tasks: Iterable[int], now_s: float) -> list[rpc.TaskStatus]:
        """Return the unexpired statuses of ``tasks``."""
        return [
            rpc.TaskStatus(task_id=task_id, status_json=said.text, age_s=now_s - said.at_s)
            for task_id in tasks
            if (said := self._said.get(task_id)) is not None
            and now_s - said.at_s <= STALE_S
            and decode_status(said.text) is not None
        ]


def split(report: rpc.WorkerReport) -> tuple[rpc.WorkerReport, dict[int, str]]:
    """Remove the statuses from a report. Return the report to keep and the statuses by task.

    If the report has statuses, a copy without them is returned: the original would keep their memory in use.
    """
    told = {one.task_id: one.status_json for one in report.statuses}
    if not told:
        return report, told
    report.ClearField("statuses")
    lean = rpc.WorkerReport()
    lean.CopyFrom(report)
    return lean, told
