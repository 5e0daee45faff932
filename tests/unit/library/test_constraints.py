"""Constraints on placement: their forms, which are Storm's, and what is said of wrong ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from assessment_facts import topology, verdict

from tupletree import config
from tupletree._constraints import Constraints, check_placement, constraints_of
from tupletree.config.changes import check_changeable
from tupletree.errors import ConfigError, UsageError

RAS = "topology.ras.constraints"
SPREAD = "topology.spread.components"


def test_the_forms_are_storms() -> None:
    conf = {
        RAS: {
            "score": {"maxNodeCoLocationCnt": 2, "incompatibleComponents": ["train", "load"]},
            "count": {"incompatibleComponents": "load"},
        },
        SPREAD: ["score", "count"],
        "topology.ras.one.component.per.worker": True,
    }
    config.validate(conf)
    found = constraints_of(conf)
    assert found.per_machine == {"score": 2, "count": 1}, "a number beats the spread, as in Storm"
    assert found.apart == {
        "score": frozenset({"train", "load"}),
        "train": frozenset({"score"}),
        "load": frozenset({"score", "count"}),
        "count": frozenset({"load"}),
    }
    assert (found.has_one_component, found.has_one_executor) == (True, False)
    assert found.keys_of("score") == [RAS] and found.keys_of("count") == [SPREAD, RAS]
    assert constraints_of(config.defaults()) == Constraints()


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        (RAS, [["a", "b"]], r"takes a mapping \(component: .*, not \[\['a', 'b'\]\]"),
        (RAS, {"a": 2}, r"component 'a' takes constraints such as {maxNodeCoLocationCnt: 2}, not 2"),
        (RAS, {"a": {"maxNodeCoLocationCnt": 0}}, r"of component 'a' takes a whole number of at least 1, not 0"),
        (RAS, {"a": {"maxNodeCoLocationCnt": True}}, r"takes a whole number of at least 1, not True"),
        (RAS, {"a": {"incompatibleComponents": 5}}, r"of component 'a' takes a list of components, not 5"),
        (RAS, {"a": {"incompatibleComponents": ["b", ""]}}, r"takes a list of components, not \['b', ''\]"),
        (RAS, {"a": {"incompatibleComponents": ["a"]}}, r"names the component itself; maxNodeCoLocationCnt limits"),
        (RAS, {"a": {"maxNodes": 1}}, r"has the unknown constraint 'maxNodes'; write maxNodeCoLocationCnt or incomp"),
        (SPREAD, "a", r"takes a list of strings \(components\) or null, not 'a'"),
        (SPREAD, [], r"takes a list of strings"),
        ("topology.ras.one.executor.per.worker", 1, r"takes true or false, not 1"),
        ("topology.scheduler.favored.nodes", ["", "b"], r"takes a list of strings \(machines, by host or id of"),
        ("supervisor.rack", "r\n1", r"'supervisor.rack': must be a name of 1 to 200 characters"),
    ],
)
def test_a_wrong_form_is_refused_in_one_sentence(key: str, value: Any, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        config.validate({key: value})


@pytest.mark.parametrize(
    ("conf", "fault"),
    [
        ({SPREAD: ["cuont"]}, r"^topology 't': topology.spread.components names component 'cuont', which it does not "
            r"have; did you mean 'count'\?$"),
        ({RAS: {"nobody": {}}}, r"^topology 't': topology.ras.constraints names component 'nobody', which it does"),
        ({RAS: {"count": {"incompatibleComponents": "words2"}}}, r"component 'words2', .*did you mean 'words'\?$"),
        (
            {"topology.scheduler.favored.nodes": ["h1"], "topology.scheduler.unfavored.nodes": ["h2", "h1"]},
            r"^topology 't': topology.scheduler.favored.nodes and topology.scheduler.unfavored.nodes both name 'h1'; "
            r"leave it out of one$",
        ),
    ],
)  # fmt: skip
def test_what_a_topology_does_not_have_is_refused(conf: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        check_placement(conf, ["words", "count"], "t")


def test_good_constraints_are_accepted() -> None:
    check_placement(
        {**config.defaults(), SPREAD: ["count"], RAS: {"words": {"maxNodeCoLocationCnt": 3}}}, ["words", "count"], "t"
    )


def test_constraints_change_with_an_update_alone() -> None:
    with pytest.raises(ConfigError, match=r"'tupletree update NAME FILE' changes what .*, and where it may run"):
        check_changeable({SPREAD: ["count"]})


def test_the_even_scheduler_does_not_follow_them_and_health_says_so() -> None:
    found = verdict(replace(topology(), ignored_keys=[RAS, SPREAD]))
    assert [(one.kind, one.sentence) for one in found.notes] == [
        (
            "topology.keys_ignored",
            f"topology 'words': nimbus.scheduler even does not follow {RAS}, {SPREAD}",
        )
    ]
