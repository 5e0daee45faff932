"""One verdict for a whole cluster, from what its daemons say of themselves. Pure.

    healthy     a nimbus leads, every daemon that is registered answers, every active topology has all its workers
    degraded    topologies run, but something of that is missing, or one of them does not get on
    down        nobody leads or can be asked, or there is nothing to run topologies or to track their tuples

A topology that is being killed or rebalanced, or was submitted a moment ago, is not at fault for lacking workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tupletree._wire.statuses import decode_status
from tupletree.v1 import acker_pb2, nimbus_pb2, supervisor_pb2
from tupletree.v1 import topology_pb2 as pb

Status = Literal["healthy", "degraded", "down"]

DEATHS: Final = 3  # in a row: a crash loop
FAILURES: Final = 3  # in a row, of a commit or of a checkpoint
STARTING_S: Final = 20.0  # after its submission a topology may lack workers for so long
_LEAST_STALL_S: Final = 60.0
_RUNNING: Final = frozenset({pb.TOPOLOGY_STATUS_ACTIVE, pb.TOPOLOGY_STATUS_INACTIVE})


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it should be: ``kind`` for programs, a sentence for people, and where to look next."""

    severity: Literal["degraded", "down"]
    kind: str  # such as "acker.not_ready"
    subject: str  # whose fault: the name of a topology, the id of a daemon
    sentence: str
    look: str = ""  # a command


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status, which is the worst of the faults', and the faults, the worst first."""

    status: Status
    faults: tuple[Fault, ...]

    @staticmethod
    def of(faults: Iterable[Fault]) -> Verdict:
        found = sorted(faults, key=lambda fault: fault.severity != "down")
        return Verdict(found[0].severity if found else "healthy", tuple(found))


def unreachable(reason: str) -> Verdict:
    """The verdict where no leader could be asked."""
    return Verdict.of([Fault("down", "nimbus.unreachable", "nimbus", reason, "tupletree version")])


def judge(
    cluster: nimbus_pb2.DescribeClusterReply,
    ledgers: Mapping[str, acker_pb2.DescribeLedgerReply | str],
    topologies: Sequence[nimbus_pb2.DescribeTopologyReply],
    slots: Mapping[str, supervisor_pb2.ListSlotsReply | str],
) -> Verdict:
    """The verdict on what a leader, its ackers and its supervisors say.

    ``ledgers``: by acker id, what each said of itself, or why it did not. ``slots``: likewise, by supervisor id.
    """
    faults = [*_ackers(cluster, ledgers), *_supervisors(cluster, slots, topologies)]
    for topology in topologies:
        if topology.summary.record.status in _RUNNING:
            faults += [*_workers(topology), *_progress(topology)]
    return Verdict.of(faults)


def _ackers(
    cluster: nimbus_pb2.DescribeClusterReply, ledgers: Mapping[str, acker_pb2.DescribeLedgerReply | str]
) -> Iterator[Fault]:
    if not cluster.ackers:
        why = "no acker service is registered, so tracked topologies cannot run"
        yield Fault("down", "acker.none", "ackers", why)
        return
    sick = []
    for summary in cluster.ackers:
        presence = summary.presence
        said = ledgers.get(presence.id, "it was not asked")
        if isinstance(said, str):
            kind, why = "acker.unreachable", said
        elif not said.ready:
            kind, why = "acker.not_ready", "; ".join(said.reasons) or "it gives no reason"
        else:
            continue
        address = f"{presence.host}:{presence.grpc_port}"
        sentence = f"acker {presence.id} at {address} is not ready: {why}"
        sick.append(Fault("degraded", kind, presence.id, sentence, "tupletree ackers"))
    yield from sick
    if len(sick) == len(cluster.ackers):
        yield Fault("down", "acker.none_ready", "ackers", "no acker is ready, so spouts of tracked topologies wait")


def _supervisors(
    cluster: nimbus_pb2.DescribeClusterReply,
    slots: Mapping[str, supervisor_pb2.ListSlotsReply | str],
    topologies: Sequence[nimbus_pb2.DescribeTopologyReply],
) -> Iterator[Fault]:
    if not cluster.supervisors:
        yield Fault("down", "supervisor.none", "supervisors", "no supervisor is registered, so no topology can run")
    names = {topology.summary.record.id: topology.summary.record.name for topology in topologies}
    for summary in cluster.supervisors:
        presence = summary.presence
        said = slots.get(presence.id)
        if isinstance(said, str):
            where = f"supervisor {presence.id} at {presence.host}:{presence.grpc_port}"
            yield Fault("degraded", "supervisor.unreachable", presence.id, f"{where} does not answer: {said}")
        elif said is not None:
            for slot in said.slots:
                yield from _slot(presence, slot, names)


def _slot(presence: pb.Presence, slot: supervisor_pb2.SlotSummary, names: Mapping[str, str]) -> Iterator[Fault]:
    name = names.get(slot.topology_id, slot.topology_id)
    place = f"{presence.host}:{slot.port}"
    last = f": {slot.last_exit}" if slot.last_exit else ""
    if slot.deaths >= DEATHS:
        sentence = f"topology '{name}': its worker at {place} died {slot.deaths} times in a row{last}"
        yield Fault("degraded", "worker.crash_loop", name, sentence, f"tupletree errors {name}")
    if slot.misses:
        sentence = f"topology '{name}': its bundle cannot be made ready at {place}, {slot.misses} times so far{last}"
        yield Fault("degraded", "worker.no_bundle", name, sentence, f"tupletree errors {name}")


def _workers(topology: nimbus_pb2.DescribeTopologyReply) -> Iterator[Fault]:
    summary, name = topology.summary, topology.summary.record.name
    if topology.unscheduled:
        sentence = f"topology '{name}' is not fully scheduled: {topology.unscheduled}"
        yield Fault("degraded", "topology.unscheduled", name, sentence, "tupletree list")
    elif summary.workers_ready < summary.workers_used or not summary.workers_used:
        if summary.uptime_s < STARTING_S:
            return
        if not summary.workers_used:
            sentence = f"topology '{name}' has no worker"
        else:
            sentence = f"topology '{name}' has {summary.workers_ready} of {summary.workers_used} workers ready"
        yield Fault("degraded", "topology.workers_not_ready", name, sentence, f"tupletree describe {name}")


def _progress(topology: nimbus_pb2.DescribeTopologyReply) -> Iterator[Fault]:
    """Commits and checkpoints that do not get on, as tasks say. That is user code: any field may be wrong."""
    name = topology.summary.record.name
    stall_s = max(_LEAST_STALL_S, 2 * message_timeout_s(topology.summary.record))
    for component in topology.components:
        for one in component.statuses:
            status = decode_status(one.status_json)
            if status is None:
                continue
            where = f"topology '{name}', {component.component_id}[{one.task_id}]"
            for kind, what in _STALLS.get(str(status.get("kind")), _nothing)(status, stall_s):
                yield Fault("degraded", kind, name, f"{where}: {what}", f"tupletree describe {name}")


def _pipeline(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    if status.get("state") == "stopped":
        yield "pipeline.stopped", f"the pipeline has stopped: {_text(status.get('reason'))}"
    oldest_s = _oldest_s(status.get("batches"))
    if oldest_s > stall_s:
        yield "commit.stalled", f"a batch has waited {oldest_s:.0f} s to be committed"


def _coordinator(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    if status.get("state") == "deposed":
        yield "commit.deposed", "another coordinator has taken over the transactional id, and this one stands still"
        return
    oldest_s, failures = _oldest_s(status.get("active")), _number(status.get("failures"))
    if oldest_s > stall_s:
        yield "commit.stalled", f"a transaction has been under way for {oldest_s:.0f} s"
    elif failures >= FAILURES:
        yield "commit.failing", f"transactions have failed {failures:.0f} times since the last commit"


def _checkpoint(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    if status.get("state") == "stands still":
        yield "checkpoint.deposed", "another checkpoint spout has taken over the state id, and this one stands still"
        return
    age_s, failures = _number(status.get("step_age_s")), _number(status.get("failures"))
    if age_s > stall_s:
        yield "checkpoint.stalled", f"the checkpoint's step '{_text(status.get('step'))}' has gone on for {age_s:.0f} s"
    elif failures >= FAILURES:
        yield "checkpoint.failing", f"checkpoints have failed {failures:.0f} times since the last one"


def _nothing(status: Mapping[str, Any], stall_s: float) -> Iterator[tuple[str, str]]:
    return iter(())


_STALLS: Final = {"pipeline": _pipeline, "coordinator": _coordinator, "checkpoint": _checkpoint}


def message_timeout_s(record: pb.TopologyRecord) -> float:
    """The topology's own message timeout."""
    try:
        return float(json.loads(record.conf_json or "{}").get("topology.message.timeout.secs") or 30)
    except (ValueError, TypeError, AttributeError):
        return 30.0


def _oldest_s(entries: Any) -> float:
    found = entries if isinstance(entries, list) else []
    return max((_number(one.get("age_s")) for one in found if isinstance(one, dict)), default=0.0)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18 else 0.0


def _text(value: Any) -> str:
    """Of what user code says, one line that a terminal can bear."""
    text = " ".join(str(value or "no reason given").split())[:300]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
