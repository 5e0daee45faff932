"""Notifiers of actions in a real nimbus, one of which fails: users notice neither."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import hooked_topology
import pytest

from tupletree.testing import DevCluster, wait_until

NAMES = ["noted_actions:Broken", "noted_actions:Lines"]


@pytest.mark.nightly
def test_nimbus_tells_of_each_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]))
    with DevCluster(slots=1, conf={"nimbus.topology.action.notifiers": NAMES}) as cluster:
        client = cluster.client
        code = [Path(hooked_topology.__file__)]
        id = client.submit("noted", hooked_topology.topology(str(tmp_path)), {"topology.workers": 1}, code)
        client.deactivate("noted")
        client.deactivate("noted")  # is inactive already: no action
        client.activate("noted")
        client.set_sampling("noted", "", 1.0)
        client.rebalance("noted", wait_secs=0, workers=1)
        client.kill("noted", wait_secs=0)
        (nimbus,) = [one for one in cluster.processes if one.role == "nimbus"]

        def told() -> list[dict[str, Any]]:
            found = sorted(Path(cluster.directory).rglob("actions.jsonl"))
            return [json.loads(line) for file in found for line in file.read_text().splitlines()]

        wait_until(lambda: len(told()) >= 5, 20, what="the actions are told")
        assert [one["action"] for one in told()] == ["submit", "deactivate", "activate", "rebalance", "kill"]
        assert {(one["topology_name"], one["topology_id"]) for one in told()} == {("noted", id)}
        assert told()[0]["tasks"]["numbers"] == 1 and told()[0]["conf"]["topology.workers"] == 1
        log = Path(nimbus.log_path).read_text()
        assert log.count("action_notifier.failed") == 5 and "the inventory is away" in log
