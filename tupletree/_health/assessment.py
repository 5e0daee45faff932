"""One health verdict for a whole cluster, from the knowledge of its leading nimbus. Pure.

    healthy     a nimbus leads, every registered daemon answers, every active topology has all its workers
    degraded    topologies run, but one of these conditions is not met, or a topology makes no progress
    down        no leader can be reached, or no daemon can run topologies or track their tuples

A topology that is being killed or rebalanced, or was just submitted, is not at fault for lacking workers.

A fault makes the verdict worse; a note does not. A *warning* is a note that deserves attention although everything runs
(tuples fail, a bolt is saturated). A plain *note* is advice, or a state that a user chose (a topology is inactive). The
command, the REST interface and the web UI all show these findings, in these words.
"""

from __future__ import annotations  # pure

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tupletree._compiled import cost_of
from tupletree._constraints import ISOLATE, POOLS
from tupletree._health.errors import latest_of_each
from tupletree._health.facts import AckerFacts, ComponentFacts, SupervisorFacts, TopologyFacts
from tupletree._health.statuses import one_line, plural, remarks, stalls, troubles
from tupletree._wire.statuses import decode_status
from tupletree.v1 import supervisor_pb2
from tupletree.v1 import topology_pb2 as pb

Status = Literal["healthy", "degraded", "down"]
Severity = Literal["down", "degraded", "warning", "note"]

DEATHS: Final = 3  # in a row: a crash loop
STARTING_S: Final = 20.0  # grace period after submission in which a topology may lack workers
LATELY_S: Final = 600.0  # the period of metrics and errors that notes are based on
SATURATED: Final = 0.9  # busy share of a bolt's busiest executor
_MIN_STALL_S: Final = 60.0
_ORDER: Final = ("down", "degraded", "warning", "note")
_RUNNING: Final = frozenset({pb.TOPOLOGY_STATUS_ACTIVE, pb.TOPOLOGY_STATUS_INACTIVE})
_WANTED: Final = {
    pb.TOPOLOGY_STATUS_INACTIVE: ("topology.inactive", "is not active: its spouts emit nothing"),
    pb.TOPOLOGY_STATUS_REBALANCING: ("topology.rebalancing", "is being rebalanced"),
    pb.TOPOLOGY_STATUS_KILLED: ("topology.killed", "is being killed"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A finding: ``kind`` for programs, a sentence for people, and a command that tells more."""

    severity: Severity
    kind: str  # such as "acker.not_ready"
    subject: str  # the topology name or daemon id at fault
    sentence: str
    command: str = ""
    topology_id: str = ""  # if the finding is about a topology
    component: str = ""  # if the finding is about a component


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status (that of the worst fault), the faults and the notes, each sorted worst first."""

    status: Status
    faults: tuple[Fault, ...]
    notes: tuple[Fault, ...] = ()

    @staticmethod
    def of(found: Iterable[Fault]) -> Verdict:
        ordered = sorted(found, key=lambda one: _ORDER.index(one.severity))
        faults = tuple(one for one in ordered if one.severity in ("down", "degraded"))
        notes = tuple(ordered[len(faults) :])
        if not faults:
            return Verdict("healthy", (), notes)
        return Verdict("down" if faults[0].severity == "down" else "degraded", faults, notes)


def unreachable(reason: str) -> Verdict:
    """Return the verdict if no leader could be reached."""
    return Verdict.of([Fault("down", "nimbus.unreachable", "nimbus", reason, "tupletree doctor")])


def judge(
    ackers: Sequence[AckerFacts],
    supervisors: Sequence[SupervisorFacts],
    topologies: Sequence[TopologyFacts],
    absent_nimbuses: Sequence[str] = (),
    unread: Mapping[str, str] | None = None,
) -> Verdict:
    """Return the verdict on a leader's knowledge.

    Findings about slots are limited to ``topologies``, so that a user does not learn of topologies hidden from them.
    ``absent_nimbuses``: addresses in nimbus.seeds at which no nimbus is registered. ``unread``: for each topology id
    with an unreadable record, the reason.
    """
    found = [*_nimbuses(absent_nimbuses), *_ackers(ackers), *_supervisors(supervisors, topologies)]
    found += _not_compiled([*supervisors, *ackers])
    for one, why in (unread or {}).items():
        found.append(Fault("degraded", "topology.unreadable", one, f"topology {one}: {why}", topology_id=one))
    deaths = _deaths(supervisors)
    for topology in topologies:
        if topology.record.status in _RUNNING:
            found += [
                *_workers(topology, deaths.get(topology.record.id, 0)),
                *_standstills(topology),
                *_progress(topology),
            ]
        found += _notes(topology)
    return Verdict.of(found)


def _nimbuses(absent: Sequence[str]) -> Iterator[Fault]:
    for address in absent:
        sentence = f"no nimbus is registered at {address}, which nimbus.seeds names"
        yield Fault("warning", "nimbus.absent", address, sentence, "tupletree version")


def _ackers(ackers: Sequence[AckerFacts]) -> Iterator[Fault]:
    if not ackers:
        why = "no acker service is registered, so tracked topologies cannot run"
        yield Fault("down", "acker.none", "ackers", why)
        return
    sick = 0
    for one in ackers:
        name = f"acker {one.id} at {one.address}"
        if one.silence:
            kind, why = "acker.unreachable", one.silence
        elif not one.is_ready:
            kind, why = "acker.not_ready", "; ".join(one.reasons) or "it gives no reason"
        else:
            if one.is_draining:
                yield Fault("note", "acker.draining", one.id, f"{name} is draining: it takes no new trees")
            continue
        sick += 1
        yield Fault("degraded", kind, one.id, f"{name} is not ready: {why}", "tupletree ackers")
    if sick == len(ackers):
        yield Fault("down", "acker.none_ready", "ackers", "no acker is ready, so spouts of tracked topologies wait")


def _supervisors(supervisors: Sequence[SupervisorFacts], topologies: Sequence[TopologyFacts]) -> Iterator[Fault]:
    if not supervisors:
        yield Fault("down", "supervisor.none", "supervisors", "no supervisor is registered, so no topology can run")
    records = {topology.record.id: topology.record for topology in topologies}
    for one in supervisors:
        if one.silence:
            sentence = f"supervisor {one.id} at {one.address} does not answer: {one.silence}"
            yield Fault("degraded", "supervisor.unreachable", one.id, sentence)
        if one.blacklisted:
            sentence = f"supervisor {one.id} at {one.address} is blacklisted: {one.blacklisted}"
            yield Fault("warning", "supervisor.blacklisted", one.id, sentence, "tupletree supervisors")
        for slot in one.slots:
            if slot.topology_id in records:
                yield from _slot(one.host, slot, records[slot.topology_id])


def _not_compiled(daemons: Sequence[SupervisorFacts | AckerFacts]) -> Iterator[Fault]:
    """Yield one note on all installations that are not compiled."""
    slow = [one for one in daemons if one.not_compiled]
    if slow:
        others = f" and {len(slow) - 1} more" if len(slow) > 1 else ""
        sentence = f"{slow[0].id} at {slow[0].address}{others}: {cost_of(slow[0].not_compiled)}"
        yield Fault("note", "installation.not_compiled", slow[0].id, sentence, "tupletree version")


def _slot(host: str, slot: supervisor_pb2.SlotSummary, record: pb.TopologyRecord) -> Iterator[Fault]:
    name, command = record.name, f"tupletree errors {record.name}"
    place = f"{host}:{slot.port}"
    last = f": {one_line(slot.last_exit)}" if slot.last_exit else ""
    if slot.deaths >= DEATHS:
        sentence = f"topology '{name}': its worker at {place} died {slot.deaths} times in a row{last}"
        yield Fault("degraded", "worker.crash_loop", name, sentence, command, record.id)
    if slot.misses:
        sentence = f"topology '{name}': its bundle cannot be made ready at {place}, {slot.misses} times so far{last}"
        yield Fault("degraded", "worker.no_bundle", name, sentence, command, record.id)


def _deaths(supervisors: Sequence[SupervisorFacts]) -> dict[str, int]:
    """Return the highest number of consecutive worker deaths of each topology."""
    most: dict[str, int] = {}
    for slot in (slot for one in supervisors for slot in one.slots):
        most[slot.topology_id] = max(slot.deaths, most.get(slot.topology_id, 0))
    return most


def _workers(topology: TopologyFacts, deaths: int) -> Iterator[Fault]:
    name, topology_id = topology.record.name, topology.record.id
    if topology.unscheduled:
        sentence = f"topology '{name}' is not fully scheduled: {topology.unscheduled}"
        yield Fault("degraded", "topology.unscheduled", name, sentence, "tupletree list", topology_id)
    elif topology.workers_ready < topology.workers_used or not topology.workers_used:
        what = f"has {topology.workers_ready} of {topology.workers_used} workers ready"
        sentence = f"topology '{name}' {what if topology.workers_used else 'has no worker'}"
        command = f"tupletree describe {name}"
        if 0 < deaths < DEATHS:  # more deaths are a crash loop, reported separately
            sentence, command = (
                f"{sentence}: a worker died {plural(deaths, 'time')} in a row",
                f"tupletree errors {name}",
            )
        if topology.uptime_s < STARTING_S and not deaths:
            why = "its workers were just moved" if topology.has_moved else "it was just submitted"
            yield Fault("note", "topology.starting", name, f"{sentence}: {why}", command, topology_id)
        else:
            yield Fault("degraded", "topology.workers_not_ready", name, sentence, command, topology_id)
    if 0 < topology.executors < topology.record.workers:
        sentence = (
            f"topology '{name}' can use {topology.executors} of the {topology.record.workers} workers that it asks "
            f"for: it has {plural(topology.executors, 'executor')}"
        )
        yield Fault("note", "topology.few_executors", name, sentence, f"tupletree describe {name}", topology_id)


def _notes(topology: TopologyFacts) -> Iterator[Fault]:
    """Yield notes on metrics and errors of the last ten minutes, and on the status that a user chose."""
    yield from _status_notes(topology)
    name, topology_id = topology.record.name, topology.record.id
    errors, describe = f"tupletree errors {name}", f"tupletree describe {name}"
    for one in topology.components:
        where = f"topology '{name}', {one.id}"
        if one.failed:
            what = "tuple tree" if one.is_spout else "tuple"
            some = "all" if one.timeouts == one.failed else one.timeouts
            timeouts = f", {some} by timeout" if one.timeouts else ""
            sentence = f"{where}: {plural(one.failed, what)} failed in the last ten minutes{timeouts}"
            kind = "trees.failed" if one.is_spout else "tuples.failed"
            yield Fault("warning", kind, name, sentence, describe, topology_id, one.id)
        if one.unheard:
            what = f"{plural(one.unheard, 'failed message')} given up: the spout does not override fail"
            yield Fault("warning", "trees.given_up", name, f"{where}: {what}", describe, topology_id, one.id)
        if one.capacity >= SATURATED:
            remedy, command = (_failing(one), errors) if one.failed > one.acked else ("add executors", describe)
            sentence = f"{where}: its busiest executor is busy {one.capacity:.0%} of the time; {remedy}"
            yield Fault("warning", "component.saturated", name, sentence, command, topology_id, one.id)
        if one.is_congested:
            sentence = f"{where}: congested: its senders wait"
            yield Fault("warning", "component.congested", name, sentence, describe, topology_id, one.id)
        if one.blocks:
            yield Fault("note", "component.blocks", name, f"{where}: {one.blocks}", describe, topology_id, one.id)
    for complaint in latest_of_each([one for one in topology.complaints if not one.is_over]):
        latest = complaint.latest
        times = f" {complaint.count} times" if complaint.count > 1 else ""
        message = one_line(latest.message or latest.traceback)
        sentence = f"topology '{name}', {latest.component_id}: reported an error{times}: {message}"
        yield Fault("warning", "component.error", name, sentence, errors, topology_id, latest.component_id)


def _status_notes(topology: TopologyFacts) -> Iterator[Fault]:
    """Yield notes on the status that a user chose, on its placement, and on autoscaling."""
    name, topology_id = topology.record.name, topology.record.id
    if topology.ignored_keys:
        sentence = f"topology '{name}': nimbus.scheduler even does not follow {', '.join(topology.ignored_keys)}"
        yield Fault("note", "topology.keys_ignored", name, sentence, f"tupletree describe {name}", topology_id)
    if topology.has_no_pool:
        sentence = f"topology '{name}': {ISOLATE} has no effect, as its owner has no pool ({POOLS})"
        yield Fault("note", "topology.no_pool", name, sentence, f"tupletree describe {name}", topology_id)
    if topology.record.status in _WANTED:
        kind, what = _WANTED[topology.record.status]
        if topology.record.pending.HasField("autoscaled"):
            what += f" by its load: {topology.record.pending.autoscaled.reason}"
        yield Fault("note", kind, name, f"topology '{name}' {what}", "tupletree list", topology_id)
    if topology.scaling_held:
        sentence = f"topology '{name}' is not scaled by its load: {topology.scaling_held}"
        yield Fault("warning", "topology.not_scaled", name, sentence, f"tupletree autoscale {name}", topology_id)


def _failing(component: ComponentFacts) -> str:
    """Return the remedy for a saturated component of whose tuples most or all fail."""
    share = "most" if component.acked else "all"
    return f"{share} of its tuples fail, with more executors, too: mend what its errors or the dead letters show"


def _standstills(topology: TopologyFacts) -> Iterator[Fault]:
    """Yield findings on components that make no progress although they have work."""
    name, topology_id = topology.record.name, topology.record.id
    describe = f"tupletree describe {name}"
    failed = f"tupletree trace {name} --failed --for {1.5 * message_timeout_s(topology.record):.0f}"
    for one in topology.components:
        where = f"topology '{name}', {one.id}"
        stacks = f"tupletree profile {name} {one.port or 'PORT'} --stacks"
        if one.remark:
            severity: Severity = "degraded" if one.is_timing_out else "warning"
            yield Fault(severity, "component.never_acks", name, f"{where}: {one.remark}", describe, topology_id, one.id)
        if one.long_call and not one.stuck:
            yield Fault(
                "warning", "component.long_call", name, f"{where}: {one.long_call}", stacks, topology_id, one.id
            )
        if one.stuck:
            what = f"{plural(one.stuck, 'task')} executed nothing for {one.stuck_s:.0f} s although tuples wait"
            yield Fault("degraded", "component.stuck", name, f"{where}: {what}", stacks, topology_id, one.id)
        if one.is_spout and one.unacked:
            what = f"no tuple tree was acked for {one.unacked_s:.0f} s, and {one.unacked} failed"
            yield Fault("degraded", "trees.none_acked", name, f"{where}: {what}", failed, topology_id, one.id)


def _progress(topology: TopologyFacts) -> Iterator[Fault]:
    """Yield findings on stalled commits and checkpoints, and on sources that are away.

    Statuses come from user code: any field can be wrong.
    """
    name, topology_id = topology.record.name, topology.record.id
    if not any(component.statuses for component in topology.components):
        return
    command = f"tupletree describe {name}"
    longest_s = stall_s(topology.record)
    for component in topology.components:
        statuses = [(one.task_id, decode_status(one.status_json)) for one in component.statuses]
        known = [(task_id, status) for task_id, status in statuses if status is not None]
        where = f"topology '{name}', {component.id}"
        for kind, what in troubles([status for _, status in known], longest_s):
            yield Fault("degraded", kind, name, f"{where}: {what}", command, topology_id, component.id)
        for task_id, status in known:
            where = f"topology '{name}', {component.id}[{task_id}]"
            for kind, what in stalls(status, longest_s):
                yield Fault("degraded", kind, name, f"{where}: {what}", command, topology_id, component.id)
            for severity, kind, what in remarks(status):
                yield Fault(severity, kind, name, f"{where}: {what}", command, topology_id, component.id)


def stall_s(record: pb.TopologyRecord) -> float:
    """Return the seconds after which a topology's operation is stalled: twice the topology's message timeout."""
    return max(_MIN_STALL_S, 2 * message_timeout_s(record))


def message_timeout_s(record: pb.TopologyRecord) -> float:
    """Return the topology's message timeout."""
    try:
        return float(json.loads(record.conf_json or "{}").get("topology.message.timeout.secs") or 30)
    except (ValueError, TypeError, AttributeError):
        return 30.0
