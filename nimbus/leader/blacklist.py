"""Blacklist of machines that keep failing: their supervisors get no new workers for a while.

A *failure* of a machine is one of these:

* *Lost*: its supervisor is not registered any more, for whatever reason, or another process is in its place. Not
  counted if every supervisor is lost at once, since then no single machine is at fault.
* *Silent*: within ``TOGETHER_S``, workers of at least two topologies fall silent in its slots, or never report in the
  time for their launch, while the supervisor is registered. A topology whose workers are silent on several machines at
  once does not count: its own code, or the network, is the likelier cause.

A worker that dies and is restarted by its supervisor is no failure of the machine, however often that happens.

``count`` failures within ``within_s`` put a supervisor on the list for ``resume_s``. What runs there stays. If
topologies lack room, the supervisors with the fewest failures are released before their time is over, and no more of
them than are needed. A released one has no failures any more. The list is that of one leadership.
"""

from __future__ import annotations  # pure

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tupletree.parallelism import executors_of_record
from tupletree.v1 import topology_pb2 as pb

from . import lifecycle
from .liveness import Placements
from .scheduler import Slot

TOGETHER_S: Final = 10.0
"""The time within which silent workers of different topologies are one failure of their machine."""

Silent = Collection[tuple[str, Slot]]  # topology id and slot of the workers that are not alive


@dataclass(frozen=True)
class BlacklistRule:
    """The configured rule. ``count`` 0: no supervisor is ever put on the list."""

    count: int = 0
    within_s: float = 300.0
    resume_s: float = 1800.0


class Failure(NamedTuple):
    """A failure of a machine."""

    at_s: float
    reason: str  # such as "its supervisor was lost"


class Entry(NamedTuple):
    """A supervisor on the list."""

    failures: int
    until_s: float
    sentence: str


class Change(NamedTuple):
    """A supervisor that came onto the list or left it, and why."""

    supervisor_id: str
    is_listed: bool
    sentence: str


class Demand(NamedTuple):
    """Slots that topologies lack, and the slots of each registered supervisor that they could take.

    ``is_short``: a topology lacks resources, whatever slots are free.
    """

    missing: int
    free: Mapping[str, int]
    is_short: bool = False


def judged(failures: Iterable[Failure], rule: BlacklistRule, now_s: float) -> Entry | None:
    """Return the entry of a supervisor with these failures; None if it is not to be put on the list."""
    recent = [one for one in failures if one.at_s > now_s - rule.within_s]
    if not rule.count or len(recent) < rule.count:
        return None
    reasons = Counter(one.reason for one in recent)
    what = "; ".join(reason if count == 1 else f"{reason} ({count} times)" for reason, count in reasons.items())
    failed = "1 failure" if len(recent) == 1 else f"{len(recent)} failures"
    sentence = f"it gets no new workers for {rule.resume_s:.0f} s after {failed} within {rule.within_s:.0f} s: {what}"
    return Entry(len(recent), now_s + rule.resume_s, sentence)


def to_release(listed: Mapping[str, Entry], demand: Demand) -> list[str]:
    """Return the supervisors to release, those with the fewest failures first, then those with the earliest end.

    For lack of resources one is released at a time: the next decision says whether that was enough.
    """
    room = sum(count for one, count in demand.free.items() if one not in listed)
    is_short, released = demand.is_short, []
    useful = [one for one in listed if demand.free.get(one)]
    for one in sorted(useful, key=lambda name: (listed[name].failures, listed[name].until_s, name)):
        if demand.missing <= room and not is_short:
            break
        released.append(one)
        room, is_short = room + demand.free[one], False
    return released


def demand_of(
    records: Iterable[pb.TopologyRecord],
    placements: Placements,
    silent: Silent,
    supervisors: Mapping[str, pb.Presence],
    is_short: bool,
) -> Demand:
    """Return what the topologies lack. Slots of silent workers, and of what is rebalanced, are free to be taken."""
    wanted, used = 0, set()
    for record in records:
        slots = set(placements.get(record.id, ()))
        if record.status != lifecycle.KILLED:
            wanted += min(record.workers, len(executors_of_record(record)))
            slots -= {slot for slot in slots if (record.id, slot) in silent}
            if record.status == lifecycle.REBALANCING:
                continue
            wanted -= min(record.workers, len(slots))
        used |= slots
    offered = {Slot(one, port) for one, presence in supervisors.items() for port in presence.slots}
    return Demand(max(0, wanted), Counter(slot.supervisor_id for slot in offered - used), is_short)


def offering(supervisors: Mapping[str, pb.Presence], blacklisted: Collection[str]) -> Mapping[str, pb.Presence]:
    """Return the supervisors that get new workers."""
    return {one: presence for one, presence in supervisors.items() if one not in blacklisted}


@dataclass
class Blacklist:
    """The failures and the list of one leadership. Each call gets the time."""

    rule: BlacklistRule
    listed: dict[str, Entry] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)  # of registered and listed supervisors, for the log
    _failures: dict[str, list[Failure]] = field(default_factory=dict)
    _registered: Mapping[str, float] = field(default_factory=dict)
    _silent: frozenset[tuple[str, Slot]] = frozenset()
    _silences: dict[str, dict[str, float]] = field(default_factory=dict)  # supervisor, topology: since when

    def observe(self, registered: Mapping[str, float], silent: Silent, now_s: float) -> list[Change]:
        """Count the failures since the last call. Return what comes onto the list, and what has served its time.

        ``registered``: the time at which the process of each registered supervisor started. A machine whose supervisor
        is lost and back between two calls, has another time.
        """
        if not self.rule.count:
            return []
        changes = [Change(one, False, "its time is over") for one, e in self.listed.items() if e.until_s <= now_s]
        for change in changes:
            self._forget(change.supervisor_id)
        lost = {one for one, started in self._registered.items() if registered.get(one) != started}
        is_alone = len(lost) < len(self._registered)
        new = [(one, Failure(now_s, "its supervisor was lost")) for one in sorted(lost) if is_alone]
        new += [
            (one, Failure(now_s, "workers of several topologies fell silent"))
            for one in self._machines_with_silent_workers(registered, silent, now_s)
        ]
        self._registered, self._silent = dict(registered), frozenset(silent)
        for supervisor_id, failure in new:
            kept = [one for one in self._failures.get(supervisor_id, ()) if one.at_s > now_s - self.rule.within_s]
            self._failures[supervisor_id] = [*kept, failure]
            entry = judged(self._failures[supervisor_id], self.rule, now_s)
            if entry is None:
                continue
            if supervisor_id not in self.listed:
                changes.append(Change(supervisor_id, True, entry.sentence))
            self.listed[supervisor_id] = entry
        self._forget_old(now_s)
        return changes

    def release(self, demand: Demand) -> list[Change]:
        """Take supervisors off the list whose slots or resources topologies lack."""
        released = to_release(self.listed, demand) if self.listed else []
        for one in released:
            self._forget(one)
        return [Change(one, False, "topologies lack room without it") for one in released]

    def _machines_with_silent_workers(self, registered: Collection[str], silent: Silent, now_s: float) -> list[str]:
        machines: dict[str, set[str]] = {}
        for topology_id, slot in silent:
            machines.setdefault(topology_id, set()).add(slot.supervisor_id)
        found = []
        for topology_id, slot in sorted(set(silent) - self._silent):
            supervisor_id = slot.supervisor_id
            if supervisor_id not in registered or len(machines[topology_id]) > 1:
                continue
            known = self._silences.get(supervisor_id, {})
            recent = {one: at_s for one, at_s in known.items() if at_s > now_s - TOGETHER_S} | {topology_id: now_s}
            if len(recent) > 1:
                found.append(supervisor_id)
                recent = {}
            self._silences[supervisor_id] = recent
        return found

    def _forget(self, supervisor_id: str) -> None:
        for known in (self.listed, self._failures, self._silences):
            known.pop(supervisor_id, None)

    def _forget_old(self, now_s: float) -> None:
        """Bound the memory: supervisors that do not come back are forgotten with their failures."""
        oldest_s = now_s - self.rule.within_s
        for one in [one for one, known in self._failures.items() if known[-1].at_s <= oldest_s]:
            del self._failures[one]
        for one in [
            one for one, known in self._silences.items() if all(s <= now_s - TOGETHER_S for s in known.values())
        ]:
            del self._silences[one]
