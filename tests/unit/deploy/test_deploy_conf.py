"""The configuration of a three-machine cluster: known keys, right values, and no key that says what is the default."""

from __future__ import annotations

import pytest
import yaml
from deployed import DEPLOY, ROLES

from tupletree._security.exposure import missing
from tupletree.config import defaults, load

FILES = [*ROLES, "client"]
EXPLICIT = {"advertise.host", "acker.max.pending", "supervisor.slots.ports", "supervisor.stop.workers.on.shutdown"}
"""Named though they have their defaults: what every cluster has to think about."""


@pytest.mark.parametrize("name", FILES)
def test_an_example_loads_and_differs_from_the_defaults(name: str) -> None:
    path = DEPLOY / "conf" / "cluster" / f"{name}.yaml"
    named = yaml.safe_load(path.read_text())
    loaded = load(path, environ={})
    assert {key: loaded[key] for key in named} == named
    same = {key for key in named if named[key] == defaults()[key]}
    assert same <= EXPLICIT


def test_the_examples_are_of_one_cluster() -> None:
    files = {name: load(DEPLOY / "conf" / "cluster" / f"{name}.yaml", environ={}) for name in FILES}
    assert len({tuple(one["zookeeper.servers"]) for name, one in files.items() if name != "drpc"}) == 1
    assert len({tuple(files[name]["nimbus.seeds"]) for name in ("nimbus", "supervisor", "client")}) == 1
    assert len({files[role]["local.dir"] for role in ROLES}) == len(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_the_examples_of_daemons_lack_neither_tls_nor_tokens(role: str) -> None:
    conf = load(DEPLOY / "conf" / "cluster" / f"{role}.yaml", environ={})
    assert conf["bind.host"] == "0.0.0.0"
    assert missing(conf) == []
    assert not conf["security.insecure"]
