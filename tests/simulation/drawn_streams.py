"""Programs of streams drawn from a seed, and the states that they must come to, computed over lists.

    source --+-- narrow operators --+-- merge -- key_by -- aggregation or update_state --+-- another one
    source --+-- branch, side by side                                                    +-- narrow operators ...

Elements are small numbers, and every state grows with each element: so a state with a lost element is too small, and
one with a repeated element is too large.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tupletree import FailedException, Topology
from tupletree.streams import StreamBuilder
from tupletree.streams.builder import Guarantee

ELEMENTS = 24
MAX_ELEMENTS = 200
"""A stream of more elements is not multiplied, or joined with others."""

Elements = list[Any]


def more(n: int) -> int:
    return n + 1


def several(n: int) -> list[int]:
    return [n, n + 1, 1][: n % 4]


def most(n: int) -> bool:
    return n % 5 > 0


def even(n: int) -> bool:
    return n % 2 == 0


def small(n: int) -> bool:
    return n < 9


def rest(n: int) -> bool:
    return True


def added(pair: tuple[Any, int]) -> int:
    return len(repr(pair[0])) + pair[1]


def one(n: Any) -> int:
    return 1


KEYS: list[Callable[[int], Any]] = [
    lambda n: n % 4,
    lambda n: f"k{n % 3}",
    lambda n: ("k", n % 2, b"x"),
    lambda n: 7,
]


class FailsOnce:
    """Fails some elements when they first come. ``seen``: those that have come, also to workers that died."""

    def __init__(self, seen: Any) -> None:
        self.seen = seen

    def __call__(self, n: int) -> None:
        if n % 11 == 0 and n not in self.seen:
            self.seen.add(n)
            raise FailedException("not the first time")


@dataclass(frozen=True)
class Fold:
    """An aggregation. ``add``: adds it to a keyed stream; ``of``: its value for the elements of a key."""

    add: Callable[..., Any]
    of: Callable[[list[int]], int]


FOLDS = [
    Fold(lambda s, **named: s.count(**named), len),
    Fold(lambda s, **named: s.sum(**named), sum),
    Fold(lambda s, **named: s.reduce(max, **named), max),
    Fold(
        lambda s, combine, **named: s.aggregate(
            lambda: 5, lambda a, n: a + n, merge=(lambda a, b: a + b - 5) if combine else None, **named
        ),
        lambda ns: 5 + sum(ns),
    ),
]


def seen_and_passed(state: int | None, n: int) -> tuple[int, int]:
    """Count in the state, and pass each element on."""
    return (state or 0) + 1, n


class DrawnProgram:
    """One program. ``rng``: the generator to draw from. ``seen``: an external set, for functions that fail.

    Attributes:
        expected: the states by component and key.
    """

    def __init__(self, rng: random.Random, seen: Any) -> None:
        self.expected: dict[str, dict[Any, int]] = {}
        self._rng = rng
        self._seen = seen
        self._builder = StreamBuilder(parallelism=rng.choice([1, 2, 3]))
        self._plain: list[tuple[Any, Elements]] = [self._source(number) for number in range(rng.choice([1, 1, 2]))]
        self._keyed: list[tuple[Any, Elements]] = []
        for _ in range(rng.randrange(2, 6)):
            self._narrow()
        for _ in range(rng.randrange(2, 5)):
            self._stateful()

    def topology(self, guarantee: Guarantee) -> Topology:
        """Return the program as a topology."""
        return self._builder.topology(guarantee)

    def _source(self, number: int) -> tuple[Any, Elements]:
        elements = list(range(number, number + ELEMENTS))
        return self._builder.source(elements, name=f"source{number}"), elements

    def _parallelism(self) -> int | None:
        return self._rng.choice([None, None, None, 1, 2])

    def _narrow(self) -> None:
        """Add a narrow operator, or several, behind any stream without keys."""
        stream, elements = self._rng.choice(self._plain)
        width = self._parallelism()
        match self._rng.randrange(7):
            case 0:
                made = [(stream.map(more, parallelism=width), list(map(more, elements)))]
            case 1 if len(elements) < MAX_ELEMENTS:
                made = [(stream.flat_map(several, parallelism=width), [n for e in elements for n in several(e)])]
            case 2:
                made = [(stream.filter(most, parallelism=width), list(filter(most, elements)))]
            case 3:
                first, second = stream.branch(small, even)
                made = [(first, [n for n in elements if small(n)])]
                made += [(second, [n for n in elements if not small(n) and even(n)])]
            case 4:
                keyed = stream.key_by(KEYS[0]).items().map(added)
                made = [(keyed, [added((KEYS[0](n), n)) for n in elements])]
            case 5:
                made = [(stream.peek(FailsOnce(self._seen), parallelism=width), elements)]
            case _:
                other, others = self._rng.choice(self._plain)
                if len(elements) + len(others) > MAX_ELEMENTS:
                    return
                made = [(stream.merge(other), elements + others)]
        self._plain += made

    def _stateful(self) -> None:
        """Add an operator with a state behind any stream, and keep what follows it for another."""
        stream, pairs = self._keyed_stream()
        groups: dict[Any, list[int]] = defaultdict(list)
        for key, n in pairs:
            groups[key].append(n)
        name, width = f"state{len(self.expected)}", self._parallelism()
        if self._rng.random() < 0.3:
            passed = stream.update_state(seen_and_passed, name=name, parallelism=width)
            self.expected[name] = {key: len(ns) for key, ns in groups.items()}
            self._keyed.append((passed, pairs))
            return
        fold, combine = self._rng.choice(FOLDS), self._rng.random() < 0.6
        table = fold.add(stream, combine=combine, name=name, parallelism=width)
        values = self.expected[name] = {key: fold.of(ns) for key, ns in groups.items()}
        if combine:  # the number of updates is unknown, and the last is the largest
            self._largest(table, values)
        else:
            self._keyed.append((table.map(one), [(key, 1) for key, ns in groups.items() for _ in ns]))

    def _largest(self, table: Any, values: dict[Any, int]) -> None:
        if self._rng.random() < 0.5:
            name = f"state{len(self.expected)}"
            table.reduce(max, name=name, combine=self._rng.random() < 0.5)
            self.expected[name] = dict(values)

    def _keyed_stream(self) -> tuple[Any, Elements]:
        if self._keyed and self._rng.random() < 0.5:
            stream, pairs = self._rng.choice(self._keyed)
            if self._rng.random() < 0.3:
                return stream.filter(most), [(key, n) for key, n in pairs if most(n)]
            return stream, pairs
        stream, elements = self._rng.choice(self._plain)
        key = self._rng.choice(KEYS)
        keyed = stream.key_by(key), [(key(n), n) for n in elements]
        self._keyed.append(keyed)
        return keyed


class FixedProgram:
    """A count by key whose elements are combined, and some fail when they first come."""

    def __init__(self, seen: Any) -> None:
        elements = range(2 * ELEMENTS)
        self._builder = StreamBuilder(parallelism=2)
        stream = self._builder.source(list(elements), name="source").peek(FailsOnce(seen))
        stream.key_by(KEYS[0]).count(name="state")
        self.expected = {"state": Counter(map(KEYS[0], elements))}

    def topology(self, guarantee: Guarantee) -> Topology:
        """Return the program as a topology."""
        return self._builder.topology(guarantee)
