"""Streams: what a program is written with. Each method adds an operator and returns the stream that it makes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeGuard, TypeVar, Unpack, cast, overload

from tupletree._tracebacks import OursLeftOut
from tupletree.component import BasicBolt, Bolt
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.keyed import CountWindow, KeyedProcess, Session, Sliding, Tumbling
from tupletree.streams import operators, timed_operators
from tupletree.streams.graph import Kind, Operator
from tupletree.streams.program import Calls, Emission, Interval, Keeping, Placing, Program, Versioned
from tupletree.streams.steps import Fold
from tupletree.streams.timed_heads import Windowed
from tupletree.streams.to_spark import ToSpark

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
A = TypeVar("A")
S = TypeVar("S", bound="Stream[Any]")
N = TypeVar("N", int, float)


WindowKind = Tumbling | Sliding | Session | CountWindow


class Stream(ToSpark, Generic[T]):
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
            kind, hint = type(self).__name__, ": write key_by(…) before it" if hasattr(KeyedStream, name) else ""
            if name == "late":
                hint = ": take it of the result of a window, a join or a KeyedProcess itself"
            raise AttributeError(f"a {kind} has no {name!r}{hint}", name=name, obj=self)

    def map(self, f: Callable[[T], U], **placing: Unpack[Placing]) -> Stream[U]:
        """Replace each element by ``f(element)``."""
        return Stream(self.builder, self._narrow(Kind.MAP, "map", f, **placing))

    def flat_map(self, f: Callable[[T], Iterable[U]], **placing: Unpack[Placing]) -> Stream[U]:
        """Replace each element by any number of elements, those of ``f(element)``."""
        return Stream(self.builder, self._narrow(Kind.FLAT_MAP, "flat_map", f, **placing))

    @overload
    def filter(self, f: Callable[[T], TypeIs[U]], **placing: Unpack[Placing]) -> Stream[U]: ...

    @overload
    def filter(self, f: Callable[[T], TypeGuard[U]], **placing: Unpack[Placing]) -> Stream[U]: ...

    @overload
    def filter(self, f: Callable[[T], object], **placing: Unpack[Placing]) -> Self: ...

    def filter(self, f: Callable[[T], object], **placing: Unpack[Placing]) -> Stream[Any]:
        """Keep the elements for which ``f(element)`` is true.

        If ``f`` returns a TypeGuard or TypeIs of a type, the elements that are kept are of this type.
        """
        return self._like(self._narrow(Kind.FILTER, "filter", f, **placing))

    def peek(self, f: Callable[[T], object], **placing: Unpack[Placing]) -> Self:
        """Call ``f`` with each element, and pass the element on."""
        return self._like(self._narrow(Kind.PEEK, "peek", f, **placing))

    def map_async(self, f: Callable[[T], Awaitable[U]], **calls: Unpack[Calls]) -> Stream[U]:
        """Replace each element by the result of awaiting ``f(element)``, for up to ``in_flight`` elements at a time.

        For calls of services and databases; the rules are those of AsyncBolt. ``ordered``: results keep the order of
        the elements of a task. Without ``ordered``, the results of one key may change their order too. ``in_flight`` is
        100 by default, ``timeout`` 30 s, and without ``retry`` there is one attempt.
        """
        return Stream(self.builder, operators.map_async(self.operator, f, **calls))

    def branch(self, *predicates: Callable[[T], object], name: str = "") -> tuple[Self, ...]:
        """Return one stream for each predicate. An element goes to the first whose predicate is true for it.

        An element for which no predicate is true is dropped; ``lambda element: True`` is a predicate for the rest.
        """
        return tuple(self._like(case) for case in operators.branch(self.operator, predicates, name))

    def merge(self, *others: Stream[U], name: str = "") -> Stream[T | U]:
        """Return the elements of this stream and of others, in any order."""
        return Stream(self.builder, operators.merge([self, *others], name))

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

        ``max_lag``: how far an element may be behind the newest of the same partition of a log, if that is the source,
        otherwise of the same sending task. ``idle_timeout``: after this time without an element, a sending task does
        not hold the others back, nor a partition that is read to its end; None: every task must send. See KeyedProcess.
        """
        time = operators.EventTime(f, max_lag, idle_timeout)
        return self._like(operators.event_time(self.operator, time, name))

    @overload
    def process(self, bolt: KeyedProcess, **placing: Unpack[Placing]) -> ProcessedStream[Self]: ...

    @overload
    def process(self, bolt: Bolt | BasicBolt, **placing: Unpack[Placing]) -> Stream[Any]: ...

    def process(self, bolt: Bolt | BasicBolt, **placing: Unpack[Placing]) -> Stream[Any]:
        """Pass the elements to a bolt, and return what it emits on its default stream.

        The bolt gets tuples with the fields of the record of which the elements are, or else one field ``value``; of a
        keyed stream, the field ``key`` comes first. A KeyedProcess gets all tuples of its own key fields.
        """
        made: type[Stream[Any]] = ProcessedStream if isinstance(bolt, KeyedProcess) else Stream
        return made(self.builder, operators.process(self.operator, bolt, **placing))

    def sink(
        self, sink: TransactionalSink | Bolt | BasicBolt, *, fields: Sequence[str] = (), **placing: Unpack[Placing]
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
        with OursLeftOut():
            return self.builder.collect(self, count, seconds)

    def _like(self, operator: Operator) -> Self:
        return type(self)(self.builder, operator)

    def _narrow(self, kind: Kind, title: str, f: Callable[..., Any], **placing: Unpack[Placing]) -> Operator:
        return operators.narrow(self.operator, kind, title, f, **placing)


class KeyedStream(Stream[V], Generic[K, V]):
    """Elements with keys. Functions get the element; the key stays what it is. ``history``: see ParquetHistory."""

    def map(self, f: Callable[[V], W], **placing: Unpack[Placing]) -> KeyedStream[K, W]:
        """Replace each element by ``f(element)``."""
        return KeyedStream(self.builder, self._narrow(Kind.MAP, "map", f, **placing))

    def flat_map(self, f: Callable[[V], Iterable[W]], **placing: Unpack[Placing]) -> KeyedStream[K, W]:
        """Replace each element by any number of elements, those of ``f(element)``."""
        return KeyedStream(self.builder, self._narrow(Kind.FLAT_MAP, "flat_map", f, **placing))

    def map_async(self, f: Callable[[V], Awaitable[W]], **calls: Unpack[Calls]) -> KeyedStream[K, W]:
        """Replace each element by the result of awaiting ``f(element)``: see ``Stream.map_async``."""
        return KeyedStream(self.builder, operators.map_async(self.operator, f, **calls))

    @overload
    def filter(self, f: Callable[[V], TypeIs[W]], **placing: Unpack[Placing]) -> KeyedStream[K, W]: ...

    @overload
    def filter(self, f: Callable[[V], TypeGuard[W]], **placing: Unpack[Placing]) -> KeyedStream[K, W]: ...

    @overload
    def filter(self, f: Callable[[V], object], **placing: Unpack[Placing]) -> Self: ...

    def filter(self, f: Callable[[V], object], **placing: Unpack[Placing]) -> KeyedStream[K, Any]:
        """Keep the elements for which ``f(element)`` is true: see ``Stream.filter``."""
        return self._like(self._narrow(Kind.FILTER, "filter", f, **placing))

    def merge(self, *others: KeyedStream[K, W], name: str = "") -> KeyedStream[K, V | W]:  # type: ignore[override]
        """Return the elements of this stream and of others, which all have keys, in any order."""
        return KeyedStream(self.builder, operators.merge([self, *others], name))

    def values(self, *, name: str = "") -> Stream[V]:
        """Return the elements without their keys."""
        return Stream(self.builder, operators.values(self.operator, name))

    def items(self, *, name: str = "") -> Stream[tuple[K, V]]:
        """Return the pairs of key and element, as elements without a key."""
        return Stream(self.builder, operators.items(self.operator, name))

    def count(self, *, combine: bool = True, **placing: Unpack[Keeping]) -> Table[K, int]:
        """Count the elements of each key. ``combine``: see ``aggregate``."""
        return self._fold("count", operators.COUNT, combine, **placing)

    def sum(self: KeyedStream[K, N], *, combine: bool = True, **placing: Unpack[Keeping]) -> Table[K, N]:
        """Add the elements of each key, which are numbers. ``combine``: see ``aggregate``."""
        return self._fold("sum", operators.SUM, combine, **placing)

    def reduce(self, f: Callable[[V, V], V], *, combine: bool = True, **placing: Unpack[Keeping]) -> Table[K, V]:
        """Join the elements of each key with ``f``, which must be associative. ``combine``: see ``aggregate``."""
        return self._fold("reduce", Fold(None, f, f), combine, **placing)

    def aggregate(
        self,
        initial: Callable[[], A],
        add: Callable[[A, V], A],
        *,
        merge: Callable[[A, A], A] | None = None,
        **placing: Unpack[Keeping],
    ) -> Table[K, A]:
        """Keep a value per key: ``initial()``, to which each element is added with ``add(value, element)``.
        ``add`` may change the value and return it: results stay, except parts of them that a ``map`` behind it returns.

        With ``merge``, which returns one value for two, elements are combined before they are sent: each task keeps
        partial values for up to 50 ms or 5,000 inputs, and sends one per key. An update of the table then stands for
        several elements. The order in which elements are added is that of no sender.
        """
        return self._fold("aggregate", Fold(initial, add, merge), merge is not None, **placing)

    def latest(self, **placing: Unpack[Keeping]) -> Table[K, V]:
        """Keep the newest element of each key."""
        return self._fold("latest", operators.LATEST, False, **placing)

    def update_state(
        self, f: Callable[[A | None, V], tuple[A | None, W]], **placing: Unpack[Keeping]
    ) -> KeyedStream[K, W]:
        """Call ``f(state, element)``, which returns the key's new state and the element to pass on.

        The state of a new key is None; a key whose new state is None is forgotten. The state may be anything that a
        tuple may carry. ``f`` may change it, and pass it on itself; what is passed on must not have parts in common.
        """
        return KeyedStream(self.builder, operators.update_state(self.operator, f, **placing))

    def window(
        self, window: WindowKind, *, processing_time: bool = False, **emission: Unpack[Emission]
    ) -> WindowedStream[K, V]:
        """Gather the elements of each key in windows: Tumbling, Sliding, Session or CountWindow.

        Windows in time are in event time, unless ``processing_time``: then the clock of the machine counts. The other
        settings (``allowed_lateness``, ``early_every``, ``early_count``) and guarantees are those of KeyedWindow.
        """
        return WindowedStream(self, window, processing_time, emission)

    def join(
        self, other: KeyedStream[K, W], f: Callable[[V, W], U], **interval: Unpack[Interval]
    ) -> TimedStream[K, U, V | W]:
        """Call ``f`` with each element and each element of ``other`` of the same key whose event time is near.

        An element of ``other`` is near if its time is from ``before`` before to ``after`` after that of the element,
        both inclusive. The result has the later of both times. See IntervalJoin.
        """
        return self._join("join", "inner", other, f, **interval)

    def left_join(
        self, other: KeyedStream[K, W], f: Callable[[V, W | None], U], **interval: Unpack[Interval]
    ) -> TimedStream[K, U, V | W]:
        """Join as ``join`` does; an element without a partner is joined with None, when none can come any more."""
        return self._join("left_join", "left", other, f, **interval)

    def outer_join(
        self, other: KeyedStream[K, W], f: Callable[[V | None, W | None], U], **interval: Unpack[Interval]
    ) -> TimedStream[K, U, V | W]:
        """Join as ``left_join`` does, and also elements of ``other`` without a partner: with None as the first."""
        return self._join("outer_join", "outer", other, f, **interval)

    def join_table(
        self, table: KeyedStream[K, W], f: Callable[[V, W], U], **placing: Unpack[Versioned]
    ) -> TimedStream[K, U, V]:
        """Call ``f`` with each element and the newest element of its key in ``table``; drop it if there is none.

        ``table``: a table, or any stream of changes with keys. An element None removes that of its key.

        ``versioned=True``: an element is joined with what was valid at its event time, when the watermark has passed
        that; otherwise with what has arrived. See TableJoin.
        """
        parents = operators.of_one_program("join_table", [self, table])
        return TimedStream(self.builder, timed_operators.join_table(parents, "inner", f, **placing))

    def left_join_table(
        self, table: KeyedStream[K, W], f: Callable[[V, W | None], U], **placing: Unpack[Versioned]
    ) -> TimedStream[K, U, V]:
        """Join as ``join_table`` does; ``f`` gets None for an element whose key has nothing in the table."""
        parents = operators.of_one_program("join_table", [self, table])
        return TimedStream(self.builder, timed_operators.join_table(parents, "left", f, **placing))

    def _join(
        self, title: str, kind: str, other: Stream[Any], f: Any, **interval: Unpack[Interval]
    ) -> TimedStream[K, Any, Any]:
        parents = operators.of_one_program(title, [self, other])
        return TimedStream(self.builder, timed_operators.join(parents, title, kind, f, **interval))

    def _fold(self, title: str, fold: Fold, combine: bool, **placing: Unpack[Keeping]) -> Table[Any, Any]:
        return Table(self.builder, operators.aggregate(self.operator, title, fold, combine, **placing))


class WindowedStream(Generic[K, V]):
    """The elements of each key in windows. Each method returns the results of windows as a stream of Windowed.

    A result is emitted when its window is over; earlier or again as the settings of the window say.
    """

    def __init__(self, stream: KeyedStream[K, V], window: WindowKind, is_processing: bool, emission: Emission) -> None:
        """Not for users: see ``KeyedStream.window``."""
        self._stream = stream
        self._window = (window, is_processing, emission)

    def count(self, **placing: Unpack[Placing]) -> TimedStream[K, Windowed[int], V]:
        """Count the elements of each window."""
        return self._fold("count", operators.COUNT, **placing)

    def sum(self: WindowedStream[K, N], **placing: Unpack[Placing]) -> TimedStream[K, Windowed[N], N]:
        """Add the elements of each window, which are numbers."""
        return self._fold("sum", operators.SUM, **placing)

    def reduce(self, f: Callable[[V, V], V], **placing: Unpack[Placing]) -> TimedStream[K, Windowed[V], V]:
        """Join the elements of each window with ``f``, which must be associative."""
        return self._fold("reduce", Fold(None, f, f), **placing)

    def aggregate(
        self,
        initial: Callable[[], A],
        add: Callable[[A, V], A],
        *,
        merge: Callable[[A, A], A] | None = None,
        **placing: Unpack[Placing],
    ) -> TimedStream[K, Windowed[A], V]:
        """Keep a value per window: ``initial()``, to which each element is added with ``add(value, element)``.

        ``merge``: returns one value for two. Sessions need it; sliding windows cost less with it.
        """
        return self._fold("aggregate", Fold(initial, add, merge), **placing)

    def to_list(self, **placing: Unpack[Placing]) -> TimedStream[K, Windowed[list[V]], V]:
        """Keep the elements of each window in a list, in the order of their arrival."""
        return self._fold("to_list", operators.TO_LIST, **placing)

    def _fold(self, title: str, fold: Fold, **placing: Unpack[Placing]) -> TimedStream[Any, Any, Any]:
        operator = timed_operators.windowed(self._stream.operator, f"window-{title}", fold, *self._window, **placing)
        return TimedStream(self._stream.builder, operator)


class Table(KeyedStream[K, V], Generic[K, V]):
    """A value per key, in the state of the topology; and its updates, as a stream."""


class TimedStream(KeyedStream[K, U], Generic[K, U, V]):
    """The results of windows or of a join, which wait for event time, and the elements that came too late for them."""

    @property
    def late(self) -> KeyedStream[K, V]:
        """The elements that are late: those that come when their windows are over, or behind the watermark of a join.

        They have their keys, and no event time. An element is here as often as it comes: at least once, and with
        exactly_once in any effect once. Without this stream, late elements are dropped, counted and reported.

        Raises:
            UsageError: no element can be late, as event time does not count.
        """
        return KeyedStream(self.builder, timed_operators.late(self.operator))


class ProcessedStream(Stream[Any], Generic[S]):
    """The rows of a KeyedProcess, and the elements that came too late for it."""

    @property
    def late(self) -> S:
        """The elements behind the watermark, as they were passed to the KeyedProcess: see ``TimedStream.late``."""
        operator = timed_operators.late(self.operator)
        made = KeyedStream if operator.layout.has_key else Stream
        return cast(S, made(self.builder, operator))
