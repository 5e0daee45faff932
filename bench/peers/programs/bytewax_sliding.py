"""Words in sliding windows on bytewax, with one worker. Started by ``python -m bytewax.run``."""

# bytewax is installed only in this program's environment.
# mypy: disable-error-code="import-not-found, misc, no-any-return, no-untyped-call"

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from bench.peers.programs import marks
from bench.peers.programs.bytewax_words import CountingRecords, Part, Sentences
from bench.peers.programs.sliding import EVERY_S, SIZE_S, event_time_ms

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Timed = tuple[dt.datetime, str]


class TimedSentences(Sentences):
    """A source of sentences with their event times."""

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> TimedPart:
        return TimedPart(self.settings, int(for_part), resume_state or 0)


class TimedPart(Part):
    """Its only partition."""

    def __init__(self, settings: marks.Settings, part: int, position: int) -> None:
        super().__init__(settings, part, position)
        self.sentences = [
            (EPOCH + dt.timedelta(milliseconds=event_time_ms(number)), line)
            for number, line in enumerate(self.sentences)
        ]


class Adding(DynamicSink):
    """A sink that adds up the counts of windows."""

    def __init__(self, settings: marks.Settings) -> None:
        self.settings = settings

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition:
        return AddingCounts(self.settings.marks, worker_index)


class AddingCounts(CountingRecords):
    """Its only partition."""

    def write_batch(self, items: list[tuple[str, tuple[int, int]]]) -> None:
        self.words += sum([count for _, (_, count) in items])
        self.at_s = time.monotonic()


def split(timed: Timed) -> list[Timed]:
    """Return the words of a sentence with its event time."""
    at, line = timed
    return [(at, word) for word in line.split()]


def flow() -> Dataflow:
    """Return the dataflow, for ``python -m bytewax.run bench.peers.programs.bytewax_sliding:flow()``."""
    settings = marks.settings()
    dataflow = Dataflow("windows")
    words: Any = op.flat_map("split", op.input("sentences", dataflow, TimedSentences(settings)), split)
    # Its watermark also rises with the system's time; that stands still here, else words that wait would be late.
    clock = windowing.EventClock(lambda timed: timed[0], dt.timedelta(0), now_getter=lambda: EPOCH)
    windower = windowing.SlidingWindower(dt.timedelta(seconds=SIZE_S), dt.timedelta(seconds=EVERY_S), EPOCH)
    counts = windowing.count_window("count", words, clock, windower, lambda timed: timed[1])
    op.output("sink", counts.down, Adding(settings))
    return dataflow
