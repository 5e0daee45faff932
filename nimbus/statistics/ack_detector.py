"""Warnings about bolts that never ack, user calls that do not return, and blocking executors. Pure.

A blocking executor is an executor that was given a thread of its own because its component blocks.

A bolt that forgets to ack makes every tree time out, half a minute after the tree began by default. The bolt can be
detected earlier: it has executed many tuples and settled none. A bolt that gathers tuples looks the same until it acks
its first tuple. The rules that tell them apart:

    nothing is tracked, or no tree is pending and none timed out      nobody waits for an ack: never named
    acked or failed any tuple since its worker started                it does ack: never named
    fewer tuples than ENOUGH or topology.max.spout.pending            too early to say
    for less than a third of the message timeout (at least 10 s)      too early to say
    gets ticks, or says ``holds_tuples`` (windows, combiners, batch   named only if trees have timed out, and after a
    bolts of transactional topologies do, joins can)                  whole message timeout
"""

from __future__ import annotations  # pure

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tupletree._health.assessment import LATELY_S
from tupletree._wire.names import is_system
from tupletree.parallelism import executors_of_record, tasks_of_record
from tupletree.v1 import topology_pb2 as pb

from .stall_detector import Answers
from .topology_statistics import TopologyStatistics

ENOUGH: Final = 100
MIN_S: Final = 10.0
LONG_CALL_S: Final = 10.0


NEVER_ACKS: Final = "component.never_acks"
LONG_CALL: Final = "component.long_call"
BLOCKS: Final = "component.blocks"  # advice, not a fault


@dataclass(frozen=True, slots=True)
class Remark:
    """Remark on a component: a kind for programs, also used by health, and a sentence for people."""

    kind: str = ""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees of all spouts of a topology."""

    is_tracked: bool
    pending: int
    timeouts: int  # within the last LATELY_S


def never_acks(answers: Answers, trees: Trees, conf: Mapping[str, Any]) -> str:
    """Describe a bolt that never acks, in a sentence without its name; empty if there is no fault."""
    if not trees.is_tracked or not (trees.pending or trees.timeouts) or answers.settled:
        return ""
    timeout_s = _number(conf.get("topology.message.timeout.secs")) or 30.0
    patience_s = max(MIN_S, timeout_s / 3)
    if answers.holds_tuples:
        patience_s = math.inf if not trees.timeouts else timeout_s
    enough = min(ENOUGH, _number(conf.get("topology.max.spout.pending")) or ENOUGH)
    if answers.executed < enough or answers.since_s < patience_s:
        return ""
    return f"has executed {answers.executed:,} tuples and acked none: does execute call self.collector.ack?"


def trees_of(statistics: TopologyStatistics, record: pb.TopologyRecord, spouts: Iterable[str], now_s: float) -> Trees:
    """Return the trees of a topology. ``spouts``: component ids of its spouts."""
    tasks = tasks_of_record(record)
    names = [one for one in spouts if one in tasks]
    pending = sum(int(statistics.gauges(tasks[one])["pending"]) for one in names)
    timeouts = sum(statistics.lately(one, ("timeouts",), LATELY_S, now_s)[0] for one in names)
    return Trees(record.acker_shards > 0, pending, timeouts)


def remarks(
    statistics: TopologyStatistics, record: pb.TopologyRecord, kinds: Mapping[str, pb.ComponentKind], now_s: float
) -> dict[str, Remark]:
    """Return the most severe remark per component, for the components that have any."""
    spouts = [one for one, kind in kinds.items() if kind == pb.COMPONENT_KIND_SPOUT]
    trees, conf = trees_of(statistics, record, spouts, now_s), json.loads(record.conf_json or "{}")
    ranges = {first: range(first, last + 1) for first, last in executors_of_record(record)}
    found = {}
    for component_id, tasks in tasks_of_record(record).items():
        if component_id not in kinds or is_system(component_id):
            continue
        is_spout = kinds[component_id] == pb.COMPONENT_KIND_SPOUT
        said = statistics.answers(tasks, is_spout)
        own = [ranges[one] for one in tasks if one in ranges]
        if not is_spout and (sentence := never_acks(said, trees, conf)):
            found[component_id] = Remark(NEVER_ACKS, sentence)
        elif sentence := long_call(said, is_spout):
            found[component_id] = Remark(LONG_CALL, sentence)
        elif sentence := blocks(statistics.blocking(own), len(own)):
            found[component_id] = Remark(BLOCKS, sentence)
    return found


def long_call(answers: Answers, is_spout: bool = False) -> str:
    """Describe a call that does not return, in a sentence without the component's name; empty if there is none.

    A call of a bolt counts only while tuples wait. Workers report no calls of a spout declared as blocking.
    """
    if answers.call_s < LONG_CALL_S:
        return ""
    calls = f"task {answers.caller} has been in one call of its code for {answers.call_s:.0f} s"
    if is_spout:
        return f"{calls}; if it waits there for its source, set blocking = True on the spout"
    return f"{calls} although tuples wait"


def blocks(parted: int, executors: int) -> str:
    """Return advice for a component with blocking executors, in a sentence without its name; "" if there are none.

    ``parted``: the number of the component's executors that were given a thread of their own because they block.
    """
    if not parted:
        return ""
    have = "has a thread of its own" if parted == 1 else "have a thread of their own"
    return (
        f"blocks: {parted} of {executors} executor{'s' * (executors > 1)} {have}; set blocking = True on the "
        f"component, or wait in another thread and return with context.call_soon"
    )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0
