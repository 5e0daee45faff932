"""Functions as components.

@spout(outputs=["line"])
def lines():
    for line in open("lines.txt"):
        yield [line]

@bolt(outputs=["word"])
def split(tup):
    for word in tup["line"].split():
        yield [word]

builder.set_spout("lines", lines)
builder.set_bolt("split", split, parallelism=4).shuffle_grouping("lines")
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from tupletree._of_function import Function, OfFunction, find
from tupletree.component import BasicBolt, BasicCollector, Outputs, Yielded
from tupletree.errors import UsageError
from tupletree.reliable_spout import Message, ReliableSpout
from tupletree.tuples import Tuple

if TYPE_CHECKING:
    from tupletree.async_bolt import AsyncBolt

_find = find  # the name in bundles that an earlier version packed
Make = Callable[[Function], "BasicBolt | AsyncBolt"]


class FunctionBolt(OfFunction, BasicBolt):
    """A basic bolt that calls a function. ``setting``: True if the function takes (tup, collector)."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> Yielded:
        result: Yielded = self.function(tup, collector) if self.setting else self.function(tup)
        return result


class FunctionSpout(OfFunction, ReliableSpout):
    """A reliable spout that reads with a generator function. ``setting``: its attributes."""

    def __init__(self, function: Function, outputs: Outputs, setting: dict[str, Any]) -> None:
        super().__init__(function, outputs, setting)
        vars(self).update(setting)

    def read(self) -> Iterator[Sequence[Any] | Message | None]:
        rows: Iterator[Any] = self.function(self) if _accepts(self.function, 1) else self.function()
        return rows


def spout(*, outputs: Outputs, **settings: Any) -> Callable[[Function], FunctionSpout]:
    """Turn a generator function into a ReliableSpout, for ``set_spout``.

    The function becomes ``read``: it takes no argument, or the spout (for ``spout.context`` and ``spout.position``),
    and yields rows or messages. ``settings``: attributes of the spout: ``retry``, ``max_ahead``, ``blocking``.

    Raises:
        UsageError: the function yields nothing or takes other arguments, or a setting is unknown.
    """
    return lambda function: _made_spout(function, outputs, settings)


def _made_spout(function: Function, outputs: Outputs, settings: dict[str, Any]) -> FunctionSpout:
    if not inspect.isgeneratorfunction(function):
        raise UsageError(f"@spout needs a generator function, not {function!r}: yield rows")
    for setting in settings:
        if setting not in _SPOUT_SETTINGS:
            known = ", ".join(_SPOUT_SETTINGS)
            raise UsageError(f"@spout of {function.__qualname__}: there is no setting {setting!r}; there are {known}")
    if not _accepts(function, 0) and not _accepts(function, 1):
        taken = ", ".join(inspect.signature(function).parameters)
        raise UsageError(
            f"@spout of {function.__qualname__}: the function takes ({taken}), but is called with () or (spout)"
        )
    return FunctionSpout(function, outputs, settings)


_SPOUT_SETTINGS = ("retry", "max_ahead", "commit_interval_s", "reconnect", "blocking")


@overload
def bolt(function: Function) -> BasicBolt | AsyncBolt: ...


@overload
def bolt(*, outputs: Outputs = (), **settings: Any) -> Make: ...


def bolt(function: Function | None = None, *, outputs: Outputs = (), **settings: Any) -> Any:
    """Turn a function into a bolt, for ``set_bolt``.

    The function takes the tuple, or the tuple and the collector. It works like ``BasicBolt.execute``: rows are yielded,
    or emitted with the collector; anchors and acks are automatic. An ``async def`` function becomes an AsyncBolt;
    ``settings`` are then the bolt's attributes: ``in_flight``, ``ordered``, ``timeout_s``, ``retry``.

    Raises:
        UsageError: the function takes other arguments, or a setting is unknown.
    """
    if function is not None:
        return _made(function, outputs, settings)
    return lambda given: _made(given, outputs, settings)


def _made(function: Function, outputs: Outputs, settings: dict[str, Any]) -> BasicBolt | AsyncBolt:
    if not inspect.isroutine(function):
        raise UsageError(f"@bolt needs a function, not {function!r}; derive a class from BasicBolt instead")
    name = function.__qualname__
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    known = ("in_flight", "ordered", "timeout_s", "retry") if is_async else ()
    for setting in settings:
        if setting not in known:
            hint = "" if is_async else "; an async function has in_flight, ordered, timeout_s and retry"
            raise UsageError(f"@bolt of {name}: there is no setting {setting!r}{hint}")
    if is_async and _accepts(function, 1):
        from tupletree._async_function import AsyncFunctionBolt  # brings asyncio, which most programs do not need

        return AsyncFunctionBolt(function, outputs, settings)
    if not is_async and _accepts(function, 1):
        return FunctionBolt(function, outputs, False)
    if not is_async and _accepts(function, 2):
        return FunctionBolt(function, outputs, True)
    taken = ", ".join(inspect.signature(function).parameters)
    wanted = "(tup)" if is_async else "(tup) or (tup, collector)"
    raise UsageError(f"@bolt of {name}: the function takes ({taken}), but is called with {wanted}")


def _accepts(function: Function, count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True
