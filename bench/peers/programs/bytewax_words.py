"""Word count on bytewax, in three ways. Started by ``python -m bytewax.run``, with one worker per process.

*idiomatic*: flat_map, key_on and stateful_map, like the word count in its documentation. *batched*: the same stream
through flat_map_batch and stateful_batch, which pass lists of records to Python. *combined*: the counts of a batch are
added up before the exchange, so that far fewer records cross it.
"""

# bytewax is installed only in this program's environment.
# mypy: disable-error-code="import-not-found, misc, no-any-return, no-untyped-call"

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from bench.peers.programs import marks


class Sentences(FixedPartitionedSource):
    """A source with one partition per worker. A partition's state is its position, so recovery can resume it."""

    def __init__(self, settings: marks.Settings) -> None:
        self.settings = settings

    def list_parts(self) -> list[str]:
        return [str(part) for part in range(self.settings.parallelism)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Part:
        return Part(self.settings, int(for_part), resume_state or 0)


class Part(StatefulSourcePartition):
    """A partition that yields sentences in batches, without a pause."""

    def __init__(self, settings: marks.Settings, part: int, position: int) -> None:
        self.directory = settings.marks
        self.sentences = settings.sentences(part, settings.parallelism)
        self.batch_size = settings.options["batch_size"]
        self.position = position
        self.is_first = True

    def next_batch(self) -> list[str]:
        if self.is_first:
            marks.first_record(self.directory)
            self.is_first = False
        if self.position >= len(self.sentences):
            raise StopIteration
        batch = self.sentences[self.position : self.position + self.batch_size]
        self.position += len(batch)
        return batch

    def snapshot(self) -> int:
        return self.position


class Counting(DynamicSink):
    """A sink that counts words: one per record, or the increase of a word's total."""

    def __init__(self, settings: marks.Settings) -> None:
        self.settings = settings

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition:
        kind = CountingTotals if self.settings.options["way"] == "combined" else CountingRecords
        return kind(self.settings.marks, worker_index)


class CountingRecords(StatelessSinkPartition):
    """A sink for records of one word each."""

    def __init__(self, directory: str, worker: int) -> None:
        self.directory = directory
        self.worker = worker
        self.words = 0
        self.at_s = 0.0

    def write_batch(self, items: list[Any]) -> None:
        self.words += len(items)
        self.at_s = time.monotonic()

    def close(self) -> None:
        marks.counted(self.directory, str(self.worker), self.words, self.at_s)


class CountingTotals(CountingRecords):
    """A sink for records that are the new total of one word."""

    def __init__(self, directory: str, worker: int) -> None:
        super().__init__(directory, worker)
        self.totals: dict[str, int] = {}

    def write_batch(self, items: list[Any]) -> None:
        self.totals.update(items)
        self.at_s = time.monotonic()

    def close(self) -> None:
        self.words = sum(self.totals.values())
        super().close()


def running_count(count: int | None, _: str) -> tuple[int, int]:
    """Increment a count."""
    count = (count or 0) + 1
    return count, count


class Running(op.StatefulBatchLogic):
    """The running counts of one word, a batch of its records at once."""

    def __init__(self, count: int | None) -> None:
        self.count = count or 0

    def on_batch(self, values: list[Any]) -> tuple[Iterable[int], bool]:
        before = self.count
        self.count += len(values)
        return range(before + 1, self.count + 1), op.StatefulBatchLogic.RETAIN

    def snapshot(self) -> int:
        return self.count


class Total(Running):
    """The total of one word, from records that are counts."""

    def on_batch(self, values: list[int]) -> tuple[Iterable[int], bool]:
        self.count += sum(values)
        return (self.count,), op.StatefulBatchLogic.RETAIN


def split(batch: list[str]) -> list[tuple[str, None]]:
    """Return a keyed record for each word."""
    return [(word, None) for sentence in batch for word in sentence.split()]


def split_and_combine(batch: list[str]) -> Iterable[tuple[str, int]]:
    """Return a keyed record for each distinct word."""
    return Counter([word for sentence in batch for word in sentence.split()]).items()


def idiomatic(sentences: Any) -> Any:
    words = op.flat_map("split", sentences, lambda sentence: sentence.split())
    keyed = op.key_on("word", words, lambda word: word)
    return op.stateful_map("count", keyed, running_count)


def batched(sentences: Any) -> Any:
    return op.stateful_batch("count", op.flat_map_batch("split", sentences, split), Running)


def combined(sentences: Any) -> Any:
    return op.stateful_batch("count", op.flat_map_batch("split", sentences, split_and_combine), Total)


WAYS: dict[str, Callable[[Any], Any]] = {"idiomatic": idiomatic, "batched": batched, "combined": combined}


def flow() -> Dataflow:
    """Return the dataflow, for ``python -m bytewax.run bench.peers.programs.bytewax_words:flow()``."""
    settings = marks.settings()
    dataflow = Dataflow("word_count")
    sentences = op.input("sentences", dataflow, Sentences(settings))
    op.output("sink", WAYS[settings.options["way"]](sentences), Counting(settings))
    return dataflow
