"""Combining before an exchange: many tuples become one for each key, on the side that sends them.

    spout --shuffle--> combiner --one tuple a key--> fields_grouping --> bolt that adds up

A word count that combines sends each distinct word of a thousand sentences once, with its count, instead of all their
words (Hadoop's combiner, Trident's ``partitionAggregate``). It is worth it where keys repeat and values of a key can be
combined in any order and grouping: sums, counts, maxima, sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tupletree.collector import BoltCollector
from tupletree.component import Bolt, TopologyContext
from tupletree.tuples import Tuple


class CombinerBolt(Bolt):
    """Keeps a partial value for each key and, from time to time, emits one tuple (key, value) for each.

        class WordsOfSentences(CombinerBolt):
            outputs = ("word", "count")

            def key_values(self, tup):
                return [(word, 1) for word in tup["sentence"].split()]

        builder.set_bolt("words", WordsOfSentences(), 2).shuffle_grouping("sentences")
        builder.set_bolt("count", AddUp(), 2).fields_grouping("words", ["word"])

    What is held is emitted when at least ``held`` inputs went into it, and at every tick, ``interval_s`` seconds apart,
    whether the topology is active or not.

    **At least once.** The tuples emitted together form a tree of their own; the inputs in it are acked when it is
    complete and failed when it fails (``BoltCollector.emit_combined``). What a task holds when its worker dies is
    replayed by the spouts like any other tuple. Inputs that are not tracked are just combined.

    **Timeouts.** ``interval_s`` and the time that the emitted tuples take must together fit into
    ``topology.message.timeout.secs``. ``topology.max.spout.pending`` has to leave room for what is held, else every
    tick is waited for: over all spout tasks, at least twice ``held`` for each task of the combiner.

    A subclass that has its own ``prepare`` calls this one too. An exception ends the worker. Not for transactional
    topologies: there a ``BatchBolt`` combines what is in a batch.

    Attributes:
        held: inputs after which partial values are emitted.
        interval_s: seconds after which they are emitted at the latest; the component's tick interval.
    """

    holds_tuples = True
    held: int = 1000
    interval_s: float = 0.05

    def key_values(self, tup: Tuple) -> Iterable[tuple[Any, Any]]:
        """The (key, value) pairs of an input."""
        raise NotImplementedError

    def combine(self, first: Any, second: Any) -> Any:
        """Two values of one key as one; by default their sum. Must change neither: they may be values of inputs."""
        return first + second

    def empty(self) -> dict[Any, Any]:
        """What partial values are added to: a fresh dict, or something like one, a ``Counter`` for example."""
        return {}

    def add(self, partials: dict[Any, Any], tuples: Sequence[Tuple]) -> None:
        """Add inputs to the partial values; by default by ``key_values`` and ``combine``.

        To override where C code can do it: ``partials.update(words)``, if ``empty`` returns a ``Counter``, costs a
        fraction of a call for each word.
        """
        combine = self.combine
        for tup in tuples:
            for key, value in self.key_values(tup):
                partials[key] = combine(partials[key], value) if key in partials else value

    def rows(self, partials: Mapping[Any, Any]) -> Iterable[Sequence[Any]]:
        """The tuples to emit; by default (key, value). To override where keys are of several fields."""
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
