"""The base class of all tasks: a user's component with its collector, streams and counters.

An executor drives a task on one thread.
"""

from __future__ import annotations  # pure

import functools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tupletree._compiled import IS_COMPILED
from tupletree._signatures import check_returned
from tupletree._wire.fail_reasons import FailReason
from tupletree.component import BasicBolt, Bolt, Component, TopologyContext
from tupletree.errors import TaskFailedError
from tupletree.tuples import Origin

from .ack_updates import AckUpdates
from .batches import Rows
from .counts import Counters, inputs_of
from .ids import RandomBits, RandomIds
from .output_streams import OutBuffer, OutStream
from .tree_tracker import TreeTracker

CATCH: Final = "catch it; a tuple that fails takes a topology with aligned checkpoints back to the last one"

ReportError = Callable[[str, int, BaseException], None]
Observer = Callable[[str, str, Sequence[Any]], None]
"""A function that receives emitted tuples as (component, stream, values)."""
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Environment:
    """Dependencies that a worker passes to its tasks."""

    clock: Clock
    getrandbits: RandomBits
    report_error: ReportError
    is_tracked: bool
    log_emit: Observer  # receives each emitted tuple under topology.debug
    ids_at_once: int = 256  # number of ids that a task generates at a time
    ids_are_seeded: bool = IS_COMPILED  # False where ids must be the same with and without compilation
    unix_clock: Clock | None = None  # None: ``clock``, which is simulated

    def ids(self) -> RandomIds:
        """Return a source of root and edge ids for one task."""
        return RandomIds(self.getrandbits, self.ids_at_once, self.ids_are_seeded)


class SetUp:
    """Context manager around calls that set up a component (``open``, ``prepare``, ``activate``, ``init_state`` …).

    ``is_on``: such a call is under way. ``has_been``: the current step had such a call; the run loop clears the flag.
    """

    __slots__ = ("has_been", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self.has_been = False

    def __enter__(self) -> None:
        self.is_on = self.has_been = True

    def __exit__(self, *error: object) -> None:
        self.is_on = False


class Participant(Protocol):
    """The checkpoint participant of a task (worker/checkpoint). Runs on the task's own thread."""

    task_id: int
    passed_on: deque[tuple[OutBuffer, Rows]]
    """Rows to hand over before the task's buffers."""
    released: deque[tuple[Origin, Rows]]
    """Batches to execute before those of the inbox."""

    @property
    def is_ready(self) -> bool:
        """True if the task may execute tuples, be polled, and receive ticks."""

    @property
    def has_held_back(self) -> bool:
        """True if tuples wait for a step, or a step waits for acks."""

    @property
    def due_s(self) -> float:
        """The latest time at which ``poll`` must be called; infinity if no step waits."""

    def admit(self, origin: Origin, rows: Rows) -> bool:
        """Return True if a batch is to be executed now; otherwise hold or drop it."""

    def poll(self) -> bool:
        """If a step waits for acks, and no ack is missing or the deadline has passed: act on the step, return True."""

    def opened(self) -> None:
        """Called right after the spout of a spout task was opened."""

    def close(self) -> None:
        """Called after the component was closed."""


class Task(TreeTracker):
    """Base class of spout and bolt tasks."""

    def __init__(
        self, component: Component, context: TopologyContext, streams: dict[str, OutStream], env: Environment
    ) -> None:
        self.component_id = context.component_id
        self.task_id = context.task_id
        self.is_tracked = env.is_tracked
        self.context = context
        self.streams = streams
        self.counters = Counters()
        self.inputs = inputs_of(context.sources, bool(context.conf["topology.tick.tuple.freq.secs"]))
        self.updates = AckUpdates()  # replaced by the updates of the run loop that drives this task
        self.ack_updates = self.updates  # the same object, unless acks wait for a checkpoint
        self.defers_acks = False
        self.has_failed_tuples = False  # since the last reset: no checkpoint may cover a failed tuple
        self.participant: Participant | None = None  # takes part in checkpoints for this task
        self.is_open = False
        self.is_declared_blocking = component.blocking
        self.takes_batches = False  # a step runs all rows of a batch at once
        self.set_up = SetUp()  # replaced by the executor's SetUp
        self.must_yield = False  # set by the watchdog when the current step takes too long
        self.remake: Callable[[], Any] | None = None  # makes a new copy of the component as submitted
        self.ask_soon: Callable[[bool, TopologyContext | None, Callable[[], None]], None] | None = None
        self._env = env
        component.context = context

    def use(self, updates: AckUpdates) -> None:
        """Report to the ackers through these updates from now on."""
        self.updates = updates
        if not self.defers_acks:
            self.ack_updates = updates

    def add_ack(self, root: int, value: int) -> None:
        """Report that ``value`` is to be xored into the ack value of ``root``, now or after a checkpoint."""
        self.ack_updates.add_ack(root, value)

    def equip(self, context: TopologyContext) -> None:
        """Set the clocks, ``call_soon`` and ``call_first`` of a component's context."""
        context.clock = self._env.clock
        context.unix_clock = self._env.unix_clock or self._env.clock
        if self.ask_soon is not None:
            context.call_soon = functools.partial(self.ask_soon, False, context)
            context.call_first = functools.partial(self.ask_soon, True, context)

    def begin(self, component: Component, method: str, *arguments: object) -> None:
        """Call ``open`` or ``prepare`` of a component, then its ``setup``."""
        with self.set_up:
            self.refuse(component, method, getattr(component, method)(*arguments))
            setup: Callable[[], object] = component.setup
            self.refuse(component, "setup", setup())

    def tear_down(self, component: Component, method: str) -> None:
        """Call ``teardown`` of a component, then its ``close`` or ``cleanup``, even if ``teardown`` raises."""
        teardown: Callable[[], object] = component.teardown
        try:
            self.refuse(component, "teardown", teardown())
        finally:
            self.refuse(component, method, getattr(component, method)())

    def end(self, bolt: BasicBolt | Bolt) -> None:
        """End the use of a copy of the bolt; report an exception instead of raising it."""
        try:
            self.tear_down(bolt, "cleanup")
        except (Exception, SystemExit) as error:
            self.report_error(error)

    def refuse(self, component: Component, method: str, returned: object) -> None:
        """Raise TopologyError if a method of the component may not return this value, which would be ignored."""
        check_returned(self.component_id, component, method, returned, self.feeds)

    def feeds(self, task: int) -> bool:
        """True if a stream of this task goes to the given task."""
        return any(task in stream.ports for stream in self.streams.values())

    def renewed(self) -> Any:
        """Return a new copy of the component with a new context. Pending ``call_soon`` calls of the old copy lapse."""
        assert self.remake is not None
        component = self.remake()
        self.context = component.context = self.context.renewed()
        self.equip(self.context)
        return component

    def buffers(self) -> Iterable[OutBuffer]:
        """Return the buffers of every stream."""
        return (buffer for stream in self.streams.values() for buffer in stream.buffers())

    def open(self) -> None:
        """Call the component's ``open`` or ``prepare``."""
        raise NotImplementedError

    def close(self) -> None:
        """Call the component's ``close`` or ``cleanup``, if it was opened."""
        raise NotImplementedError

    def processed(self, origin: Origin, latency_s: float) -> None:
        """Record the latency of a sampled tuple that was acked."""
        self.counters.processed(latency_s)
        if self.inputs is not None:
            self.inputs[origin].processed(latency_s)

    def fail_trees(self, roots: Iterable[int], error: BaseException | str | None) -> None:
        """Fail trees of this task's inputs, for a reason."""
        self.updates.fail(roots, FailReason.of(self.component_id, self.task_id, error))

    def report_error(self, error: BaseException) -> None:
        """Report an error of this task to the user."""
        self._env.report_error(self.component_id, self.task_id, error)

    def failure(self, error: BaseException, remedy: str = "") -> TaskFailedError:
        """Wrap an exception of this task's component in a TaskFailedError.

        ``remedy``: what the component's code can do instead, which is less with aligned checkpoints.
        """
        if remedy and self.context.conf.get("topology.state.checkpoint.aligned"):
            remedy = CATCH
        return TaskFailedError(self.component_id, self.task_id, error, remedy)
