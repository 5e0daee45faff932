"""Questions to the states of a real cluster: through nimbus, over REST, by command, and to the store itself."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import tupletree
from tupletree import BasicStatefulBolt, Spout, TopologyBuilder
from tupletree.cli.main import main
from tupletree.client import StateClient, StateEntry, StoredStates, UnknownValue
from tupletree.errors import NotFoundError, UsageError
from tupletree.nimbus.web.state_schemas import STATE
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long

LARGE, TOO_LARGE = 600_000, 1_200_000
NAME = "words"


@tupletree.value
@dataclass(frozen=True)
class Tally:
    word: str
    count: int


class Lines(Spout):
    """Emits the words of a file, as they are appended."""

    outputs = ("word",)

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.next = collector, 0

    def next_tuple(self) -> None:
        words = Path(self.path).read_text().split()
        for word in words[self.next : self.next + 100]:
            self.collector.emit([word], msg_id=self.next)
            self.next += 1


class Count(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        self.state[word] += 1
        self.state["tally", word] = Tally(word, self.state[word])
        if word.startswith("large"):
            self.state["blob", word] = bytes(LARGE if word != "large0" else TOO_LARGE)


class Seen(BasicStatefulBolt):
    """Each task has a state, and every word is in each."""

    default_factory = int

    def execute(self, tup: Any) -> None:
        self.state[tup["word"]] += 1


class Scene:
    """A running topology, and the file of its words."""

    def __init__(self, cluster: DevCluster, path: Path, states: Path) -> None:
        self.cluster, self.path = cluster, path
        self.conf = {
            "topology.state.provider": "sqlite",
            "topology.state.provider.config": {"directory": str(states)},
            "topology.state.checkpoint.interval.ms": 3000,
            "topology.workers": 2,
        }
        self.states = StateClient(conf=cluster.conf)
        builder = TopologyBuilder()
        builder.set_spout("lines", Lines(str(path)))
        builder.set_bolt("count", Count(), 3).fields_grouping("lines", ["word"])
        builder.set_bolt("seen", Seen(), 2).all_grouping("lines")
        for name, provider in (("fleeting", "memory"), ("kept", "zookeeper")):
            own = {"topology.state.provider": provider, "topology.state.provider.config": None}
            builder.set_bolt(name, Seen()).all_grouping("lines").add_configurations(own)
        self.topology = builder.create_topology()

    def add(self, *words: str) -> None:
        with self.path.open("a") as file:
            file.write("".join(f"{word}\n" for word in words))

    def values(self, *keys: Any, live: bool = False) -> dict[Any, Any]:
        return {one.key: one.value for one in self.states.get(NAME, "count", *keys, live=live).entries}

    def rest(self, component: str, **query: Any) -> tuple[int, Any]:
        port = next(one.http_port for one in self.cluster.processes if one.role == "nimbus")
        topology = self.cluster.client.describe(NAME).summary.record.id
        path = f"/api/v1/topology/{topology}/component/{component}/state?{urlencode(query)}"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["errorMessage"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("questions")
    path = folder / "words.txt"
    path.write_text("apple pear apple\n")
    with DevCluster(slots=2) as cluster:
        made = Scene(cluster, path, folder / "states")
        cluster.client.submit(NAME, made.topology, made.conf)
        wait_until(lambda: committed(made, "apple") == 2, 90, what="the words are committed")
        yield made
        made.states.close()


def committed(scene: Scene, key: Any) -> Any:
    try:
        return scene.values(key).get(key)
    except (NotFoundError, tupletree.errors.UnavailableError):  # no worker runs yet
        return None


def test_live_values_are_ahead_of_committed_ones_until_the_next_checkpoint(scene: Scene) -> None:
    for number in range(1, 11):
        scene.add("plum")
        wait_until(lambda number=number: scene.values("plum", live=True) == {"plum": number}, 30)  # type: ignore[misc]
        if scene.values("plum").get("plum", 0) < number:  # no checkpoint fell between the two questions
            break
    else:
        pytest.fail("committed values were never behind")
    wait_until(lambda: scene.values("plum") == {"plum": number}, 30, what="the next checkpoint")
    assert scene.values("plum", live=True) == {"plum": number}


def test_an_answer_names_tasks_and_checkpoints(scene: Scene) -> None:
    answer = scene.states.get(NAME, "count", "apple", "pear", "missing", ("tally", "apple"))
    assert {one.key: one.value for one in answer.entries} == {
        "apple": 2, "pear": 1, ("tally", "apple"): Tally("apple", 2)
    }  # fmt: skip
    assert sorted(answer.committed) == [0, 1, 2]
    assert all(txid is not None and txid > 0 for txid in answer.committed.values())
    assert scene.states.get(NAME, "count", "missing").entries == ()
    assert [one.value for one in scene.states.get(NAME, "count", "apple", "apple").entries] == [2]
    seen = scene.states.get(NAME, "seen", "apple")
    assert [(one.task, one.value) for one in seen.entries] == [(0, 2), (1, 2)]


def test_every_provider_is_read_by_the_worker(scene: Scene) -> None:
    for component in ("fleeting", "kept", "seen"):

        def found(component: str = component, live: bool = False) -> set[Any]:
            return {one.value for one in scene.states.get(NAME, component, "apple", live=live).entries}

        wait_until(lambda: found() == {2}, 30, what=f"{component} is in a checkpoint")
        assert found(live=True) == {2}
        [one] = [one for one in scene.states.scan(NAME, component, limit=1000).entries if one.key == "apple"][:1]
        assert one.value == 2


def test_a_list_goes_on_page_by_page_over_all_tasks(scene: Scene) -> None:
    scene.add(*(f"word{number}" for number in range(40)))
    wait_until(lambda: committed(scene, "word39") == 1, 30, what="the words are committed")
    found, after = [], ""
    while True:
        page = scene.states.scan(NAME, "count", after=after, limit=7)
        assert len(page.entries) <= 7
        found += [one.key for one in page.entries if isinstance(one.key, str)]
        after = page.next
        if not after:
            break
    assert sorted(found) == sorted(set(scene.path.read_text().split()))


def test_what_is_too_large_for_an_answer_is_left_out_or_asked_for_alone(scene: Scene) -> None:
    words = [f"large{number}" for number in range(4)]
    keys = [("blob", word) for word in words]
    scene.add(*words)
    wait_until(lambda: set(words) <= scene.values(*words).keys(), 30, what="the words are committed")
    for live in (False, True):
        answer = {one.key: one for one in scene.states.get(NAME, "count", *keys, live=live).entries}
        assert (answer[keys[0]].is_left_out, answer[keys[0]].value) == (True, None)
        assert answer[keys[0]].size > TOO_LARGE
        assert [answer[key].value for key in keys[1:]] == [bytes(LARGE)] * 3
    listed, after, pages = {}, "", 0
    while pages == 0 or after:
        page = scene.states.scan(NAME, "count", after=after, limit=1000)
        assert sum(len(one.encoded_value) for one in page.entries) <= 1_000_000
        listed.update({one.key: one for one in page.entries})
        after, pages = page.next, pages + 1
    assert [listed[key].is_left_out for key in keys] == [True, False, False, False]


def test_wrong_questions_get_a_sentence(scene: Scene) -> None:
    states = scene.states
    for ask, kind, sentence in (
        (lambda: states.get("nope", "count", "a"), NotFoundError, "there is no topology named 'nope'"),
        (
            lambda: states.get(NAME, "nope", "a"),
            NotFoundError,
            "topology 'words' has no component 'nope'; it has count",
        ),
        (lambda: states.get(NAME, "lines", "a"), NotFoundError, "component 'lines' has no state"),
        (lambda: states.scan(NAME, "lines"), NotFoundError, "component 'lines' has no state"),
        (lambda: states.get(NAME, "count"), UsageError, "get needs a key or more"),
        (
            lambda: states.get(NAME, "count", 1.5),
            UsageError,
            "a state has no key 1.5: a key must be a str, bytes, an int or a tuple of these",
        ),
        (
            lambda: states.get(NAME, "count", "x" * 70_000),
            UsageError,
            "the keys of a question may take 65,536 bytes, not 70,005",
        ),
        (lambda: states.scan(NAME, "count", limit=1001), UsageError, "a page has 1 to 1,000 entries, not 1,001"),
        (lambda: states.scan(NAME, "count", after="x"), UsageError, "'x' is no position in a state"),
    ):
        with pytest.raises(kind, match=sentence):
            ask()


def test_rest_answers_in_plain_form(scene: Scene) -> None:
    status, page = scene.rest("count", keys=json.dumps(["apple", ["tally", "apple"], "missing"]))
    assert status == 200
    assert page["component"] == "count" and page["live"] is False and page["next"] is None
    assert page.keys() == STATE.keys()
    assert {*page["entries"][0]} == {*STATE["entries"][0]} and {*page["tasks"][0]} == {*STATE["tasks"][0]}
    [tally] = [one["value"] for one in page["entries"] if one["key"] == {"$tuple": ["tally", "apple"]}]
    assert tally == {"$value": f"{Tally.__module__}.Tally", "fields": ["apple", 2]}
    assert [one["value"] for one in page["entries"] if one["key"] == "apple"] == [2]
    assert {one["index"] for one in page["tasks"]} == {0, 1, 2}
    status, page = scene.rest("count", key="apple", live="true")
    assert [(one["key"], one["value"], one["leftOut"]) for one in page["entries"]] == [("apple", 2, False)]
    status, page = scene.rest("seen", limit=1)
    assert len(page["entries"]) == 1
    status, following = scene.rest("seen", limit=1, after=page["next"])
    assert following["entries"][0]["key"] != page["entries"][0]["key"]
    for query, expected, sentence in (
        ({"keys": "[1.5]"}, 400, "a key in JSON is a string, a whole number, an array"),
        ({"keys": "{"}, 400, "keys is a JSON array with a key or more"),
        ({"live": "true"}, 400, "live values can only be asked for by key"),
        ({"limit": 0}, 400, "limit is a whole number from 1 to 1000"),
        ({"after": "1.=="}, 400, "'1.==' is no position"),
        ({"keys": json.dumps(["a"] * 101)}, 400, "ask for 1 to 100 keys at once, not 101"),
    ):
        status, found = scene.rest("count", **query)
        assert (status, found.startswith(sentence)) == (expected, True), found


def run(scene: Scene, *arguments: str) -> list[str]:
    return ["state", *arguments, "--nimbus", ",".join(scene.cluster.conf["nimbus.seeds"])]


def test_the_command_shows_values(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(run(scene, NAME, "count", "get", "apple", "missing")) == 0
    said = capsys.readouterr()
    assert ["apple", "2"] in [line.split()[:2] for line in said.out.splitlines()]
    assert "committed with checkpoint" in said.out
    assert said.err == "no task has missing\n"
    assert main(run(scene, NAME, "count", "get", "--json", "--live", "--json-keys", '["tally", "pear"]')) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["live"], found["missing"]) == (True, [])
    assert [one["value"]["fields"] for one in found["entries"]] == [["pear", 1]]
    assert main(run(scene, NAME, "seen", "list", "-n", "1")) == 0
    position = capsys.readouterr().out.splitlines()[-1].removeprefix("more: --after ")
    assert main(run(scene, NAME, "seen", "list", "-n", "1", "--after", position, "--json")) == 0
    assert len(json.loads(capsys.readouterr().out)["entries"]) == 1
    assert main(run(scene, NAME, "nope", "get", "apple")) == 2
    assert "has no component 'nope'" in capsys.readouterr().err
    assert main(run(scene, "gone", "count", "get", "apple")) == 2
    assert "--direct reads what a topology 'gone' left in its store" in capsys.readouterr().err
    assert main(run(scene, NAME, "count", "get", "--json-keys", "apple")) == 2
    assert "with --json-keys a key is JSON" in capsys.readouterr().err


def test_a_class_that_the_caller_does_not_know_is_shown_in_plain_form(scene: Scene) -> None:
    code = (
        "import sys; from tupletree.client import StateClient\n"
        "[one] = StateClient(sys.argv[1]).get('words', 'count', ('tally', 'apple')).entries\n"
        "print(one.value)"
    )
    seeds = ",".join(scene.cluster.conf["nimbus.seeds"])
    said = subprocess.run([sys.executable, "-c", code, seeds], capture_output=True, text=True, check=True).stdout
    assert said.strip() == repr(UnknownValue({"$value": f"{Tally.__module__}.Tally", "fields": ["apple", 2]}))


def seen(scene: Scene) -> tuple[StateEntry, ...]:
    return scene.states.scan(NAME, "seen", limit=1000).entries


def pages_of(stored: StoredStates) -> list[StateEntry]:
    """All entries that have been seen, page by page."""
    found: list[StateEntry] = []
    after = ""
    while True:
        page = stored.scan(NAME, "seen", after=after, limit=9)
        found += page.entries
        after = page.next
        if not after:
            return found


def check_refusals(stored: StoredStates, conf: dict[str, Any], scene: Scene) -> None:
    for ask, kind, sentence in (
        (lambda: stored.get("gone", "count", "a"), NotFoundError, "no checkpoint is stored for state id 'gone'"),
        (
            lambda: stored.get(NAME, "nope", "a"),
            NotFoundError,
            "has no component 'nope'; it has count, fleeting, kept, seen",
        ),
        (
            lambda: StoredStates({**conf, "topology.state.provider": "memory"}).get(NAME, "count", "a"),
            UsageError,
            "the states of the provider 'memory' are in the workers",
        ),
        (
            lambda: StoredStates(
                {**conf, "topology.state.provider.config": {"directory": str(scene.path.parent / "elsewhere")}}
            ).get(NAME, "count", "a"),
            UsageError,
            "this is not the store, or the machine, that it was written to",
        ),
    ):
        with pytest.raises(kind, match=sentence):
            ask()


def test_a_topology_that_is_inactive_answers_and_one_that_is_gone_is_read_from_its_store(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    client = scene.cluster.client
    scene.add("large0")
    wait_until(lambda: scene.states.get(NAME, "count", ("blob", "large0")).entries, 30, what="the blob is committed")
    client.deactivate(NAME)
    assert scene.values("apple") == scene.values("apple", live=True) == {"apple": 2}
    words = len(scene.path.read_text().split())
    wait_until(lambda: sum(one.value for one in seen(scene)) == 2 * words, 30, what="both tasks have every word")
    expected = seen(scene)
    client.kill(NAME, wait_secs=0)
    wait_until(lambda: not client.list(), 60, what="the topology is gone")
    with pytest.raises(NotFoundError, match="there is no topology named 'words'"):
        scene.states.get(NAME, "count", "apple")
    conf = {**scene.cluster.conf, **scene.conf}
    stored = StoredStates(conf)
    answer = stored.get(NAME, "count", "apple", "missing", ("blob", "large0"), ("tally", "pear"))
    values = {one.key: one.value for one in answer.entries}
    assert values == {"apple": 2, ("blob", "large0"): bytes(TOO_LARGE), ("tally", "pear"): Tally("pear", 1)}
    assert sorted(answer.committed) == [0, 1, 2]
    elsewhere = {**conf, "topology.state.provider": "zookeeper", "topology.state.provider.config": None}
    assert [one.value for one in StoredStates(elsewhere).get(NAME, "kept", "apple").entries] == [2]
    found = pages_of(stored)
    assert [(one.task, one.key, one.value) for one in found] == [(one.task, one.key, one.value) for one in expected]
    check_refusals(stored, conf, scene)
    with stored:
        assert stored.get(NAME, "count", "apple") == stored.get(NAME, "count", "apple")
    assert stored.get(NAME, "count", "apple").entries[0].value == 2, "it connects anew"
    options = [
        option for key in ("zookeeper.servers", "zookeeper.port") for option in ("-c", f"{key}={json.dumps(conf[key])}")
    ]
    options += ["-c", "topology.state.provider=sqlite"]
    options += ["-c", f"topology.state.provider.config={json.dumps(conf['topology.state.provider.config'])}"]
    assert main(["state", NAME, "count", "get", "apple", "--direct", "--json", *options]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(one["key"], one["value"]) for one in shown["entries"]] == [("apple", 2)]
    assert main(["state", NAME, "count", "get", "apple", "--direct", "--live", *options]) == 2
