"""Construction of a worker's executors from a topology's spec."""

from __future__ import annotations

import collections
import functools
import itertools
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cloudpickle

from tupletree._checkpoints.settings import SAVEPOINT, state_id
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._named_classes import made_of
from tupletree.component import BasicBolt, Bolt, Spout, TopologyContext
from tupletree.config import component_conf
from tupletree.errors import TopologyError
from tupletree.grouping import CustomGrouping
from tupletree.hooks import TaskHook
from tupletree.outputs import CHECKPOINT_STREAM, RESERVED_PREFIXES
from tupletree.parallelism import ExecutorTasks
from tupletree.tuples import Origin, relate
from tupletree.v1 import topology_pb2

from .checkpoint.membership import build_participant, max_pending
from .control_messages import Call
from .core import routing
from .core.basic_bolt_task import BasicBoltTask
from .core.bolt_task import BoltTask
from .core.output_streams import OutStream, Port
from .core.spout_task import SpoutTask
from .core.task import Observer, Task
from .execution.balancer import Balancer
from .execution.bolt_executor import BoltExecutor
from .execution.executor import Deliver, Executor
from .execution.inbox import ACKERS, Gate, Inbox
from .execution.locality import LocalityBounds
from .execution.spout_executor import SpoutExecutor
from .hooks.task_hooks import KEY as AUTO_HOOKS
from .hooks.task_hooks import TaskHooks
from .plan import Plan, context_of, loaded

if TYPE_CHECKING:
    from tupletree._checkpoints.record import Checkpoint

    from .checkpoint.contents import Part

Kind = topology_pb2.GroupingKind


def origins(plan: Plan) -> dict[tuple[int, str], Origin]:
    """Return every possible origin of a batch in the topology, by (source task, stream)."""
    found: dict[tuple[int, str], Origin] = {}
    for component in plan.spec.components:
        for stream in component.outputs:
            tasks = plan.tasks[component.id]
            siblings = [Origin(component.id, task, stream.id, stream.fields) for task in tasks]
            relate(siblings)
            found.update({(origin.task, stream.id): origin for origin in siblings})
    return found


def build_executors(plan: Plan, executors: Iterable[ExecutorTasks], gate: Gate, deliver: Deliver) -> Sequence[Executor]:
    """Build the executors of a worker, ordered so that upstream components come first (ignoring back edges).

    Raises:
        TopologyError: a component cannot be unpickled here.
    """
    ranks = {component: rank for rank, component in enumerate(plan.graph.order)}
    ordered = sorted(executors, key=lambda tasks: ranks[plan.component_of(tasks[0]).id])
    built: list[Executor] = []
    for _, ranges in itertools.groupby(ordered, lambda tasks: ranks[plan.component_of(tasks[0]).id]):
        built += _build_component(plan, list(ranges), gate, deliver)
    for rank, executor in enumerate(built):
        executor.rank = rank
    return built


def _build_component(
    plan: Plan, ranges: Sequence[ExecutorTasks], gate: Gate, deliver: Deliver
) -> Sequence[SpoutExecutor | BoltExecutor]:
    """Build the executors of one component, each task with its own copy: one for all bolts that neither block nor fill.

    Raises:
        TopologyError: the component cannot be unpickled here.
    """
    component = plan.component_of(ranges[0][0])
    own = json.loads(component.conf_json or "{}")
    conf = component_conf(plan.conf, own)
    parts = [[_build_task(plan, component, conf, task) for task in range(first, last + 1)] for first, last in ranges]
    for name in parts[0][0].streams:
        relate([task.streams[name].origin for part in parts for task in part])
    make = functools.partial(_make_executor, plan, component.id, conf, frozenset(own), gate, deliver)
    if len(parts) > 1 and all(may_share_executor(task, conf) for part in parts for task in part):
        together = make([task for part in parts for task in part])
        if isinstance(together, BoltExecutor):
            together.parts = parts
            together.make = make
        return [together]
    return [make(part) for part in parts]


def may_share_executor(task: Task, conf: Mapping[str, Any]) -> bool:
    """True if one executor may drive the bolts of several: a call that blocks, or a full bolt, holds up all of them."""
    if not isinstance(task, BasicBoltTask | BoltTask) or conf["topology.blocking"] or task.is_declared_blocking:
        return False
    return isinstance(task, BasicBoltTask) or not task.bolt.can_be_full


def _make_executor(
    plan: Plan,
    component: str,
    conf: dict[str, Any],
    own: frozenset[str],
    gate: Gate,
    deliver: Deliver,
    tasks: Sequence[Task],
) -> SpoutExecutor | BoltExecutor:
    """Build one executor. ``conf``: the component's configuration, with the keys ``own`` that it sets itself."""
    ids = [task.task_id for task in tasks]
    inbox = Inbox(
        ids,
        conf["topology.executor.receive.buffer.size"] * len(ids),
        gate,
        conf["topology.executor.receive.buffer.bytes"] * len(ids),
    )
    batch_size = conf["topology.transfer.batch.size"]
    clock = plan.environment.clock
    spouts = [task for task in tasks if isinstance(task, SpoutTask)]
    bolts = [task for task in tasks if isinstance(task, BasicBoltTask | BoltTask)]
    built: SpoutExecutor | BoltExecutor
    if spouts:
        timeout_s = conf["topology.message.timeout.secs"] if conf["topology.enable.message.timeouts"] else None
        built = SpoutExecutor(
            spouts,
            inbox,
            gate,
            deliver,
            clock,
            batch_size,
            timeout_s if plan.environment.is_tracked else None,
            conf["topology.sleep.spout.wait.strategy.time.ms"] / 1000,
            frozenset([ACKERS]) if plan.environment.is_tracked else frozenset(),
        )
    else:
        tick_s = conf["topology.tick.tuple.freq.secs"]
        built = BoltExecutor(bolts, inbox, gate, deliver, clock, batch_size, tick_s)
    for task in tasks:
        task.ask_soon = functools.partial(_call_soon, inbox, task.task_id)
        task.equip(task.context)
    built.follow_conf = functools.partial(_follow_conf, plan, conf, own, built)
    built.wait_for(plan.tasks_of(plan.graph.waits_for(component)))
    if not plan.conf["topology.disable.loadaware.messaging"]:
        balancer = Balancer(tasks, gate.loads, clock, plan.local_tasks, LocalityBounds.of(plan.conf))
        built.balance(balancer, _passable(plan, component, tasks[0]))
    if built.is_source:
        built.downstream = plan.graph.downstream(component)
    built.is_blocking = bool(conf["topology.blocking"]) or any(task.is_declared_blocking for task in tasks)
    return built


def _passable(plan: Plan, component: str, task: Task) -> frozenset[int]:
    """Return the tasks of components to which nothing but shuffles leads: congested ones are passed over."""
    subscribed: collections.Counter[str] = collections.Counter()
    shuffled: collections.Counter[str] = collections.Counter()
    for name, stream in task.streams.items():
        subscribed.update(subscriber.id for subscriber, _ in plan.graph.subscriptions(component, name))
        shuffled.update(subscriber for subscriber, _, _ in stream.shuffles)
    others = (subscribed - shuffled).keys() | set(plan.graph.back_targets(component))
    others |= {target for target in shuffled if plan.graph.is_back_edge(component, target)}  # never waited for
    return plan.tasks_of(shuffled.keys() - others)


def _follow_conf(
    plan: Plan,
    conf: dict[str, Any],
    own: frozenset[str],
    executor: SpoutExecutor | BoltExecutor,
    changes: Mapping[str, Any],
) -> None:
    """Adopt new values of keys, on the executor's thread. The component sees them in the configuration that it has."""
    adopted = {name: value for name, value in changes.items() if name not in own}
    conf.update(adopted)
    for task in executor.tasks:
        task.context.conf.update(adopted)
        if isinstance(task, SpoutTask):
            task.max_pending = max_pending(plan.spec, conf, task.spout) or None
    if isinstance(executor, BoltExecutor):
        executor.set_tick_interval(conf["topology.tick.tuple.freq.secs"])
    else:
        executor.rest.length_s = conf["topology.sleep.spout.wait.strategy.time.ms"] / 1000


def _call_soon(
    inbox: Inbox, task_id: int, is_first: bool, context: TopologyContext | None, function: Callable[[], None]
) -> None:
    call = Call(task_id, function, context)
    if is_first:
        inbox.put_news(call)
        inbox.wake()
    else:
        inbox.put(call, 0)


def _build_task(plan: Plan, component: topology_pb2.ComponentSpec, conf: Mapping[str, Any], task_id: int) -> Task:
    user_object = loaded(component)
    context = context_of(plan, component, conf, task_id)
    chained = None
    if type(user_object) is tuple:  # a spout with a chain
        user_object, chained = user_object
    streams = _build_streams(plan, component, context)
    env = plan.environment
    task: Task
    if isinstance(user_object, Spout):
        task = SpoutTask(user_object, context, streams, env, max_pending(plan.spec, conf, user_object), chained)
    elif isinstance(user_object, BasicBolt):
        task = BasicBoltTask(user_object, context, streams, env)
    elif isinstance(user_object, Bolt):
        task = BoltTask(user_object, context, streams, env)
    else:
        raise TopologyError(f"component {component.id!r} is neither a spout nor a bolt", component=component.id)
    task.remake = functools.partial(cloudpickle.loads, component.object)
    if not component.id.startswith(RESERVED_PREFIXES):
        TaskHooks(task, made_of(AUTO_HOOKS, conf[AUTO_HOOKS] or (), TaskHook))
    if component.id == CHECKPOINT_SPOUT:
        user_object.move_states = functools.partial(_move_states, plan)
        user_object.restore_states = functools.partial(_restore_states, plan)
    task.participant = build_participant(plan.step_sources(component.id), task, user_object, env)
    return task


def _move_states(plan: Plan, stored: Checkpoint, tasks: Mapping[str, int]) -> tuple[Checkpoint, Callable[[], None]]:
    from .checkpoint.redistribution import redistribute  # imports ZooKeeper's client, which only durable states need

    return redistribute(functools.partial(_part, plan), state_id(plan.conf, plan.topology_id), stored, tasks)


def _restore_states(plan: Plan, stored: Checkpoint, tasks: Mapping[str, int]) -> tuple[Checkpoint, Callable[[], None]]:
    from .checkpoint.restoring import restore

    id, savepoint = state_id(plan.conf, plan.topology_id), str(plan.conf[SAVEPOINT])
    part = functools.partial(_part, plan)
    return restore(part, id, plan.topology_id, savepoint, plan.bundle_dir, stored, tasks)


def _part(plan: Plan, component_id: str) -> Part:
    """Load a component whose states are divided anew. Raises TopologyError if it cannot be unpickled here."""
    from .checkpoint.contents import Part

    component = next(one for one in plan.spec.components if one.id == component_id)
    conf = component_conf(plan.conf, json.loads(component.conf_json or "{}"))
    user_object = loaded(component)
    return Part(
        user_object[0] if type(user_object) is tuple else user_object,  # a spout with a chain
        context_of(plan, component, conf, plan.tasks[component_id][0]),
        plan.fields_groupings(component_id),
    )


def _build_streams(plan: Plan, component: topology_pb2.ComponentSpec, context: TopologyContext) -> dict[str, OutStream]:
    streams = {}
    rng = random.Random(f"{plan.seed}/{context.task_id}")
    for declared in component.outputs:
        stream = OutStream(
            Origin(component.id, context.task_id, declared.id, declared.fields),
            is_direct=declared.direct,
            batch_size=plan.conf["topology.transfer.batch.size"],
        )
        ones: list[routing.One] = []
        manies: list[routing.Many] = []
        for subscriber, item in plan.graph.subscriptions(component.id, declared.id):
            goes_back = plan.graph.is_back_edge(component.id, subscriber.id)
            targets = [
                stream.port_to(task, (subscriber.id, plan.place_of(task)), goes_back)
                for task in sorted(plan.tasks[subscriber.id])
            ]
            _compile(plan, context, stream, subscriber.id, item, targets, rng, ones, manies)
        if len(ones) == 1 and not manies:
            stream.choose_one = ones[0]
        if ones or manies:
            stream.choose_many = routing.one_of_many([*map(routing.as_many, ones), *manies])
        if plan.observer is not None and declared.id != CHECKPOINT_STREAM:
            _observe(stream, plan.observer)
        if context.conf["topology.debug"]:
            _observe(stream, plan.environment.log_emit)
        streams[declared.id] = stream
    return streams


def _compile(
    plan: Plan,
    context: TopologyContext,
    stream: OutStream,
    subscriber: str,
    item: topology_pb2.InputSpec,
    targets: list[Port],
    rng: random.Random,
    ones: list[routing.One],
    manies: list[routing.Many],
) -> None:
    """Add the target chooser of one subscription to the choosers of its stream."""
    positions = [stream.origin.index[name] for name in item.fields]
    component = stream.origin.component
    match item.grouping:
        case Kind.GROUPING_KIND_SHUFFLE | Kind.GROUPING_KIND_NONE:
            ones.append(_shuffle(stream, subscriber, targets, targets, rng))
        case Kind.GROUPING_KIND_LOCAL_OR_SHUFFLE:
            local = [target for target in targets if target.task in plan.local_tasks]
            ones.append(_shuffle(stream, subscriber, targets, local or targets, rng))
        case Kind.GROUPING_KIND_FIELDS:
            ones.append(routing.fields(targets, positions, component, item.fields))
        case Kind.GROUPING_KIND_PARTIAL_KEY:
            ones.append(routing.partial_key(targets, positions, component, item.fields))
        case Kind.GROUPING_KIND_GLOBAL:
            ones.append(routing.global_(targets))
        case Kind.GROUPING_KIND_ALL:
            manies.append(routing.all_(targets))
        case Kind.GROUPING_KIND_DIRECT:
            stream.direct_tasks |= {target.task for target in targets}
        case Kind.GROUPING_KIND_CUSTOM:
            by_task = {target.task: target for target in targets}
            grouping = _custom_grouping(item, context, sorted(by_task))
            manies.append(
                routing.custom(grouping.choose_tasks, context.task_id, by_task, component, stream.origin.stream)
            )
        case _:
            raise TopologyError(f"component {component!r}: unknown grouping {item.grouping}", component=component)


def _shuffle(
    stream: OutStream, subscriber: str, targets: list[Port], chosen: list[Port], rng: random.Random
) -> routing.One:
    """Return a chooser among the chosen targets, which the stream lists if the subscriber has several."""
    chooser = routing.shuffle(chosen, rng)
    if len(targets) > 1:
        stream.shuffles.append((subscriber, chooser, tuple(port.task for port in chosen)))
    return chooser


def _custom_grouping(item: topology_pb2.InputSpec, context: TopologyContext, tasks: list[int]) -> CustomGrouping:
    """Load a user's grouping and prepare it for the tuples of one task. Raises TopologyError if either step fails."""
    try:
        grouping: CustomGrouping = cloudpickle.loads(item.custom)
        grouping.prepare(context, item.stream, tasks)
    except (Exception, SystemExit) as error:
        raise TopologyError(
            f"a custom grouping of component {context.component_id!r}'s stream {item.stream!r} cannot be prepared: "
            f"{type(error).__name__}: {error}",
            component=context.component_id,
        ) from error
    return grouping


def _observe(stream: OutStream, observer: Observer) -> None:
    """Pass every tuple of a stream to an observer before the tuple is routed."""
    choose = stream.choose_many
    component, name = stream.origin.component, stream.origin.stream

    def observe(values: Sequence[Any]) -> None:
        observer(component, name, values)

    def choose_observed(values: Sequence[Any]) -> Sequence[Port]:
        observe(values)
        return choose(values)

    stream.observe = observe
    stream.choose_one = None
    stream.choose_many = choose_observed
