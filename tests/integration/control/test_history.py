"""A topology that was killed: its history, its last errors and its logs, by command and by REST."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import complaining_topology
import pytest

from tupletree.cli.main import main
from tupletree.testing import DevCluster, wait_until


@pytest.fixture(scope="module")
def gone() -> Iterator[tuple[DevCluster, str]]:
    """A cluster, and the id of a topology that was killed there when it had handled its words."""
    with DevCluster(supervisors=1, slots=1) as cluster:
        client = cluster.client
        topology_id = client.submit("words", complaining_topology.topology(), code=[complaining_topology.__file__])

        def has_handled_all() -> bool:
            reply = client.describe("words")
            acked = {one.component_id: one.total.acked for one in reply.components}
            return bool(reply.errors) and acked.get("words") == len(complaining_topology.WORDS)

        wait_until(has_handled_all, 90)
        client.kill("words")
        wait_until(client.history, 30)
        yield cluster, topology_id


@pytest.fixture
def run(gone: tuple[DevCluster, str], capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command; return its exit status, standard output and standard error."""

    def command(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([*argv, "--nimbus", gone[0].client.seeds[0]])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return command


@pytest.mark.nightly
def test_the_command_lists_removed_topologies_and_shows_one(gone: tuple[DevCluster, str], run: Any) -> None:
    _, topology_id = gone
    status, out, _ = run("history")
    assert status == 0 and "killed by" in out and topology_id in out
    [short] = json.loads(run("history", "--json")[1])
    assert (short["name"], short["id"], short["killed_by"], short["version"]) == ("words", topology_id, "", 0)
    assert short["ran_s"] == round(short["removed_unix_s"] - short["submitted_unix_s"], 3) > 0
    for name in ("words", topology_id):
        status, out, _ = run("history", name)
        assert status == 0
        assert out.startswith(f"words ({topology_id}) was removed at ") and "submitted by" in out
        assert "complain[" in out and "ValueError: that is no word" in out and "(over" not in out
        assert out.endswith(f"tupletree logs {topology_id}\n")
    [entry] = json.loads(run("history", "words", "--json")[1])
    counts = {one["component_id"]: (one["emitted"], one["executed"], one["acked"]) for one in entry["components"]}
    assert counts == {"words": (5, 0, 5), "complain": (0, 5, 5)}
    [worker] = entry["workers"]
    assert worker["port"] == gone[0].client.cluster().supervisors[0].presence.slots[0]
    assert not entry["is_shortened"]
    status, out, err = run("history", "nobody")
    assert (status, out) == (2, "")
    assert "no removed topology with the name or id 'nobody' is remembered; 'tupletree history' lists them" in err


def test_logs_of_a_removed_topology_are_read_by_name_and_by_id(gone: tuple[DevCluster, str], run: Any) -> None:
    _, topology_id = gone
    for name in ("words", topology_id):
        for past in ([], ["--past"]):
            status, out, err = run("logs", name, "-n", "1000", *past)
            assert (status, err) == (0, "") and out.count("read the word ") == 5
        assert "read the word bad" in run("logs", name, "--search", "the word bad")[1]
        assert "worker.log" in run("logs", name, "--list")[1]
    for option in (["--follow"], ["-m", "complain"]):
        status, _, err = run("logs", "words", *option)
        assert status == 2 and "topology 'words' was removed: omit --follow and --component" in err
    status, _, err = run("logs", "words", "--worker", "1")
    assert status == 2 and f"no supervisor has logs of a worker 1 of topology {topology_id}" in err
    status, _, err = run("logs", "nobody")
    assert status == 2 and "there is no topology named 'nobody'" in err


def test_a_running_topology_comes_before_a_removed_one_of_its_name(gone: tuple[DevCluster, str], run: Any) -> None:
    cluster, topology_id = gone
    cluster.client.submit("words", complaining_topology.topology(), code=[complaining_topology.__file__])
    try:
        wait_until(lambda: cluster.client.describe("words").summary.workers_ready == 1, 90)
        assert len(json.loads(run("history", "--json")[1])) == 1
        wait_until(lambda: "read the word" in run("logs", "words", "-n", "1000", "--json")[1], 30)
        status, _, err = run("logs", "words", "--past")
        assert status == 2 and "topology 'words' has no stored logs of former slots" in err
        assert run("logs", topology_id, "-n", "1000")[1].count("read the word ") == 5
    finally:
        cluster.client.kill("words", wait_secs=0)
        wait_until(lambda: len(cluster.client.history()) == 2, 30)
    assert f"earlier topologies of this name: {topology_id}\n" in run("history", "words")[1]


def get(cluster: DevCluster, path: str, **query: object) -> Any:
    port = next(one.http_port for one in cluster.processes if one.role == "nimbus")
    address = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    request = urllib.request.Request(address, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)


def test_rest_shows_the_history_and_the_logs(gone: tuple[DevCluster, str]) -> None:
    cluster, topology_id = gone
    summary = get(cluster, "history/summary")
    assert topology_id in summary["topo-history"]
    page = get(cluster, f"history/{topology_id}")
    assert [one["message"] for one in page["errors"]] == ["ValueError: that is no word"]
    [worker] = page["workers"]
    assert worker["workerLogLink"] == page["errors"][0]["errorWorkerLogLink"]
    file = f"{topology_id}/{worker['port']}/worker.log"
    assert "read the word bad" in get(cluster, "log", file=file, length=1_000_000, host=worker["host"])["data"]
    assert get(cluster, "listLogs", topoId=topology_id).count(file) == 1
    assert len(get(cluster, "search", file=file, **{"search-string": "the word bad"})["matches"]) == 1
    found = get(cluster, f"deepSearch/{topology_id}", **{"search-string": "the word bad"})
    assert (found["numberOfMatches"], found["incomplete"]) == (1, [])
    assert get(cluster, f"dumps/{topology_id}/{worker['host']}:{worker['port']}")["files"] == []
    with pytest.raises(urllib.error.HTTPError, match=r"404"):
        get(cluster, f"topology/{topology_id}")
    with pytest.raises(urllib.error.HTTPError, match=r"404") as refused:
        get(cluster, "log", file=f"nobody-1-1700000000/{worker['port']}/worker.log")
    reason = "there is no topology with the id 'nobody-1-1700000000', and none in the history"
    assert json.load(refused.value)["errorMessage"] == reason


def test_logs_that_no_supervisor_has_any_more(gone: tuple[DevCluster, str], run: Any) -> None:
    cluster, topology_id = gone
    for found in Path(cluster.directory).rglob(topology_id):
        shutil.rmtree(found)
    status, _, err = run("logs", topology_id)
    assert status == 2
    assert f"no supervisor has logs of topology {topology_id} any more (supervisor.logs.retention.secs)" in err
