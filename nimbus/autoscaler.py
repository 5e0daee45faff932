"""Autoscaling of topologies: the leader measures, decides every few seconds, and asks for rebalances as a user does.

    workers' reports -> reading -> LoadHistory -> outlook -> Autoscale request -> record (pending) -> rebalance

All that a decision depends on beside the load is in the topology's record, with the time of the last change. So a new
leader only measures anew. A request that comes when the record has changed since is refused, and made anew later.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from tupletree._log import event
from tupletree.errors import TupletreeError, UnavailableError
from tupletree.parallelism import tasks_of_record
from tupletree.v1 import topology_pb2 as pb

from .autoscale_replies import message_of
from .cluster_view import ClusterView
from .leader import cluster_state, lifecycle
from .leader.autoscale_settings import Settings, settings_of
from .leader.autoscaling import Change, Outlook, outlook, without_room
from .leader.lack_of_room import lack_of
from .leader.lifecycle import Autoscale, suspension
from .leader.load_history import STEP_S, LoadHistory
from .leader.load_reading import apart, blocking_components, facts, free_slots_of, layout, reading
from .leader.reconciler import Reconciler
from .leader_api import LeaderApi
from .metrics import NimbusMetrics
from .threads import leading

log = logging.getLogger("tupletree.nimbus")

_HELD: Final = "its checkpoints are held for a savepoint"


class Autoscaler:
    """The loop of one nimbus, which does nothing while another one leads or no topology has ``topology.autoscale``."""

    def __init__(self, leader_api: LeaderApi, metrics: NimbusMetrics) -> None:
        self._leader_api = leader_api
        self._metrics = metrics
        self._histories: dict[str, LoadHistory] = {}  # by topology id
        self._sentences: dict[str, str] = {}
        self._epoch = 0

    async def run(self) -> None:
        """Look at all topologies every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(STEP_S)
            try:
                await self.step()
            except UnavailableError as error:  # of ZooKeeper, or another nimbus leads
                event(log, "autoscale.waits", level=logging.DEBUG, cause=error)
            except Exception as error:  # scheduling goes on, whatever is wrong here
                event(log, "autoscale.failed", level=logging.WARNING, cause=repr(error))

    async def step(self) -> None:
        """Measure and judge each topology once. Raises UnavailableError if this nimbus does not lead."""
        reconciler = self._leader_api.reconciler()
        if reconciler.leader_state.epoch != self._epoch:
            self._epoch = reconciler.leader_state.epoch
            self._histories.clear()
        state = reconciler.state or await reconciler.load()
        scaled = {id for id, stored in state.records.items() if settings_of(stored.value.conf_json) is not None}
        for gone in self._histories.keys() - scaled:
            del self._histories[gone]
            reconciler.leader_state.outlooks.pop(gone, None)
            self._sentences.pop(gone, None)
        if not scaled:
            return
        view = await self._leader_api.view(is_whole=True)
        for record in view.records():
            settings = settings_of(record.conf_json)
            if settings is None:
                continue
            try:
                if await self._judge(reconciler, view, record, settings):
                    return  # the next one is judged when what this one takes is known
            except UnavailableError:
                raise
            except Exception as error:  # of this topology: the others are scaled
                event(log, "autoscale.failed", level=logging.WARNING, topology=record.id, cause=repr(error))

    async def _judge(
        self, reconciler: Reconciler, view: ClusterView, record: pb.TopologyRecord, settings: Settings
    ) -> bool:
        """Judge one topology. True if it is changed."""
        spec = await self._leader_api.outline(record)
        history = self._histories.setdefault(record.id, LoadHistory())
        assignment, tasks = view.assignment(record.id), tasks_of_record(record)
        statistics = view.leader_state.statistics(record.id)
        now = reading(statistics, record, assignment, blocking_components(record, spec), view.now_s)
        obstacle = suspension(record) or _unready(reconciler, view, record, spec)
        if obstacle:
            history.forget()
        else:
            history.add(now, tasks, layout(record, assignment), settings.down_s)
            if view.leader_state.held_until_s.get(record.id, 0.0) > view.now_s:
                obstacle = _HELD
        leader_state, slots = view.leader_state, view.state.free_slots()
        listed = leader_state.blacklist.listed
        free = free_slots_of(
            record.id, slots, leader_state.isolation, view.records(), view.assignments(), listed.keys()
        )
        known = facts(record, spec, apart(now, tasks), len(assignment.workers), free, view.now_unix_s, obstacle)
        found = outlook(settings, known, history.moments)
        if found.change is not None and (lack := await leading.run(_lack, view, record, found.change)):
            found = without_room(found, lack)
        view.leader_state.outlooks[record.id] = found
        self._note(record, found)
        return found.change is not None and await self._carry_out(record, found.change)

    def _note(self, record: pb.TopologyRecord, found: Outlook) -> None:
        """Log at the level of debugging why nothing is changed, when the reason is another one."""
        if found.change is None and self._sentences.get(record.id) != found.sentence:
            self._sentences[record.id] = found.sentence
            event(log, "autoscale.judged", level=logging.DEBUG, topology=record.id, cause=found.sentence)

    async def _carry_out(self, record: pb.TopologyRecord, change: Change) -> bool:
        try:
            await self._leader_api.change(record.name, Autoscale(record, message_of(change)))
        except UnavailableError:
            raise
        except TupletreeError as error:  # the topology has changed meanwhile, or is gone
            event(log, "autoscale.refused", topology=record.id, cause=error)
            return False
        event(log, "autoscale.changed", topology=record.id, cause=change.sentence)
        is_more = change.executors > change.executors_before or change.workers > change.workers_before
        self._metrics.autoscale_changes.labels("up" if is_more else "down").inc()
        return True


def _lack(view: ClusterView, record: pb.TopologyRecord, change: Change) -> str:
    """Return what the cluster lacks for a change, of which other topologies give up nothing; "" if it has room."""
    state, scheduling = view.state, view.leader_state.scheduling
    if not scheduling.by_resources:
        return ""
    after = lifecycle.ask(record, Autoscale(record, message_of(change)), view.now_unix_s)
    found = cluster_state.snapshot(state, 0, {}, frozenset(), frozenset(), frozenset())
    blacklisted = frozenset(view.leader_state.blacklist.listed)
    return lack_of(replace(found, scheduling=scheduling, blacklisted=blacklisted), after)


def _unready(reconciler: Reconciler, view: ClusterView, record: pb.TopologyRecord, spec: pb.TopologySpec) -> str:
    """Return the reason why the load of a topology says nothing now; "" if it does."""
    if not spec.components:
        return "nimbus has no copy of its code yet"
    return "" if reconciler.are_ready(view.state, record) else "not all of its workers are ready"
