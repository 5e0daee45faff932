"""Groupings: the choice of the bolt tasks that receive a tuple.

=================  ==================================================================================
shuffle            evenly: every task in turn, in an order private to the emitter
fields             by the value of the given fields: equal values always reach the same task
partial_key        as fields, but each key has two candidate tasks and goes to the less used one
all                every task gets a copy
global             the task with the lowest id
none               any task; declares that the choice does not matter
direct             the emitter names the task (``emit_direct``); only on streams declared direct
local_or_shuffle   shuffle among the tasks in the emitter's own worker, if there are any
custom             chosen by a ``CustomGrouping`` of the user
=================  ==================================================================================
"""

from __future__ import annotations  # pure

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tupletree.v1.topology_pb2 import GroupingKind

if TYPE_CHECKING:
    from tupletree.context import TopologyContext

_PREFIX = "GROUPING_KIND_"


class CustomGrouping:
    """A user-defined grouping. Copied by cloudpickle to every task that emits on the grouped stream."""

    def prepare(self, context: TopologyContext, stream: str, target_tasks: Sequence[int]) -> None:
        """Called once in each emitting task, before the first ``choose_tasks``.

        ``context`` is the emitting task's; ``target_tasks`` are the task ids of the subscribing bolt, ascending.
        """

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        """Return the tasks that receive a tuple with these values, emitted by task ``task_id``.

        Any subset of ``target_tasks`` is valid, also the empty subset; each chosen task gets a copy. Must be quick:
        called once per tuple. A task outside ``target_tasks`` is an EmitError.
        """
        raise NotImplementedError


def grouping_name(kind: GroupingKind) -> str:
    """Return a grouping's name: ``"local_or_shuffle"`` for GROUPING_KIND_LOCAL_OR_SHUFFLE, and so on."""
    return GroupingKind.Name(kind).removeprefix(_PREFIX).lower()
