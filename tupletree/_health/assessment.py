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
from typing import Any, Final, Literal

from tupletree._compiled import cost_of
from tupletree._health.errors import latest_of_each
from tupletree._health.facts import AckerFacts, SupervisorFacts, TopologyFacts
from tupletree._wire.statuses import decode_status, source_of
from tupletree.v1 import supervisor_pb2
from tupletree.v1 import topology_pb2 as pb

Status = Literal["healthy", "degraded", "down"]
Severity = Literal["down", "degraded", "warning", "note"]

DEATHS: Final = 3  # in a row: a crash loop
FAILURES: Final = 3  # in a row, of a commit or of a checkpoint
STARTING_S: Final = 20.0  # grace period after submission in which a topology may lack workers
LATELY_S: Final = 600.0  # the period of metrics and errors that notes are based on
SATURATED: Final = 0.9  # busy share of a bolt's busiest executor
_MIN_STALL_S: Final = 60.0
_MAX_TEXT_LENGTH: Final = 1000  # of text from user code
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
    return Verdict.of([Fault("down", "nimbus.unreachable", "nimbus", reason, "tupletree version")])


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
    last = f": {_text(slot.last_exit)}" if slot.last_exit else ""
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
                f"{sentence}: a worker died {_plural(deaths, 'time')} in a row",
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
            f"for: it has {_plural(topology.executors, 'executor')}"
        )
        yield Fault("note", "topology.few_executors", name, sentence, f"tupletree describe {name}", topology_id)


def _notes(topology: TopologyFacts) -> Iterator[Fault]:
    """Yield notes on metrics and errors of the last ten minutes, and on the status that a user chose."""
    name, topology_id = topology.record.name, topology.record.id
    if topology.record.status in _WANTED:
        kind, what = _WANTED[topology.record.status]
        yield Fault("note", kind, name, f"topology '{name}' {what}", "tupletree list", topology_id)
    errors, describe = f"tupletree errors {name}", f"tupletree describe {name}"
    for one in topology.components:
        where = f"topology '{name}', {one.id}"
        if one.failed:
            what = "tuple tree" if one.is_spout else "tuple"
            some = "all" if one.timeouts == one.failed else one.timeouts
            timeouts = f", {some} by timeout" if one.timeouts else ""
            sentence = f"{where}: {_plural(one.failed, what)} failed in the last ten minutes{timeouts}"
            kind = "trees.failed" if one.is_spout else "tuples.failed"
            yield Fault("warning", kind, name, sentence, describe, topology_id, one.id)
        if one.unheard:
            what = f"{_plural(one.unheard, 'failed message')} given up: the spout does not override fail"
            yield Fault("warning", "trees.given_up", name, f"{where}: {what}", describe, topology_id, one.id)
        if one.capacity >= SATURATED:
            sentence = f"{where}: its busiest executor is busy {one.capacity:.0%} of the time; add executors"
            yield Fault("warning", "component.saturated", name, sentence, describe, topology_id, one.id)
        if one.is_congested:
            sentence = f"{where}: congested: its senders wait"
            yield Fault("warning", "component.congested", name, sentence, describe, topology_id, one.id)
        if one.blocks:
            yield Fault("note", "component.blocks", name, f"{where}: {one.blocks}", describe, topology_id, one.id)
    for complaint in latest_of_each([one for one in topology.complaints if not one.is_over]):
        latest = complaint.latest
        times = f" {complaint.count} times" if complaint.count > 1 else ""
        message = _text(latest.message or latest.traceback)
        sentence = f"topology '{name}', {latest.component_id}: reported an error{times}: {message}"
        yield Fault("warning", "component.error", name, sentence, errors, topology_id, latest.component_id)


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
            what = f"{_plural(one.stuck, 'task')} executed nothing for {one.stuck_s:.0f} s although tuples wait"
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
        if away := _away([status for _, status in known if source_of(status)]):
            where = f"topology '{name}', {component.id}"
            yield Fault("degraded", "source.away", name, f"{where}: {away}", command, topology_id, component.id)
        if late := _late([status for _, status in known], longest_s):
            where = f"topology '{name}', {component.id}"
            yield Fault("degraded", "tuples.late", name, f"{where}: {late}", command, topology_id, component.id)
        for task_id, status in known:
            where = f"topology '{name}', {component.id}[{task_id}]"
            for kind, what in _STALLS.get(str(status.get("kind")), _nothing)(status, longest_s):
                yield Fault("degraded", kind, name, f"{where}: {what}", command, topology_id, component.id)
            for severity, kind, what in _remarks(status):
                yield Fault(severity, kind, name, f"{where}: {what}", command, topology_id, component.id)


def _pipeline(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    if status.get("state") == "stopped":
        yield "pipeline.stopped", f"the pipeline has stopped: {_text(status.get('reason'))}"
    oldest_s = _oldest_s(status.get("batches"))
    if oldest_s > stall_s:
        yield "commit.stalled", f"a batch has waited {oldest_s:.0f} s to be committed"


def _coordinator(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    if status.get("state") == "deposed":
        yield "commit.deposed", "stalled: another coordinator has taken over the transactional id"
        return
    oldest_s, failures = _oldest_s(status.get("active")), _number(status.get("failures"))
    if oldest_s > stall_s:
        yield "commit.stalled", f"a transaction has been under way for {oldest_s:.0f} s"
    elif failures >= FAILURES:
        yield "commit.failing", f"transactions have failed {failures:.0f} times since the last commit"


def _checkpoint(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    if status.get("state") == "refused":
        yield "checkpoint.refused", f"no checkpoint is taken and nothing is acked: {_text(status.get('reason'))}"
        return
    if status.get("state") == "stands still":
        yield "checkpoint.deposed", "stalled: another checkpoint spout has taken over the state id"
        return
    age_s, failures = _number(status.get("step_age_s")), _number(status.get("failures"))
    if age_s > stall_s:
        yield "checkpoint.stalled", f"the checkpoint's step '{_text(status.get('step'))}' has gone on for {age_s:.0f} s"
    elif failures >= FAILURES:
        yield "checkpoint.failing", f"checkpoints have failed {failures:.0f} times since the last committed one"


def _away(statuses: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on tasks that are not connected to their source, with the last error; "" if there are none."""
    away = [one for one in statuses if one.get("connected") is False and one.get("error")]
    if not away:
        return ""
    tasks = f"{len(away)} of {_plural(len(statuses), 'task')} {'is' if len(away) == 1 else 'are'}"
    return f"{tasks} not connected to {_text(source_of(away[0]))}: {_text(away[0]['error'])}"


def _late(statuses: Sequence[Mapping[str, Any]], recent_s: float) -> str:
    """Return a sentence on the tuples that a component drops as late; "" if it has dropped none recently."""
    late = [one for one in statuses if one.get("kind") == "late"]
    ages_s = [_number(one.get("newest_age_s")) for one in late]
    if min(ages_s, default=recent_s) >= recent_s:
        return ""
    dropped = int(sum(_number(one.get("dropped")) for one in late))
    tuples = "1 tuple was" if dropped == 1 else f"{dropped:,} tuples were"
    return f"{tuples} dropped as late so far, the newest {min(ages_s):.0f} s ago: raise max_lag, or name a late_stream"


def _remarks(status: Mapping[str, Any]) -> Iterator[tuple[Severity, str, str]]:
    """Yield notes that apply to any kind of status."""
    batches = [*_objects(status.get("active")), *_objects(status.get("batches"))]
    worst = max(batches, key=lambda one: _number(one.get("failures")), default={})
    if failures := int(_number(worst.get("failures"))):
        yield (
            "warning",
            "commit.retried",
            f"transaction {_text(str(worst.get('txid')))} failed {_plural(failures, 'time')}",
        )
    lag = status.get("lag")
    if isinstance(lag, dict) and lag.get("error"):
        yield "warning", "lag.unknown", f"its lag behind its source is unknown: {_text(lag['error'])}"
    if status.get("is_recovering") is True and status.get("state") not in ("refused", "stands still"):
        yield "note", "checkpoint.recovering", "the states are recovering from their last checkpoint"


def _nothing(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    return iter(())


_STALLS: Final = {"pipeline": _pipeline, "coordinator": _coordinator, "checkpoint": _checkpoint}


def stall_s(record: pb.TopologyRecord) -> float:
    """Return the seconds after which a topology's operation is stalled: twice the topology's message timeout."""
    return max(_MIN_STALL_S, 2 * message_timeout_s(record))


def message_timeout_s(record: pb.TopologyRecord) -> float:
    """Return the topology's message timeout."""
    try:
        return float(json.loads(record.conf_json or "{}").get("topology.message.timeout.secs") or 30)
    except (ValueError, TypeError, AttributeError):
        return 30.0


def _objects(entries: Any) -> list[dict[str, Any]]:
    return [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []


def _oldest_s(entries: Any) -> float:
    return max((_number(one.get("age_s")) for one in _objects(entries)), default=0.0)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18 else 0.0


def _plural(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _text(value: Any) -> str:
    """Return text from user code as one line that is safe for a terminal."""
    text = " ".join(str(value or "no reason given").split())
    if len(text) > _MAX_TEXT_LENGTH:
        text = f"{text[: _MAX_TEXT_LENGTH - 1]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
