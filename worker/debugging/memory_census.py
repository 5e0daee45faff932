"""The objects in this process's memory: number and size by type, and the largest with what holds them.

The garbage collector knows objects that can refer to others. Those that cannot (texts, numbers, arrays) are found
through them, and belong to each of the n objects that refer to them with a share of 1/n. So nothing needs to be
remembered of an object that was counted, and the census takes 8 bytes of memory for an object of the collector's.

Sizes are those of ``sys.getsizeof``: of memory that a C library holds (Arrow, gRPC), the interpreter knows nothing.

    list of all objects   no other thread runs: some 10 ms for a million of objects
    the census            other threads take turns with it, for at most the given time
"""

from __future__ import annotations

import gc
import heapq
import itertools
import sys
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .memory_report import Census, Large, Use

MAX_LARGEST: Final = 20
_MAX_ITEMS: Final = 10_000
"""Of a dict, set or deque with more items, so many are looked at, and count for all."""
_MAX_LISTED: Final = 10_000_000
"""Of a list or tuple with more items, none is looked at: asking for them takes as much memory as the list."""
_MAX_DEPTH: Final = 8
_CHECK_EVERY: Final = 1024
_CONTAINERS: Final = (list, tuple, dict, set, frozenset, deque, Counter, OrderedDict, defaultdict)
_MAX_HOLDERS: Final = 3


def take_census(budget_s: float) -> Census:
    """Count the objects of this process for at most about ``budget_s`` seconds. Runs in any thread."""
    began_s = time.monotonic()
    gc.unfreeze()  # else the collector does not tell what was there when the worker had started
    objects = gc.get_objects()
    listed_s = time.monotonic()
    taking = _Taking()
    ends_s = began_s + budget_s / 2
    reached = 0
    for reached, one in enumerate(objects, start=1):
        taking.add(one)
        if reached % _CHECK_EVERY == 0 and time.monotonic() > ends_s:
            break
    largest = taking.largest
    holders = _holders(objects, [one for _, _, one in largest], began_s + budget_s)
    return Census(
        {_name(type_): use for type_, use in taking.uses()},
        [Large(_name(type(one)), size, _items(one), sorted(holders.get(id(one), ()))) for size, _, one in largest],
        reached / max(1, len(objects)),
        listed_s - began_s,
        time.monotonic() - began_s,
    )


@dataclass(slots=True)
class _Taking:
    """A census under way."""

    _uses: dict[int, tuple[type, Use]] = field(default_factory=dict)  # by the id of the type
    _heap: list[tuple[int, int, Any]] = field(default_factory=list)
    _ids: set[int] = field(default_factory=set)  # of the objects in the heap
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _own_references: int = 0  # those that the census itself has to an object while it asks for their number

    def __post_init__(self) -> None:
        holder = [bytes(1000)]  # one object, which one other refers to
        for referent in gc.get_referents(holder):
            self._own_references = sys.getrefcount(referent) - 1

    @property
    def largest(self) -> list[tuple[int, int, Any]]:
        return sorted(self._heap, reverse=True)

    def uses(self) -> Iterable[tuple[type, Use]]:
        return self._uses.values()

    def add(self, one: Any) -> None:
        """Count an object of the collector, and what only it can tell of."""
        self._count(one, 1.0)
        self._add_referents(one, 1.0, 0)

    def _add_referents(self, one: Any, share: float, depth: int) -> None:
        referents, scale = _referents(one)
        for referent in referents:
            if not gc.is_tracked(referent):
                references = max(1, sys.getrefcount(referent) - self._own_references)
                self._add_referent(referent, share * scale / references, depth)

    def _add_referent(self, one: Any, share: float, depth: int) -> None:
        self._count(one, share)
        if type(one) in (tuple, dict) and depth < _MAX_DEPTH:  # one that holds nothing but objects without references
            self._add_referents(one, share, depth + 1)

    def _count(self, one: Any, share: float) -> None:
        kind = type(one)
        try:
            size = sys.getsizeof(one)
        except Exception:  # a __sizeof__ of a user
            size = 0
        known = self._uses.get(id(kind))
        if known is None:
            known = self._uses[id(kind)] = (kind, Use())
        use = known[1]
        use.count += share
        use.bytes += size * share
        if len(self._heap) < MAX_LARGEST or size > self._heap[0][0]:
            self._remember(one, size)

    def _remember(self, one: Any, size: int) -> None:
        if id(one) in self._ids or one is self._uses or one is self._heap or one is self._ids:
            return
        entry = (size, next(self._numbers), one)
        self._ids.add(id(one))
        if len(self._heap) < MAX_LARGEST:
            heapq.heappush(self._heap, entry)
        else:
            self._ids.discard(id(heapq.heapreplace(self._heap, entry)[2]))


def _referents(one: Any) -> tuple[Iterable[Any], float]:
    """Return the objects that an object refers to, or a part of them and how many times as many there are."""
    items = _items(one) or 0
    if items <= _MAX_ITEMS:
        return gc.get_referents(one), 1.0
    if isinstance(one, list | tuple):  # never iterated over: C code is possibly about to fill one with its items
        return (gc.get_referents(one) if items <= _MAX_LISTED else ()), 1.0
    try:
        if isinstance(one, dict):
            part: list[Any] = list(itertools.chain.from_iterable(itertools.islice(one.items(), _MAX_ITEMS)))
        else:
            part = list(itertools.islice(one, _MAX_ITEMS))
    except RuntimeError:  # it has changed meanwhile
        return (), 1.0
    return part, items / _MAX_ITEMS


def _items(one: Any) -> int | None:
    """Return the length of a container, or of bytes and texts; None for other objects, whose code is not called."""
    return len(one) if type(one) in _CONTAINERS or type(one) in (bytes, bytearray, str) else None


def _holders(objects: Sequence[Any], large: Sequence[Any], ends_s: float) -> dict[int, set[str]]:
    """Return the types of objects that refer to the large objects, by their ids."""
    sought = {id(one) for one in large}
    found: dict[int, set[str]] = {}
    for number, one in enumerate(objects):
        if number % _CHECK_EVERY == 0 and time.monotonic() > ends_s:
            break
        if (_items(one) or 0) > _MAX_ITEMS or one is objects or one is large:
            continue
        for referent in gc.get_referents(one):
            if id(referent) in sought and len(names := found.setdefault(id(referent), set())) < _MAX_HOLDERS:
                names.add(_place(one, referent))
    return found


def _place(holder: Any, held: Any) -> str:
    """Return the type of a holder; of a dict with the key, which is possibly the name of an attribute."""
    if type(holder) is not dict:
        return _name(type(holder))
    try:
        key = next((key for key, value in holder.items() if value is held and type(key) is str), None)
    except RuntimeError:  # it has changed meanwhile
        key = None
    return "dict" if key is None else f"dict[{key[:60]!r}]"


def _name(kind: type) -> str:
    try:
        module, name = kind.__module__, str(kind.__qualname__)
        return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name
    except Exception:  # of a metaclass of a user
        return "?"
