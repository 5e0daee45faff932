"""In-memory state of one leadership: worker liveness, statistics, names being submitted.

All of this state can be lost: a new leader rebuilds the state from the next reports. Only the event loop's thread uses
the state.
"""

from __future__ import annotations  # pure

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tupletree.errors import NameInUseError
from tupletree.v1 import acker_pb2
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from ..statistics.acker_stats import reports_of
from ..statistics.report_validation import leave_out_unknown
from ..statistics.task_statuses import split
from ..statistics.topology_statistics import TopologyStatistics
from .autoscaling import Outlook
from .blacklist import Blacklist
from .draining import Draining
from .failed_writes import FailedWrites
from .isolation import Isolation
from .liveness import Liveness, Placements
from .scheduler import Executor, Slot
from .scheduling import Scheduling
from .traffic import Traffic, measured

_FRESH_S = 5.0  # a worker counts as ready while its last report is at most this old
_REPORTS_PER_S = 1000  # with more workers, each is asked to report less often than every second
_MAX_REPORT_S = 3.0  # the longest time that a worker is asked to wait: well below the time in which a report is fresh


@dataclass(frozen=True)
class Reported:
    """A worker's latest report."""

    report: rpc.WorkerReport  # of its tasks, perhaps only those that had changed
    at_s: float  # monotonic
    tasks: frozenset[int] = frozenset()  # all tasks of the worker


class LeaderState:
    """State of one leadership, from election to loss."""

    def __init__(
        self,
        epoch: int,
        task_timeout_s: float,
        task_launch_s: float,
        now_s: float,
        scheduling: Scheduling | None = None,
    ) -> None:
        self.epoch = epoch
        self.scheduling = scheduling or Scheduling()
        self.blacklist = Blacklist(self.scheduling.blacklist)
        self.isolation = Isolation()  # as of the last decision
        self.shortages: dict[str, str] = {}  # resources or machines that topologies lack, by topology id
        self.liveness = Liveness(task_timeout_s, task_launch_s, now_s)
        self.draining = Draining()
        self.reports: dict[tuple[str, Slot], Reported] = {}
        self.failed_writes = FailedWrites()
        self._placements: Placements = {}
        self._last_tasks: dict[str, int] = {}  # topology id -> its highest task id
        self._statistics: dict[str, TopologyStatistics] = {}
        self._of_ackers: dict[str, TopologyStatistics] = {}
        self._submitting: dict[str, str] = {}  # name -> digest
        self._receiving: dict[str, str] = {}  # key of a blob -> digest
        self.outlooks: dict[str, Outlook] = {}  # of the topologies that are scaled by their load, by topology id
        self.held_until_s: dict[str, float] = {}  # checkpoints, for a savepoint; by topology id

    def report(self, report: rpc.WorkerReport, now_s: float) -> bool:
        """Record a worker's report. False if the worker's tasks are not known now, so that all must be reported.

        A report from a slot that is not assigned to its topology is ignored, and so are the metrics of tasks that the
        topology does not have. Memory use is thus bounded by the size of the submitted topologies.
        """
        slot = Slot(report.supervisor_id, report.port)
        if not self.liveness.on_report(report.topology_id, slot, now_s):
            return False
        leave_out_unknown(report, self._last_tasks[report.topology_id])
        report, statuses = split(report)
        self.draining.report(report, slot, now_s)
        key = report.topology_id, slot
        tasks = frozenset(one.task_id for one in report.tasks)
        before = self.reports.get(key) if report.only_changes else None
        same = before.tasks - tasks if before is not None and before.report.worker_id == report.worker_id else None
        self.reports[key] = Reported(report, now_s, tasks | same if same else tasks)
        statistics = self.statistics(report.topology_id)
        is_known = statistics.report(report, now_s, statuses, same or ())
        statistics.end_silent_workers(self._last_tasks[report.topology_id])
        return is_known and (same is not None or not report.only_changes)

    def next_report_s(self, topology_id: str) -> float:
        """Return the time after which a worker of the topology is to report again; 0: as soon as it usually does."""
        if self.liveness.workers <= _REPORTS_PER_S or self.draining.is_waiting(topology_id):
            return 0.0
        return min(_MAX_REPORT_S, self.liveness.workers / _REPORTS_PER_S)

    def is_ready(self, topology_id: str, slot: Slot, executors: Collection[Executor], now_s: float) -> bool:
        """True if the worker in a slot has recently reported that it is ready, and runs tasks of these executors alone.

        The last report can be that of a worker which another one replaces.
        """
        reported = self.reports.get((topology_id, slot))
        if reported is None or not reported.report.ready or now_s - reported.at_s > _FRESH_S:
            return False
        return all(any(first <= task <= last for first, last in executors) for task in reported.tasks)

    def has_opened(self, topology_id: str, slot: Slot) -> bool:
        """True if no spout of the worker in a slot was still to be opened, by its last report."""
        reported = self.reports.get((topology_id, slot))
        return reported is not None and not reported.report.opening

    def unfinished(self, topology_id: str) -> int:
        """Number of trees and tuples in flight, by the latest reports of a topology's workers."""
        return sum(one.report.unfinished for key, one in self.reports.items() if key[0] == topology_id)

    def quiet_age_s(self, topology_id: str, workers: int, now_s: float) -> float | None:
        """Return the age of the oldest report if all workers of a topology are quiet by their latest, else None.

        Quiet: spouts are deactivated, and nothing is in flight. ``workers``: their number.
        """
        found = [one for key, one in self.reports.items() if key[0] == topology_id]
        if len(found) < workers or any(not one.report.paused or one.report.unfinished for one in found):
            return None
        return max((now_s - one.at_s for one in found), default=0.0)

    def latest(self, topology_id: str, task_id: int) -> rpc.TaskStats | None:
        """Return the last report of a task to this leader."""
        kept = self._statistics.get(topology_id)
        return None if kept is None else kept.latest(task_id)

    def statistics(self, topology_id: str) -> TopologyStatistics:
        return self._statistics.setdefault(topology_id, TopologyStatistics())

    def report_ledger(self, reply: acker_pb2.DescribeLedgerReply, uptime_s: float, now_s: float) -> None:
        """Record what an acker, up for ``uptime_s``, does for the topologies that are assigned."""
        for report in reports_of(reply, uptime_s):
            if report.topology_id in self._last_tasks:
                self.acker_statistics(report.topology_id).report(report, now_s)

    def acker_statistics(self, topology_id: str) -> TopologyStatistics:
        """Return the statistics of a topology's ledgers, as those of a component whose tasks are the shards."""
        return self._of_ackers.setdefault(topology_id, TopologyStatistics())

    def traffic(self, records: Iterable[pb.TopologyRecord], now_s: float) -> dict[str, Traffic]:
        """Return the measured traffic of the topologies that have statistics, by topology id."""
        return {
            one.id: measured(self._statistics[one.id], one.tasks, now_s)
            for one in records
            if one.id in self._statistics
        }

    def statistics_kept(self) -> dict[str, TopologyStatistics]:
        """Return the statistics of every topology that has any, by topology id."""
        return dict(self._statistics)

    def assigned(self, placements: Placements, topology_ids: Collection[str], now_s: float) -> None:
        """Apply the stored assignments, and forget workers and topologies that are gone."""
        self.liveness.assigned(placements, now_s)
        same = {one for one, slots in placements.items() if slots is self._placements.get(one)}
        self._last_tasks = {
            one: self._last_tasks[one] if one in same else last_task(slots) for one, slots in placements.items()
        }
        self.reports = {
            key: reported
            for key, reported in self.reports.items()
            if key[0] in same or key[1] in placements.get(key[0], ())
        }
        self._placements = dict(placements)
        self._statistics = {one: kept for one, kept in self._statistics.items() if one in topology_ids}
        self._of_ackers = {one: kept for one, kept in self._of_ackers.items() if one in topology_ids}
        self.outlooks = {one: kept for one, kept in self.outlooks.items() if one in topology_ids}
        self.held_until_s = {one: kept for one, kept in self.held_until_s.items() if one in topology_ids}

    @contextmanager
    def reserving(self, name: str, sha256: str) -> Iterator[None]:
        """Reserve the name against other submissions and the blob against removal. Raises NameInUseError."""
        if name in self._submitting:
            raise NameInUseError(f"a topology named '{name}' is being submitted or updated; try again later")
        self._submitting[name] = sha256
        try:
            yield
        finally:
            del self._submitting[name]

    @contextmanager
    def receiving_blob(self, key: str, sha256: str) -> Iterator[None]:
        """Reserve the key against other uploads and the bytes against removal. Raises NameInUseError."""
        if key in self._receiving:
            raise NameInUseError(f"blob '{key}' is being put or updated by another call; try again later")
        self._receiving[key] = sha256
        try:
            yield
        finally:
            del self._receiving[key]

    @property
    def blobs_in_use(self) -> set[str]:
        return {*self._submitting.values(), *self._receiving.values()}


def last_task(slots: Mapping[Slot, tuple[Executor, ...]]) -> int:
    """Return the highest task id in a placement; 0 if it is empty."""
    return max((executor[-1] for executors in slots.values() for executor in executors), default=0)


def timeouts(confs: Mapping[str, str]) -> dict[str, float]:
    """Return the worker timeouts that topologies set for themselves, in seconds, by topology id.

    ``confs``: the stored configurations of the topologies. An unreadable configuration sets no timeout.
    """
    found = {one: _timeout(conf_json) for one, conf_json in confs.items()}
    return {one: float(value) for one, value in found.items() if isinstance(value, int | float)}


@functools.lru_cache(4096)
def _timeout(conf_json: str) -> object:
    try:
        conf = json.loads(conf_json or "{}")
    except (ValueError, RecursionError):
        return None
    return conf.get("topology.worker.timeout.secs") if isinstance(conf, dict) else None
