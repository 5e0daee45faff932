"""A chain in the executor of its spout does what the same functions do as bolts, whatever fails on the way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hand_driven import HandDriven, apply
from hypothesis import given
from hypothesis import strategies as st
from local_chains import Through
from local_components import Log, Shared

from tupletree import Backoff, BasicBolt, FailedException, Message, ReliableSpout, Topology, TopologyBuilder
from tupletree.acker.ledger import Ledger
from tupletree.streams.chained_spout import chained

ATTEMPTS = 3
RETRY = Backoff(first_s=1, factor=1, max_attempts=ATTEMPTS)
FIELDS = ["number", "value", "is_first"]
"""``is_first``: true for one of the rows made of a message. Only this row fails, so that an attempt fails once, whether
an operator stops at the first failure or goes on with the next row."""


@dataclass(frozen=True)
class Operator:
    """map, filter or flat_map. Messages whose number is in ``fails`` fail in it that many times; -1: finally."""

    kind: str
    by: int
    fails: tuple[tuple[int, int], ...]

    def __call__(self, row: Sequence[int], failures: Counter[Any]) -> list[list[int]]:
        number, value, is_first = row
        times = dict(self.fails).get(number, 0) if is_first else 0
        if times and (times < 0 or failures[self, number] < times):
            failures[self, number] += 1
            raise FailedException(f"{self.kind} of {number}", retry=times > 0)
        if self.kind == "map":
            return [[number, value * 3 + self.by, is_first]]
        if self.kind == "filter":
            return [list(row)] if value % self.by else []
        return [[number, value + more, is_first and not more] for more in range(self.by % 4)]


class Failures(Shared, Counter[Any]):
    """How often an operator failed a message."""


class Numbers(ReliableSpout):
    outputs = FIELDS

    def __init__(self, numbers: Sequence[int], finished: Log) -> None:
        self.numbers = numbers
        self.log = finished

    def read(self) -> Iterator[Message]:
        yield from (Message([number, number, True], id=number) for number in self.numbers)

    def finished(self, id: Any) -> None:
        self.log.append(id)


class Step(BasicBolt):
    outputs = FIELDS

    def __init__(self, operator: Operator, failures: Failures) -> None:
        self.operator = operator
        self.failures = failures

    def execute(self, tup: Any, collector: Any) -> None:
        for row in self.operator(tup.values, self.failures):
            collector.emit(row)


class Sink(BasicBolt):
    def __init__(self, log: Log) -> None:
        self.log = log

    def execute(self, tup: Any, collector: Any) -> None:
        self.log.append(tup.values)


def in_turn(operators: Sequence[Operator], failures: Failures, row: Sequence[int]) -> Iterable[list[int]]:
    rows = [list(row)]
    for operator in operators:
        rows = [made for one in rows for made in operator(one, failures)]
    return rows


class Outcome:
    """The end of a run: what arrived, what was given up, which messages the source was told of."""

    def __init__(self, numbers: Sequence[int], operators: Sequence[Operator], *, is_fused: bool) -> None:
        self.arrived, self.letters, self.finished, self.failures = Log(), Log(), Log(), Failures()
        self.topology = self._topology(Numbers(numbers, self.finished), operators, is_fused)
        self.hand = HandDriven(self.topology)
        ledger, reasons = Ledger(), dict[int, bytes]()
        for _ in range(20 * (len(operators) + 2) * (ATTEMPTS * len(operators) + 1)):
            worked = [self.hand.step(component) for component in self.topology.components]
            updates = self.hand.take_updates()
            reasons |= updates.reasons
            self.hand.tell_verdicts(apply(ledger, updates), reasons)
            if not any(worked):
                self.hand.now_s += 1
            if len(self.finished) == len(numbers):
                return
        raise AssertionError(f"only {len(self.finished)} of {len(numbers)} messages ended")

    def _topology(self, numbers: Numbers, operators: Sequence[Operator], is_fused: bool) -> Topology:
        builder = TopologyBuilder()
        failures = self.failures
        if is_fused:
            through = Through(lambda row: in_turn(operators, failures, row))
            source: Any = builder.set_spout("numbers", chained(numbers, through, {"default": FIELDS}))
        else:
            source = builder.set_spout("numbers", numbers)
        source.set_retry(RETRY).set_dead_letters("rejected")
        builder.set_bolt("letters", Sink(self.letters)).shuffle_grouping(source, "rejected")
        for at, operator in enumerate([] if is_fused else operators):
            source = builder.set_bolt(f"step{at}", Step(operator, failures)).shuffle_grouping(source)
        builder.set_bolt("sink", Sink(self.arrived)).shuffle_grouping(source)
        return builder.create_topology()

    @property
    def given_up(self) -> dict[int, tuple[int, str]]:
        """By message: its failed attempts, and the last error."""
        return {letter[0]: (letter[3], letter[6]) for letter in self.letters}

    def rows(self, of: Iterable[int]) -> Counter[tuple[int, ...]]:
        return Counter(tuple(row) for row in self.arrived if row[0] in of)


numbers = st.lists(st.integers(0, 9), max_size=8, unique=True)
fails = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([-1, 1, 2, 5])), max_size=2).map(tuple)
operators = st.lists(
    st.builds(Operator, st.sampled_from(["map", "filter", "flat_map"]), st.integers(2, 5), fails), max_size=4
)


@given(numbers, operators)
def test_fused_equals_unfused(numbers: list[int], operators: list[Operator]) -> None:
    fused = Outcome(numbers, operators, is_fused=True)
    apart = Outcome(numbers, operators, is_fused=False)
    assert sorted(fused.finished) == sorted(apart.finished) == sorted(numbers)
    assert fused.given_up == apart.given_up
    lost = set(fused.given_up)
    clean = set(numbers) - lost - {number for _, number in apart.failures}
    failed_once = set(numbers) - lost - clean
    truth = Counter(
        tuple(row) for number in clean | failed_once for row in in_turn(operators, Failed(), (number, number, True))
    )
    assert fused.rows(clean | failed_once) == truth, "a failed attempt leaves nothing"
    assert fused.rows(lost) == Counter()
    assert apart.rows(clean) == fused.rows(clean)
    assert set(apart.rows(failed_once)) == set(fused.rows(failed_once)), "apart, an attempt can leave some of its rows"


class Failed(Failures):
    """Nothing fails any more."""

    def __missing__(self, key: Any) -> float:  # type: ignore[override]
        return math.inf
