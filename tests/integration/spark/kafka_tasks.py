"""The parts of a KafkaTopics as tasks of a topology use them: what is emitted and reported, and batch after batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tupletree.attempt import TransactionAttempt, first_attempt
from tupletree.component import TopologyContext
from tupletree.errors import FailedException
from tupletree.spark.source import Source
from tupletree.testing.wait import wait_until
from tupletree.transactional.bolts import BatchCollector

R = TypeVar("R")

CONTEXT = TopologyContext(
    topology_id="words-1", component_id="source", task_id=1, tasks={"source": [1]}, sources={}, targets={}, conf={}
)


def attempt(txid: int, number: int = 0) -> TransactionAttempt:
    return TransactionAttempt(txid, first_attempt(1) + number)


class Kept(BatchCollector):
    """Keeps the splits that are emitted, and the sentences that are reported."""

    def __init__(self) -> None:
        self.splits: list[Any] = []
        self.errors: list[str] = []

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        self.splits.append(values[1])
        return (2,)

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = "default") -> int:
        return sum(len(self.emit(row, stream)) for row in rows)

    def report_error(self, error: BaseException) -> None:
        self.errors.append(str(error))


@contextmanager
def coordinator_of(source: Source) -> Iterator[Any]:
    made = source.spout().coordinator({}, CONTEXT)  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        made.close()


@contextmanager
def emitter_of(source: Source) -> Iterator[Any]:
    made = source.spout().emitter({}, CONTEXT)  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        made.close()


def once_it_works(call: Callable[[], R]) -> R:
    """What a call returns, which is made again while it raises FailedException, as a coordinator's is."""

    def tried() -> tuple[R] | None:
        try:
            return (call(),)
        except FailedException:
            return None

    found = wait_until(tried, 30, what="the brokers are heard of")
    assert found is not None
    return found[0]
