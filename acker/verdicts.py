"""The results of a ledger: verdicts on trees, and running totals."""

from __future__ import annotations  # pure

from array import array
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

KINDS = ("acked", "failed", "expired", "reset")
"""The fields of Verdicts that hold roots."""

_FEW = 64  # below this, roots are faster added one by one


@dataclass(slots=True)
class Verdicts:
    """Verdicts on trees: an ``array('Q')`` of roots per spout task. Trees in ``reset`` have not ended: their timeout
    restarts. Every root that leaves the ledger with a known spout task is in exactly one of the other three.

    ``reasons``: the known reasons of roots in ``failed``, by root. The registry adds them; a ledger has none."""

    acked: dict[int, array[int]] = field(default_factory=dict)
    failed: dict[int, array[int]] = field(default_factory=dict)
    expired: dict[int, array[int]] = field(default_factory=dict)
    reset: dict[int, array[int]] = field(default_factory=dict)
    reasons: dict[int, bytes] | None = None

    def __bool__(self) -> bool:
        return bool(self.acked or self.failed or self.expired or self.reset)


@dataclass(slots=True)
class Totals:
    """Counts of updates received, and of trees that ended, since a ledger was created."""

    inits: int = 0
    acks: int = 0
    fails: int = 0
    resets: int = 0
    completed: int = 0
    failed: int = 0
    timeouts: int = 0


def add_verdicts(into: dict[int, array[int]], tasks: NDArray[np.uint32], roots: NDArray[np.uint64]) -> None:
    """Append roots to the arrays of their tasks, in the order given."""
    if len(tasks) < _FEW:
        for task, root in zip(tasks.tolist(), roots.tolist(), strict=True):
            into.setdefault(task, array("Q")).append(root)
        return
    if (tasks == tasks[0]).all():
        into.setdefault(int(tasks[0]), array("Q")).frombytes(roots.tobytes())
        return
    # For small integers the stable sort is a radix sort, which is five times as fast.
    order = (tasks.astype(np.uint16) if tasks.max() < 1 << 16 else tasks).argsort(kind="stable")
    tasks, roots = tasks.take(order), roots.take(order)
    starts = [0, *(np.flatnonzero(tasks[1:] != tasks[:-1]) + 1).tolist(), len(tasks)]
    for start, end in pairwise(starts):
        into.setdefault(int(tasks[start]), array("Q")).frombytes(roots[start:end].tobytes())
