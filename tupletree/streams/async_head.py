"""The component of ``map_async``: a function that is awaited, and the operators that follow its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tupletree.async_bolt import AsyncBolt
from tupletree.errors import FailedException
from tupletree.streams.code import Code, read
from tupletree.streams.edges import Edge
from tupletree.streams.heads import anchored_emits, declare, follower
from tupletree.streams.layout import Layout
from tupletree.streams.steps import Chain
from tupletree.tuples import Tuple


class AsyncHead(AsyncBolt):
    """Awaits a function for each element, and hands the result on.

    Only the function runs on the event loop, and only its failures are tried again by ``retry``.
    """

    def __init__(
        self, function: Callable[[Any], Any], settings: Mapping[str, Any], edges: Sequence[Edge], chain: Chain
    ) -> None:
        vars(self).update(settings)
        self.function = function
        self.layout = edges[0].layout
        self.chain = chain

    def declare_output_fields(self, declarer: Any) -> None:
        declare(self.chain, declarer)

    def setup(self) -> None:
        self._read = reader(self.layout, self.context.component_id)
        code = Code(anchored_emits(self.chain), emit=self._plain.emit)
        self._follow = follower(self.chain, code, self.context.component_id)

    async def execute(self, tup: Tuple) -> None:
        key, time, value = self._read(tup)
        self.collector.emit((key, time, await self.function(value)))

    def _conclude(self, call: Any) -> None:
        """Hand the result on, in the task's thread and in the order of the results."""
        results, call.emits = call.emits, []
        if call.error is None:
            try:
                for result, _ in results:
                    self._follow(*result, call.tup)
            except FailedException as error:
                call.error = error
        super()._conclude(call)


def reader(layout: Layout, title: str) -> Callable[[Tuple], tuple[Any, Any, Any]]:
    """Return a function that takes key, event time and element from a tuple; None for what there is not."""
    code = Code({})
    code.add(0, "def run(a):")
    at = read(code, layout, 1)
    code.add(1, f"return {at.key}, {at.time}, {at.value}")
    run: Callable[[Tuple], tuple[Any, Any, Any]] = code.compiled(title)
    return run
