"""Programs of streams amid faults: their states miss no element, and with exactly_once have each one once."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from drawn_streams import DrawnProgram, FixedProgram
from simulated_words import DURABLE
from stream_breaks import (
    AcksEarly,
    AddsBeforeRollback,
    ForgetsAtTicks,
    KeepsPartials,
    SendsLoosely,
    breaking,
)

from tupletree import Topology
from tupletree.connectors.sqlite import SqliteSink
from tupletree.streams import StreamBuilder
from tupletree.streams.builder import Guarantee
from tupletree.testing import CounterexampleError, Outcome, external, simulate
from tupletree.testing.simulation.outcome import Report

WORDS = [f"word{number % 4}" for number in range(60)]
OFTEN = {**DURABLE, "topology.state.checkpoint.interval.ms": 20, "topology.max.spout.pending": 10}
"""Frequent checkpoints, and few elements for each: so that a combiner holds some while a checkpoint is taken."""
FEW = range(int(os.environ.get("STREAM_SEEDS", "8")))


def _program(is_drawn: bool) -> DrawnProgram | FixedProgram:
    seen = external(set)
    return DrawnProgram(random.Random(random.getrandbits(64)), seen) if is_drawn else FixedProgram(seen)


def simulated(guarantee: Guarantee, seeds: Iterable[int], judge: Guarantee, broken: type[Any] | None = None) -> Report:
    """Simulate a program for each seed; compare its states with the truth, as the guarantee ``judge`` has it.

    ``broken``: a component that leaves out a rule, in a program that has one to be replaced by it.
    """
    drawn: list[DrawnProgram | FixedProgram] = []

    def make() -> Topology:
        drawn[:] = [_program(broken is None)]
        topology = drawn[0].topology(guarantee)
        return topology if broken is None else breaking(broken, topology)

    def check(outcome: Outcome) -> None:
        for name, values in drawn[0].expected.items():
            try:
                outcome.compare(outcome.states.get(name, {}), values, at_least=judge == "at_least_once")
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error

    return simulate(make, seeds, check=check, conf=DURABLE if broken is None else OFTEN)


@pytest.mark.sized
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_program_keeps_its_guarantee_amid_faults(guarantee: Guarantee) -> None:
    report = simulated(guarantee, FEW, guarantee)
    assert report.kills > len(FEW) // 3
    assert report.repeats > len(FEW) // 3


@pytest.mark.parametrize("fields", [(), ("word", "count")])
def test_a_table_that_several_tasks_write_has_the_last_value_of_each_key(
    tmp_path: Path, fields: tuple[str, ...]
) -> None:
    key, count = fields or ("key", "value")
    paths = (tmp_path / f"{number}.db" for number in itertools.count())
    current = tmp_path

    def make() -> Topology:
        nonlocal current
        current = next(paths)
        builder = StreamBuilder(parallelism=3)
        counts = builder.source(WORDS, name="words").key_by(str).count(combine=False)
        sink = SqliteSink(str(current), "counts", {key: "string", count: "bigint"}, key=key)
        counts.sink(sink, fields=fields)
        return builder.topology("exactly_once")

    def check(outcome: Outcome) -> None:
        with contextlib.closing(sqlite3.connect(current)) as database:
            assert dict(database.execute("SELECT * FROM counts")) == Counter(WORDS)

    assert simulate(make, range(5), check=check, conf=DURABLE).runs == 5


def test_replays_that_count_twice_are_found() -> None:
    with pytest.raises(CounterexampleError):
        simulated("at_least_once", range(200), "exactly_once")


BROKEN: list[tuple[type[Any], Guarantee]] = [
    (ForgetsAtTicks, "at_least_once"),
    (AcksEarly, "at_least_once"),
    (AcksEarly, "exactly_once"),
    (SendsLoosely, "at_least_once"),
    (KeepsPartials, "exactly_once"),
    (AddsBeforeRollback, "exactly_once"),
]


@pytest.mark.parametrize(("broken", "guarantee"), BROKEN)
def test_a_broken_rule_is_found(broken: type[Any], guarantee: Guarantee) -> None:
    with pytest.raises(CounterexampleError):
        simulated(guarantee, range(200), guarantee, broken)
