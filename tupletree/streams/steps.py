"""Narrow operators as data: what the plan makes of them, and what ``code`` turns into one function. Picklable."""

from __future__ import annotations  # pure

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tupletree.streams.graph import Kind
from tupletree.streams.layout import Layout


@dataclass(frozen=True, slots=True)
class Step:
    """A narrow operator, followed by others. ``argument``: its function; of a branch, its predicates."""

    kind: Kind
    argument: Any
    then: tuple[Next, ...] = ()


@dataclass(frozen=True, slots=True)
class Emit:
    """The end of a path: the element is emitted on a stream, in a layout."""

    stream: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Combine:
    """The end of a path: the element is folded into the partial value of its key, which is emitted later."""

    stream: str
    fold: Fold


Next = Step | Emit | Combine


@dataclass(frozen=True, slots=True)
class Fold:
    """An aggregation: a value per key, to which elements are added.

    Attributes:
        initial: makes the value of a new key. None: the first element is the value.
        add: returns the value with one element added. None: adds up with ``+``.
        merge: returns one value for two; None: it cannot be done, so that partial values are impossible.
        is_count: elements count as 1.
    """

    initial: Callable[[], Any] | None
    add: Callable[[Any, Any], Any] | None
    merge: Callable[[Any, Any], Any] | None
    is_count: bool = False

    @property
    def is_sum(self) -> bool:
        """True if values are added up with ``+``."""
        return self.add is None


@dataclass(frozen=True, slots=True)
class Chain:
    """All narrow operators of one component: a tree whose root is the component's input or its own result.

    ``sends_watermarks``: the component sends its progress in event time.
    """

    layout: Layout
    then: tuple[Next, ...]
    sends_watermarks: bool = False

    @property
    def emits(self) -> dict[str, Layout]:
        """The streams that the chain emits on, with their layouts."""
        return emits_of(self.then)

    @property
    def gives_times(self) -> bool:
        """True if event times are given in it."""
        return _gives_times(self.then)

    @property
    def combines(self) -> dict[str, Fold]:
        """The streams of partial values, with their aggregations."""
        found: dict[str, Fold] = {}
        _combines(self.then, found)
        return found


def emits_of(then: Sequence[Next]) -> dict[str, Layout]:
    """Return the streams that steps emit on, with their layouts."""
    found: dict[str, Layout] = {}
    _collect(then, found)
    return found


def passes_on(then: Sequence[Next]) -> bool:
    """Return True if steps hand on an element itself, to others or to a function that may keep it.

    What ``map`` and ``flat_map`` return counts as something new.
    """
    for one in then:
        if isinstance(one, Emit):
            if one.layout.has_value:
                return True
        elif isinstance(one, Combine):
            if not one.fold.is_sum:
                return True
        elif one.kind in (Kind.PEEK, Kind.PRINT) or (one.kind not in (Kind.MAP, Kind.FLAT_MAP) and passes_on(one.then)):
            return True
    return False


def _collect(then: Sequence[Next], found: dict[str, Layout]) -> None:
    for one in then:
        if isinstance(one, Emit):
            found[one.stream] = one.layout
        elif isinstance(one, Combine):
            found[one.stream] = Layout(has_key=True)
        else:
            _collect(one.then, found)


def _gives_times(then: tuple[Next, ...]) -> bool:
    steps = [one for one in then if isinstance(one, Step)]
    return any(one.kind is Kind.EVENT_TIME or _gives_times(one.then) for one in steps)


def gives_other_times(then: tuple[Next, ...]) -> bool:
    """Return true if all elements get other event times in further steps, before anyone sees those that they have."""
    return bool(then) and all(
        isinstance(one, Step) and (one.kind is Kind.EVENT_TIME or gives_other_times(one.then)) for one in then
    )


def _combines(then: tuple[Next, ...], found: dict[str, Fold]) -> None:
    for one in then:
        if isinstance(one, Combine):
            found[one.stream] = one.fold
        elif isinstance(one, Step):
            _combines(one.then, found)
