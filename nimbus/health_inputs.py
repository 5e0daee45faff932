"""Inputs of the cluster health verdict, derived from the state of the leader. Pure."""

from __future__ import annotations  # pure

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tupletree._address import address_of, split_address
from tupletree._constraints import PLACEMENT_KEYS
from tupletree._health.assessment import LATELY_S, stall_s
from tupletree._health.errors import Complaint, complaints
from tupletree._health.facts import AckerFacts, ComponentFacts, SupervisorFacts, TopologyFacts
from tupletree._wire.names import is_system
from tupletree.parallelism import executors_of_record, tasks_of_record
from tupletree.v1 import supervisor_pb2
from tupletree.v1 import topology_pb2 as pb

from .cluster_view import ClusterView
from .leader.isolation import isolated_machines
from .leader.planner import placement_of
from .rpc_replies import worker
from .statistics.ack_detector import blocks, long_call, never_acks, trees_of
from .statistics.stall_detector import Answers

_OLD_S: Final = 10.0  # an acker is polled every two seconds and has five seconds to answer
_FAILURES: Final = ("failed", "timeouts", "unheard")
_DEFAULT_PORT: Final = 6627


def ackers(view: ClusterView) -> list[AckerFacts]:
    """Return the registered ackers that nimbus polls. Of two ackers registered at one address, the older is dead.

    An acker that has not answered its first poll yet counts as ready.
    """
    found = []
    for acker_id, presence in sorted(view.state.ackers.items()):
        ledger = view.ledgers.get(acker_id)
        if ledger is None:
            continue
        silence = view.silences.get(acker_id, "")
        age_s = view.now_s - ledger.last.at_s if ledger.last is not None else 0.0
        if not silence and age_s > _OLD_S:
            silence = f"it has not answered for {age_s:.0f} s"
        found.append(
            AckerFacts(
                id=acker_id,
                address=_address(presence),
                silence=silence,
                is_ready=ledger.last is None or ledger.ready,
                reasons=ledger.reasons,
                is_draining=presence.draining,
                not_compiled=presence.not_compiled,
            )
        )
    return found


def supervisors(view: ClusterView, answers: Mapping[str, supervisor_pb2.ListSlotsReply | str]) -> list[SupervisorFacts]:
    """Return the registered supervisors. ``answers``: slots, or the reason for no answer, by supervisor id."""
    found = []
    for supervisor_id, presence in sorted(view.state.supervisors.items()):
        said = answers.get(supervisor_id)
        silence = said if isinstance(said, str) else ""
        slots = said.slots if isinstance(said, supervisor_pb2.ListSlotsReply) else ()
        address = _address(presence)
        blacklisted = view.blacklisted(supervisor_id)
        found.append(
            SupervisorFacts(supervisor_id, presence.host, address, silence, slots, presence.not_compiled, blacklisted)
        )
    return found


def absent_nimbuses(view: ClusterView, seeds: Sequence[str]) -> list[tuple[str, int]]:
    """Return the entries of nimbus.seeds at which no nimbus is registered. Loopback addresses are left out."""
    known = {(one.host, one.grpc_port) for one in view.nimbuses.values()}
    places = [split_address(seed, _DEFAULT_PORT) for seed in seeds]
    return [(host, port) for host, port in places if (host, port) not in known and not _is_loopback(host)]


def topology(
    view: ClusterView, record: pb.TopologyRecord, spec: pb.TopologySpec, errors: Sequence[pb.ComponentError]
) -> TopologyFacts:
    """Return the facts about a topology. ``spec`` is empty until this nimbus has the bundle."""
    assignment = view.assignment(record.id)
    placement = placement_of(assignment)
    outlook = view.leader_state.outlooks.get(record.id)
    return TopologyFacts(
        record=record,
        uptime_s=view.now_unix_s - record.submitted_unix_s,
        workers_used=len(placement),
        workers_ready=sum(
            view.leader_state.is_ready(record.id, slot, run, view.now_s) for slot, run in placement.items()
        ),
        has_moved=assignment.version > 1,
        executors=len(executors_of_record(record)),
        ignored_keys=() if view.leader_state.scheduling.by_resources else _ignored(record),
        has_no_pool=bool(isolated_machines(record.conf_json))
        and record.owner not in view.leader_state.scheduling.pools,
        scaling_held=outlook.held if outlook is not None else "",
        unscheduled=view.unscheduled(record),
        components=_components(view, record, {one.id: one.kind for one in spec.components}),
        complaints=_complaints(view, record, errors),
    )


def _ignored(record: pb.TopologyRecord) -> list[str]:
    """Return the keys of a topology that only the resource scheduler follows."""
    conf = json.loads(record.conf_json or "{}")
    return [key for key in PLACEMENT_KEYS if conf.get(key)]


def _components(
    view: ClusterView, record: pb.TopologyRecord, kinds: Mapping[str, pb.ComponentKind]
) -> list[ComponentFacts]:
    statistics, now_s = view.leader_state.statistics(record.id), view.now_s
    ranges = {first: range(first, last + 1) for first, last in executors_of_record(record)}
    trees = trees_of(statistics, record, [one for one in kinds if kinds[one] == pb.COMPONENT_KIND_SPOUT], now_s)
    conf = json.loads(record.conf_json or "{}")
    ports = _ports(view, record)
    found = []
    for component_id, tasks in sorted(tasks_of_record(record).items()):
        failed, timeouts, unheard = statistics.lately(component_id, _FAILURES, LATELY_S, now_s)
        [acked] = statistics.lately(component_id, ["acked"], LATELY_S, now_s) if failed else [0]
        still = statistics.standstill(tasks, stall_s(record))
        kind = kinds.get(component_id)
        is_spout, is_bolt = (
            kind == pb.COMPONENT_KIND_SPOUT,
            kind == pb.COMPONENT_KIND_BOLT and not is_system(component_id),
        )
        said = statistics.answers(tasks, is_spout) if is_bolt or is_spout else Answers()
        own = [ranges[one] for one in tasks if one in ranges]
        found.append(
            ComponentFacts(
                id=component_id,
                is_spout=is_spout,
                statuses=statistics.statuses(tasks, now_s),
                failed=failed,
                timeouts=timeouts,
                acked=acked,
                unheard=unheard,
                remark=never_acks(said, trees, conf) if is_bolt else "",
                is_timing_out=trees.timeouts > 0,
                long_call=long_call(said, is_spout),
                blocks="" if is_system(component_id) else blocks(statistics.blocking(own), len(own)),
                port=ports.get(said.caller, 0),
                capacity=statistics.capacity(own, now_s) if kind == pb.COMPONENT_KIND_BOLT else 0.0,
                is_congested=bool(statistics.gauges(tasks)["congested"]),
                stuck=still.stuck,
                stuck_s=still.stuck_s,
                unacked=still.fails,
                unacked_s=still.fails_s,
            )
        )
    return found


def _ports(view: ClusterView, record: pb.TopologyRecord) -> dict[int, int]:
    """Return the worker's port of each task."""
    return {
        task: one.port
        for one in view.assignment(record.id).workers
        for run in one.executors
        for task in range(run.first_task, run.last_task + 1)
    }


def _complaints(view: ClusterView, record: pb.TopologyRecord, errors: Sequence[pb.ComponentError]) -> list[Complaint]:
    since_s = view.now_unix_s - LATELY_S
    return folded(view, record, [one for one in errors if one.at_unix_s >= since_s])


def folded(view: ClusterView, record: pb.TopologyRecord, errors: Sequence[pb.ComponentError]) -> list[Complaint]:
    """Return the errors of a topology, newest first. Errors with the same message and component are merged."""
    if not errors:
        return []
    workers = [worker(view.leader_state, record.id, one, view.now_s) for one in view.assignment(record.id).workers]
    return complaints(errors, tasks_of_record(record), workers, view.now_unix_s)


def _address(presence: pb.Presence) -> str:
    return address_of(presence.host, presence.grpc_port)


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
