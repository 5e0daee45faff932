"""Bolts that never ack what they execute, and calls of user code that do not end, as sentences. Pure.

A bolt that was forgotten to ack makes every tree time out, half a minute after it began. It is known earlier: it has
executed many tuples and settled none. So does a bolt that gathers tuples, until it acks the first. Told apart:

    nothing is tracked, or no tree is pending and none timed out      nobody waits for an ack: never named
    acked or failed any tuple since its worker started                it knows how to: never named
    fewer tuples than ENOUGH or topology.max.spout.pending            too early to say
    for less than a third of the message timeout (at least 10 s)      too early to say
    gets ticks, or says ``holds_tuples`` (windows, combiners, batch   named only if trees have timed out, and after a
    bolts of transactional topologies do, joins can)                  whole message timeout
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tupletree._judgement import LATELY_S
from tupletree.parallelism import task_ranges
from tupletree.v1 import topology_pb2 as pb

from .counts import is_system
from .standstill import Answers
from .stats import TopologyStatistics

ENOUGH: Final = 100
LEAST_S: Final = 10.0
LONG_CALL_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Trees:
    """The trees of a topology's spouts together."""

    is_tracked: bool
    pending: int
    timeouts: int  # lately


def never_acks(answers: Answers, trees: Trees, conf: Mapping[str, Any]) -> str:
    """What is wrong with a bolt that has acked nothing, in a sentence without its name; empty if nothing is."""
    if not trees.is_tracked or not (trees.pending or trees.timeouts) or answers.settled:
        return ""
    timeout_s = _number(conf.get("topology.message.timeout.secs")) or 30.0
    patience_s = max(LEAST_S, timeout_s / 3)
    if answers.holds_tuples:
        patience_s = math.inf if not trees.timeouts else timeout_s
    enough = min(ENOUGH, _number(conf.get("topology.max.spout.pending")) or ENOUGH)
    if answers.executed < enough or answers.since_s < patience_s:
        return ""
    return f"has executed {answers.executed:,} tuples and acked none: does execute call self.collector.ack?"


def trees_of(statistics: TopologyStatistics, record: pb.TopologyRecord, spouts: Iterable[str], now_s: float) -> Trees:
    """The trees of a topology. ``spouts``: its components that are some."""
    tasks = task_ranges(dict(record.tasks))
    names = [one for one in spouts if one in tasks]
    pending = sum(int(statistics.gauges(tasks[one])["pending"]) for one in names)
    timeouts = sum(statistics.lately(one, ("timeouts",), LATELY_S, now_s)[0] for one in names)
    return Trees(record.acker_shards > 0, pending, timeouts)


def remarks(
    statistics: TopologyStatistics, record: pb.TopologyRecord, kinds: Mapping[str, pb.ComponentKind], now_s: float
) -> dict[str, str]:
    """What is wrong with each bolt that is not well, in a sentence."""
    spouts = [one for one, kind in kinds.items() if kind == pb.COMPONENT_KIND_SPOUT]
    trees, conf = trees_of(statistics, record, spouts, now_s), json.loads(record.conf_json or "{}")
    found = {}
    for component_id, tasks in task_ranges(dict(record.tasks)).items():
        if kinds.get(component_id) == pb.COMPONENT_KIND_BOLT and not is_system(component_id):
            said = statistics.answers(tasks)
            if sentence := never_acks(said, trees, conf) or long_call(said):
                found[component_id] = sentence
    return found


def long_call(answers: Answers) -> str:
    """A call that does not end although tuples wait, in a sentence without the component's name; empty if none."""
    if answers.call_s < LONG_CALL_S:
        return ""
    return f"task {answers.caller} has been in one call of its code for {answers.call_s:.0f} s, and tuples wait"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0
