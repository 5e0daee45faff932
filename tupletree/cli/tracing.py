"""One tuple tree, put together from the events of all workers it came through. Pure.

A *hop* is one tuple of the tree at one task: handed over, received, executed, acked. Its id is the tuple's edge id,
which every event of the tuple carries except the ack (matched by task, in order). A hop's parent is the hop whose
execution emitted the tuple: each execute event lists the edges emitted meanwhile. For a tuple emitted later, the parent
is the latest execution that the emitting task had begun.

Events may be lost (left out, rotated away, a worker killed), and may arrive twice and in any order: the remaining
events still make a tree, with gaps.

**Clocks.** Times of one machine are comparable; the clocks of two machines may differ. A tuple cannot arrive before it
was sent, nor can a spout learn the verdict before the last ack. Where the times contradict this, the times of one
machine are shifted, by as little as possible; ``Tree.shifts_s`` has the shifts. A smaller difference of clocks cannot
be told from network time.
"""

from __future__ import annotations  # pure

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tupletree._wire.events import KINDS
from tupletree._wire.names import is_system

MAX_HOPS: Final = 2_000  # of a tree; more are not shown
_MAX_TEXT_LENGTH: Final = 200
_OUTCOMES: Final = {"ack": "acked", "fail": "failed"}


@dataclass(slots=True)
class Hop:
    """One tuple of a tree at one task. Times are Unix seconds, corrected where clocks differ; None if unknown."""

    edge: str
    source: str = ""  # component that emitted the tuple
    source_task: int | None = None
    stream: str = ""
    component: str = ""
    task: int | None = None
    worker: str = ""  # host:port of the worker that executed the tuple
    sent_s: float | None = None
    received_s: float | None = None  # None also if the tuple did not leave its worker
    begun_s: float | None = None
    ended_s: float | None = None
    settled_s: float | None = None
    outcome: str = ""  # acked, failed; empty: not known
    error: str = ""
    children: list[Hop] = field(default_factory=list)

    @property
    def first_s(self) -> float | None:
        """The earliest known time of this hop."""
        return min((at for at in self.times() if at is not None), default=None)

    def times(self) -> tuple[float | None, ...]:
        return self.sent_s, self.received_s, self.begun_s, self.ended_s, self.settled_s


@dataclass(slots=True)
class Tree:
    """One tuple tree. ``hops``: the hops directly below the root, in the order of time; each has its children."""

    root: str
    component: str = ""  # the spout that emitted the root
    task: int | None = None
    worker: str = ""
    message: str = ""
    begun_s: float | None = None
    verdict: str = ""  # acked, failed, expired; empty: not known (yet)
    ended_s: float | None = None
    hops: list[Hop] = field(default_factory=list)
    shifts_s: dict[str, float] = field(default_factory=dict)  # by machine: seconds added to its times

    @property
    def is_of_system(self) -> bool:
        """True if no spout of the user's emitted the root: it is a step of a checkpoint."""
        return is_system(self.component)

    @property
    def took_s(self) -> float | None:
        """From the spout's emit until it learnt the verdict."""
        return None if self.begun_s is None or self.ended_s is None else self.ended_s - self.begun_s

    @property
    def is_whole(self) -> bool:
        """True if the beginning, the verdict and every hop's execution are known."""
        return self.took_s is not None and all(hop.begun_s is not None for hop in self.all_hops())

    def all_hops(self) -> list[Hop]:
        """Return every hop, each before its descendants."""
        found, waiting = [], list(reversed(self.hops))
        while waiting:
            hop = waiting.pop()
            found.append(hop)
            waiting.extend(reversed(hop.children))
        return found

    def name_hops(self, components: Mapping[int, str]) -> None:
        """Set the component of hops whose execution has not begun, so that only their task is known."""
        for hop in self.all_hops():
            if not hop.component and hop.task is not None:
                hop.component = components.get(hop.task, "")


def join(events: Iterable[Mapping[str, Any]]) -> list[Tree]:
    """Return the trees of some events, ordered by their beginning. Invalid events are ignored."""
    by_root: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    seen = set()
    for event in events:
        root, kind, key = event.get("root"), event.get("kind"), _identity(event)
        is_one = isinstance(root, str) and isinstance(kind, str) and kind in KINDS
        if is_one and _time(event.get("at")) is not None and key not in seen:
            seen.add(key)
            by_root[str(root)].append(event)
    trees = [_Joiner(root, found).tree() for root, found in by_root.items()]
    return sorted(trees, key=lambda tree: (_first_s(tree), tree.root))


class _Joiner:
    """Makes one tree of its events."""

    def __init__(self, root: str, events: Sequence[Mapping[str, Any]]) -> None:
        self._tree = Tree(root)
        self._hops: dict[str, Hop] = {}
        self._child_of: dict[str, str] = {}
        self._events = sorted(events, key=lambda event: (float(event["at"]), _identity(event)))

    def tree(self) -> Tree:
        for event in self._events:
            self._add(event)
        for event in self._events:
            if event["kind"] in _OUTCOMES:
                self._open_hop(event)
        self._hang()
        _align(self._tree, self._hops.values())
        _sort(self._tree.hops)
        return self._tree

    def _add(self, event: Mapping[str, Any]) -> None:
        tree, at = self._tree, float(event["at"])
        match event["kind"]:
            case "begin" if tree.begun_s is None:
                tree.begun_s, tree.message = at, _text(event.get("message"))
                self._began(event)
            case "verdict" if not tree.verdict:
                tree.verdict, tree.ended_s = _text(event.get("verdict")), at
                self._began(event)
            case "send":
                if (hop := self._hop(event)) is not None and hop.sent_s is None:
                    hop.sent_s, hop.source, hop.stream = at, _text(event.get("component")), _text(event.get("stream"))
                    hop.source_task = _task(event.get("task"))
                    hop.task = hop.task if hop.task is not None else _task(event.get("target"))
            case "receive":
                if (hop := self._hop(event)) is not None and hop.received_s is None:
                    hop.received_s, hop.worker = at, hop.worker or _text(event.get("worker"))
                    hop.task = hop.task if hop.task is not None else _task(event.get("target"))
            case "execute":
                self._executed(event, at)

    def _executed(self, event: Mapping[str, Any], at: float) -> None:
        hop = self._hop(event)
        if hop is None or hop.begun_s is not None:
            return
        until = _time(event.get("until"))
        hop.begun_s, hop.ended_s = at, until if until is not None and until >= at else None
        hop.component, hop.worker = _text(event.get("component")), _text(event.get("worker"))
        hop.task, hop.error = _task(event.get("task")), _text(event.get("error"))
        hop.source = hop.source or _text(event.get("source"))
        children = event.get("children")
        for child in children if isinstance(children, list) else []:
            if isinstance(child, str):
                self._child_of.setdefault(child, hop.edge)

    def _open_hop(self, event: Mapping[str, Any]) -> None:
        """Set the outcome of the earliest open hop that the event's task executed."""
        at, task = float(event["at"]), _task(event.get("task"))
        open_ = [
            hop
            for hop in self._hops.values()
            if hop.task == task and not hop.outcome and hop.begun_s is not None and hop.begun_s <= at
        ]
        if task is not None and open_:
            hop = min(open_, key=lambda hop: (hop.begun_s, hop.edge))
            hop.outcome, hop.settled_s = _OUTCOMES[event["kind"]], at

    def _began(self, event: Mapping[str, Any]) -> None:
        tree = self._tree
        tree.component, tree.worker = _text(event.get("component")), _text(event.get("worker"))
        tree.task = _task(event.get("task"))

    def _hop(self, event: Mapping[str, Any]) -> Hop | None:
        edge = event.get("edge")
        if not isinstance(edge, str) or (edge not in self._hops and len(self._hops) >= MAX_HOPS):
            return None
        return self._hops.setdefault(edge, Hop(edge))

    def _hang(self) -> None:
        """Attach every hop to its parent; a hop with an unknown or cyclic parent is attached to the root."""
        for hop in sorted(self._hops.values(), key=lambda hop: hop.edge):
            parent = self._parent(hop)
            if parent is not None and not self._is_below(parent, hop):
                self._child_of[hop.edge] = parent.edge
                parent.children.append(hop)
            else:
                self._child_of.pop(hop.edge, None)
                self._tree.hops.append(hop)

    def _parent(self, hop: Hop) -> Hop | None:
        known = self._hops.get(self._child_of.get(hop.edge, ""))
        if known is not None or hop.source_task is None or hop.sent_s is None:
            return known
        sent_s = hop.sent_s
        begun = [
            one
            for one in self._hops.values()
            if one is not hop and one.task == hop.source_task and one.begun_s is not None and one.begun_s <= sent_s
        ]
        return max(begun, key=lambda one: (one.begun_s, one.edge), default=None)

    def _is_below(self, hop: Hop, other: Hop) -> bool:
        """True if a hop is the other hop or below it, by the known parents."""
        passed = set()
        at: Hop | None = hop
        while at is not None and at.edge not in passed:
            if at is other:
                return True
            passed.add(at.edge)
            at = self._hops.get(self._child_of.get(at.edge, ""))
        return False


def _align(tree: Tree, hops: Iterable[Hop]) -> None:
    """Shift the times of machines whose clocks differ so much that effects come before their causes.

    Machines are settled one after the other, beginning with the spout's. The shift of each machine follows from the
    tuples that it received from settled machines and sent back to them.
    """
    found = list(hops)
    machine_of: dict[int | None, str] = {
        hop.task: _machine(hop.worker) for hop in found if hop.task is not None and hop.worker
    }
    if tree.task is not None:
        machine_of[tree.task] = _machine(tree.worker)
    shifts = {_machine(tree.worker): 0.0}
    while True:
        settled = dict(shifts)
        for machine in sorted({_machine(hop.worker) for hop in found if hop.worker} - settled.keys()):
            least, most = _bounds(found, machine, settled, machine_of)
            if least:
                most += _before_the_verdict(tree, found, machine)
                shifts[machine] = _shift(max(least), min(most, default=None))
        if len(shifts) == len(settled):
            break
    tree.shifts_s = {machine: shift for machine, shift in shifts.items() if shift}
    for hop in found:
        receiver = tree.shifts_s.get(_machine(hop.worker), 0.0)
        sender = tree.shifts_s.get(machine_of.get(hop.source_task, ""), 0.0)
        hop.sent_s = _moved(hop.sent_s, sender)
        hop.received_s, hop.begun_s = _moved(hop.received_s, receiver), _moved(hop.begun_s, receiver)
        hop.ended_s, hop.settled_s = _moved(hop.ended_s, receiver), _moved(hop.settled_s, receiver)


def _bounds(
    hops: Iterable[Hop], machine: str, settled: Mapping[str, float], machine_of: Mapping[int | None, str]
) -> tuple[list[float], list[float]]:
    """Return the minimum shift of a machine's times per received tuple, and the maximum per returned tuple."""
    least, most = [], []
    for hop in hops:
        sender, receiver, arrived = machine_of.get(hop.source_task, ""), _machine(hop.worker), _arrived(hop)
        if hop.sent_s is None or arrived is None:
            continue
        if receiver == machine and sender in settled:
            least.append(hop.sent_s + settled[sender] - arrived)
        elif sender == machine and receiver in settled:
            most.append(arrived + settled[receiver] - hop.sent_s)
    return least, most


def _shift(least: float, most: float | None) -> float:
    """Return the smallest shift, in either direction, that is at least ``least`` and, if possible, at most ``most``."""
    if least > 0:
        return least
    return max(least, most) if most is not None and most < 0 else 0.0


def _before_the_verdict(tree: Tree, hops: Iterable[Hop], machine: str) -> list[float]:
    """Return the maximum shift of a machine's times before an ack would follow the spout's verdict."""
    if tree.ended_s is None or tree.verdict != "acked":
        return []
    return [
        tree.ended_s - hop.settled_s for hop in hops if _machine(hop.worker) == machine and hop.settled_s is not None
    ]


def _sort(hops: list[Hop]) -> None:
    waiting = [hops]
    while waiting:
        some = waiting.pop()
        some.sort(key=lambda hop: (first if (first := hop.first_s) is not None else float("inf"), hop.edge))
        waiting.extend(hop.children for hop in some)


def _first_s(tree: Tree) -> float:
    times = [tree.begun_s, tree.ended_s, *(hop.first_s for hop in tree.hops)]
    return min((at for at in times if at is not None), default=float("inf"))


def _arrived(hop: Hop) -> float | None:
    return hop.received_s if hop.received_s is not None else hop.begun_s


def _moved(at: float | None, by: float) -> float | None:
    return None if at is None else at + by


def _machine(worker: str) -> str:
    return worker.rpartition(":")[0]


def _identity(event: Mapping[str, Any]) -> str:
    """Return the identity of an event: all its fields."""
    return repr(sorted((str(key), repr(value)) for key, value in event.items()))


def _time(value: Any) -> float | None:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15 else None
    )


def _task(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    return value[:_MAX_TEXT_LENGTH] if isinstance(value, str) else ""
