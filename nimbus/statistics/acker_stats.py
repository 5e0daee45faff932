"""History of an acker's ledger over the last ten minutes. Times are seconds of a monotonic clock."""

from __future__ import annotations  # pure

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from tupletree.v1 import acker_pb2
from tupletree.v1 import nimbus_pb2 as rpc

KEPT_S: Final = 600.0

COMPONENT: Final = "__acker"
"""The component as which the ledgers of a topology are shown, as Storm shows its acker bolts. A shard is a task."""


def reports_of(reply: acker_pb2.DescribeLedgerReply, uptime_s: float) -> Iterator[rpc.WorkerReport]:
    """Return the ledgers of an acker as reports of a worker, one for each topology. ``uptime_s``: of the acker.

    An update is an executed tuple, and acked; a verdict is emitted on the stream that has its name in Storm.
    """
    of_topology = attrgetter("topology_id")
    for topology_id, shards in groupby(sorted(reply.shards, key=of_topology), of_topology):
        tasks = [_stats_of(one) for one in shards]
        yield rpc.WorkerReport(topology_id=topology_id, worker_id=reply.acker_id, uptime_s=uptime_s, tasks=tasks)


def _stats_of(shard: acker_pb2.ShardSummary) -> rpc.TaskStats:
    updates = shard.inits + shard.acks + shard.fails + shard.resets
    verdicts = {
        "__ack_ack": shard.completed,
        "__ack_fail": shard.fails + shard.timeouts,
        "__ack_reset_timeout": shard.resets,
    }
    return rpc.TaskStats(
        task_id=shard.shard,
        component_id=COMPONENT,
        executed=updates,
        acked=updates,
        pending=shard.pending,
        streams=[rpc.StreamStats(stream=name, emitted=one, transferred=one) for name, one in verdicts.items()],
    )


@dataclass(frozen=True)
class Totals:
    """Sums over an acker's shards at one time. Counters run since the acker started; shards it gave up are left out."""

    at_s: float
    pending: int = 0
    oldest_age_s: float = 0.0
    bytes_held: int = 0
    inits: int = 0
    acks: int = 0
    fails: int = 0
    resets: int = 0
    timeouts: int = 0
    completed: int = 0
    inits_per_s: float = 0.0  # since the previous sample
    completed_per_s: float = 0.0
    failed_per_s: float = 0.0
    timeouts_per_s: float = 0.0


class LedgerHistory:
    """Ledger samples of one acker."""

    def __init__(self) -> None:
        self.points: deque[Totals] = deque()
        self.shards: Sequence[acker_pb2.ShardSummary] = ()
        self.namespaces: Sequence[acker_pb2.NamespaceSummary] = ()
        self.ready = False
        self.reasons: tuple[str, ...] = ()

    @property
    def last(self) -> Totals | None:
        return self.points[-1] if self.points else None

    def add_sample(self, reply: acker_pb2.DescribeLedgerReply, now_s: float) -> None:
        """Add a sample from the acker's reply."""
        before = {(one.topology_id, one.shard): one for one in self.shards}
        took_s = now_s - self.points[-1].at_s if self.points else 0.0
        shards = list(reply.shards)

        def rate(counter: str) -> float:
            """Rate over the shards that are in both replies, so that a shard that moves away does not lower it."""
            if took_s <= 0:
                return 0.0
            pairs = [(one, before.get((one.topology_id, one.shard))) for one in shards]
            risen = sum(max(0, getattr(one, counter) - getattr(old, counter)) for one, old in pairs if old is not None)
            return float(risen / took_s)

        def total(counter: str) -> int:
            return sum(getattr(one, counter) for one in shards)

        self.points.append(
            Totals(
                at_s=now_s,
                pending=total("pending"),
                oldest_age_s=max((one.oldest_age_s for one in shards if one.pending), default=0.0),
                bytes_held=total("bytes_held"),
                inits=total("inits"),
                acks=total("acks"),
                fails=total("fails"),
                resets=total("resets"),
                timeouts=total("timeouts"),
                completed=total("completed"),
                inits_per_s=rate("inits"),
                completed_per_s=rate("completed"),
                failed_per_s=rate("fails"),
                timeouts_per_s=rate("timeouts"),
            )
        )
        self.shards, self.ready, self.reasons = shards, reply.ready, tuple(reply.reasons)
        self.namespaces = list(reply.namespaces)
        while self.points[0].at_s < now_s - KEPT_S:
            self.points.popleft()
