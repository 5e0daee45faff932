"""Groupings: which tasks of a bolt receive a tuple.

=================  ==================================================================================
shuffle            evenly: every task in turn, in an order of the emitter's own
fields             by the value of the given fields: equal values always reach the same task
partial_key        as fields, but each key has two candidate tasks and goes to the less used one
all                every task gets a copy
global             the task with the lowest id
none               any task; says that it does not matter
direct             the emitter names the task (``emit_direct``); only on streams declared direct
local_or_shuffle   shuffle among the tasks in the emitter's own worker, if there are any
custom             a ``CustomGrouping`` of the user's
=================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tupletree.v1.topology_pb2 import GroupingKind

if TYPE_CHECKING:
    from tupletree.component import TopologyContext

_PREFIX = "GROUPING_KIND_"


class CustomGrouping:
    """A grouping of your own. It is copied by cloudpickle to every task that emits on the grouped stream."""

    def prepare(self, context: TopologyContext, stream: str, target_tasks: Sequence[int]) -> None:
        """Called once in each emitting task, before the first ``choose_tasks``.

        ``context`` is the emitting task's; ``target_tasks`` are the task ids of the subscribing bolt, ascending.
        """

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        """The tasks that receive a tuple with these values, emitted by task ``task_id``.

        Any subset of ``target_tasks``, the empty one included; each gets a copy. Must be quick: it runs once for every
        tuple. A task that is not in ``target_tasks`` is an EmitError.
        """
        raise NotImplementedError


def grouping_name(kind: GroupingKind) -> str:
    """``"local_or_shuffle"`` for GROUPING_KIND_LOCAL_OR_SHUFFLE, and so on."""
    return GroupingKind.Name(kind).removeprefix(_PREFIX).lower()
