"""History of an acker's ledger over the last ten minutes. Times are seconds of a monotonic clock."""

from __future__ import annotations  # pure

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tupletree.v1 import acker_pb2

KEPT_S: Final = 600.0


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
        while self.points[0].at_s < now_s - KEPT_S:
            self.points.popleft()
