"""PystormBolt and PystormSpout: components written with pystorm or streamparse, in the worker's own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tupletree.component import Bolt, BoltCollector, Component, Spout, SpoutCollector, TopologyContext
from tupletree.errors import UsageError
from tupletree.multilang.direct_calls import leaves, mixins_of_bolt, mixins_of_spout, origin_of
from tupletree.multilang.handshake import context_message
from tupletree.multilang.hosting import (
    UNKNOWN_ANCHOR,
    Message,
    Messages,
    PystormError,
    checked,
    hosted,
    log_message,
    outputs_of,
    tickless_of,
    tuple_type,
)
from tupletree.multilang.metrics import ChildMetrics
from tupletree.outputs import DEFAULT_STREAM
from tupletree.outputs import direct as direct_stream
from tupletree.tuples import SYSTEM_COMPONENT, TICK_STREAM, Origin, Tuple

TICKS: Final = "topology.tick.tuple.freq.secs"
_READING: Final = ("_run", "read_tuple", "read_command", "is_heartbeat", "is_tick")
"""The methods of pystorm that together read a tuple and pass it to ``process``."""
_new_tuple: Final[Any] = tuple.__new__


class PystormComponent(Component):
    """Base class of spouts and bolts written with pystorm. See PystormBolt for what they share."""

    blocking = True
    _remedy = "exit_on_exception = False of its class lets it go on"
    _component: Any = None
    _tuples: Mapping[str, Tuple] = {}  # a bolt's, neither acked nor failed, by the id that the component knows

    def __init__(self, cls: type, base: str, config: Mapping[str, Any] | None) -> None:
        self.cls = checked(type(self).__name__, cls, base)
        self._config = config
        self.streams = outputs_of(cls)
        self.outputs = {  # type: ignore[misc]  # set per instance
            id: direct_stream(fields) if is_direct else fields for id, (fields, is_direct) in self.streams.items()
        }

    def component_configuration(self) -> Mapping[str, Any]:
        return dict(getattr(self.cls, "config", None) or {}) if self._config is None else dict(self._config)

    def host(
        self,
        mixins: Sequence[type],
        conf: Mapping[str, Any],
        context: TopologyContext,
        carry_out: Callable[[Message], list[int]],
    ) -> None:
        """Make the component, and initialize it."""
        fields = {id: names for id, (names, _) in self.streams.items()}
        about = context_message(context, fields)
        self._metrics = ChildMetrics(context)
        self._component = hosted(self.cls, mixins, conf, about, Messages(context, carry_out))
        self._component._tupletree_collector = self.collector  # type: ignore[attr-defined]
        self._component._tupletree_inputs = self._tuples
        self._component.initialize(dict(conf), about)

    def attempt(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Call a method of the component. After an exception, do as pystorm does, and end the worker or go on."""
        try:
            call(*arguments)
        except Exception as error:
            self.handle(error)

    def handle(self, error: Exception) -> None:
        """Do as pystorm does with an exception that is being handled. Raise it again if it ends the worker."""
        self._component._handle_run_exception(error)
        if self._component.exit_on_exception:
            raise error

    def emit(self, message: Message, origin: Any) -> list[int]:
        """Emit a tuple, and return its tasks. ``origin``: the anchors of a bolt, or the message id of a spout."""
        collector: Any = self.collector  # type: ignore[attr-defined]
        stream, task = message.get("stream", DEFAULT_STREAM), message.get("task")
        if task is None:
            return list(collector.emit(message["tuple"], origin, stream))
        collector.emit_direct(task, message["tuple"], origin, stream)
        return [task]

    def note(self, message: Message) -> None:
        """Carry out a message that spouts and bolts may send."""
        match message["command"]:
            case "error":
                self.collector.report_error(PystormError(str(message["msg"])))  # type: ignore[attr-defined]
            case "log":
                log_message(self._component.logger, message)
            case "metrics":
                self._metrics.note(message["name"], message["params"])


class PystormBolt(PystormComponent, Bolt):
    """A bolt written with pystorm or streamparse, unchanged, without a process of its own.

        builder.set_bolt("count", PystormBolt(WordCountBolt), 2).fields_grouping("words", "word")

    Tuples are passed as they are: values need not be what JSON has, and nothing is written to pipes. The outputs and
    the configuration are those of the class. Anchors, acks and fails are the component's, automatic or not. An error
    fails the tuple, if ``auto_fail`` says so, is reported, and ends the worker, which is started again, or not if
    ``exit_on_exception`` is false: as with Storm. The batches of a TicklessBatchingBolt come at ticks, on the task's
    thread. Threads of the component may emit and ack; they cannot ask for task ids.

    **Not as with Storm.** All tasks of a worker share a process, its standard output and its global variables.
    ``pystorm.log.*`` has no effect: what is logged is in the worker's log. A component must not end its process.

    ``config``: replaces the class's own configuration, as ``config`` of a streamparse spec does.

    Raises UsageError for a class that is not derived from pystorm's Bolt.
    """

    holds_tuples = True

    def __init__(self, cls: type, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(cls, "Bolt", config)
        tickless = tickless_of(cls)
        self._is_tickless = tickless is not None
        if tickless is not None and cls.__init__ is not tickless.__init__:  # type: ignore[misc]
            raise UsageError(
                f"PystormBolt: {cls.__name__} is a TicklessBatchingBolt with an __init__ of its own, which would start "
                f"its thread: do this work in initialize"
            )

    def component_configuration(self) -> Mapping[str, Any]:
        ticks = {TICKS: self.cls.secs_between_batches} if self._is_tickless else {}  # type: ignore[attr-defined]
        return {**ticks, **super().component_configuration()}

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        from pystorm.component import Tuple as PystormTuple

        self.context = context
        self.collector = collector
        self._make = PystormTuple
        self._types = {
            source: tuple_type(*source, tuple(context.source_fields.get(source, ()))) for source in context.sources
        }
        self._origins: dict[Origin, tuple[str, str, int, type]] = {}
        self._tuples: dict[str, Tuple] = {}
        self._next_id = 0
        self.host(mixins_of_bolt(self.cls), conf, context, self._carry_out)
        if leaves(self.cls, *_READING) and (kind := origin_of(self.cls, "_run")) in ("Bolt", "BatchingBolt"):
            self._acks_itself = kind == "Bolt"
            self.execute = self._execute_directly  # type: ignore[method-assign]

    def execute(self, tup: Tuple) -> None:
        component = self._component
        component._tupletree_next = self._received(tup)
        if tup.is_tick and self._is_tickless:
            self.attempt(component.process_batches)
        self.attempt(component._run)

    def _received(self, tup: Tuple) -> Any:
        """Return a tuple as the component gets it. It is ours until the component acks or fails its id."""
        self._next_id += 1
        id = str(self._next_id)
        self._tuples[id] = tup
        origin = tup._origin
        component, stream, task, type = self._origins.get(origin) or self._noted(origin)
        return _new_tuple(self._make, (id, component, stream, task, _new_tuple(type, tup.values)))

    def _noted(self, origin: Origin) -> tuple[str, str, int, type]:
        """Return what all tuples of an origin have in common, and keep it."""
        source = (origin.component, origin.stream)
        is_tick = source == (SYSTEM_COMPONENT, TICK_STREAM)
        found = (*source, -1, tuple) if is_tick else (*source, origin.task, self._types[source])
        self._origins[origin] = found
        return found

    def _execute_directly(self, tup: Tuple) -> None:
        """Do as ``_run`` of Bolt and BatchingBolt do, without asking what was read."""
        component = self._component
        received = self._received(tup)
        component._current_tups = [received]
        try:
            if received[1] == SYSTEM_COMPONENT:
                component.process_tick(received)
            else:
                component.process(received)
            if self._acks_itself and component.auto_ack:
                component.ack(received)
        except Exception as error:
            self.handle(error)
        else:
            component._current_tups = []

    def _carry_out(self, message: Message) -> list[int]:
        match message["command"]:
            case "emit":
                return self.emit(message, self._anchors(message))
            case "ack" if (tup := self._tuples.pop(message["id"], None)) is not None:
                self.collector.ack(tup)
            case "fail" if (tup := self._tuples.pop(message["id"], None)) is not None:
                self.collector.fail(tup)
            case _:
                self.note(message)
        return []

    def _anchors(self, message: Message) -> list[Tuple]:
        try:
            return [self._tuples[id] for id in message.get("anchors", ())]
        except KeyError:
            raise PystormError(UNKNOWN_ANCHOR) from None


class PystormSpout(PystormComponent, Spout):
    """A spout written with pystorm or streamparse, unchanged, without a process of its own.

        builder.set_spout("words", PystormSpout(WordSpout))

    A tuple with a ``tup_id`` is tracked; its ack or fail comes back with that id, and a ReliableSpout emits it again,
    up to ``max_fails`` times. An exception is reported, and ends the worker, which is started again, or not if
    ``exit_on_exception`` is false. What PystormBolt says of processes, logs and threads holds for spouts too.

    ``config``: replaces the class's own configuration.

    Raises UsageError for a class that is not derived from pystorm's Spout.
    """

    def __init__(self, cls: type, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(cls, "Spout", config)

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector
        self.host(mixins_of_spout(self.cls), conf, context, self._carry_out)

    def activate(self) -> None:
        self.attempt(self._component.activate)

    def deactivate(self) -> None:
        self.attempt(self._component.deactivate)

    def next_tuple(self) -> None:
        self.attempt(self._component.next_tuple)

    def ack(self, msg_id: Any) -> None:
        self.attempt(self._component.ack, msg_id)

    def fail(self, msg_id: Any) -> None:
        self.attempt(self._component.fail, msg_id)

    def _carry_out(self, message: Message) -> list[int]:
        if message["command"] == "emit":
            return self.emit(message, message.get("id"))
        self.note(message)
        return []
