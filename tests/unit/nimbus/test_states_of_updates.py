"""What becomes of states and positions by an update: kept, discarded if the request says so, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from updates_scene import (
    MEMORY,
    SQLITE,
    Count,
    Print,
    Simple,
    submission,
    submitted,
    version_from,
    words,
)

from tupletree import Topology, TopologyBuilder, config
from tupletree.connectors.files import FileSpout
from tupletree.errors import UsageError
from tupletree.nimbus.updates import (
    check_update,
    next_version,
)


def test_a_state_is_discarded_only_if_the_request_says_so() -> None:
    first, second = submission(words(again=Count())), submission(words())
    record = submitted(first)
    with pytest.raises(UsageError, match="component 'again' keeps a state and is not in the update"):
        version_from(record, first, second)
    version = next_version(record, first.spec, submitted(second), second.spec)
    check_update(record, first.spec, version, second.spec, config.defaults(), ["again"])


def test_a_state_in_memory_is_lost_only_if_the_request_says_so() -> None:
    first, second = submission(words(), **MEMORY), submission(words(), "b" * 64, **MEMORY)
    record = submitted(first)
    sentence = (
        r"component 'count' keeps its state in the memory of its workers, .* such as sqlite with .*\.config {\"dir"
    )
    with pytest.raises(UsageError, match=sentence):
        version_from(record, first, second)
    version = next_version(record, first.spec, submitted(second), second.spec)
    check_update(record, first.spec, version, second.spec, config.defaults(), ["count"])


@pytest.mark.parametrize("own", [MEMORY, {"topology.state.provider.config": {"directory": "/elsewhere"}}])
def test_the_state_of_a_component_stays_where_it_is(own: Mapping[str, Any]) -> None:
    class Elsewhere(Count):
        def component_configuration(self) -> Mapping[str, Any]:
            return own

    class There(Count):
        def component_configuration(self) -> Mapping[str, Any]:
            return SQLITE

    for before, after in ((Count(), Elsewhere()), (Elsewhere(), Count())):
        first, second = submission(words(before)), submission(words(after), "b" * 64)
        version = next_version(submitted(first), first.spec, submitted(second), second.spec)
        with pytest.raises(UsageError, match=r"^component 'count' has topology\.state\.provider.*cannot make it "):
            check_update(submitted(first), first.spec, version, second.spec, config.defaults(), ["count"])
    first, second = submission(words()), submission(words(There()), "b" * 64)
    assert version_from(submitted(first), first, second).number == 1, "the same place, said by the component"


@pytest.mark.parametrize("is_aligned", [False, True])
def test_positions_are_lost_only_if_checkpoints_have_them(is_aligned: bool) -> None:
    def lines(spout: str, **more: Any) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout(spout, FileSpout("/var/log/app"))
        for name, bolt in {"words": Print(), **more}.items():
            builder.set_bolt(name, bolt).shuffle_grouping(spout)
        return builder.create_topology()

    conf = {**MEMORY, "topology.state.checkpoint.aligned": is_aligned}
    first = submission(lines("lines"), **conf)
    for second in (submission(lines("lines", more=Print()), **conf), submission(lines("others"), **conf)):
        assert version_from(submitted(first), first, second).number == 1, "no checkpoint is ever taken"

    first, second = (
        submission(lines("lines", count=Count()), **conf),
        submission(lines("others", count=Count()), **conf),
    )
    for header in (first, second):
        version = next_version(submitted(first), first.spec, submitted(header), header.spec)
        if is_aligned:
            with pytest.raises(UsageError, match=r"^component 'lines' keeps "):
                check_update(submitted(first), first.spec, version, header.spec, config.defaults(), ["count"])
        else:
            check_update(submitted(first), first.spec, version, header.spec, config.defaults(), ["count"])


def test_a_stateful_bolt_may_become_a_basic_one() -> None:
    for before, after in ((Count(), Simple()), (Simple(), Count())):
        first = submission(words(before))
        assert version_from(submitted(first), first, submission(words(after))).number == 1
