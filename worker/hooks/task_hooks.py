"""The hooks of one task, and the wrappers that call them (docs/adr/0061).

*   Emits: the choosers of the task's streams are wrapped, as for ``tupletree debug``.
*   Executions of a bolt: its ``execute`` or ``execute_batch``, by an attribute of the object. A basic bolt's acks and
    fails are known there, too. Those of other bolts go through a stand-in at the collector (stand_ins.py).
*   Acks and fails of a spout: its ``ack``, ``fail`` and ``fail_because``, at whatever time the framework calls them.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GeneratorType
from typing import Any, Final

from tupletree._replay import Pending
from tupletree.batching_bolt import BatchingBolt
from tupletree.errors import FailedException, UsageError
from tupletree.hooks import (
    BoltAckInfo,
    BoltExecuteInfo,
    BoltFailInfo,
    EmitInfo,
    SpoutAckInfo,
    SpoutFailInfo,
    TaskHook,
)
from tupletree.outputs import RESERVED_PREFIXES
from tupletree.tuples import Tuple

from ..core.basic_bolt_task import BasicBoltTask
from ..core.bolt_task import BoltTask
from ..core.output_streams import OutStream, Port
from ..core.routing import Watched
from ..core.spout_task import SpoutTask
from ..core.task import Task
from .stand_ins import HookedBolt, HookedSpout, HookedTracker, put_on

KEY: Final = "topology.auto.task.hooks"
MAX_BEGUN: Final = 20_000
"""Most tuples or messages of a task whose latency is measured at a time; of the oldest it is not known then."""

_EVENTS: Final = ("emit", "spout_ack", "spout_fail", "bolt_execute", "bolt_ack", "bolt_fail")

Listener = Callable[[Any], object]


class TaskHooks:
    """The hooks of one task. All methods are called on the task's thread, but ``__init__``."""

    def __init__(self, task: Task, named: Sequence[TaskHook]) -> None:
        """``named``: the hooks of the configuration, which outlive a copy of the component."""
        self._task = task
        self._named = named
        self._prepared: list[TaskHook] = []
        self._own: list[TaskHook] = []  # added by the present copy of the component
        self._listeners: dict[str, list[Listener]] = {event: [] for event in _EVENTS}
        self._begun: OrderedDict[Any, float] = OrderedDict()  # by tuple or message id
        self._component: Any = None  # the copy that is wrapped
        self._remake = task.remake
        self._has_taps = False
        if task.remake is not None:
            task.remake = self._renewed
        task.context.attach_hooks(self._begin_all, self._add, self._end_all)

    def _begin_all(self) -> None:
        """Prepare the hooks of the configuration, before the component is opened."""
        with self._task.set_up:
            for hook in self._named:
                self._prepared.append(hook)
                self._prepare(hook)

    def _add(self, hook: object) -> None:
        """Add a hook of the component. Raises UsageError if it is none."""
        if not isinstance(hook, TaskHook):
            raise UsageError(f"add_task_hook takes an object of a class that extends TaskHook, not {hook!r}")
        self._own.append(hook)
        self._prepare(hook)

    def _prepare(self, hook: TaskHook) -> None:
        context = self._task.context
        self._guard(lambda _: hook.prepare(context.conf, context), None)
        self._listen(hook)
        self._wrap(getattr(self._task, "spout", None) or getattr(self._task, "bolt", None))

    def _listen(self, hook: TaskHook) -> None:
        for event in _EVENTS:
            if getattr(type(hook), event) is not getattr(TaskHook, event):
                self._listeners[event].append(getattr(hook, event))

    def _end_all(self) -> None:
        """Clean all hooks up, after the component was closed."""
        hooks, self._prepared, self._own = [*self._prepared, *self._own], [], []
        self._clean_up(hooks)

    def _clean_up(self, hooks: Iterable[TaskHook]) -> None:
        for hook in hooks:
            self._guard(lambda _, hook=hook: hook.cleanup(), None)  # type: ignore[misc]

    def _renewed(self) -> Any:
        """Make a new copy of the bolt, which adds hooks of its own again. Those of the configuration stay."""
        assert self._remake is not None
        self._clean_up(self._own)
        self._own = []
        self._begun.clear()
        for listeners in self._listeners.values():
            listeners.clear()
        for hook in self._named:
            self._listen(hook)
        component = self._remake()
        self._wrap(component)
        return component

    def _guard(self, call: Listener, info: object) -> None:
        try:
            call(info)
        except (Exception, SystemExit) as error:
            self._task.report_error(error)

    def _tell(self, event: str, info: object) -> None:
        for listener in self._listeners[event]:
            self._guard(listener, info)

    # Wrapping

    def _wrap(self, component: Any) -> None:
        """Wrap what the hooks want to see of the task and of this copy of its component, unless it is wrapped."""
        task = self._task
        if self._listeners["emit"] and not self._has_taps:
            self._has_taps = True
            for name, stream in task.streams.items():
                if not name.startswith(RESERVED_PREFIXES):
                    self._tap(stream)
        if component is self._component or not any(self._listeners[event] for event in _EVENTS[1:]):
            return
        self._component = component
        if isinstance(task, SpoutTask):
            self._wrap_spout(task)
        elif isinstance(task, BasicBoltTask):
            component.execute = self._basic_executions(component.execute)
        elif isinstance(task, BoltTask):
            if task.takes_batches or isinstance(component, BatchingBolt):
                component.execute_batch = self._batches(component.execute_batch)
            else:
                component.execute = self._executions(component.execute)
            if not isinstance(task.collector._task, HookedTracker):
                put_on(task, lambda inner: HookedBolt(inner, self._acked, self._failed))

    def _wrap_spout(self, task: SpoutTask) -> None:
        spout: Any = task.spout
        spout.ack = self._told(spout.ack, "spout_ack", SpoutAckInfo)
        spout.fail = self._told(spout.fail, "spout_fail", SpoutFailInfo)
        if task.fail_because is not None:
            task.fail_because = self._told(task.fail_because, "spout_fail", SpoutFailInfo)
        put_on(task, lambda inner: HookedSpout(inner, self._begin))

    # Emits

    def _tap(self, stream: OutStream) -> None:
        one, many, observe = stream.choose_one, stream.choose_many, stream.observe
        name = stream.origin.stream

        def see(values: Sequence[Any], port: Port) -> int:
            self._emitted(name, values, port.receivers)
            return 0

        def choose_many(values: Sequence[Any]) -> Sequence[Port]:
            ports = many(values)
            self._emitted(name, values, tuple([port.task for port in ports]))
            return ports

        tasks = _Asked(stream.direct_tasks)

        def observe_direct(values: Sequence[Any]) -> None:
            if observe is not None:
                observe(values)
            self._emitted(name, values, (tasks.asked,))

        if stream.is_direct:
            stream.direct_tasks, stream.observe = tasks, observe_direct
        else:
            stream.choose_one = None if one is None else Watched(one, see, 0)
            stream.choose_many = choose_many

    def _emitted(self, stream: str, values: Sequence[Any], targets: tuple[int, ...]) -> None:
        self._tell("emit", EmitInfo(values, stream, self._task.task_id, targets))

    # Spouts

    def _told(self, call: Callable[..., object], event: str, info: Callable[..., object]) -> Callable[..., Any]:
        def told(msg_id: Any, *reason: object) -> Any:
            returned = call(msg_id, *reason)
            message_id = msg_id.id if type(msg_id) is Pending else msg_id  # a message of a ReplayingSpout
            self._tell(event, info(message_id, self._task.task_id, self._since(msg_id)))
            return returned

        return told

    def _begin(self, key: Any) -> None:
        with contextlib.suppress(TypeError):  # a message id that has no hash
            self._begun[key] = self._task.context.clock()
            if len(self._begun) > MAX_BEGUN:
                self._begun.popitem(last=False)

    def _since(self, key: Any) -> float | None:
        try:
            begun_s = self._begun.pop(key, None)
        except TypeError:
            return None
        return None if begun_s is None else self._task.context.clock() - begun_s

    # Bolts

    def _executions(self, call: Callable[[Tuple], object]) -> Callable[[Tuple], object]:
        """Wrap ``execute`` of a bolt that acks by its collector, or whose task does so."""

        def execute(tup: Tuple) -> object:
            if tup.is_tick:
                return call(tup)
            self._begin(tup)
            return self._measured([tup], lambda: call(tup), is_basic=False)

        return execute

    def _basic_executions(self, call: Callable[[Tuple, Any], object]) -> Callable[[Tuple, Any], object]:
        """Wrap ``execute`` of a basic bolt, which acks when it returns."""

        def execute(tup: Tuple, collector: Any) -> object:
            if tup.is_tick:
                return call(tup, collector)
            self._begin(tup)
            return self._measured([tup], lambda: call(tup, collector), is_basic=True)

        return execute

    def _batches(self, call: Callable[[list[Tuple]], object]) -> Callable[[list[Tuple]], object]:
        def execute_batch(tuples: list[Tuple]) -> object:
            shown = [tup for tup in tuples if not tup.is_tick]
            for tup in shown:
                self._begin(tup)
            return self._measured(shown, lambda: call(tuples), is_basic=False)

        return execute_batch

    def _measured(self, tuples: list[Tuple], call: Callable[[], object], *, is_basic: bool) -> object:
        """Call a bolt; tell of the execution when it returned, or when its generator is exhausted."""
        started_s = self._task.context.clock()
        try:
            returned = call()
        except FailedException:
            self._executed(tuples, started_s, self._failed if is_basic else None)
            raise
        if type(returned) is GeneratorType:
            return self._measured_rows(returned, tuples, started_s, is_basic=is_basic)
        self._executed(tuples, started_s, self._acked if is_basic else None)
        return returned

    def _measured_rows(
        self, rows: Iterable[Any], tuples: list[Tuple], started_s: float, *, is_basic: bool
    ) -> Iterator[Any]:
        try:
            yield from rows
        except FailedException:
            self._executed(tuples, started_s, self._failed if is_basic else None)
            raise
        self._executed(tuples, started_s, self._acked if is_basic else None)

    def _executed(self, tuples: list[Tuple], started_s: float, settle: Callable[[Tuple], None] | None) -> None:
        latency_s = (self._task.context.clock() - started_s) / max(1, len(tuples))
        for tup in tuples:
            if settle is not None:
                settle(tup)
            self._tell("bolt_execute", BoltExecuteInfo(tup, self._task.task_id, latency_s))

    def _acked(self, tup: Tuple) -> None:
        self._tell("bolt_ack", BoltAckInfo(tup, self._task.task_id, self._since(tup)))

    def _failed(self, tup: Tuple) -> None:
        self._tell("bolt_fail", BoltFailInfo(tup, self._task.task_id, self._since(tup)))


class _Asked(frozenset[int]):
    """Direct tasks of a stream, which remember the task that an emit asked for last."""

    asked = 0

    def __contains__(self, task: object) -> bool:
        self.asked = task if isinstance(task, int) else 0
        return super().__contains__(task)
