"""The rules of acker/ledger.py in their plainest form: a list of dictionaries, one update after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

Ended = dict[str, dict[int, list[int]]]


@dataclass
class Entry:
    value: int
    task: int | None
    born_s: float
    is_failed: bool = False


class ReferenceLedger:
    """Same calls as Ledger; verdicts are dictionaries of sorted lists, without empty ones."""

    def __init__(self, buckets: int = 3) -> None:
        self.buckets: list[dict[int, Entry]] = [{} for _ in range(buckets)]
        self.totals: dict[str, int] = defaultdict(int)

    def __len__(self) -> int:
        return sum(map(len, self.buckets))

    @property
    def pending(self) -> list[Entry]:
        return [entry for bucket in self.buckets for entry in bucket.values() if entry.task is not None]

    def oldest_age_s(self, now_s: float) -> float:
        return now_s - min((entry.born_s for entry in self.pending), default=now_s)

    def trees_begun_by(self, time_s: float) -> int:
        return sum(entry.born_s <= time_s for entry in self.pending)

    def apply(
        self,
        inits: Iterable[tuple[int, int, int]],
        acks: Iterable[tuple[int, int]],
        fails: Iterable[int],
        resets: Iterable[int],
        now_s: float,
    ) -> Ended:
        self.ended: Ended = {}
        for root, value, task in inits:
            self.totals["inits"] += 1
            entry = self.take(root, now_s)
            if entry.task is None:
                entry.task = task
                entry.value ^= value
            self.settle(root, entry)
        for root, value in acks:
            self.totals["acks"] += 1
            entry = self.take(root, now_s)
            entry.value ^= value
            self.settle(root, entry)
        for root in fails:
            self.totals["fails"] += 1
            entry = self.take(root, now_s)
            entry.is_failed = True
            self.settle(root, entry)
        for root in resets:
            self.totals["resets"] += 1
            entry = self.take(root, now_s)
            self.settle(root, entry)
            if entry.task is not None:
                self.report("reset", entry.task, root)
        return in_order(self.ended)

    def rotate(self, *, trees_expire: bool = True) -> Ended:
        self.ended = {}
        gone = self.buckets.pop()
        self.buckets.insert(0, {})
        for root, entry in gone.items():
            if entry.task is None:
                continue
            if trees_expire:
                self.totals["timeouts"] += 1
                self.report("expired", entry.task, root)
            else:
                self.buckets[0][root] = entry
        return in_order(self.ended)

    def take(self, root: int, now_s: float) -> Entry:
        """The entry of a root, out of its bucket; a new one if there is none."""
        for bucket in self.buckets:
            if root in bucket:
                return bucket.pop(root)
        return Entry(0, None, now_s)

    def settle(self, root: int, entry: Entry) -> None:
        """Report a tree that has ended; any other entry is one of the youngest now."""
        if entry.task is not None and entry.value == 0:
            self.totals["completed"] += 1
            self.report("acked", entry.task, root)
        elif entry.task is not None and entry.is_failed:
            self.totals["failed"] += 1
            self.report("failed", entry.task, root)
        else:
            self.buckets[0][root] = entry

    def report(self, kind: str, task: int, root: int) -> None:
        self.ended.setdefault(kind, {}).setdefault(task, []).append(root)


def in_order(ended: Ended) -> Ended:
    return {kind: {task: sorted(roots) for task, roots in of.items()} for kind, of in ended.items()}
