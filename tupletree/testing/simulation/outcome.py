"""The result of one simulated run, as ``check`` gets it, and of all runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tupletree.errors import TupletreeError
from tupletree.testing.complete import Completed
from tupletree.testing.simulation.external import current

T = TypeVar("T")


class CounterexampleError(TupletreeError, AssertionError):
    """A simulated run went wrong: the message names the seed and tells the story.

    Attributes:
        seed: ``simulate(…, seeds=[seed])`` repeats the run.
    """

    def __init__(self, message: str, seed: int) -> None:
        super().__init__(message)
        self.seed = seed


class MismatchError(AssertionError):
    """Two mappings differ. ``keys``: where."""

    def __init__(self, message: str, keys: list[Any]) -> None:
        super().__init__(message)
        self.keys = keys


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one run, when every message is processed.

    Attributes:
        seed: of the run.
        states: the keys and values of each stateful bolt, of all its tasks, as committed.
        emitted: the rows that each component emitted, with those of replays: ``emitted["split"]``,
            ``emitted.rows("split", "bad")``.
        messages: the number of different messages of the spouts.
        repeats: how often messages were emitted again.
        kills: how often workers were killed.
    """

    seed: int
    states: Mapping[str, Mapping[Any, Any]]
    emitted: Completed
    messages: int
    repeats: int
    kills: int

    def external(self, stand_in: T) -> T:
        """Return the object that ``external`` stands for, as this run has left it."""
        return current(stand_in)

    def compare(self, found: Mapping[Any, Any], expected: Mapping[Any, Any], *, at_least: bool = False) -> None:
        """Raise if two mappings differ, or with ``at_least``, if a value is less than expected.

        The keys that differ select the message whose story is told: one with such a key in a tuple. Missing values
        count as 0 with ``at_least``.

        Raises:
            MismatchError: names up to three keys.
        """
        wrong = [
            key
            for key in dict.fromkeys([*expected, *found])
            if (found.get(key, 0) < expected.get(key, 0) if at_least else found.get(key) != expected.get(key))
        ]
        if wrong:
            shown = ", ".join(f"{key!r} is {found.get(key)!r}, not {expected.get(key)!r}" for key in wrong[:3])
            more = f", and {len(wrong) - 3} more differ" if len(wrong) > 3 else ""
            raise MismatchError(shown + more, wrong)


@dataclass(frozen=True, slots=True)
class Report:
    """The sum of all runs. Runs without repeats and kills prove nothing: look at them once.

    Attributes:
        runs: the number of seeds.
        messages, repeats, kills: summed over the runs.
        lost: batches and updates of acks that the network lost.
        simulated_s: simulated seconds.
    """

    runs: int
    messages: int
    repeats: int
    kills: int
    lost: int
    simulated_s: float

    def __str__(self) -> str:
        return (
            f"{self.runs:,} runs, {self.messages:,} messages, {self.repeats:,} emitted again; {self.kills:,} workers "
            f"killed, {self.lost:,} batches and updates lost; {self.simulated_s:,.0f} simulated seconds"
        )
