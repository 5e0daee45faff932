"""Updates applied one by one to a ledger's entries: the rules of acker/ledger.py, with one loop per kind of update.

When compiled, the loops use no Python objects, and columns are arrays of C integers. Columns of one kind have the same
length. The caller must call ``flush_counts`` afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from .entries import Ended, Entries
from .entry_state import FAILED, OPEN
from .verdicts import Totals, Verdicts


def init_each(
    pending: Entries,
    totals: Totals,
    roots: Sequence[int],
    values: Sequence[int],
    tasks: Sequence[int],
    born: int,
    verdicts: Verdicts,
) -> None:
    table = pending.table
    acked, failed = Ended(len(roots)), Ended(len(roots))
    for at in range(len(roots)):
        root, value, task = roots[at], values[at], tasks[at]
        mixed = table.hash_one(root)
        slot = pending.find_one(root, mixed)
        if slot < 0:
            if value:
                pending.add_one(root, mixed, value, task, born, 0)
            else:
                acked.add(task, root)
            continue
        state = pending.touch_one(slot)
        if not state & OPEN:
            continue
        pending.record_init_one(slot, task)
        left = table.value_view[slot] ^ value
        table.value_view[slot] = left
        if not left:
            pending.end_one(slot, root, mixed, acked)
        elif state & FAILED:
            pending.end_one(slot, root, mixed, failed)
    totals.completed += len(acked)
    totals.failed += len(failed)
    acked.report(verdicts.acked)
    failed.report(verdicts.failed)


def ack_each(
    pending: Entries, totals: Totals, roots: Sequence[int], values: Sequence[int], born: int, verdicts: Verdicts
) -> None:
    table = pending.table
    acked = Ended(len(roots))
    for at in range(len(roots)):
        root = roots[at]
        mixed = table.hash_one(root)
        slot = pending.find_one(root, mixed)
        if slot < 0:
            pending.add_one(root, mixed, values[at], 0, born, OPEN)
            continue
        left = table.value_view[slot] ^ values[at]
        table.value_view[slot] = left
        state = pending.touch_one(slot)
        if not left and not state & OPEN:
            pending.end_one(slot, root, mixed, acked)
    totals.completed += len(acked)
    acked.report(verdicts.acked)


def fail_each(pending: Entries, totals: Totals, roots: Sequence[int], born: int, verdicts: Verdicts) -> None:
    table = pending.table
    failed = Ended(len(roots))
    for at in range(len(roots)):
        root = roots[at]
        mixed = table.hash_one(root)
        slot = pending.find_one(root, mixed)
        if slot < 0:
            pending.add_one(root, mixed, 0, 0, born, OPEN | FAILED)
            continue
        state = pending.touch_one(slot)
        if state & OPEN:
            pending.touch_one(slot, FAILED)
        else:
            pending.end_one(slot, root, mixed, failed)
    totals.failed += len(failed)
    failed.report(verdicts.failed)


def reset_each(pending: Entries, totals: Totals, roots: Sequence[int], born: int, verdicts: Verdicts) -> None:
    table = pending.table
    reset = Ended(len(roots))
    for at in range(len(roots)):
        root = roots[at]
        mixed = table.hash_one(root)
        slot = pending.find_one(root, mixed)
        if slot < 0:
            pending.add_one(root, mixed, 0, 0, born, OPEN)
            continue
        state = pending.touch_one(slot)
        if not state & OPEN:
            reset.add(table.task_view[slot], root)
    reset.report(verdicts.reset)
