"""The component methods that the framework calls, and a check that they are callable as expected. Pure.

A method can be a generator function or ``async def``: a call then returns an object without running the body. Where the
framework emits the rows of a generator, a generator function is as good as a function that emits. Elsewhere the tuple
would be acked although nothing was done: such a method is refused when the topology is built, and so is a method that
does not accept the expected arguments. A plain function can still *return* a coroutine or rows: ``check_returned``
refuses these when the method is called.

``CALLED`` alone defines the allowed forms. The arguments of a method are those of its base class.
"""

from __future__ import annotations  # pure

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from tupletree.errors import TopologyError


class Result(Enum):
    """The kind of result of a method."""

    NOTHING = "nothing"
    EMITS = "nothing: it emits"
    YIELDS = "nothing: it emits, or yields rows"
    VALUE = "a value"
    ROWS = "values, one after the other"
    AWAITED = "a coroutine, which is awaited"
    AWAITED_ROWS = "a coroutine or an async generator of rows, which is awaited"


@dataclass(frozen=True, slots=True)
class Method:
    """A method that the framework calls. ``instead``: the code to suggest instead of ``yield`` or ``return``."""

    result: Result
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """The methods that one base class adds. ``waiting``: the advice to give instead of a coroutine.

    ``unused``: inherited methods that a subclass must not define, each with the reason. ``required``: methods of which
    a subclass must define one.
    """

    methods: Mapping[str, Method]
    waiting: str = "write it without async; set blocking = True if it waits"
    unused: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()


def _kind(
    *,
    nothing: str = "",
    values: str = "",
    rows: str = "",
    emits: Mapping[str, str] | None = None,
    yields: str = "",
    **more: Any,
) -> Kind:
    methods = {name: Method(Result.EMITS, instead) for name, instead in (emits or {}).items()}
    methods.update({name: Method(Result.YIELDS, "yield [value]") for name in yields.split()})
    for names, result in ((nothing, Result.NOTHING), (values, Result.VALUE), (rows, Result.ROWS)):
        methods.update({name: Method(result) for name in names.split()})
    return Kind(methods, **more)


_THREAD = (
    "write it without async; set blocking = True if it waits, or wait in a thread and go on with self.context.call_soon"
)
_AWAIT = "derive from AsyncBolt, or write it without async"
_BATCH = "collector.emit([value])"
_JOIN = "a join has its own; define join"

CALLED: Final[Mapping[str, Kind]] = {
    "tupletree.component.Component": _kind(
        nothing="declare_output_fields setup teardown blob_updated", values="component_configuration"
    ),
    "tupletree.component.Spout": _kind(
        nothing="open close activate deactivate ack fail restore_state",
        values="checkpoint_state",
        yields="next_tuple",
        waiting=_THREAD,
    ),
    "tupletree.reliable_spout.ReliableSpout": _kind(
        nothing="finished commit",
        rows="read",
        unused={
            "next_tuple": "a ReliableSpout emits what read yields: define read",
            "ack": "define finished, which is called with the id of each processed message",
            "fail": "a ReliableSpout emits failed messages again",
        },
        waiting=_THREAD,
    ),
    "tupletree.component.Bolt": _kind(
        nothing="prepare cleanup",
        emits={"execute_batch": "self.collector.emit([value], tup)"},
        yields="execute tick",
        waiting=_AWAIT,
        required=("execute", "execute_batch", "tick"),
    ),
    "tupletree.component.StatefulBolt": _kind(
        nothing="init_state pre_prepare pre_commit pre_rollback",
        values="values_of_key merge_values migrate_value",
        waiting=_THREAD,
    ),
    "tupletree.component.BasicBolt": _kind(
        nothing="prepare cleanup", yields="execute tick", waiting=_AWAIT, required=("execute", "tick")
    ),
    "tupletree.component.BasicStatefulBolt": _kind(
        unused={"execute_batch": "a basic bolt executes one tuple at a time"}
    ),
    "tupletree.keyed.process.KeyedProcess": _kind(
        yields="on_tuple on_timer",
        unused={"execute": "define on_tuple", "tick": "a KeyedProcess fires its timers at ticks: set a timer"},
        required=("on_tuple",),
    ),
    "tupletree.joins.interval_join.IntervalJoin": _kind(
        values="keep", yields="join", unused={"on_tuple": _JOIN, "on_timer": _JOIN}, required=("join",)
    ),
    "tupletree.joins.table_join.TableJoin": _kind(
        values="keep deleted", yields="join", unused={"on_tuple": _JOIN, "on_timer": _JOIN}, required=("join",)
    ),
    "tupletree.keyed.windows.keyed_window.KeyedWindow": _kind(
        values="initial add merge",
        yields="on_window",
        unused={
            "on_tuple": "a KeyedWindow aggregates tuples: define initial and add",
            "on_timer": "a KeyedWindow emits windows at timers: define on_window",
        },
        required=("on_window",),
    ),
    "tupletree.batching_bolt.BatchingBolt": _kind(
        yields="execute_batch",
        unused={"execute": "define execute_batch", "tick": "a BatchingBolt ends batches at ticks"},
    ),
    "tupletree.combiner.CombinerBolt": _kind(
        nothing="add", values="combine empty", rows="key_values rows", unused={"tick": "a CombinerBolt emits at ticks"}
    ),
    "tupletree.async_bolt.AsyncBolt": Kind(
        {
            "execute": Method(Result.AWAITED_ROWS),
            "open_async": Method(Result.AWAITED),
            "close_async": Method(Result.AWAITED),
        }
    ),
    "tupletree.windows.bolt.WindowedBolt": _kind(
        yields="execute_window", unused={"tick": "a WindowedBolt ends windows at ticks"}
    ),
    "tupletree.transactional.bolts.BatchBolt": _kind(
        nothing="prepare",
        yields="execute finish_batch",
        unused={
            "teardown": "the object of a batch is dropped without a further call",
            "blob_updated": "each batch has an object of its own: open the blob in prepare",
        },
    ),
    "tupletree.transactional.spouts.SpoutCoordinator": _kind(nothing="close", values="is_ready lag"),
    "tupletree.transactional.spouts.TransactionCoordinator": _kind(values="initialize_transaction"),
    "tupletree.transactional.spouts.TransactionEmitter": _kind(
        nothing="cleanup_before close", emits={"emit_batch": _BATCH}
    ),
    "tupletree.transactional.spouts.CommittingEmitter": _kind(nothing="commit"),
    "tupletree.transactional.spouts.TransactionalSpout": _kind(values="coordinator emitter"),
    "tupletree.transactional.spouts.PartitionCoordinator": _kind(values="num_partitions has_more"),
    "tupletree.transactional.spouts.PartitionEmitter": _kind(
        nothing="close", values="emit_partition_batch_new", emits={"emit_partition_batch": _BATCH}
    ),
    "tupletree.transactional.spouts.PartitionedTransactionalSpout": _kind(values="coordinator emitter"),
    "tupletree.transactional.spouts.OpaquePartitionEmitter": _kind(nothing="close", values="emit_partition_batch"),
    "tupletree.transactional.spouts.OpaquePartitionedTransactionalSpout": _kind(values="coordinator emitter"),
    "tupletree.grouping.CustomGrouping": _kind(nothing="prepare", values="choose_tasks"),
    "tupletree.spark.batch_bolt.SparkBatchBolt": _kind(values="process"),
    "tupletree.spark.pipeline.Pipeline": _kind(values="process emit"),
    "tupletree.spark.source.Source": _kind(values="spout divide dataframe positions_after", rows="read"),
    "tupletree.spark.sink.Sink": _kind(nothing="open stage_positions commit discard close", values="stage"),
}
"""The base classes of user classes, by module and name."""


def check_calls(title: str, component_id: str, component: object) -> None:
    """Check the methods of a user's object against ``CALLED``.

    ``title`` begins the error message: ``bolt 'split'``. A decorator may wrap a generator and run it: the check looks
    at the function that the framework calls, not at the wrapped function.

    Raises:
        TopologyError: a method is a generator function or a coroutine function where that is not supported, is not
            callable, does not accept the expected arguments, or would never be called; or a required method is missing;
            or the component is a frozen dataclass.
    """
    _refuse_frozen(title, component_id, component)
    seen: set[str] = set()
    for base in type(component).__mro__:
        kind = CALLED.get(_path(base))
        for name, reason in kind.unused.items() if kind is not None else ():
            if getattr(type(component), name) is not getattr(base, name):
                where = f"{title}: {type(component).__name__}.{name}"
                raise TopologyError(f"{where} is never called: {reason}", component=component_id, field=name)
        for name, method in kind.methods.items() if kind is not None else ():
            if name in seen:
                continue
            seen.add(name)
            assert kind is not None
            called = getattr(component, name, None)
            fault = _fault(method, kind, called) or _misfit(base, name, called)
            if fault:
                where = f"{title}: {type(component).__name__}.{name}"
                raise TopologyError(f"{where} {fault}", component=component_id, field=name)
    for base in type(component).__mro__:
        kind = CALLED.get(_path(base))
        if kind is not None and kind.required and not any(_defines(component, base, name) for name in kind.required):
            name = kind.required[0]
            has = f"{type(component).__name__} has no {name}({', '.join(_arguments(base, name))})"
            raise TopologyError(f"{title}: {has}", component=component_id, field=name)


def _refuse_frozen(title: str, component_id: str, component: object) -> None:
    """Raise TopologyError for a component that is a frozen dataclass."""
    parameters = getattr(component, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen and hasattr(component, "component_configuration"):
        raise TopologyError(
            f"{title}: {type(component).__name__} is a frozen dataclass, and its context and collector are set before "
            "it runs: leave out frozen=True",
            component=component_id,
            field="component",
        )


def _defines(component: object, base: type, name: str) -> bool:
    """True if the component has another method than that of ``base``."""
    called = getattr(component, name, None)
    return getattr(called, "__func__", called) is not getattr(base, name)


def check_returned(
    component_id: str,
    component: Any,
    method: str,
    returned: object,
    is_target: Callable[[int], bool] = lambda task: True,
    emit_many: Callable[[Iterable[Any]], object] | None = None,
) -> None:
    """Emit the rows of a generator through ``emit_many``, and refuse any other result where nothing is expected.

    A method may return the result of ``emit`` or ``emit_many``, as in ``return collector.emit(…)``: an int, or task ids
    for which ``is_target`` is true. A bool is allowed, too.

    Raises:
        TopologyError: a generator or a coroutine was returned; or the method should emit, and values were returned.
    """
    owner: Any = type(component)
    known = _method_of(owner, method)
    if known is None or returned is None:
        return
    if known.result is Result.YIELDS and emit_many is not None and isinstance(returned, Generator):
        emit_many(returned)
        return
    is_lazy = isinstance(returned, (Generator, Coroutine, AsyncGenerator))
    is_emitting = known.result in (Result.EMITS, Result.YIELDS)
    if not is_lazy and (not is_emitting or _is_result_of_emit(returned, is_target)):
        return
    if isinstance(returned, Coroutine):
        returned.close()  # avoids Python's warning about a coroutine that was never awaited
    verb = "yield rows" if known.result is Result.YIELDS else "emit"
    advice = f"; {verb} instead: {known.instead}" if known.instead else ""
    fault = f"returned {_article(returned)}; a returned value is ignored{advice}"
    where = f"component {component_id!r}: {owner.__name__}.{method}"
    raise TopologyError(f"{where} {fault}", component=component_id, field=method)


@functools.lru_cache(maxsize=256)
def _method_of(component: Any, name: str) -> Method | None:
    for base in component.__mro__:
        kind = CALLED.get(_path(base))
        if kind is not None and name in kind.methods:
            return kind.methods[name]
    return None


def _path(base: type) -> str:
    return f"{base.__module__}.{base.__qualname__}"


def _fault(method: Method, kind: Kind, called: Any) -> str:
    """Return the reason why a call would not run the method; "" if it would."""
    if not callable(called):
        return f"is {called!r}; a method was expected"
    is_coroutine, is_async_generator = _is(inspect.iscoroutinefunction, called), _is(inspect.isasyncgenfunction, called)
    if method.result in (Result.AWAITED, Result.AWAITED_ROWS):
        if is_coroutine or (is_async_generator and method.result is Result.AWAITED_ROWS):
            return ""
        return "is not 'async def', and it is awaited: write 'async def', or derive from BasicBolt or Bolt"
    if is_coroutine or is_async_generator:
        return f"is 'async def', and nothing awaits it: {kind.waiting}"
    if method.result in (Result.ROWS, Result.YIELDS) or not is_generator(called):
        return ""
    if method.result is Result.EMITS:
        return f"has a 'yield', so a call runs none of its code: emit instead, 'for value in …: {method.instead}'"
    return "has a 'yield', so a call runs none of its code: write it without 'yield'"


def is_generator(called: Any) -> bool:
    """True if a call returns a generator and runs nothing."""
    return _is(inspect.isgeneratorfunction, called)


def _is(judge: Callable[[Any], bool], called: Any) -> bool:
    """True if ``judge`` accepts a function or a callable object; ``inspect`` looks through methods and partials."""
    if judge(called):
        return True
    inner = called
    while hasattr(inner, "func") and not inspect.isroutine(inner):  # of functools.partial
        inner = inner.func
    return not isinstance(inner, type) and not inspect.isroutine(inner) and judge(getattr(inner, "__call__", None))  # noqa: B004


def _arguments(base: type, name: str) -> list[str]:
    return list(inspect.signature(getattr(base, name)).parameters)[1:]


def _misfit(base: type, name: str, called: Any) -> str:
    """Return the reason why a method does not accept its arguments; "" if it does, or if that is unknown."""
    wanted = _arguments(base, name)
    try:
        inspect.signature(called, follow_wrapped=False).bind(*wanted)
    except TypeError:
        taken = inspect.signature(called, follow_wrapped=False)
        names = ", ".join(part.split(":")[0].split("->")[0] for part in map(str, taken.parameters.values()))
        hint = (
            "; the collector is self.collector" if "collector" in taken.parameters and "collector" not in wanted else ""
        )
        return f"takes ({names}), but {base.__name__}.{name} is called with ({', '.join(wanted)}){hint}"
    except ValueError:  # C functions need not have a signature
        pass
    return ""


def _is_result_of_emit(returned: object, is_target: Callable[[int], bool]) -> bool:
    if isinstance(returned, tuple):
        return all(type(task) is int and is_target(task) for task in returned)
    return isinstance(returned, int)


def _article(returned: object) -> str:
    name = type(returned).__name__.replace("_", " ")
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
