"""Values written from outside into the states of a running topology, one component for each provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_state_questions import Lines

from tests.integration.transactional.database_servers import PostgresServer, RedisServer
from tupletree import BasicStatefulBolt, KeyedProcess, TopologyBuilder
from tupletree.cli.main import main
from tupletree.client import StateClient
from tupletree.errors import ConflictError, NotFoundError, TupletreeError, UsageError
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long

NAME = "written"
PROVIDERS = ("memory", "sqlite", "rocksdb", "postgres", "redis", "zookeeper")


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
    """A running topology, and the file of its words."""

    def __init__(self, cluster: DevCluster, folder: Path, configs: dict[str, Any]) -> None:
        self.cluster, self.path = cluster, folder / "words.txt"
        self.path.write_text("apple pear apple\n")
        self.states = StateClient(conf=cluster.conf)
        builder = TopologyBuilder()
        builder.set_spout("lines", Remembered(str(self.path)))
        for provider, config in configs.items():
            own = {"topology.state.provider": provider, "topology.state.provider.config": config}
            builder.set_bolt(provider, Count(), 3).fields_grouping("lines", ["word"]).add_configurations(own)
        builder.set_bolt("each", Count(), 2).all_grouping("lines")
        builder.set_bolt("latest", Latest()).fields_grouping("lines", ["word"])
        conf = {
            "topology.state.checkpoint.aligned": True,
            "topology.state.checkpoint.interval.ms": 300,
            "topology.state.provider": "sqlite",
            "topology.state.provider.config": configs["sqlite"],
            "topology.workers": 2,
        }
        cluster.client.submit(NAME, builder.create_topology(), conf)

    def add(self, *words: str) -> None:
        with self.path.open("a") as file:
            file.write("".join(f"{word}\n" for word in words))

    def values(self, component: str, *keys: Any) -> dict[Any, Any]:
        return {one.key: one.value for one in self.states.get(NAME, component, *keys).entries}

    def all(self, component: str) -> dict[Any, Any]:
        return {one.key: one.value for one in self.states.scan(NAME, component, limit=1000).entries}

    def await_values(self, component: str, **expected: Any) -> None:
        wait_until(lambda: self.values(component, *expected) == expected, 30, what=f"{component} has {expected}")

    def run(self, *arguments: str) -> int:
        return main(["state", NAME, *arguments, "--nimbus", ",".join(self.cluster.conf["nimbus.seeds"])])


def begun(scene: Scene) -> bool:
    try:
        return all(scene.values(one, "apple") == {"apple": 2} for one in (*PROVIDERS, "each", "latest"))
    except TupletreeError:  # no worker runs yet
        return False


@pytest.fixture(scope="module")
def scene(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, postgres_server: PostgresServer
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("written")
    (folder / "shared").mkdir()
    configs = {
        "memory": None,
        "sqlite": {"directory": str(folder / "states")},
        "rocksdb": {"shared": str(folder / "shared"), "directory": str(folder / "copies")},
        "postgres": {"url": postgres_server.url, "schema": "written"},
        "redis": {"url": redis_server.url, "prefix": "written"},
        "zookeeper": None,
    }
    with DevCluster(slots=2) as cluster:
        made = Scene(cluster, folder, configs)
        with made.states:
            wait_until(lambda: begun(made), 120, what="the words are committed")
            yield made


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_value_is_committed_and_tuples_go_on_from_it(scene: Scene, provider: str) -> None:
    before = scene.values(provider, "apple")["apple"]
    new = f"new-{provider}"
    for key, value in (("apple", 1_000), (new, 50), ("a text", {"of": [("any", b"type")]}), (7, None)):
        done = scene.states.put(NAME, provider, key, value)
        [index] = done.put_in
        assert (done.put, done.deleted, list(done.committed)) == (1, 0, [index])
        [entry] = scene.states.get(NAME, provider, key).entries
        assert (entry.task, entry.value) == (index, value)
    scene.add("apple", new, new)
    scene.await_values(provider, **{"apple": 1_001, new: 52})
    scene.states.put(NAME, provider, "apple", before + 1)
    done = scene.states.delete(NAME, provider, new, "a text", 7, "missing")
    assert (done.put, done.deleted, sorted(done.committed)) == (0, 3, [0, 1, 2])
    assert scene.values(provider, new, "a text", 7, "missing") == {}
    assert scene.states.get(NAME, provider, new, live=True).entries == ()


def test_a_value_that_has_changed_meanwhile_is_not_overwritten(scene: Scene) -> None:
    scene.states.put(NAME, "sqlite", "plum", 5)
    scene.states.put(NAME, "sqlite", "plum", 6, expected=5)
    for key, expected in (("plum", 5), ("no such key", None)):
        with pytest.raises(ConflictError, match=r"has another value now: nothing was changed$"):
            scene.states.put(NAME, "sqlite", key, 7, expected=expected)
    assert scene.values("sqlite", "plum", "no such key") == {"plum": 6}


def test_without_a_fields_grouping_the_task_is_named(scene: Scene) -> None:
    with pytest.raises(UsageError, match=r"key 'apple' of component 'each' belongs to no fields grouping, and the"):
        scene.states.put(NAME, "each", "apple", 1)
    done = scene.states.put(NAME, "each", "only here", 9, task=1)
    assert done.put_in == {1}
    assert [(one.task, one.value) for one in scene.states.get(NAME, "each", "only here").entries] == [(1, 9)]
    assert scene.states.delete(NAME, "each", "only here", task=0).deleted == 0
    assert scene.states.delete(NAME, "each", "only here").deleted == 1


def test_what_cannot_be_written_gets_a_sentence(scene: Scene) -> None:
    states = scene.states
    for ask, kind, sentence in (
        (lambda: states.put("nope", "sqlite", "a", 1), NotFoundError, "there is no topology named 'nope'"),
        (lambda: states.put(NAME, "nope", "a", 1), NotFoundError, "topology 'written' has no component 'nope'"),
        (lambda: states.put(NAME, "lines", "a", 1), UsageError, "is the position of a spout, which only the spout may"),
        (
            lambda: states.put(NAME, "latest", "a", 1),
            UsageError,
            "cannot be written from outside: a KeyedProcess keeps entries that depend on each other",
        ),
        (lambda: states.put(NAME, "sqlite", "a", 1, task=3), UsageError, "has tasks 0 to 2, and no task 3"),
        (lambda: states.put(NAME, "sqlite", "a", 1, wait_secs=601), UsageError, "for more than 0 and up to 600 s, not"),
        (lambda: states.put(NAME, "sqlite", 1.5, 1), UsageError, "a state has no key 1.5: a key must be a str"),
        (lambda: states.put(NAME, "sqlite", "a", object()), UsageError, "the value of key 'a' cannot be stored"),
        (lambda: states.put(NAME, "sqlite", "a", 1, task=-1), UsageError, "a task is a whole number from 0, not -1"),
        (
            lambda: states.put(NAME, "sqlite", "a", bytes(20_000_000)),
            UsageError,
            "the keys and values of a request may take 8,000,000 bytes, not 20,000,007",
        ),
        (lambda: states.delete(NAME, "sqlite"), UsageError, "delete needs a key or more"),
    ):
        with pytest.raises(kind, match=sentence):
            ask()


def test_a_value_that_the_store_cannot_hold_is_lost_with_its_checkpoint(scene: Scene) -> None:
    before = scene.all("redis")
    with pytest.raises(ConflictError, match=r"went back to its last checkpoint before all changes were committed"):
        scene.states.put(NAME, "zookeeper", "large", bytes(2_000_000))

    def is_put() -> bool:
        """A checkpoint that fails can take the tasks back twice: a change between the two is lost too, and told so."""
        try:
            scene.states.put(NAME, "zookeeper", "small", 1)
        except ConflictError:
            return False
        return True

    wait_until(is_put, 60)
    assert scene.values("zookeeper", "large", "small") == {"small": 1}
    assert scene.all("redis") == before


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_what_was_exported_is_imported(scene: Scene, ending: str, tmp_path: Path) -> None:
    scene.states.put(NAME, "redis", ("a", b"tuple"), {"set": {1, 2}})
    file = str(tmp_path / f"redis.{ending}")
    scene.cluster.client.export_state(NAME, "redis", file)
    expected = scene.all("redis")
    scene.states.import_(NAME, "postgres", file, replace=True)
    assert scene.all("postgres") == expected
    told: list[int] = []
    done = scene.states.import_(NAME, "postgres", file, on_progress=told.append)
    assert (done.put, done.deleted, told) == (len(expected), 0, [len(expected)])
    scene.states.put(NAME, "postgres", "another", 1)
    assert scene.all("postgres") == expected | {"another": 1}
    again = scene.states.import_(NAME, "postgres", file, replace=True)
    assert (again.put, again.deleted) == (len(expected), 1)
    assert scene.all("postgres") == expected


def test_an_import_that_ends_early_is_completed_by_another(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tupletree.state.writes.MAX_CHANGES", 10)
    lines = [json.dumps({"key": f"imported{number}", "value": number}) for number in range(25)]
    path = tmp_path / "counts.jsonl"
    path.write_text("\n".join([*lines[:23], "{", *lines[23:]]) + "\n")
    sentence = rf"^line 24 of {path} is not .*; 20 entries of {path} were committed before: import it again$"
    with pytest.raises(UsageError, match=sentence):
        scene.states.import_(NAME, "sqlite", path)
    assert len([key for key in scene.all("sqlite") if str(key).startswith("imported")]) == 20
    path.write_text("\n".join(lines))
    assert scene.states.import_(NAME, "sqlite", path).put == 25
    assert {key: value for key, value in scene.all("sqlite").items() if str(key).startswith("imported")} == {
        f"imported{number}": number for number in range(25)
    }


def test_an_import_by_task_goes_where_the_file_says(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "each.jsonl"
    path.write_text("".join(json.dumps({"task": task, "key": "both", "value": task}) + "\n" for task in (0, 1)))
    scene.states.import_(NAME, "each", path, by_task=True)
    assert [(one.task, one.value) for one in scene.states.get(NAME, "each", "both").entries] == [(0, 0), (1, 1)]
    path.write_text('{"key": "both", "value": 1}\n')
    with pytest.raises(UsageError, match=r"entry 1 of .* names no task"):
        scene.states.import_(NAME, "each", path, by_task=True)
    path.write_text("")
    with pytest.raises(UsageError, match=r"has no entries, and to replace the state by them would empty it"):
        scene.states.import_(NAME, "each", path, replace=True)


def test_the_commands(scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scene.run("sqlite", "put", "cherry", "5") == 0
    said = capsys.readouterr().out
    assert said.startswith("put cherry in task ") and ", committed with checkpoint " in said
    assert scene.run("sqlite", "put", "cherry", "6", "--if", "4") == 1
    assert "has another value now" in capsys.readouterr().err
    assert scene.run("sqlite", "put", "--json-keys", '["a", 1]', '{"$tuple": [1]}', "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["put"], found["deleted"], len(found["tasks"])) == (1, 0, 1)
    assert scene.values("sqlite", ("a", 1), "cherry") == {("a", 1): (1,), "cherry": 5}
    assert scene.run("sqlite", "put", "cherry", "-5") == 0
    assert scene.run("sqlite", "put", "cherry", "5", "--if", "-5") == 0
    assert scene.run("sqlite", "put", "cherry", "5", "--nope") == 2
    assert "unexpected extra argument (--nope)" in capsys.readouterr().err
    assert scene.run("sqlite", "put", "cherry", "red") == 2
    assert "a value is JSON, and 'red' is not: a text has quotes in it" in capsys.readouterr().err
    file = str(tmp_path / "one.jsonl")
    Path(file).write_text('{"key": "fig", "value": 1}\n')
    assert scene.run("each", "import", file, "--by-task") == 2
    assert scene.run("memory", "import", file, "--replace") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"1 entry of {file} put, ") and said.endswith(" other keys deleted\n")
    assert scene.all("memory") == {"fig": 1}
    assert scene.run("sqlite", "delete", "cherry", "fig") == 0
    assert capsys.readouterr().out.startswith("1 key deleted, committed with checkpoint ")
    table = tmp_path / "table.csv"
    table.write_text("key,value\nfig,7\nplum,8\n")
    assert scene.run("sqlite", "import", str(table)) == 0
    assert scene.values("sqlite", "fig", "plum") == {"fig": 7, "plum": 8}


def test_an_inactive_topology_is_written_too(scene: Scene) -> None:
    scene.cluster.client.deactivate(NAME)
    scene.states.put(NAME, "redis", "pear", 10)
    scene.add("pear")
    scene.cluster.client.activate(NAME)
    scene.await_values("redis", pear=11)
