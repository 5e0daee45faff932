"""Map-side combining: before an exchange, many tuples become one per key on the sending side.

    spout --shuffle--> combiner --one tuple per key--> fields_grouping --> bolt that adds up

A combining word count sends each distinct word of a thousand sentences once, with its count, instead of every word
(like Hadoop's combiner or Trident's ``partitionAggregate``). Combining pays off if keys repeat and the combination is
associative and commutative: sums, counts, maxima, sets.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tupletree.collector import BoltCollector
from tupletree.component import Bolt, TopologyContext
from tupletree.tuples import Tuple


class CombinerBolt(Bolt):
    """Keeps a partial value per key and periodically emits one tuple (key, value) per key.

        class WordsOfSentences(CombinerBolt):
            outputs = ("word", "count")

            def key_values(self, tup):
                return [(word, 1) for word in tup["sentence"].split()]

        builder.set_bolt("words", WordsOfSentences(), 2).shuffle_grouping("sentences")
        builder.set_bolt("count", AddUp(), 2).fields_grouping("words", ["word"])

    Partial values are emitted after at least ``held`` inputs, and at every tick, ``interval_s`` seconds apart, even if
    the topology is inactive.

    **At least once.** The tuples emitted together form a new tree; the combined inputs are acked when the tree is
    complete and failed when the tree fails (``BoltCollector.emit_combined``). If a worker dies, the inputs held by its
    tasks are replayed by the spouts like any other tuple. Untracked inputs are combined without acking.

    **Timeouts.** ``interval_s`` plus the processing time of the emitted tuples must fit into
    ``topology.message.timeout.secs``. ``topology.max.spout.pending`` must leave room for the held inputs: over all
    spout tasks, at least twice ``held`` per combiner task. Otherwise the spouts stall until the next tick.

    A subclass that overrides ``prepare`` must call the base method. An exception ends the worker. Not for transactional
    topologies: there, combine each batch in a ``BatchBolt``.

    Attributes:
        held: the number of inputs after which partial values are emitted.
        interval_s: the maximum seconds between emits; the component's tick interval.
    """

    _remedy = ""  # an output is of many tuples
    holds_tuples = True
    held: int = 1000
    interval_s: float = 0.05

    def key_values(self, tup: Tuple) -> Iterable[tuple[Any, Any]]:
        """Return the (key, value) pairs of an input."""
        raise NotImplementedError

    def combine(self, first: Any, second: Any) -> Any:
        """Combine two values of a key; by default their sum. Must change neither, as they can be values of inputs."""
        return first + second

    def empty(self) -> dict[Any, Any]:
        """Return an empty container for partial values: a dict or a subclass, for example a ``Counter``."""
        return {}

    def add(self, partials: dict[Any, Any], tuples: Sequence[Tuple]) -> None:
        """Add inputs to the partial values; by default with ``key_values`` and ``combine``.

        Override to add many values in C code: if ``empty`` returns a ``Counter``, ``partials.update(words)`` costs a
        fraction of one Python call per word.
        """
        combine = self.combine
        for tup in tuples:
            for key, value in self.key_values(tup):
                partials[key] = combine(partials[key], value) if key in partials else value

    def rows(self, partials: Mapping[Any, Any]) -> Iterable[Sequence[Any]]:
        """Return the tuples to emit; by default (key, value). Override for keys of several fields."""
        return map(list, partials.items())

    def component_configuration(self) -> Mapping[str, Any]:
        return {"topology.tick.tuple.freq.secs": self.interval_s}

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self._partials = self.empty()
        self._inputs: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.execute_batch([tup])

    def execute_batch(self, tuples: list[Tuple]) -> None:
        if tuples[0].is_tick:
            self._emit()
            return
        self.add(self._partials, tuples)
        self._inputs += tuples
        if len(self._inputs) >= self.held:
            self._emit()

    def _emit(self) -> None:
        if not self._inputs:
            return
        partials, self._partials = self._partials, self.empty()
        inputs, self._inputs = self._inputs, []
        self.collector.emit_combined(self.rows(partials), inputs)
