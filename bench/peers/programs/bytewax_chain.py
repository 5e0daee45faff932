"""map → filter → map on bytewax, with one worker per process. Started by ``python -m bytewax.run``."""

# bytewax is installed only in this program's environment.
# mypy: disable-error-code="import-not-found, misc, no-any-return, no-untyped-call"

from __future__ import annotations

from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from bench.peers.programs import marks
from bench.peers.programs.bytewax_words import CountingRecords, Sentences
from bench.peers.programs.chain import half, is_odd


class CountingLengths(DynamicSink):
    """A sink that counts its records."""

    def __init__(self, settings: marks.Settings) -> None:
        self.settings = settings

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition:
        return CountingRecords(self.settings.marks, worker_index)


def flow() -> Dataflow:
    """Return the dataflow, for ``python -m bytewax.run bench.peers.programs.bytewax_chain:flow()``."""
    settings = marks.settings()
    dataflow = Dataflow("chain")
    sentences = op.input("sentences", dataflow, Sentences(settings))
    words: Any = op.flat_map("split", sentences, str.split)
    lengths = op.map("half", op.filter("odd", op.map("length", words, len), is_odd), half)
    op.output("sink", lengths, CountingLengths(settings))
    return dataflow
