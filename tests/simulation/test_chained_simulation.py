"""Spouts with chains under faults: nothing is lost, aligned checkpoints count exactly, and planted losses are found."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from local_chains import Through
from simulated_words import TEXT, WORDS, Count, Forgets, Lines, Sink, Takes
from test_simulate import ALIGNED, DURABLE, FEW, at_least, exactly, found

from tupletree import FailedException, Spout, Topology, TopologyBuilder
from tupletree.streams.chained_spout import chained
from tupletree.testing import Outcome, external, simulate

[OWL] = [line for line in TEXT if "owl" in line]
WORD = {"default": ["word"]}


def split(row: Sequence[Any]) -> Iterator[list[str]]:
    yield from ([word] for word in row[0].split())


def no_owls(row: Sequence[Any]) -> Iterator[list[str]]:
    if "owl" in row[0]:
        raise FailedException("no owls")
    return split(row)


class Once(Through):
    """A chain that fails each line once per task, and then splits it."""

    def __init__(self) -> None:
        super().__init__(self.at_second)
        self.met: set[str] = set()

    def at_second(self, row: Sequence[Any]) -> Iterator[list[str]]:
        if row[0] not in self.met:
            self.met.add(row[0])
            raise FailedException("not yet")
        return split(row)


def fused(spout: Spout, chain: Any, *, letters: bool = False) -> Topology:
    builder = TopologyBuilder()
    lines = builder.set_spout("lines", chained(spout, chain, WORD))
    if letters:
        lines.set_dead_letters("rejected")
        builder.set_bolt("letters", Sink()).shuffle_grouping(lines, "rejected")
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping(lines, "word")
    return builder.create_topology()


@pytest.mark.sized
@pytest.mark.parametrize("is_aligned", [False, True])
def test_a_fused_word_count_loses_nothing_and_aligned_it_is_exact(is_aligned: bool) -> None:
    check, conf = (exactly, ALIGNED) if is_aligned else (at_least, DURABLE)
    report = simulate(fused(Lines(), Through(split)), FEW, check=check, conf=conf)
    assert (report.runs, report.messages) == (len(FEW), len(FEW) * len(TEXT))
    assert report.kills > 20


def test_failures_in_the_chain_are_repeated_and_aligned_they_change_no_count() -> None:
    check = lambda outcome: outcome.compare(outcome.states["count"], WORDS)  # noqa: E731
    report = simulate(fused(Lines(), Once()), FEW, check=check, conf=ALIGNED)
    assert report.repeats > len(FEW) * len(TEXT) // 2
    assert simulate(fused(Lines(), Once()), FEW, check=at_least, conf=DURABLE).repeats > len(FEW) * len(TEXT) // 2


def test_aligned_a_chain_that_ends_its_worker_changes_no_count() -> None:
    met: Any = external(set)

    def raises_once(row: Sequence[Any]) -> Iterator[list[str]]:
        if row[0] not in met:
            met.add(row[0])
            raise ZeroDivisionError(row[0])
        return split(row)

    seeds, conf = range(10), {**ALIGNED, "topology.state.checkpoint.interval.ms": 10}
    report = simulate(fused(Lines(), Through(raises_once)), seeds, [], check=exactly, conf=conf)
    assert report.kills == len(seeds) * len(TEXT), "each line ended its worker once"


def test_messages_of_which_the_chain_makes_nothing_are_messages_too() -> None:
    def nothing(row: Sequence[Any]) -> Iterator[list[str]]:
        return split(row) if "owl" in row[0] else iter(())

    def check(outcome: Outcome) -> None:
        outcome.compare(outcome.states["count"], Counter(OWL.split()), at_least=True)

    report = simulate(fused(Lines(), Through(nothing)), FEW, check=check, conf=DURABLE)
    assert report.messages == len(FEW) * len(TEXT)
    queue: Any = external(lambda: deque(enumerate(TEXT)))
    told = found(fused(Takes(queue), Through(nothing)), range(200), ["kill"])
    assert "is lost: it was emitted once, its spout died" in told


def test_a_message_that_the_chain_fails_and_nobody_emits_again_is_found() -> None:
    class Hears(Forgets):
        def fail(self, msg_id: Any) -> None:
            """Emit nothing."""

    message = f"message {TEXT.index(OWL)} of spout 'lines' is lost: it was emitted once"
    assert f"{message} and failed" in found(fused(Hears(), Through(no_owls)), range(5), [])
    assert message in found(fused(Forgets(), Through(no_owls)), range(5), [])


def test_a_message_that_the_chain_gives_up_is_not_lost() -> None:
    letters: list[Any] = []
    topology = fused(Lines(), Through(no_owls), letters=True)
    simulate(topology, range(5), check=lambda outcome: letters.extend(outcome.emitted.rows("lines", "rejected")))
    assert {letter[1][0] for letter in letters} == {OWL}
