"""Chains for spouts of tests (tupletree.streams.chained_spout)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from local_components import Log

from tupletree.component import TopologyContext
from tupletree.streams.chained_spout import Emit


class Through:
    """A chain that emits what a function returns for a row: rows of the default stream, or pairs of stream and row.

    ``log``: gets what the chain is called for.
    """

    def __init__(self, function: Callable[[Any], Iterable[Any]], log: Log | None = None) -> None:
        self.function = function
        self.log = log

    def setup(self, context: TopologyContext) -> None:
        self.note("setup", context.component_id, context.task_index)

    def bind(self, emit: Emit) -> Callable[[Sequence[Any]], None]:
        self.note("bind")

        def run(row: Sequence[Any]) -> None:
            for made in self.function(row):
                emit(*made if isinstance(made, tuple) else ("default", made))

        return run

    def teardown(self) -> None:
        self.note("teardown")

    def note(self, *what: Any) -> None:
        if self.log is not None:
            self.log.append(what)
