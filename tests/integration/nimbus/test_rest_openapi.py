"""The OpenAPI description against a running cluster: schemathesis asks what it says may be asked, and other things."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nimbus_harness import topology

from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
EXAMPLES = int(os.environ.get("OPENAPI_EXAMPLES", "2"))
"""For each path, the number that fit the description, and the number that do not."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2) as running:
        running.client.submit("idle", topology())
        wait_until(lambda: running.client.list()[0].workers_ready, 60, what="the worker is ready")
        yield running


def operations_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for operations in document["paths"].values() for operation in operations.values()]


@pytest.mark.sized
@pytest.mark.timeout(400)  # a minute on a machine that does nothing else
def test_every_path_keeps_to_its_description(cluster: DevCluster, tmp_path: Path) -> None:
    nimbus = next(one for one in cluster.processes if one.role == "nimbus")
    base = f"http://127.0.0.1:{nimbus.http_port}"
    with urllib.request.urlopen(f"{base}/api/v1/openapi.json", timeout=10) as reply:
        document = json.load(reply)
    known = {
        "id": cluster.client.list()[0].record.id,
        "component": "split",
        "hostPort": "127.0.0.1:1",  # restarts and profiles nothing
    }
    for operation in operations_of(document):
        for parameter in operation["parameters"]:
            if parameter["in"] == "path" and parameter["name"] in known:
                # one that is there or any text: without the former hardly a page would be seen
                parameter["schema"] = {"anyOf": [{"const": known[parameter["name"]]}, parameter["schema"]]}
    described = tmp_path / "openapi.json"
    described.write_text(json.dumps(document))
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "run", str(described), "--url", base),
        *("--checks", CHECKS, "--max-examples", str(EXAMPLES), "--mode", "all", "--phases", "fuzzing"),
        *("--seed", "7", "--request-timeout", "30", "--no-color", "--header", "X-Requested-With: schemathesis"),
        *("--exclude-path-regex", "/kill/"),  # the topology is to be there to the end
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=360, check=False)
    assert found.returncode == 0, (found.stdout + found.stderr)[-6000:]
    assert f"Tested: {len(operations_of(document)) - 1}\n" in found.stdout, found.stdout[-2000:]
    log = Path(nimbus.log_path).read_text()
    assert "Traceback" not in log
    assert cluster.client.list()[0].record.name == "idle"
