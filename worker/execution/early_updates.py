"""Updates sent to the ackers before the current step of a run loop has ended, and the remainder sent after. Pure.

All executors of a loop write to the same updates, so a hanging call would hold back the acks that other executors made
earlier in the same turn. The thread of the call can continue at any moment, so its updates cannot be taken away:

    stepping thread   add … add … [call hangs] … add, add … ends: send ``remainder``
    watchdog                          send ``so_far``

An ack value is the xor of all reports for a root, in any grouping. So if an entry changes after it was sent, the
difference is sent as an ack. This holds for inits too: an init is sent only once.
"""

from __future__ import annotations  # pure

from ..core.ack_updates import AckUpdates


def so_far(updates: AckUpdates) -> AckUpdates:
    """Return a copy of updates while another thread can be adding to them.

    The length is read before the columns, because entries are appended before they are counted, and never removed. If
    the other thread changes a value meanwhile, the copy has the old or the new value. Both are correct, and
    ``remainder`` has the rest.
    """
    copy = AckUpdates()
    count = updates.acks.count
    roots, values = updates.acks.columns()
    for at in range(count):
        copy.acks.append(roots[at], values[at])
    count = min(len(updates.init_tasks), updates.inits.count)
    roots, values = updates.inits.columns()
    for at in range(count):
        copy.add_lone_init(roots[at], values[at], updates.init_tasks[at])
    copy.reasons = dict(updates.reasons)
    copy.fails = set(updates.fails)
    copy.resets = set(updates.resets)
    return copy


def remainder(updates: AckUpdates, told: AckUpdates) -> AckUpdates:
    """Return the updates still to be sent. ``told``: an earlier copy of the updates, which was sent."""
    rest = AckUpdates()
    ack_roots, ack_values = updates.acks.columns()
    init_roots, init_values = updates.inits.columns()
    told_acks, told_inits = told.acks.columns()[1], told.inits.columns()[1]
    for at in range(len(told_inits), len(init_roots)):
        rest.add_lone_init(init_roots[at], init_values[at], updates.init_tasks[at])
    for at in range(len(ack_roots)):
        _add_change(rest, ack_roots[at], ack_values[at] ^ (told_acks[at] if at < len(told_acks) else 0))
    for at in range(len(told_inits)):
        _add_change(rest, init_roots[at], init_values[at] ^ told_inits[at])
    rest.fails = updates.fails - told.fails
    rest.reasons = {root: reason for root, reason in updates.reasons.items() if root in rest.fails}
    rest.resets = set(updates.resets)  # the same reset might have been requested again
    return rest


def _add_change(rest: AckUpdates, root: int, change: int) -> None:
    if change:
        rest.acks.append(root, change)
