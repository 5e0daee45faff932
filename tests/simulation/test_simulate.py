"""tupletree.testing.simulate: it finds planted faults, lets correct topologies pass, and repeats a run by its seed."""

from __future__ import annotations

import os
import random
import re
from collections import Counter, deque
from typing import Any

import pytest
from simulated_words import (
    DURABLE,
    TEXT,
    WORDS,
    Buggy,
    Endless,
    Forgetful,
    Forgets,
    Lines,
    Picky,
    Sink,
    Takes,
    Tally,
    straight,
    words,
)

from tupletree import AsyncBolt, FailedException, TopologyBuilder
from tupletree.errors import ConfigError, UsageError
from tupletree.testing import CounterexampleError, Outcome, external, simulate

ALIGNED = {**DURABLE, "topology.state.checkpoint.aligned": True}
FEW = range(int(os.environ.get("SIMULATED_SEEDS", "30")))


def at_least(outcome: Outcome) -> None:
    outcome.compare(outcome.states["count"], WORDS, at_least=True)


def exactly(outcome: Outcome) -> None:
    outcome.compare(outcome.states["count"], WORDS)


def found(*arguments: Any, **named: Any) -> str:
    with pytest.raises(CounterexampleError) as caught:
        simulate(*arguments, **named)
    return str(caught.value)


# Correct topologies pass


@pytest.mark.sized
def test_a_stateful_word_count_loses_nothing_and_the_faults_happen() -> None:
    report = simulate(words(), FEW, check=at_least, conf=DURABLE)
    assert (report.runs, report.messages) == (len(FEW), len(FEW) * len(TEXT))
    assert report.repeats > 50
    assert report.kills > 20
    assert report.lost > 20
    assert re.fullmatch(r"[\d,]+ runs, [\d,]+ messages, .* emitted again; .* killed, .* lost; .* seconds", str(report))


@pytest.mark.sized
def test_aligned_checkpoints_count_exactly() -> None:
    report = simulate(words(), FEW, check=exactly, conf=ALIGNED)
    assert report.messages == len(FEW) * len(TEXT)
    assert report.kills > 20


@pytest.mark.sized
def test_each_run_ends_only_when_its_spouts_have_read_everything() -> None:
    """Also runs in which the spout's worker starts for the last time when the faults are long over."""
    table: Counter[str] = external(Counter)
    check = lambda outcome: outcome.compare(outcome.external(table), WORDS, at_least=True)  # noqa: E731
    assert simulate(words(Tally(table)), FEW, check=check).messages == len(FEW) * len(TEXT)


@pytest.mark.parametrize(("kind", "happens"), [("kill", "kills"), ("drop", "lost")])
def test_only_the_faults_asked_for_happen(kind: str, happens: str) -> None:
    report = simulate(words(), FEW, [kind], check=at_least, conf=DURABLE)
    assert getattr(report, happens) > 10
    assert (report.kills == 0) == (kind != "kill")


def test_without_faults_every_message_is_emitted_once() -> None:
    report = simulate(words(), range(5), [], check=exactly, conf=DURABLE)
    assert (report.repeats, report.kills, report.lost) == (0, 0, 0)


def test_delays_alone_let_trees_time_out() -> None:
    assert simulate(words(), FEW, ["delay"], check=at_least, conf=DURABLE).repeats > 10


def test_a_message_that_is_given_up_is_not_lost() -> None:
    topology = straight(Lines(), Picky(), has_letters=True)
    letters = []
    simulate(topology, range(10), check=lambda outcome: letters.extend(outcome.emitted.rows("lines", "rejected")))
    assert {letter[1][0] for letter in letters} == {line for line in TEXT if "owl" in line}


# Planted faults are found


def test_replays_that_count_twice_are_found_and_told_of() -> None:
    told = found(words(), range(200), check=exactly, conf=DURABLE)
    head, story, *lines = told.splitlines()
    assert re.match(r"seed \d+: '\w+' is \d+, not \d+", head)
    message = re.match(r"the story of message \['(.*)'\] of spout 'lines':", story)
    assert message is not None
    assert message[1] in TEXT
    assert any("emitted by task" in line and "for the 2nd time" in line for line in lines)
    assert any(f"executes ['{message[1]}']" in line for line in lines)
    assert any("spout lines hears: acked" in line for line in lines)


def test_the_memory_of_a_worker_is_lost_with_it() -> None:
    assert "not" in found(words(), range(200), ["kill"], check=at_least)


def test_a_spout_that_keeps_no_messages_is_found() -> None:
    told = found(straight(Forgets(), Sink()), range(200), ["drop"])
    assert re.search(r"message \d of spout 'lines' is lost: it was emitted once", told)


def test_a_spout_that_takes_messages_from_a_queue_too_early_is_found() -> None:
    queue = external(lambda: deque(enumerate(TEXT)))
    told = found(straight(Takes(queue), Sink()), range(200), ["kill"])
    assert re.search(r"message \d of spout 'lines' is lost: .* its spout died and did not emit it again", told)


def test_a_forgotten_ack_is_found() -> None:
    told = found(straight(Lines(), Forgetful()), range(3))
    assert re.search(r"message \['the quick owl jumps over the owl'\] .* is neither acked nor given up 12\d ", told)


def test_a_component_that_always_raises_is_found_with_its_exception() -> None:
    with pytest.raises(
        CounterexampleError, match="component 'sink' raised ZeroDivisionError: a bug, 20 times"
    ) as caught:
        simulate(straight(Lines(), Buggy()), range(3))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_source_without_an_end_is_refused() -> None:
    assert "simulate needs sources that come to an end" in found(straight(Endless(), Sink()), [0], [])


def test_a_check_may_return_false_or_raise() -> None:
    assert "seed 3: check returned False" in found(words(), [3], check=lambda outcome: False)
    with pytest.raises(CounterexampleError, match="seed 3: not so"):
        simulate(words(), [3], check=_raise)


def _raise(outcome: Outcome) -> None:
    raise AssertionError("not so")


# Seeds, externals, refusals


def test_a_seed_repeats_the_run() -> None:
    told = found(words(), range(200), check=exactly, conf=DURABLE)
    with pytest.raises(CounterexampleError) as caught:
        simulate(words(), range(200), check=exactly, conf=DURABLE)
    seed = caught.value.seed
    assert found(words(), [seed], check=exactly, conf=DURABLE) == told


def test_the_generator_of_random_is_that_of_the_seed_and_is_given_back() -> None:
    before = random.getstate()
    drawn: list[float] = []
    simulate(words(), [7, 7, 8], [], check=lambda outcome: drawn.append(random.random()))
    assert drawn[0] == drawn[1] != drawn[2]
    assert random.getstate() == before


def test_each_run_has_its_own_external_object() -> None:
    queue = external(lambda: deque(enumerate(TEXT)))
    left: list[int] = []
    simulate(straight(Takes(queue), Sink()), range(3), [], check=lambda one: left.append(len(one.external(queue))))
    assert left == [0, 0, 0]


def test_a_function_makes_a_topology_for_each_run() -> None:
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return words()

    simulate(make, range(3), [])
    assert len(made) == 3


def test_refusals() -> None:
    with pytest.raises(UsageError, match=r"faults are among kill, drop, delay, reorder, not \['fire'\]"):
        simulate(words(), faults=["fire"])
    with pytest.raises(UsageError, match="not 'kill'"):
        simulate(words(), faults="kill")
    with pytest.raises(ConfigError):
        simulate(words(), conf={"topology.wokers": 2})
    with pytest.raises(UsageError, match="external takes what"):
        simulate(words(), [0], [], check=lambda outcome: outcome.external([]))

    class Calls(AsyncBolt):
        async def execute(self, tup: Any) -> None:
            raise FailedException

    builder = TopologyBuilder()
    builder.set_bolt("calls", Calls()).shuffle_grouping(builder.set_spout("lines", Lines()))
    with pytest.raises(UsageError, match="simulate cannot run bolt 'calls': an AsyncBolt needs an event loop"):
        simulate(builder.create_topology())
