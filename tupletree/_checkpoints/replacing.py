"""Replacement of the states of a topology before its first step: by other tasks' states, or by those of a savepoint.

What is made is valid with one write of the checkpoint record. A crash before leads to the same work again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from tupletree._checkpoints.record import Checkpoint, CheckpointRecord
from tupletree._log import event
from tupletree.errors import AuthorityError, ConflictError, TupletreeError

log = logging.getLogger(__name__)

Made = tuple[Checkpoint, Callable[[], None]]
"""The checkpoint to store, and a function that removes the earlier states, to be called afterwards."""

MoveStates = Callable[[Checkpoint, Mapping[str, int]], Made]
"""Makes the states of components anew: divided among other numbers of tasks (worker/checkpoint/redistribution.py), or
those of the savepoint that the topology begins with (worker/checkpoint/restoring.py).

Takes the stored checkpoint and the present numbers of tasks. Raises UsageError if the states cannot be made,
UnavailableError if a store cannot be reached, and AuthorityError if a state was opened by others meanwhile.
"""


def replace_states(
    what: str, state_id: str, record: CheckpointRecord, make: Callable[[], Made], clock: Callable[[], float]
) -> None:
    """Make other states, store that they are valid, and remove the earlier ones. ``what``: the event to log.

    Raises as ``make`` and ``CheckpointRecord.save``, and ConflictError instead of an AuthorityError of ``make``.
    """
    before, began_s = record.checkpoint, clock()
    try:
        after, remove_earlier = make()
    except AuthorityError as error:  # a worker of before still opens its states: try again
        raise ConflictError(str(error)) from error
    record.save(after)
    changed = {id: count for id, count in after.tasks.items() if before.tasks.get(id) != count}
    event(log, what, id=state_id, tasks=changed, took_s=round(clock() - began_s, 3))
    try:
        remove_earlier()
    except TupletreeError as error:  # what is left takes space, and is never read
        event(log, "states.left", id=state_id, cause=error)
