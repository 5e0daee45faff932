"""Which tasks receive a tuple: the nine groupings, compiled for one emitting task.

A grouping is compiled once, when a task is built, into a *chooser*: a function from the values of a tuple to one target
(most groupings) or to several (all, custom). What is put in for ``targets`` is returned as it is, so that the hot path
gets the buffer to append to, not a task id to look up.

A stream has one chooser for each subscribing component. Fields groupings agree across tasks and hosts: the target is
``hash(values of the fields) mod number of tasks`` over the ascending task ids, with the hash of the canonical encoding.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from tupletree._wire.codec import hash_values
from tupletree.errors import EmitError

T = TypeVar("T")
One = Callable[[Sequence[Any]], T]
Many = Callable[[Sequence[Any]], Sequence[T]]

KEYS_REMEMBERED = 65_536


class Randomness(Protocol):
    """What routing needs of ``random.Random``."""

    def shuffle(self, x: list[Any]) -> None: ...


def shuffle(targets: Sequence[T], rng: Randomness) -> One[T]:
    """Every target in turn, in an order of this task's own. A turn of n tuples gives each of n targets one."""
    order = list(targets)
    rng.shuffle(order)
    if len(order) == 1:
        return fixed(order[0])
    take = itertools.cycle(order).__next__
    return lambda values: take()


def fixed(target: T) -> One[T]:
    """Always the same target."""
    return lambda values: target


def global_(targets: Sequence[T]) -> One[T]:
    """The target with the lowest task id; ``targets`` are ascending."""
    return fixed(targets[0])


def all_(targets: Sequence[T]) -> Many[T]:
    """Every target."""
    everyone = list(targets)
    return lambda values: everyone


def fields(targets: Sequence[T], positions: Sequence[int], component: str, names: Sequence[str]) -> One[T]:
    """The target of the fields' values. Remembers recent keys, so that a key is hashed when it is new only."""
    count = len(targets)
    if count == 1:
        return fixed(targets[0])
    key_of = itemgetter(*positions)
    single = len(positions) == 1
    remembered: dict[Any, T] = {}

    def miss(values: Sequence[Any]) -> T:
        key = key_of(values)
        target = targets[hash_values([key] if single else key, component, names) % count]
        try:
            if len(remembered) >= KEYS_REMEMBERED:
                remembered.clear()
            remembered[key] = target
        except TypeError:  # a list or dict is a fine field, only not one that a dict can remember
            pass
        return target

    def choose(values: Sequence[Any]) -> T:
        try:
            return remembered[key_of(values)]
        except (KeyError, TypeError):
            return miss(values)

    return choose


def partial_key(targets: Sequence[T], positions: Sequence[int], component: str, names: Sequence[str]) -> One[T]:
    """Of the two candidate targets of the fields' values, the one that this task has sent less to.

    Source: Nasir et al., "The Power of Both Choices", ICDE 2015. The candidates are the same in every task.
    """
    count = len(targets)
    if count == 1:
        return fixed(targets[0])
    key_of = itemgetter(*positions)
    single = len(positions) == 1
    sent = [0] * count

    def choose(values: Sequence[Any]) -> T:
        key = key_of(values)
        mixed = _mix(hash_values([key] if single else key, component, names))
        first = (mixed & 0xFFFFFFFF) % count
        second = (first + 1 + (mixed >> 32) % (count - 1)) % count
        chosen = first if sent[first] <= sent[second] else second
        sent[chosen] += 1
        return targets[chosen]

    return choose


def _mix(value: int) -> int:
    """Spread 32 bits over 64 (the finalizer of MurmurHash3), so that the halves may be used as two hashes."""
    value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCD & 0xFFFFFFFFFFFFFFFF
    value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53 & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 33)


def custom(
    choose_tasks: Callable[[int, Sequence[Any]], Sequence[int]],
    task_id: int,
    targets: dict[int, T],
    component: str,
    stream: str,
) -> Many[T]:
    """The targets that a user's grouping names.

    Raises, when called:
        EmitError: the grouping named a task that does not subscribe.
    """

    def choose(values: Sequence[Any]) -> Sequence[T]:
        tasks = choose_tasks(task_id, values)
        try:
            return [targets[task] for task in tasks]
        except KeyError as error:
            raise EmitError(
                f"the custom grouping on stream {stream!r} of component {component!r} chose task {error}, which is "
                f"not one of the subscribing tasks {sorted(targets)}"
            ) from None

    return choose


def one_of_many(choosers: Sequence[Many[T]]) -> Many[T]:
    """All choosers of a stream as one: each subscribing component gets its share."""
    if len(choosers) == 1:
        return choosers[0]
    return lambda values: [target for choose in choosers for target in choose(values)]


def as_many(choose: One[T]) -> Many[T]:
    """A chooser of one target as a chooser of several."""
    return lambda values: (choose(values),)
