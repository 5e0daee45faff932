"""A running topology goes on with other code, exactly once, and goes back by command or by itself."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import updated_lines
from test_rebalanced_tasks import counts, stored, write

from tests.integration.control.conftest import Console
from tupletree._checkpoints.forgetting import forget
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.client import StateClient, TopologyRecord
from tupletree.errors import UnavailableError
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=3, ackers=1) as running:
        yield running


class Scene:
    """A topology that counts the lines of files exactly once, and what was written to the files."""

    def __init__(self, cluster: DevCluster, console: Console, place: Path) -> None:
        self.cluster = cluster
        self.console = console
        self.place = place
        self.logs = place / "logs"
        self.logs.mkdir()
        self.conf = {
            "topology.workers": 2,
            "topology.state.checkpoint.aligned": True,
            "topology.state.checkpoint.interval.ms": 200,
            "topology.message.timeout.secs": 10,
            "topology.state.provider": "sqlite",
            "topology.state.provider.config": {"directory": str(place / "states")},
        }
        self.written: Counter[str] = Counter()

    def source(self, text: str, **conf: object) -> list[object]:
        """Write a version to a file, and return the arguments that name it."""
        path = self.place / "app.py"
        path.write_text(text)
        settings = {**self.conf, **conf}
        return [path, *(part for key in settings for part in ("-c", f"{key}={json.dumps(settings[key])}"))]

    @property
    def files(self) -> str:
        return f"{self.logs}/*.txt"

    def write(self) -> None:
        self.written += write(self.logs)

    def record(self) -> TopologyRecord:
        return self.cluster.client.describe("lines").summary.record

    def counts_all(self) -> None:
        """Wait until the committed counts are those of all lines that were written."""
        wait_until(lambda: self.counted() == self.written, 60, what=f"{self.written.total()} lines are counted")

    def counted(self) -> Counter[str]:
        try:
            answer = StateClient(self.cluster.client.seeds).get("lines", "count", *self.written)
        except UnavailableError:  # a worker is starting
            return Counter()
        return Counter({one.key: one.value[0] if type(one.value) is list else one.value for one in answer.entries})

    def ended(self) -> list[Counter[str]]:
        """End the topology, and return what each task of "count" has stored."""
        self.cluster.client.kill("lines", wait_secs=0)
        wait_until(lambda: not [one for one in self.cluster.processes if one.role == "worker"], 30, what="workers end")
        found = counts(self.conf, stored(self.cluster))
        with contextlib.closing(open_store(self.cluster.conf)) as store:
            forget(store, "lines")  # the next test has states of its own
        return found


@pytest.mark.nightly
def test_states_and_positions_go_on_with_other_code(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    console = Console(cluster, capsys)
    scene = Scene(cluster, console, tmp_path)
    scene.write()
    console("submit", *scene.source(updated_lines.first(scene.files)), "--name", "lines")
    wait_until(lambda: stored(cluster).txid >= 1, 60, what="a checkpoint is stored")
    console("config", "set", "lines", "topology.max.spout.pending=77")
    assert "no earlier version" in console.refusal("rollback", "lines")

    second = [*scene.source(updated_lines.second(scene.files)), "--wait", 5]
    assert "'total' keeps a state and is not in the update" in console.refusal("update", "lines", *second)
    second += ["--drop-state", "total"]
    [dry] = console.lines("update", "lines", *second, "--dry-run")
    assert dry == {"added": ["again"], "removed": ["total"], "conf_keys": [], "migrated": []}
    assert "lines would be updated to version 1" in console("update", "lines", *second, "--dry-run")
    assert scene.record().pending is None
    scene.write()
    done = console.json("update", "lines", *second)
    assert (done["name"], done["version"]) == ("lines", 1)
    after = scene.record()
    assert (after.tasks["count"], after.conf["topology.max.spout.pending"]) == (4, 77)
    assert "again" in after.tasks and "total" not in after.tasks
    scene.write()
    if sys.platform == "linux":
        cluster.kill("worker", 0)
    scene.counts_all()

    status, _, error = console.run("update", "lines", *scene.source(updated_lines.broken(scene.files)), "--wait", 5)
    assert status == 1 and "version 2 is taken back: " in error and "LookupError: no such table" in error
    assert "lines goes on as before" in error
    assert (scene.record().version, scene.record().previous.number, scene.record().last_version) == (1, 0, 2)
    status, _, error = console.run("update", "lines", *scene.source(updated_lines.unopened(scene.files)), "--wait", 5)
    assert status == 1 and "version 3 is taken back: " in error and "LookupError: no such folder" in error
    assert (scene.record().version, scene.record().previous.number, scene.record().last_version) == (1, 0, 3)
    scene.write()
    scene.counts_all()
    assert "version 1; 'tupletree rollback lines' goes back to 0" in console("describe", "lines")
    assert "after" in console("rollback", "lines", "--wait", 5)
    assert (scene.record().version, scene.record().tasks["count"]) == (0, 2)
    scene.write()
    scene.counts_all()
    assert sum(scene.ended(), Counter()) == scene.written


def test_values_of_another_form_are_migrated_and_there_is_no_way_back(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    console = Console(cluster, capsys)
    scene = Scene(cluster, console, tmp_path)
    scene.write()
    console("submit", *scene.source(updated_lines.first(scene.files)), "--name", "lines")
    scene.counts_all()
    third = scene.source(updated_lines.third(scene.files))
    dry = console("update", "lines", *third, "--dry-run")
    assert all(f"  values of {one} are migrated with the first checkpoint" in dry for one in ("count", "total"))
    console("update", "lines", *third, "--wait", 5)
    scene.write()
    scene.counts_all()
    assert stored(cluster).versions == {"count": 2, "total": 2}
    too_late = "the state of component 'count' was stored by its state_version 2, and this code, which has "
    assert too_late in console.refusal("rollback", "lines")
    assert too_late in console.refusal("update", "lines", *scene.source(updated_lines.first(scene.files)))
    assert scene.record().pending is None
    found = {line: value for one in scene.ended() for line, value in one.items()}
    assert found == {line: [count, "migrated"] for line, count in scene.written.items()}
