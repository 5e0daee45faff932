"""Spouts whose rows pass a chain of functions in the spout's own executor (tupletree.streams), as the engine sees them.

    spout --emit--> ChainedCollector --row--> chain --emits, kept until it has returned--> the task's collector

The spout itself is the component of the topology: what the engine asks of it, and whatever wraps it (``set_retry``),
holds as without a chain. The chain is beside it, in the component's definition; only the collector that the task gives
to the component differs (worker/core/chained_collector.py). So a message is stored, emitted again and put into a dead
letter as the spout emitted it, and passes the chain at each attempt.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tupletree.component import Spout
from tupletree.context import TopologyContext
from tupletree.errors import TopologyError
from tupletree.outputs import DEFAULT_STREAM, FieldsDeclarer, Stream

Row = Sequence[Any]
Emit = Callable[[str, Row], None]
"""A function that emits values on a stream."""


class Chain(Protocol):
    """Functions that rows of a spout pass one after the other. Pickled with the topology; each task has a copy.

    All methods are called on the thread of the spout's executor.
    """

    def setup(self, context: TopologyContext) -> None:
        """Called once per task, before the spout's ``open``."""

    def bind(self, emit: Emit) -> Callable[[Row], None]:
        """Return the function that takes a row: a list or tuple with a value for each field. Called once, after setup.

        The function calls ``emit(stream, values)`` any number of times before it returns, and never afterwards; until
        then, ``values`` do not change. It leaves the row as it is, and keeps nothing of it: the message can come again.
        FailedException fails the message.
        """

    def teardown(self) -> None:
        """Called once per task at an orderly shutdown, after the spout's ``close``. Not guaranteed."""


@dataclass(frozen=True, slots=True)
class Chained:
    """The chain of a spout, and the fields of the rows that pass it."""

    chain: Chain
    fields: tuple[str, ...]


class ChainedSpout(Spout):
    """A spout and its chain, until ``TopologyBuilder.set_spout`` takes them apart. ``outputs``: the chain's streams."""

    def __init__(self, spout: Spout, chain: Chain, outputs: Mapping[str, Sequence[str]]) -> None:
        self.spout = spout
        self.chain = chain
        self.streams = outputs

    def attach(self, component_id: str, streams: Mapping[str, Stream]) -> tuple[Chained, dict[str, Stream]]:
        """Return the chain for a task, and the output streams of the spout with it. ``streams``: those without it.

        Raises:
            TopologyError: the spout has no rows for the chain, or a stream is declared by both or wrongly.
        """
        rows = streams.get(DEFAULT_STREAM)
        if rows is None or rows.direct:
            nature = "declares no such stream" if rows is None else "declares it direct"
            fault = (
                f"spout '{component_id}': its chain takes the rows of stream '{DEFAULT_STREAM}', and the spout {nature}"
            )
            raise TopologyError(fault, component=component_id, field="outputs")
        declarer = FieldsDeclarer(component_id)
        declarer.streams.update({id: stream for id, stream in streams.items() if id != DEFAULT_STREAM})
        for id, fields in self.streams.items():
            declarer.declare_stream(id, fields)
        first = {id: declarer.streams[id] for id in self.streams}
        return Chained(self.chain, rows.fields), first | declarer.streams
