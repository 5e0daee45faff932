"""The participation of tasks in checkpoints, derived from the topology as wired by tupletree._checkpoints.wiring."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.settings import ALIGNED, awaits_savepoint, state_id
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._stored_states import is_positioned
from tupletree.component import Component, Spout, StatefulBolt
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.v1 import topology_pb2

from ..core.bolt_task import BoltTask
from ..core.spout_task import SpoutTask
from ..core.task import Environment, Task
from .barriers import Barriers
from .participant import Participant
from .spout_participant import SpoutParticipant
from .stateful_participant import StatefulParticipant
from .task_state import Refused, TaskState

if TYPE_CHECKING:
    from tupletree._checkpoints.record import Checkpoint

MAX_PENDING = 100_000
"""The default limit of pending trees per spout task with aligned checkpoints: tuples held back until a checkpoint is
taken must fit into memory."""


def build_participant(
    sources: frozenset[int], task: Task, component: Component, env: Environment
) -> Participant | None:
    """Return the participant of a task. None for the checkpoint spout, without states, and for spouts in default mode.

    ``sources``: the tasks that send steps to the task.
    """
    conf = task.context.conf
    is_aligned = bool(conf[ALIGNED])
    if task.component_id == CHECKPOINT_SPOUT or CHECKPOINT_STREAM not in task.streams:
        return None
    if isinstance(component, Spout) and not is_aligned:
        return None
    barriers = Barriers(sources, is_aligned=is_aligned)
    state = TaskState(task.component_id, functools.partial(_open_state, task), functools.partial(_newest_round, task))
    if isinstance(component, Spout) and isinstance(task, SpoutTask):
        return SpoutParticipant(task, component, env, barriers, state if is_positioned(component) else None)
    if isinstance(component, StatefulBolt) and isinstance(task, BoltTask):
        return StatefulParticipant(task, env, barriers, state)
    return Participant(task, env, barriers)


def max_pending(spec: topology_pb2.TopologySpec, conf: Mapping[str, Any], spout: Spout) -> int | None:
    """Return the limit of pending trees per task of this spout, or None for no limit."""
    if spout.paces_itself:
        return None
    configured: int | None = conf["topology.max.spout.pending"]
    if configured is None and conf[ALIGNED] and any(component.id == CHECKPOINT_SPOUT for component in spec.components):
        return MAX_PENDING
    return configured


def step_sources(spec: topology_pb2.TopologySpec, conf: Mapping[str, Any], component: str) -> list[str]:
    """Return the components whose tasks send steps to a component; none in a topology without states.

    In aligned mode, steps arrive over every channel that carries tuples. In default mode, bolts fed by spouts receive
    steps from the checkpoint spout, as in Storm, and spouts do not take part.
    """
    if not any(one.id == CHECKPOINT_SPOUT for one in spec.components):
        return []
    is_aligned = bool(conf[ALIGNED])
    spouts = {one.id for one in spec.components if one.kind == topology_pb2.COMPONENT_KIND_SPOUT}
    inputs = next(one.inputs for one in spec.components if one.id == component)
    wired = [item.source for item in inputs if item.stream == CHECKPOINT_STREAM]
    if not is_aligned:
        return [source for source in wired if source == CHECKPOINT_SPOUT or source not in spouts]
    return [source for source in wired if source != CHECKPOINT_SPOUT] or [CHECKPOINT_SPOUT]


def _newest_round(task: Task) -> int:
    return _stored_checkpoint(task).round


def _stored_checkpoint(task: Task) -> Checkpoint:
    from tupletree._checkpoints.record import stored_checkpoint  # imports ZooKeeper's client: for durable states alone
    from tupletree._stores.zookeeper_nodes import open_store

    context = task.context
    with contextlib.closing(open_store(context.conf)) as store:
        return stored_checkpoint(store, state_id(context.conf, context.topology_id))


def _open_state(task: Task) -> tuple[StateProvider, KeyValueState[Any, Any]]:
    """Open the state of a task. Raises as ``namespace_of_task`` and ``StateProvider.new_state``."""
    from tupletree.state.providers import open_state  # imports the configured provider's dependencies alone

    return open_state(namespace_of_task(task), task.context.conf, task.context)


def namespace_of_task(task: Task) -> str:
    """Return the namespace of a task's state in the stored layout.

    Raises:
        Refused: the component had another number of tasks at the stored checkpoint, and its states were not moved yet;
            or the topology begins with a savepoint that was not restored yet.
        UnavailableError: the checkpoint cannot be read.
    """
    from tupletree.state.providers import is_durable  # imports the configured provider's dependencies alone

    context = task.context
    component, layout = context.component_id, 0
    tasks = len(context.component_tasks(component))
    if is_durable(context.conf):
        stored = _stored_checkpoint(task)
        if awaits_savepoint(context.conf, context.topology_id, stored):
            raise Refused("the states of the savepoint are not restored yet")
        if stored.tasks.get(component, tasks) != tasks:
            raise Refused(f"the stored checkpoint is of {stored.tasks[component]} tasks, and there are {tasks}")
        layout = stored.layouts.get(component, 0)
    return namespace_of(state_id(context.conf, context.topology_id), component, context.task_index, tasks, layout)
