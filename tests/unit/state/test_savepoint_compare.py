"""A savepoint compared with a program: kept, new and lost states, and each reason for which it is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tupletree import KeyedProcess, Spout, StatefulBolt, TopologyBuilder, config
from tupletree._savepoints.compare import Comparison, compare
from tupletree._savepoints.manifest import ENCODED, Manifest, Part
from tupletree.errors import UsageError


class Lines(Spout):
    outputs = ["word"]

    def checkpoint_state(self) -> int:
        return 0

    def restore_state(self, state: int) -> None: ...


class Count(StatefulBolt):
    def execute(self, tup: Any) -> None: ...


class Versioned(Count):
    state_version = 2

    def migrate_value(self, key: Any, value: Any, version: int) -> Any:
        return value


class Sessions(KeyedProcess):
    key = "word"

    def on_tuple(self, tup: Any, state: Any, timers: Any) -> None: ...


CONF = {
    **config.defaults(),
    "topology.state.provider": "sqlite",
    "topology.state.provider.config": {"directory": "/x"},
    "topology.state.checkpoint.aligned": True,
}


def spec(bolt: Any = None, tasks: int = 2, field: str | None = "word") -> Any:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(), 2)
    count = builder.set_bolt("count", bolt or Count(), tasks)
    if field:
        count.fields_grouping("lines", [field])
    else:
        count.shuffle_grouping("lines")
    return builder.create_topology().outline()


COUNT = Part("count.parquet", ENCODED, "bolt", "StatefulBolt", 1, 2, [["word"]])
LINES = Part("lines.parquet", ENCODED, "spout", "Spout", 1, 2, [])
TAKEN = Manifest({"count": COUNT, "lines": LINES}, aligned=True)


def with_count(**changes: Any) -> Manifest:
    return replace(TAKEN, components={"count": replace(COUNT, **changes), "lines": LINES})


def test_states_are_kept_added_and_lost() -> None:
    assert compare(TAKEN, spec(), CONF, allow_lost=False) == Comparison(("count", "lines"), (), ())
    without = replace(TAKEN, components={"count": COUNT})
    assert compare(without, spec(), CONF, allow_lost=False).added == ("lines",)
    more = replace(TAKEN, components={**TAKEN.components, "gone": COUNT})
    assert compare(more, spec(), CONF, allow_lost=True) == Comparison(("count", "lines"), (), ("gone",))
    with pytest.raises(UsageError, match=r"^the savepoint has a state of component 'gone', and the topology has no "):
        compare(more, spec(), CONF, allow_lost=False)


def test_what_another_program_wrote_goes_with_either_guarantee_and_any_number_of_tasks() -> None:
    initial = Manifest({"count": Part("count")})
    for tasks in (1, 2, 5):
        for aligned in (True, False):
            conf = {**CONF, "topology.state.checkpoint.aligned": aligned}
            assert compare(initial, spec(tasks=tasks), conf, allow_lost=False).kept == ("count",)
    assert compare(initial, spec(Sessions()), CONF, allow_lost=False).kept == ("count",)
    assert compare(initial, spec(tasks=1, field=None), CONF, allow_lost=False).kept == ("count",)


@pytest.mark.parametrize(
    ("manifest", "topology", "conf", "fault"),
    [
        (TAKEN, spec(), {"topology.state.checkpoint.aligned": False}, "aligned to true, so that the guarantee stays"),
        (replace(TAKEN, aligned=False), spec(), {}, "the savepoint was taken at least once, without"),
        (TAKEN, spec(), {"topology.state.provider": None}, 'such as sqlite with topology.state.provider.config {"dir'),
        (with_count(kind="spout"), spec(), {}, "component 'count' is a spout in the savepoint, and a bolt in the"),
        (TAKEN, spec(Sessions()), {}, "has stored what a StatefulBolt stores, which a KeyedProcess cannot read"),
        (with_count(state_version=3), spec(Versioned()), {}, "by its state_version 3, and the topology has state_ver"),
        (TAKEN, spec(tasks=3, field=None), {}, "no fields grouping says which of them has a key of the savepoint"),
        (TAKEN, spec(field=None), {}, "has stored its state by (word), and the topology groups its inputs by no field"),
        (
            with_count(tasks=1),
            spec(tasks=2),
            {},
            "if they are, set is_divisible = True on its class; otherwise give it 1",
        ),
        (with_count(fields=[["line"]]), spec(tasks=3), {}, "by (line), and the topology groups its inputs by (word)"),
        (
            replace(TAKEN, components={"lines": replace(LINES, tasks=3)}),
            spec(),
            {},
            "cannot be divided: give it 3 tasks",
        ),
    ],
)
def test_what_cannot_go_on_is_refused_in_a_sentence(manifest: Manifest, topology: Any, conf: Any, fault: str) -> None:
    with pytest.raises(UsageError) as caught:
        compare(manifest, topology, {**CONF, **conf}, allow_lost=True)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_earlier_version_of_values_is_migrated_by_the_program() -> None:
    assert compare(with_count(state_version=1), spec(Versioned()), CONF, allow_lost=False).kept == ("count", "lines")


def test_positions_belong_to_no_checkpoint_without_alignment() -> None:
    conf = {**CONF, "topology.state.checkpoint.aligned": False}
    taken = Manifest({"count": COUNT}, aligned=False)
    assert compare(taken, spec(), conf, allow_lost=False) == Comparison(("count",), (), ())


def test_one_task_is_divided_if_its_keys_are_known_or_there_are_none() -> None:
    for before, bolt in (
        (with_count(tasks=1, state_form="KeyedProcess"), Sessions()),
        (with_count(tasks=1, entries=0), Count()),
    ):
        assert compare(before, spec(bolt), CONF, allow_lost=False).kept == ("count", "lines")


def test_a_program_that_takes_no_checkpoints_has_no_positions_either() -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(), 2)
    program, positions = builder.create_topology().outline(), replace(TAKEN, components={"lines": LINES})
    with pytest.raises(UsageError, match=r"^the savepoint has a state of component 'lines', and the topology has no "):
        compare(positions, program, CONF, allow_lost=False)
    assert compare(positions, program, CONF, allow_lost=True) == Comparison((), (), ("lines",))
