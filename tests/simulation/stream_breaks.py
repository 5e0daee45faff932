"""Components of streams that each leave out one rule."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any

from tupletree import Topology
from tupletree.streams.heads import AggregateBolt, CombiningBolt
from tupletree.testing import external
from tupletree.tuples import Tuple


class ForgetsAtTicks(CombiningBolt):
    """Acks at a tick what is held, without its partial values."""

    def execute_batch(self, tuples: list[Tuple]) -> None:
        if tuples[0].is_tick:
            for partials in self._partials.values():
                partials.clear()
        super().execute_batch(tuples)


class AcksEarly(CombiningBolt):
    """Acks its inputs before their partial values are sent, which takes longer than a checkpoint."""

    ticks = 0

    def execute_batch(self, tuples: list[Tuple]) -> None:
        if tuples[0].is_tick:
            self.ticks += 1
            if self.ticks % 10:
                return
        super().execute_batch(tuples)
        self.collector.ack_many(self._inputs)


class SendsLoosely(CombiningBolt):
    """Acks its inputs when the partial values are sent, and not when these are processed."""

    def _emit(self) -> None:
        inputs = list(self._inputs)
        super()._emit()
        self.collector.ack_many(inputs)


class KeepsPartials(CombiningBolt):
    """Sends partial values again with the next ones."""

    def _emit(self) -> None:
        before = {stream: dict(partials) for stream, partials in self._partials.items()}
        super()._emit()
        for stream, partials in before.items():
            self._partials[stream].update(partials)


class AddsBeforeRollback(AggregateBolt):
    """Goes on with the values that it had before a rollback."""

    left: dict[int, dict[Any, Any]]
    """The values of all lives, by task."""

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        for key, value in self.left[self.context.task_id].items():
            state.put(key, value)

    def execute_batch(self, tuples: list[Tuple]) -> None:
        super().execute_batch(tuples)
        for tup in tuples:
            self.left[self.context.task_id][tup["key"]] = self.state[tup["key"]]


LEFT: Any = external(lambda: defaultdict(dict))


def breaking(broken: type[Any], topology: Topology) -> Topology:
    """Return a topology with ``broken`` in the place of each component of the class from which it derives."""
    components = {name: definition.component for name, definition in topology.components.items()}
    whole = {name: one for name, one in components.items() if type(one) is broken.__base__}
    return topology.replacing({name: _changed(one, broken) for name, one in whole.items()})


def _changed(component: Any, broken: type[Any]) -> Any:
    made = copy.copy(component)
    made.__class__ = broken
    made.left = LEFT
    return made
