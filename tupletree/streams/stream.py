"""Streams: what a program is written with. Each method adds an operator and returns the stream that it makes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from tupletree.backoff import Backoff
from tupletree.component import BasicBolt, Bolt
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.keyed import CountWindow, Session, Sliding, Tumbling
from tupletree.streams import operators
from tupletree.streams.graph import Kind, Operator
from tupletree.streams.program import Placing, Program
from tupletree.streams.steps import Fold
from tupletree.streams.timed_heads import Windowed

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
A = TypeVar("A")
N = TypeVar("N", int, float)


WindowKind = Tumbling | Sliding | Session | CountWindow


class Stream(Generic[T]):
    """Elements of type ``T``: anything that a tuple may carry, or objects of a NamedTuple or dataclass.

    Functions and lambdas are called with one element at a time. They are copied to the processes that run them.

    A function that raises FailedException fails the message of the source from which the element comes; any other
    exception ends the worker, and what was under way is processed again.
    """

    def __init__(self, builder: Program, operator: Operator) -> None:
        """Not for users: streams are made by a StreamBuilder and by other streams."""
        self.builder = builder
        self.operator = operator

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say what a stream without a key lacks for a method of streams with keys."""
            kind = type(self).__name__
            hint = ": write key_by(…) before it" if hasattr(KeyedStream, name) else ""
            raise AttributeError(f"a {kind} has no {name!r}{hint}", name=name, obj=self)

    def map(self, f: Callable[[T], U], **placing: Unpack[Placing]) -> Stream[U]:
        """Replace each element by ``f(element)``."""
        return Stream(self.builder, self._narrow(Kind.MAP, "map", f, **placing))

    def flat_map(self, f: Callable[[T], Iterable[U]], **placing: Unpack[Placing]) -> Stream[U]:
        """Replace each element by any number of elements, those of ``f(element)``."""
        return Stream(self.builder, self._narrow(Kind.FLAT_MAP, "flat_map", f, **placing))

    def filter(self, f: Callable[[T], object], **placing: Unpack[Placing]) -> Self:
        """Keep the elements for which ``f(element)`` is true."""
        return self._like(self._narrow(Kind.FILTER, "filter", f, **placing))

    def peek(self, f: Callable[[T], object], **placing: Unpack[Placing]) -> Self:
        """Call ``f`` with each element, and pass the element on."""
        return self._like(self._narrow(Kind.PEEK, "peek", f, **placing))

    def map_async(
        self,
        f: Callable[[T], Awaitable[U]],
        *,
        in_flight: int = 100,
        ordered: bool = False,
        timeout: dt.timedelta = dt.timedelta(seconds=30),
        retry: Backoff | None = None,
        **placing: Unpack[Placing],
    ) -> Stream[U]:
        """Replace each element by the result of awaiting ``f(element)``, for up to ``in_flight`` elements at a time.

        For calls of services and databases; the rules are those of AsyncBolt. ``ordered``: results keep the order of
        the elements of a task. Without ``ordered``, the results of one key may change their order too.
        """
        settings = {"in_flight": in_flight, "ordered": ordered, "timeout_s": timeout.total_seconds(), "retry": retry}
        return Stream(self.builder, operators.map_async(self.operator, f, settings, **placing))

    def branch(self, *predicates: Callable[[T], object], name: str = "") -> tuple[Self, ...]:
        """Return one stream for each predicate. An element goes to the first whose predicate is true for it.

        An element for which no predicate is true is dropped; ``lambda element: True`` is a predicate for the rest.
        """
        return tuple(self._like(case) for case in operators.branch(self.operator, predicates, name))

    def merge(self, *others: Self, name: str = "") -> Self:
        """Return the elements of this stream and of others, in any order."""
        return self._like(operators.merge([self, *others], name))

    def key_by(self, f: Callable[[T], K], **placing: Unpack[Placing]) -> KeyedStream[K, T]:
        """Give each element the key ``f(element)``: a str, bytes, an int or a tuple of these.

        What follows is for each key by itself: aggregations, windows, joins. An element whose key is of another type
        fails.
        """
        return KeyedStream(self.builder, self._narrow(Kind.KEY_BY, "key_by", f, **placing))

    def event_time(
        self,
        f: Callable[[T], int | dt.datetime],
        *,
        max_lag: dt.timedelta,
        idle_timeout: dt.timedelta | None = None,
        name: str = "",
    ) -> Self:
        """Give each element an event time: milliseconds of Unix time, or a datetime with a time zone.

        ``max_lag``: how far an element may be behind the newest of the same sending task. ``idle_timeout``: after this
        time without an element, a sending task does not hold the others back; None: every one must send. See
        KeyedProcess.
        """
        time = operators.EventTime(f, max_lag, idle_timeout)
        return self._like(operators.event_time(self.operator, time, name))

    def process(self, bolt: Bolt | BasicBolt, **placing: Unpack[Placing]) -> Stream[Any]:
        """Pass the elements to a bolt, and return what it emits on its default stream.

        The bolt gets tuples with the fields of the record of which the elements are, or else one field ``value``; of a
        keyed stream, the field ``key`` comes first. A KeyedProcess gets all tuples of its own key fields.
        """
        return Stream(self.builder, operators.process(self.operator, bolt, **placing))

    def sink(
        self,
        sink: TransactionalSink | Bolt | BasicBolt,
        *,
        fields: Sequence[str] = (),
        **placing: Unpack[Placing],
    ) -> None:
        """Write the elements to another system: with a sink of ``tupletree.connectors``, or a bolt.

        A sink such as ``PostgresSink(…)`` writes at least once, and exactly once in a program with this guarantee.

        ``fields``: names for the key, if there is one, and the parts of the element. Without them, the sink finds the
        fields as a bolt does: see ``process``.

        Rows of one key, of the table or else of the stream, are written by one executor, in their order.
        """
        operators.sink(self.operator, sink, fields, **placing)

    def print(self, prefix: str = "", *, name: str = "") -> Self:
        """Print each element, and its key before it, to the standard output of the process that runs it."""
        return self._like(operators.printing(self.operator, prefix, name))

    def collect(self, count: int, *, seconds: float = 20) -> list[T]:
        """Run the program here, as ``run_local`` does, and return the first elements of this stream.

        Returns when ``count`` elements have come, when all sources are at their end, or after ``seconds``. With a key,
        an element is a pair of the key and the element.
        """
        return self.builder.collect(self, count, seconds)

    def _like(self, operator: Operator) -> Self:
        return type(self)(self.builder, operator)

    def _narrow(self, kind: Kind, title: str, f: Callable[..., Any], **placing: Unpack[Placing]) -> Operator:
        return operators.narrow(self.operator, kind, title, f, **placing)


class KeyedStream(Stream[V], Generic[K, V]):
    """Elements with keys. Functions get the element; the key stays what it is."""

    def map(self, f: Callable[[V], W], **placing: Unpack[Placing]) -> KeyedStream[K, W]:
        """Replace each element by ``f(element)``."""
        return KeyedStream(self.builder, self._narrow(Kind.MAP, "map", f, **placing))

    def flat_map(self, f: Callable[[V], Iterable[W]], **placing: Unpack[Placing]) -> KeyedStream[K, W]:
        """Replace each element by any number of elements, those of ``f(element)``."""
        return KeyedStream(self.builder, self._narrow(Kind.FLAT_MAP, "flat_map", f, **placing))

    def map_async(
        self,
        f: Callable[[V], Awaitable[W]],
        *,
        in_flight: int = 100,
        ordered: bool = False,
        timeout: dt.timedelta = dt.timedelta(seconds=30),
        retry: Backoff | None = None,
        **placing: Unpack[Placing],
    ) -> KeyedStream[K, W]:
        """Replace each element by the result of awaiting ``f(element)``: see ``Stream.map_async``."""
        settings = {"in_flight": in_flight, "ordered": ordered, "timeout_s": timeout.total_seconds(), "retry": retry}
        return KeyedStream(self.builder, operators.map_async(self.operator, f, settings, **placing))

    def items(self, *, name: str = "") -> Stream[tuple[K, V]]:
        """Return the pairs of key and element, as elements without a key."""
        return Stream(self.builder, operators.items(self.operator, name))

    def count(self, *, combine: bool = True, **placing: Unpack[Placing]) -> Table[K, int]:
        """Count the elements of each key. ``combine``: see ``aggregate``."""
        return self._fold("count", operators.COUNT, combine, **placing)

    def sum(self: KeyedStream[K, N], *, combine: bool = True, **placing: Unpack[Placing]) -> Table[K, N]:
        """Add the elements of each key, which are numbers. ``combine``: see ``aggregate``."""
        return self._fold("sum", operators.SUM, combine, **placing)

    def reduce(self, f: Callable[[V, V], V], *, combine: bool = True, **placing: Unpack[Placing]) -> Table[K, V]:
        """Join the elements of each key with ``f``, which must be associative. ``combine``: see ``aggregate``."""
        return self._fold("reduce", Fold(None, f, f), combine, **placing)

    def aggregate(
        self,
        initial: Callable[[], A],
        add: Callable[[A, V], A],
        *,
        merge: Callable[[A, A], A] | None = None,
        **placing: Unpack[Placing],
    ) -> Table[K, A]:
        """Keep a value per key: ``initial()``, to which each element is added with ``add(value, element)``.

        With ``merge``, which returns one value for two, elements are combined before they are sent: each task keeps
        partial values for up to 50 ms or 5,000 inputs, and sends one per key. An update of the table then stands for
        several elements. The order in which elements are added is that of no sender.
        """
        return self._fold("aggregate", Fold(initial, add, merge), merge is not None, **placing)

    def latest(self, **placing: Unpack[Placing]) -> Table[K, V]:
        """Keep the newest element of each key."""
        return self._fold("latest", operators.LATEST, False, **placing)

    def update_state(
        self, f: Callable[[A | None, V], tuple[A | None, W]], **placing: Unpack[Placing]
    ) -> KeyedStream[K, W]:
        """Call ``f(state, element)``, which returns the key's new state and the element to pass on.

        The state of a new key is None; a key whose new state is None is forgotten. The state may be anything that a
        tuple may carry.
        """
        return KeyedStream(self.builder, operators.update_state(self.operator, f, **placing))

    def window(
        self,
        window: WindowKind,
        *,
        processing_time: bool = False,
        allowed_lateness: dt.timedelta = dt.timedelta(0),
        early_every: dt.timedelta | None = None,
        early_count: int | None = None,
    ) -> WindowedStream[K, V]:
        """Gather the elements of each key in windows: Tumbling, Sliding, Session or CountWindow.

        Windows in time are in event time, unless ``processing_time``: then the clock of the machine counts. The other
        settings, late elements and guarantees are those of KeyedWindow.
        """
        settings = {
            "window": window,
            "allowed_lateness": allowed_lateness,
            "early_every": early_every,
            "early_count": early_count,
        }
        return WindowedStream(self, settings, processing_time)

    def join(
        self,
        other: KeyedStream[K, W],
        f: Callable[[V, W], U],
        *,
        before: dt.timedelta,
        after: dt.timedelta,
        **placing: Unpack[Placing],
    ) -> KeyedStream[K, U]:
        """Call ``f`` with each element and each element of ``other`` of the same key whose event time is near.

        An element of ``other`` is near if its time is from ``before`` before to ``after`` after that of the element,
        both inclusive. The result has the later of both times. See IntervalJoin.
        """
        settings = {"before": before, "after": after, "kind": "inner"}
        return self._join("join", other, f, settings, **placing)

    def left_join(
        self,
        other: KeyedStream[K, W],
        f: Callable[[V, W | None], U],
        *,
        before: dt.timedelta,
        after: dt.timedelta,
        **placing: Unpack[Placing],
    ) -> KeyedStream[K, U]:
        """Join as ``join`` does; an element without a partner is joined with None, when none can come any more."""
        settings = {"before": before, "after": after, "kind": "left"}
        return self._join("left_join", other, f, settings, **placing)

    def outer_join(
        self,
        other: KeyedStream[K, W],
        f: Callable[[V | None, W | None], U],
        *,
        before: dt.timedelta,
        after: dt.timedelta,
        **placing: Unpack[Placing],
    ) -> KeyedStream[K, U]:
        """Join as ``left_join`` does, and also elements of ``other`` without a partner: with None as the first."""
        settings = {"before": before, "after": after, "kind": "outer"}
        return self._join("outer_join", other, f, settings, **placing)

    def join_table(
        self,
        table: KeyedStream[K, W],
        f: Callable[[V, W], U],
        *,
        versioned: bool = False,
        **placing: Unpack[Placing],
    ) -> KeyedStream[K, U]:
        """Call ``f`` with each element and the newest element of its key in ``table``; drop it if there is none.

        ``table``: a table, or any stream of changes with keys. An element None removes that of its key.

        ``versioned``: an element is joined with what was valid at its event time, when the watermark has passed that;
        otherwise with what has arrived. See TableJoin.
        """
        return self._join_table(table, f, {"versioned": versioned, "kind": "inner"}, **placing)

    def left_join_table(
        self,
        table: KeyedStream[K, W],
        f: Callable[[V, W | None], U],
        *,
        versioned: bool = False,
        **placing: Unpack[Placing],
    ) -> KeyedStream[K, U]:
        """Join as ``join_table`` does; ``f`` gets None for an element whose key has nothing in the table."""
        return self._join_table(table, f, {"versioned": versioned, "kind": "left"}, **placing)

    def _join(
        self, title: str, other: Stream[Any], f: Any, settings: dict[str, Any], **placing: Unpack[Placing]
    ) -> KeyedStream[K, Any]:
        parents = operators.of_one_program(title, [self, other])
        return KeyedStream(self.builder, operators.join(parents, title, f, settings, **placing))

    def _join_table(
        self, table: Stream[Any], f: Any, settings: dict[str, Any], **placing: Unpack[Placing]
    ) -> KeyedStream[K, Any]:
        parents = operators.of_one_program("join_table", [self, table])
        return KeyedStream(self.builder, operators.join_table(parents, f, settings, **placing))

    def _fold(self, title: str, fold: Fold, combine: bool, **placing: Unpack[Placing]) -> Table[Any, Any]:
        return Table(self.builder, operators.aggregate(self.operator, title, fold, combine, **placing))


class WindowedStream(Generic[K, V]):
    """The elements of each key in windows. Each method returns the results of windows as a stream of Windowed.

    A result is emitted when its window is over; earlier or again as the settings of the window say.
    """

    def __init__(self, stream: KeyedStream[K, V], settings: dict[str, Any], is_processing: bool) -> None:
        """Not for users: see ``KeyedStream.window``."""
        self._stream = stream
        self._settings = settings
        self._is_processing = is_processing

    def count(self, **placing: Unpack[Placing]) -> KeyedStream[K, Windowed[int]]:
        """Count the elements of each window."""
        return self._fold("count", operators.COUNT, **placing)

    def sum(self: WindowedStream[K, N], **placing: Unpack[Placing]) -> KeyedStream[K, Windowed[N]]:
        """Add the elements of each window, which are numbers."""
        return self._fold("sum", operators.SUM, **placing)

    def reduce(self, f: Callable[[V, V], V], **placing: Unpack[Placing]) -> KeyedStream[K, Windowed[V]]:
        """Join the elements of each window with ``f``, which must be associative."""
        return self._fold("reduce", Fold(None, f, f), **placing)

    def aggregate(
        self,
        initial: Callable[[], A],
        add: Callable[[A, V], A],
        *,
        merge: Callable[[A, A], A] | None = None,
        **placing: Unpack[Placing],
    ) -> KeyedStream[K, Windowed[A]]:
        """Keep a value per window: ``initial()``, to which each element is added with ``add(value, element)``.

        ``merge``: returns one value for two. Sessions need it; sliding windows cost less with it.
        """
        return self._fold("aggregate", Fold(initial, add, merge), **placing)

    def to_list(self, **placing: Unpack[Placing]) -> KeyedStream[K, Windowed[list[V]]]:
        """Keep the elements of each window in a list, in the order of their arrival."""
        return self._fold("to_list", operators.TO_LIST, **placing)

    def _fold(self, title: str, fold: Fold, **placing: Unpack[Placing]) -> KeyedStream[Any, Any]:
        stream = self._stream
        operator = operators.windowed(
            stream.operator, f"window-{title}", fold, self._settings, self._is_processing, **placing
        )
        return KeyedStream(stream.builder, operator)


class Table(KeyedStream[K, V], Generic[K, V]):
    """A value per key, in the state of the topology; and its updates, as a stream."""
