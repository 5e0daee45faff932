"""Topologies in which some numbers cannot be processed, and what came out of them: files, or states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numbers_topology import append

from tupletree import (
    Backoff,
    BasicBolt,
    BasicStatefulBolt,
    FailedException,
    Message,
    ReliableSpout,
    TopologyBuilder,
)

RETRY = Backoff(first_s=0.2, factor=2, max_s=1, max_attempts=3)


class Numbers(ReliableSpout):
    outputs = ("number",)

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def read(self) -> Any:
        for number in range(self.context.task_index, self.limit, 2):
            yield Message([number], id=number)


class Step(BasicBolt):
    outputs = ("number",)

    def execute(self, tup: Any, collector: Any) -> Any:
        if tup["number"] % 100 == 0:
            raise FailedException("poison")
        yield [tup["number"]]


class PositionedNumbers(ReliableSpout):
    """Numbers whose positions are they themselves. A thousand a second at most."""

    outputs = ("number",)

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def read(self) -> Any:
        first = self.context.task_index if self.position is None else self.position + 2
        for number in range(first, self.limit, 2):
            yield Message([number], position=number)
            if number % 20 < 2:
                yield from self.wait(0.02)

    def wait(self, seconds: float) -> Any:
        until_s = self.context.clock() + seconds
        while self.context.clock() < until_s:
            yield None


class CountFirst(BasicStatefulBolt):
    """Counts the first values of tuples; of letters, the first value of their rows."""

    def execute(self, tup: Any) -> None:
        self.state.add(tup["values"][0] if "values" in tup.fields else tup[0], 1)


class Append(BasicBolt):
    """Appends the first value of each tuple, and the error of a letter, to a file of its task."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = f"{directory}/{name}"

    def execute(self, tup: Any, collector: Any) -> None:
        append(f"{self.path}-{self.context.task_id}", f"{tup[0]} {tup.get('error', '')}")


def poison_topology(directory: Path, limit: int) -> Any:
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Numbers(limit), 2).set_retry(RETRY).set_dead_letters("rejected")
    step = builder.set_bolt("step", Step(), 2).shuffle_grouping(numbers)
    builder.set_bolt("sink", Append(directory, "good"), 2).shuffle_grouping(step)
    builder.set_bolt("letters", Append(directory, "letter"), 2).shuffle_grouping(numbers, "rejected")
    return builder.create_topology()


def aligned_poison_topology(limit: int, poison: set[int]) -> Any:
    """Numbers that are counted, or whose letters are counted."""

    class Refuse(BasicBolt):
        outputs = ("number",)

        def execute(self, tup: Any, collector: Any) -> Any:
            if tup["number"] in poison:
                raise FailedException("poison")
            yield [tup["number"]]

    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", PositionedNumbers(limit), 2).set_retry(RETRY).set_dead_letters("rejected")
    step = builder.set_bolt("step", Refuse(), 2).shuffle_grouping(numbers)
    builder.set_bolt("good", CountFirst(), 2).fields_grouping(step, "number")
    builder.set_bolt("letters", CountFirst(), 1).shuffle_grouping(numbers, "rejected")
    return builder.create_topology()


def lines_of(directory: Path, name: str) -> list[list[str]]:
    return [line.split() for path in directory.glob(f"{name}-*") for line in path.read_text().splitlines()]
