"""Routing of tuples to tasks: the nine groupings, compiled for one emitting task.

A grouping is compiled once, when a task is built, into a *chooser*: a function from the values of a tuple to one target
(most groupings) or to several (all, custom). A chooser returns elements of ``targets`` unchanged, so that the hot path
gets the buffer to append to instead of a task id to look up.

A stream has one chooser per subscribing component. Fields groupings agree across tasks and hosts: the target is
``hash(values of the fields) mod number of tasks`` over the ascending task ids. The hash is of the canonical encoding.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Protocol

from tupletree._compiled import IS_COMPILED
from tupletree._wire.value_hash import hash_values
from tupletree.errors import EmitError

from .key_hash import KeyHash

Many = Callable[[Sequence[Any]], Sequence[Any]]
"""A chooser of any number of targets."""

KEYS_REMEMBERED = 65_536

WHOLE = 64
"""The share of a target that takes all of its turns."""


class One:
    """A chooser of one target."""

    def choose(self, values: Sequence[Any]) -> Any:
        """Return the target of a tuple with these values."""
        raise NotImplementedError

    def __call__(self, values: Sequence[Any]) -> Any:
        return self.choose(values)


class Watched(One):
    """Wrapper of a chooser that shows some tuples to ``see``, which returns the number of tuples to skip next."""

    def __init__(self, inner: One, see: Callable[[Sequence[Any], Any], int], passed_over: int) -> None:
        self._inner = inner
        self._see = see
        self._passed_over = passed_over

    def choose(self, values: Sequence[Any]) -> Any:
        target = self._inner.choose(values)
        if self._passed_over > 0:
            self._passed_over -= 1
        else:
            self._passed_over = self._see(values, target)
        return target


class Randomness(Protocol):
    """The part of ``random.Random`` that routing uses."""

    def shuffle(self, x: list[Any]) -> None: ...


class Fixed(One):
    """Always the same target."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def choose(self, values: Sequence[Any]) -> Any:
        return self._target


class Shares:
    """The number of turns that each target of a shuffle takes out of ``WHOLE``. At least one target takes all.

    ``is_even``: all targets take all of their turns.
    """

    def __init__(self, count: int) -> None:
        self.is_even = True
        self.of = [WHOLE] * count

    def set(self, of: list[int]) -> None:
        """Replace the shares, by the position of each target in ascending order."""
        self.of = of
        self.is_even = min(of) == WHOLE


class Shuffled(One):
    """Every target in turn. A target with a smaller share passes some of its turns to the next one.

    ``places``: the position of each target of ``order`` among the shares.
    """

    def __init__(self, order: list[Any], places: list[int]) -> None:
        self._order = order
        self._places = places
        self._next = 0
        self._saved = [0] * len(order)  # what each target has saved up for its next turn
        self._shares = Shares(len(order))

    def share_by(self, shares: Shares) -> None:
        """Follow these shares from now on."""
        self._shares = shares

    def choose(self, values: Sequence[Any]) -> Any:
        at = self._next
        if not self._shares.is_even:
            at = self._whose_turn(at)
        self._next = at + 1 if at + 1 < len(self._order) else 0
        return self._order[at]

    def _whose_turn(self, at: int) -> int:
        """Return the first target from ``at`` on that takes its turn."""
        of, saved, places = self._shares.of, self._saved, self._places
        count = len(places)
        for _ in range(count):
            share = saved[at] + of[places[at]]
            if share >= WHOLE:
                saved[at] = share - WHOLE
                return at
            saved[at] = share
            at = at + 1 if at + 1 < count else 0
        return at


class ByFields(One):
    """Chooser of a fields grouping.

    The targets of recent keys are cached, so that only a new key is hashed. When compiled, short strings and integers
    are hashed each time: hashing costs less than a lookup, and a new key costs no more than a known one.
    """

    def __init__(self, targets: Sequence[Any], positions: Sequence[int], component: str, names: Sequence[str]) -> None:
        self._targets = list(targets)
        self._position = positions[0] if len(positions) == 1 else -1
        self._key_of = itemgetter(*positions)
        self._component = component
        self._names = names
        self._remembered: dict[Any, Any] = {}
        self._hash = KeyHash() if IS_COMPILED and len(positions) == 1 else None

    def choose(self, values: Sequence[Any]) -> Any:
        at = self._position
        key = values[at] if at >= 0 else self._key_of(values)
        if self._hash is not None:
            hashed = self._hash.of(key)
            if hashed >= 0:
                return self._targets[hashed % len(self._targets)]
        try:
            target = self._remembered.get(key)
        except TypeError:  # a list or dict is a valid field, but not hashable
            return self._hashed(key)
        if target is None:
            target = self._hashed(key)
            if len(self._remembered) >= KEYS_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = target
        return target

    def _hashed(self, key: Any) -> Any:
        hashed = hash_values([key] if self._position >= 0 else key, self._component, self._names)
        return self._targets[hashed % len(self._targets)]


class ByPartialKey(One):
    """Chooser of a partial key grouping: of two candidate targets, this task picks the one it has sent fewer tuples to.

    Source: Nasir et al., "The Power of Both Choices", ICDE 2015. The candidates are the same in every task.
    """

    def __init__(self, targets: Sequence[Any], positions: Sequence[int], component: str, names: Sequence[str]) -> None:
        self._targets = list(targets)
        self._positions = list(positions)
        self._component = component
        self._names = names
        self._sent = [0] * len(targets)
        self._hash = KeyHash() if IS_COMPILED and len(positions) == 1 else None

    def choose(self, values: Sequence[Any]) -> Any:
        count, sent = len(self._targets), self._sent
        hashed = self._hash.of(values[self._positions[0]]) if self._hash is not None else -1
        if hashed < 0:
            key = [values[position] for position in self._positions]
            hashed = hash_values(key, self._component, self._names)
        mixed = _mix(hashed)
        first = (mixed & 0xFFFFFFFF) % count
        second = (first + 1 + (mixed >> 32) % (count - 1)) % count
        chosen = first if sent[first] <= sent[second] else second
        sent[chosen] += 1
        return self._targets[chosen]


def shuffle(targets: Sequence[Any], rng: Randomness) -> One:
    """Return a chooser of every target in turn, in random order. Of n tuples, each of n targets gets one."""
    places = list(range(len(targets)))
    rng.shuffle(places)
    order = [targets[place] for place in places]
    return Fixed(order[0]) if len(order) == 1 else Shuffled(order, places)


def fixed(target: Any) -> One:
    """Return a chooser of always the same target."""
    return Fixed(target)


def global_(targets: Sequence[Any]) -> One:
    """Return a chooser of the target with the lowest task id; ``targets`` are ascending."""
    return Fixed(targets[0])


def all_(targets: Sequence[Any]) -> Many:
    """Return a chooser of all targets."""
    everyone = list(targets)
    return lambda values: everyone


def fields(targets: Sequence[Any], positions: Sequence[int], component: str, names: Sequence[str]) -> One:
    """Return a chooser by the hash of the fields' values."""
    return Fixed(targets[0]) if len(targets) == 1 else ByFields(targets, positions, component, names)


def partial_key(targets: Sequence[Any], positions: Sequence[int], component: str, names: Sequence[str]) -> One:
    """Return a chooser, between two candidate targets, of the one that this task has sent fewer tuples to."""
    return Fixed(targets[0]) if len(targets) == 1 else ByPartialKey(targets, positions, component, names)


def _mix(value: int) -> int:
    """Spread 32 bits over 64 (the finalizer of MurmurHash3), so that the halves can be used as two hashes."""
    value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCD & 0xFFFFFFFFFFFFFFFF
    value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53 & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 33)


def custom(
    choose_tasks: Callable[[int, Sequence[Any]], Sequence[int]],
    task_id: int,
    targets: dict[int, Any],
    component: str,
    stream: str,
) -> Many:
    """Return a chooser of the targets that a user's grouping chooses.

    Raises, when called:
        EmitError: the grouping chose a task that does not subscribe, or returned no tasks at all.
    """

    def choose(values: Sequence[Any]) -> Sequence[Any]:
        tasks = choose_tasks(task_id, values)
        try:
            return [targets[task] for task in tasks]
        except KeyError as error:
            raise EmitError(
                f"the custom grouping on stream {stream!r} of component {component!r} chose task {error}, which is "
                f"not one of the subscribing tasks {sorted(targets)}"
            ) from None
        except TypeError:
            raise EmitError(
                f"the custom grouping on stream {stream!r} of component {component!r} returned {tasks!r}: return a "
                f"list of subscribing tasks, of {sorted(targets)}"
            ) from None

    return choose


def one_of_many(choosers: Sequence[Many]) -> Many:
    """Combine the choosers of a stream, one per subscribing component, into one."""
    if len(choosers) == 1:
        return choosers[0]
    return lambda values: [target for choose in choosers for target in choose(values)]


def as_many(choose: One) -> Many:
    """Turn a chooser of one target into a chooser of several."""
    return lambda values: (choose.choose(values),)
