"""States of a real cluster from outside: their sizes, over REST, by command and in metrics, and what REST changes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from test_state_questions import Lines

from tupletree import BasicStatefulBolt, KeyedProcess, TopologyBuilder
from tupletree.cli.main import main
from tupletree.client import ComponentStates, SizePrecision, StateClient, StateSize
from tupletree.errors import NotFoundError, TupletreeError, UsageError
from tupletree.nimbus.web.state_schemas import SAVEPOINT, STATE_WRITTEN, STATES
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long

NAME = "sized"
WORDS = ["apple"] * 3 + ["pear", "plum"] + [f"word{number}" for number in range(30)]


class Count(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Any) -> None:
        self.state[tup["word"]] += 1


class Latest(KeyedProcess):
    key = "word"
    default_factory = int

    def on_tuple(self, tup: Any, state: Any, timers: Any) -> None:
        state.value += 1


class Remembered(Lines):
    def checkpoint_state(self) -> Any:
        return self.next

    def restore_state(self, state: Any) -> None:
        self.next = state


class Scene:
    """A running topology, and requests about its states."""

    def __init__(self, cluster: DevCluster, folder: Path) -> None:
        self.cluster, self.states = cluster, StateClient(conf=cluster.conf)
        path = folder / "words.txt"
        path.write_text(" ".join(WORDS))
        self.folder = folder
        builder = TopologyBuilder()
        builder.set_spout("lines", Remembered(str(path)))
        builder.set_bolt("count", Count(), 3).fields_grouping("lines", ["word"])
        builder.set_bolt("latest", Latest()).fields_grouping("lines", ["word"])
        builder.set_bolt("kept", Count(), 2).fields_grouping("lines", ["word"]).add_configurations(
            {"topology.state.provider": "zookeeper", "topology.state.provider.config": None}
        )
        conf = {
            "topology.state.checkpoint.aligned": True,
            "topology.state.checkpoint.interval.ms": 300,
            "topology.state.provider": "sqlite",
            "topology.state.provider.config": {"directory": str(folder / "states")},
            "topology.workers": 2,
        }
        cluster.client.submit(NAME, builder.create_topology(), conf)
        wait_until(self._has_begun, 90, what="the words are committed")
        self.id = cluster.client.describe(NAME).summary.record.id

    def _has_begun(self) -> bool:
        try:
            return all(len(self.states.scan(NAME, one).entries) == 33 for one in ("count", "kept"))
        except TupletreeError:  # no worker runs yet
            return False

    def values(self, component: str, *keys: Any) -> dict[Any, Any]:
        return {one.key: one.value for one in self.states.get(NAME, component, *keys).entries}

    def settled(self) -> dict[str, ComponentStates]:
        """The sizes, as soon as none is from before the words were counted."""
        found: dict[str, ComponentStates] = {}

        def is_settled() -> bool:
            found.update({one.component: one for one in self.states.sizes(NAME)})
            return all(found[one].spread.total.keys == 33 for one in ("count", "kept"))

        wait_until(is_settled, 60, what="the sizes are measured again")
        return found

    def call(self, path: str, body: Any = None, nimbus: int = 0, **headers: str) -> tuple[int, Any]:
        port = [one.http_port for one in self.cluster.processes if one.role == "nimbus"][nimbus]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/v1/topology/{self.id}/{path}",
            data,
            headers or ({} if data is None else {"Content-Type": "application/json"}),
        )
        try:
            with urllib.request.urlopen(request, timeout=90) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["errorMessage"]

    def ended_savepoint(self) -> Any:
        wait_until(lambda: self.call("savepoint")[1]["state"] != "running", 60, what="the savepoint has ended")
        return self.call("savepoint")[1]

    def run(self, *arguments: str) -> int:
        return main(["state", NAME, *arguments, "--nimbus", ",".join(self.cluster.conf["nimbus.seeds"])])


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("sized")
    with DevCluster(slots=2, nimbuses=2, conf={"nimbus.savepoints.address": str(folder / "savepoints")}) as cluster:
        made = Scene(cluster, folder)
        with made.states:
            yield made


def test_sizes_are_those_of_the_committed_entries(scene: Scene) -> None:
    found = scene.settled()
    assert list(found) == ["count", "kept", "latest", "lines"]
    assert [one.provider for one in found.values()] == ["sqlite", "zookeeper", "sqlite", "sqlite"]
    entries = scene.states.scan(NAME, "count", limit=1000).entries
    for task in found["count"].tasks:
        own = [one for one in entries if one.task == task.task]
        size = sum(len(one.encoded_key) + len(one.encoded_value) for one in own)
        assert task.size == StateSize(len(own), size, SizePrecision.EXACT)
        assert task.committed is not None
        assert task.failure == ""
        assert 0 <= task.age_secs < 60
    spread = found["count"].spread
    assert spread.total == StateSize(33, sum(len(one.encoded_key) + len(one.encoded_value) for one in entries))
    assert spread.key_skew is not None
    assert 1.0 < spread.key_skew <= 3.0
    assert found["lines"].spread.total.keys == 1
    assert [one.component for one in scene.states.sizes(NAME, "kept")] == ["kept"]


def test_what_has_no_state_is_named(scene: Scene) -> None:
    with pytest.raises(NotFoundError, match=r"^there is no topology named 'nope'"):
        scene.states.sizes("nope")
    with pytest.raises(NotFoundError, match=r"^topology 'sized' has no component 'nope'; it has count, kept, latest"):
        scene.states.sizes(NAME, "nope")
    with pytest.raises(
        NotFoundError, match=r"^component '\$checkpointspout' has no state; states are kept by count, kept, "
    ):
        scene.states.sizes(NAME, "$checkpointspout")
    assert scene.call("states?component=nope")[0] == 404


def test_rest_has_the_same_sizes_with_shares(scene: Scene) -> None:
    scene.settled()
    status, page = scene.call("states")
    assert status == 200
    assert page.keys() == STATES.keys()
    assert (page["topologyId"], page["topologyName"]) == (scene.id, NAME)
    count = next(one for one in page["components"] if one["component"] == "count")
    assert count.keys() == STATES["components"][0].keys()
    assert all(task.keys() == STATES["components"][0]["tasks"][0].keys() for task in count["tasks"])
    assert (count["keys"], count["precision"], count["writeRefusal"]) == (33, "exact", "")
    assert count["largest"][0].keys() == STATES["components"][0]["largest"][0].keys()
    assert (len(count["largest"]), count["largest"][0]["key"][:4]) == (5, "word")
    assert sum(task["keyShare"] for task in count["tasks"]) == pytest.approx(1)
    assert max(task["keyShare"] for task in count["tasks"]) * 3 == pytest.approx(count["keySkew"])
    assert max(task["byteShare"] for task in count["tasks"]) * 3 == pytest.approx(count["byteSkew"])
    assert [one["component"] for one in scene.call("states?component=kept")[1]["components"]] == ["kept"]


def test_the_command_shows_components_and_tasks(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.settled()
    assert scene.run() == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0].split() == ["component", "provider", "tasks", "keys", "bytes", "key", "skew", "byte", "skew"]
    shown = [line.split()[:4] for line in lines[2:4]]
    assert shown == [["count", "sqlite", "3", "33"], ["kept", "zookeeper", "2", "33"]]
    assert scene.run("count") == 0
    said = capsys.readouterr().out
    assert "share of keys" in said
    assert "33 keys and " in said and " bytes with provider sqlite; skew " in said
    assert "largest entries" in said
    assert scene.run("latest", "sizes") == 0
    assert "read only: the state of component 'latest' cannot be written from outside" in capsys.readouterr().out
    assert scene.run("--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["name"] == NAME
    assert [one["keys"] for one in found["components"]][:2] == [33, 33]
    assert scene.run("count", "--json") == 0
    [count] = json.loads(capsys.readouterr().out)["components"]
    assert sum(task["keys"] for task in count["tasks"]) == 33


def test_values_are_put_and_deleted_over_rest(scene: Scene) -> None:
    entries = [{"key": "apple", "value": 30}, {"key": "new", "value": 5}]
    status, done = scene.call("component/count/state/put", {"entries": entries})
    assert status == 200
    assert done.keys() == STATE_WRITTEN.keys()
    assert (done["put"], done["deleted"], done["component"]) == (2, 0, "count")
    assert all(task["committedTxid"] > 0 for task in done["tasks"])
    assert scene.values("count", "apple", "new") == {"apple": 30, "new": 5}
    entry = {"key": ["a", 1], "value": {"$tuple": [1]}, "task": 2}
    assert scene.call("component/count/state/put", {"entries": [entry], "waitSeconds": 30})[0] == 200
    assert scene.values("count", ("a", 1)) == {("a", 1): (1,)}
    done = scene.call("component/count/state/delete", {"keys": ["new", ["a", 1], "nobody"]})[1]
    assert (done["put"], done["deleted"]) == (0, 2)
    assert scene.values("count", "new", ("a", 1)) == {}


def test_any_nimbus_passes_a_change_to_the_leader(scene: Scene) -> None:
    for number in range(2):
        entry = {"key": "passed on", "value": number}
        assert scene.call("component/kept/state/put", {"entries": [entry]}, nimbus=number)[0] == 200
        assert scene.values("kept", "passed on") == {"passed on": number}
    assert scene.call("component/kept/state/delete", {"keys": ["passed on"]})[1]["deleted"] == 1


def test_a_value_that_has_changed_is_a_conflict(scene: Scene) -> None:
    entry = {"key": "pear", "value": 9, "expected": 8}
    status, sentence = scene.call("component/count/state/put", {"entries": [entry]})
    assert (status, sentence.split(":")[0][:9]) == (409, "key 'pear")
    assert scene.call("component/count/state/put", {"entries": [entry | {"expected": 1}]})[0] == 200
    assert scene.values("count", "pear") == {"pear": 9}


@pytest.mark.parametrize("component", ["latest", "lines"])
def test_what_cannot_be_written_is_refused_in_the_same_words_everywhere(scene: Scene, component: str) -> None:
    with pytest.raises(UsageError) as refused:
        scene.states.put(NAME, component, "apple", 1)
    [shown] = scene.call(f"states?component={component}")[1]["components"]
    assert shown["writeRefusal"] == str(refused.value)
    for verb, body in (("put", {"entries": [{"key": "apple", "value": 1}]}), ("delete", {"keys": ["apple"]})):
        assert scene.call(f"component/{component}/state/{verb}", body) == (400, str(refused.value))


@pytest.mark.parametrize(
    ("verb", "body", "sentence"),
    [
        ("put", None, "the body is an object with a list entries, and of waitSeconds what is needed"),
        ("put", {"entries": []}, "entries has nothing to change"),
        ("put", {"entries": [], "other": 1}, "the body is an object with a list entries, and of waitSeconds what is"),
        ("put", {"entries": [{"key": "a"}]}, 'an entry is {"key": ..., "value": ...}, and has "task" and "expected"'),
        ("put", {"entries": [{"key": 1.5, "value": 1}]}, "a key in JSON is a string, a whole number"),
        ("put", {"entries": [{"key": "a", "value": {"$value": "x.Y", "fields": []}}]}, "an object of a class is no"),
        (
            "put",
            {"entries": [{"key": "a", "value": 1, "task": 3}]},
            "component 'count' has tasks 0 to 2, and no task 3",
        ),
        ("put", {"entries": [{"key": "a", "value": 1, "task": "x"}]}, "a task is a whole number from 0, not 'x'"),
        ("put", {"entries": [{"key": "a", "value": 1}], "waitSeconds": 0}, "waitSeconds is a number of more than 0"),
        ("delete", {"keys": ["a"], "waitSeconds": 10**400}, "waitSeconds is a number of more than 0"),
        (
            "delete",
            {"keys": "apple"},
            "the body is an object with a list keys, and of task, waitSeconds what is needed",
        ),
        ("delete", {"keys": ["a"], "task": -1}, "a task is a whole number from 0, not -1"),
        ("delete", {"keys": [["a", {}]]}, "a key in JSON is a string, a whole number"),
    ],
)
def test_a_body_that_is_no_change_is_refused(scene: Scene, verb: str, body: Any, sentence: str) -> None:
    status, said = scene.call(f"component/count/state/{verb}", {} if body is None else body)
    assert status == 400
    assert said.startswith(sentence)


def test_a_page_of_another_site_changes_nothing(scene: Scene) -> None:
    body = {"entries": [{"key": "apple", "value": 1}]}
    status, said = scene.call("component/count/state/put", body, **{"Content-Type": "text/plain"})
    assert (status, said.partition(",")[0]) == (403, "a POST needs the header 'X-Requested-With'")
    origin = {"Content-Type": "application/json", "Origin": "http://evil.example"}
    assert scene.call("component/count/state/delete", {"keys": ["apple"]}, **origin)[0] == 403
    assert scene.call(f"component/{quote('nope', safe='')}/state/put", body)[0] == 404


def test_scrapes_of_workers_show_the_sizes(scene: Scene) -> None:
    scene.settled()
    ports = [one.http_port for one in scene.cluster.processes if one.role == "worker"]

    def shown() -> dict[str, float]:
        found: dict[str, float] = {}
        for port in ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
                for line in reply.read().decode().splitlines():
                    if line.startswith(("tupletree_worker_state_keys{", "tupletree_worker_state_bytes{")):
                        name, labels = line.split('component="', 1)
                        key = f"{name.partition('{')[0]} {labels.partition(chr(34))[0]}"
                        found[key] = found.get(key, 0) + float(line.rsplit(" ", 1)[1])
        return found

    wait_until(lambda: shown().get("tupletree_worker_state_keys kept") == 33, 60, what="a scrape shows the keys")
    found = shown()
    assert found["tupletree_worker_state_keys lines"] == 1
    assert found["tupletree_worker_state_bytes count"] > 33 * 2


def test_a_savepoint_is_written_beside_nimbus(scene: Scene) -> None:
    status, page = scene.call("savepoint")
    assert (status, page["configured"], page["state"], page["address"]) == (200, True, "none", None)
    assert page.keys() == SAVEPOINT.keys()
    status, begun = scene.call("savepoint", {"to": "monday"})
    assert (status, begun["state"], begun["address"]) == (200, "running", f"{scene.folder}/savepoints/{NAME}/monday")
    assert scene.call("savepoint", {"to": "tuesday"}) == (
        409,
        f"a savepoint of topology '{NAME}' is being written to {begun['address']}: wait for it",
    )
    done = scene.ended_savepoint()
    assert (done["state"], done["failure"], done["checkpoint"] > 0) == ("done", "", True)
    assert done["entries"] == {"count": 33, "kept": 33, "latest": 34, "lines": 1}
    manifest = json.loads((scene.folder / "savepoints" / NAME / "monday" / "savepoint.json").read_text())
    assert manifest["checkpoint"] == done["checkpoint"]
    assert scene.call("savepoint", {"to": "monday"})[0] == 200
    failed = scene.ended_savepoint()
    assert failed["state"] == "failed"
    assert failed["failure"].startswith(f"there is a savepoint at {begun['address']} already")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            {"to": "../other"},
            "to is a name of 1 to 100 letters, digits, '.', '_' and '-', the first a letter or a digit",
        ),
        ({"to": 5}, "to is a name of 1 to 100 letters"),
        ({"kill": True}, "the body is an object with what is needed of to and waitSeconds"),
        ({"waitSeconds": -1}, "waitSeconds is a number of more than 0 and up to 600, not -1"),
    ],
)
def test_a_savepoint_has_a_name_and_no_place(scene: Scene, body: Any, sentence: str) -> None:
    status, said = scene.call("savepoint", body)
    assert (status, said[: len(sentence)]) == (400, sentence)


def test_a_task_without_a_worker_has_the_reason(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Remembered("nowhere"))
    builder.set_bolt("count", Count(), 2).fields_grouping("lines", ["word"])
    scene.cluster.client.submit("homeless", builder.create_topology(), {"topology.workers": 1})
    [found] = scene.states.sizes("homeless")
    assert [(one.task, one.size, one.failure) for one in found.tasks] == [
        (0, None, "the task has no worker"),
        (1, None, "the task has no worker"),
    ]
    assert found.spread.total == StateSize(0, 0, SizePrecision.AT_LEAST)
    seeds = ",".join(scene.cluster.conf["nimbus.seeds"])
    assert main(["state", "homeless", "--nimbus", seeds]) == 0
    said = capsys.readouterr()
    assert "2, 2 unknown" in said.out
    assert "at least 0" in said.out
    assert said.err == "count, task 0, 1: the task has no worker\n"
