"""A topology in which one number in a hundred cannot be processed, and files of what came out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numbers_topology import append

from tupletree import Backoff, BasicBolt, FailedException, Message, ReliableSpout, TopologyBuilder

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


def lines_of(directory: Path, name: str) -> list[list[str]]:
    return [line.split() for path in directory.glob(f"{name}-*") for line in path.read_text().splitlines()]
