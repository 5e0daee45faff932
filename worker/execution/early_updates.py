"""What a run loop has told the ackers before its present step has ended, and what is left to tell after it. Pure.

All executors of a loop write to the same updates, and a call that hangs would keep back what its neighbours acked
earlier in the same turn. The thread of the call may go on at any moment, so the updates cannot be taken away from it:

    stepping thread   add … add … [call hangs] … add, add … ends: tell ``remainder``
    watchdog                          tell ``so_far``

An ack value is the xor of all reports of a root, in any grouping. So an entry that was told and has changed since is
told as the difference, which is an ack also where the entry is an init: an init is told once.
"""

from __future__ import annotations

from ..core.ack_updates import AckUpdates


def so_far(updates: AckUpdates) -> AckUpdates:
    """A copy of updates that another thread may be adding to.

    The length is read before the columns: entries are appended before they are counted, and never removed. A value
    that the other thread changes meanwhile is the old one or the new one; both are true, and ``remainder`` has the
    rest.
    """
    copy = AckUpdates()
    count = updates.acks.count
    roots, values = updates.acks.columns()
    for at in range(count):
        copy.acks.append(roots[at], values[at])
    count = min(len(updates.init_tasks), updates.inits.count)
    roots, values = updates.inits.columns()
    for at in range(count):
        copy.take_init(roots[at], values[at], updates.init_tasks[at])
    copy.fails = set(updates.fails)
    copy.resets = set(updates.resets)
    return copy


def remainder(updates: AckUpdates, told: AckUpdates) -> AckUpdates:
    """What is left of updates of which ``told``, a copy of an earlier moment, was told."""
    rest = AckUpdates()
    ack_roots, ack_values = updates.acks.columns()
    init_roots, init_values = updates.inits.columns()
    told_acks, told_inits = told.acks.columns()[1], told.inits.columns()[1]
    for at in range(len(told_inits), len(init_roots)):
        rest.take_init(init_roots[at], init_values[at], updates.init_tasks[at])
    for at in range(len(ack_roots)):
        _add_change(rest, ack_roots[at], ack_values[at] ^ (told_acks[at] if at < len(told_acks) else 0))
    for at in range(len(told_inits)):
        _add_change(rest, init_roots[at], init_values[at] ^ told_inits[at])
    rest.fails = updates.fails - told.fails
    rest.resets = set(updates.resets)  # one of them may have been asked for again
    return rest


def _add_change(rest: AckUpdates, root: int, change: int) -> None:
    if change:
        rest.acks.append(root, change)
