"""Files for workers: stored by command, beside every worker, updated while topologies read them, and never in half."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import blob_readers
import pytest
from blob_readers import checked, content

from tests.integration.control.conftest import Console
from tupletree.errors import UsageError
from tupletree.testing import DevCluster, wait_until

MAP = {"model": {"localname": "model.bin"}}
CONF = {
    "topology.workers": 2,
    "topology.max.spout.pending": 20,
    "topology.sleep.spout.wait.strategy.time.ms": 5,
    "topology.blobstore.map": MAP,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    conf = {"supervisor.bundle.deletion.delay.secs": 0.01}
    with DevCluster(supervisors=1, slots=3, ackers=1, nimbuses=2, conf=conf) as running:
        yield running


@pytest.fixture
def console(cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(cluster, capsys)


@pytest.fixture
def model(cluster: DevCluster, tmp_path: Path) -> Iterator[Path]:
    """A blob "model", and the file with its first version."""
    path = tmp_path / "model.bin"
    path.write_bytes(content(1))
    cluster.client.put_blob("model", path)
    yield path
    kill_all(cluster)
    cluster.client.delete_blob("model")


def kill_all(cluster: DevCluster) -> None:
    for one in cluster.client.list():
        cluster.client.kill(one.record.name, wait_secs=0)
    wait_until(lambda: not cluster.client.list(), 30, what="the topologies end")


def submit(cluster: DevCluster, name: str = "readers", **conf: object) -> None:
    settings = {**CONF, **{key.replace("__", "."): value for key, value in conf.items()}}
    cluster.client.submit(name, blob_readers.topology(), settings, [Path(blob_readers.__file__)])


def statuses(cluster: DevCluster, name: str = "readers") -> list[dict[str, Any]]:
    """What each task says of the blob; nothing until all have said something."""
    found = [one for part in cluster.client.describe(name).components for one in part.statuses]
    said = [one.status for one in found]
    return said if len(said) == 4 else []


def await_all(cluster: DevCluster, is_met: Callable[[dict[str, Any]], bool], what: str) -> list[dict[str, Any]]:
    def met() -> list[dict[str, Any]]:
        found = statuses(cluster)
        return found if found and all(is_met(one) for one in found) else []

    return wait_until(met, 60, what=what)


def on_machine(cluster: DevCluster) -> Path:
    """The supervisor's directory of blobs."""
    found = [one for one in Path(cluster.directory).rglob("blobs") if not {"nimbus", "workers"} & set(one.parts)]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.long
def test_every_task_is_told_of_each_version_and_nobody_reads_half_of_one(cluster: DevCluster, model: Path) -> None:
    submit(cluster)
    await_all(cluster, lambda one: one["reads"] > 0, "every task reads the first version")
    for version in range(2, 8):
        model.write_bytes(content(version, padding=3_000_000 + version))
        assert cluster.client.update_blob("model", model).record.version == version
        await_all(cluster, lambda one, version=version: one["version"] == version, f"all have {version}")  # type: ignore[misc]
    said = await_all(cluster, lambda one: one["version"] == 7 and one["reads"] > 50, "all go on to read")
    assert [(one["first"], one["halves"], one["wrong"]) for one in said] == [(1, 0, 0)] * 4
    assert all(1 <= one["told"] <= 6 for one in said)
    print("the longest time from the making of the last version to a task:", max(one["late_s"] for one in said), "s")
    (record,) = [one.record for one in cluster.client.blobs()]
    wait_until(lambda: os.listdir(on_machine(cluster)) == [record.sha256], 30, what="the old versions are removed")


@pytest.mark.long
def test_a_restarted_supervisor_and_another_leader_go_on_with_updates(cluster: DevCluster, model: Path) -> None:
    submit(cluster)
    await_all(cluster, lambda one: one["version"] == 1, "every task has the first version")
    cluster.kill("supervisor")
    model.write_bytes(content(2))
    cluster.client.update_blob("model", model)
    cluster.restart("supervisor")
    await_all(cluster, lambda one: one["version"] == 2 and one["first"] == 1, "told after the supervisor's restart")
    ports = [one.grpc_port for one in cluster.processes if one.role == "nimbus"]
    leading = ports.index(int(cluster.client.leader().rpartition(":")[2]))
    cluster.kill("nimbus", leading)
    taken = model.with_name("taken")
    assert cluster.client.get_blob("model", taken).record.version == 2
    assert taken.read_bytes() == model.read_bytes(), "the standby had the bytes"
    model.write_bytes(content(3))
    cluster.client.update_blob("model", model)
    await_all(cluster, lambda one: one["version"] == 3 and one["first"] == 1, "told by the next leader")
    cluster.restart("nimbus", leading)


def test_a_worker_is_restarted_instead_if_the_topology_says_so(cluster: DevCluster, model: Path) -> None:
    submit(cluster, topology__blobstore__map={"model": {"localname": "model.bin", "workerRestart": True}})
    await_all(cluster, lambda one: one["first"] == 1, "every task has the first version")
    model.write_bytes(content(2))
    cluster.client.update_blob("model", model)
    said = await_all(cluster, lambda one: one["first"] == 2, "every task has begun with the second version")
    assert [one["told"] for one in said] == [0] * 4


@pytest.mark.long
def test_an_archive_is_uncompressed_and_what_is_none_is_refused_in_a_sentence(
    cluster: DevCluster, model: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "tables.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("model.bin", content(1))
    cluster.client.put_blob("tables", archive)
    named = {**MAP, "tables": {"uncompress": True}}
    submit(cluster, topology__blobstore__map=named)
    await_all(cluster, lambda one: one["reads"] > 0, "the topology runs")
    digest = cluster.client.blob("tables").record.sha256
    unpacked = on_machine(cluster) / f"{digest}.unpacked"
    assert checked((unpacked / "model.bin").read_bytes())["version"] == 1
    archive.write_bytes(b"no archive at all")
    cluster.client.update_blob("tables", archive)
    expected = "a new version of blob 'tables' is not here yet: blob 'tables' cannot be unpacked: it is neither a tar"
    wait_until(
        lambda: any(one.message.startswith(expected) for one in cluster.client.describe("readers").errors),
        30,
        what="the error is reported",
    )
    cluster.kill("supervisor")
    cluster.restart("supervisor")
    killed = cluster.kill("worker")

    def is_replaced() -> bool:
        workers = cluster.client.describe("readers").workers
        return len(workers) == 2 and all(one.ready and one.pid != killed for one in workers)

    wait_until(is_replaced, 60, what="another worker runs, with the version before")
    kill_all(cluster)
    cluster.client.delete_blob("tables")


def test_commands(cluster: DevCluster, console: Console, model: Path, tmp_path: Path) -> None:
    assert console("blob", "put", "words", model) == f"blob words has version 1, {len(model.read_bytes()):,} bytes\n"
    again = console.refusal("blob", "put", "words", model)
    assert again.endswith(
        "a blob 'words' exists already: 'tupletree blob update words FILE' gives it another content\n"
    )
    assert "version 1," in console("blob", "update", "words", model), "the same bytes are no new version"
    model.write_bytes(content(2))
    assert "version 2," in console("blob", "update", "words", model)
    assert "words" in console("blob", "list") and "model" in console("blob", "list")
    shown = console.json("blob", "show", "words")
    assert (shown["key"], shown["version"], shown["topologies"]) == ("words", 2, [])
    assert shown["sha256"] in console("blob", "show", "words")
    taken = tmp_path / "taken"
    assert "version 2 of blob words" in console("blob", "get", "words", taken)
    assert taken.read_bytes() == model.read_bytes()
    assert console("blob", "delete", "words") == "blob words is deleted\n"
    assert "there is no blob 'words'" in console.refusal("blob", "show", "words")
    assert "there is no blob 'words'" in console.refusal("blob", "update", "words", model)
    assert "there is no blob 'words'" in console.refusal("blob", "delete", "words")
    assert "the key of a blob has 1 to 200 letters" in console.refusal("blob", "put", "a/b", model)
    empty = tmp_path / "empty"
    empty.touch()
    assert "is empty; a blob has at least one byte" in console.refusal("blob", "put", "words", empty)


@pytest.mark.long
def test_a_topology_and_its_blobs_hold_each_other(cluster: DevCluster, console: Console, model: Path) -> None:
    unknown = r"^topology 'lost' names blob 'modle' in topology.blobstore.map, which does not exist: put it first"
    with pytest.raises(UsageError, match=unknown):
        submit(cluster, "lost", topology__blobstore__map={"modle": {}})
    submit(cluster)
    assert console.json("blob", "show", "model")["topologies"] == ["readers"]
    kept = console.refusal("blob", "delete", "model")
    assert "blob 'model' is named by topology 'readers': kill it or take the blob out" in kept
    changed = json.dumps({**MAP, "other": {}})
    refused = console.refusal("config", "set", "readers", f"topology.blobstore.map={changed}")
    assert "names blob 'other' in topology.blobstore.map, which does not exist" in refused
    await_all(cluster, lambda one: one["reads"] > 0, "the topology runs")
    assert console("blob", "delete", "model", "--force") == "blob model is deleted\n"
    cluster.kill("worker")
    gone = "blob 'model', which topology.blobstore.map names, does not exist any more: put it again"
    wait_until(
        lambda: any(gone in one.message for one in cluster.client.describe("readers").errors), 30, what="it is said"
    )
    cluster.client.put_blob("model", model)
    await_all(cluster, lambda one: one["reads"] > 0, "the topology runs again")
