"""Every path and field that clients written for Storm read, on a running cluster; and that docs/rest.md says so."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import rest_reference
from rest_reference import MARK, PAGE, STORM

from tupletree import Bolt, Spout, TopologyBuilder
from tupletree.dead_letters import Letter, open_store
from tupletree.nimbus.web.routes import ENDPOINTS
from tupletree.replaying_spout import LETTER_FIELDS
from tupletree.testing import DevCluster, make_tuple, wait_until
from tupletree.topology import Topology

JSON = {"Content-Type": "application/json"}


class Numbers(Spout):
    outputs = ["number"]

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector
        self.number = 0

    def next_tuple(self) -> None:
        for _ in range(25):
            self.number += 1
            self.collector.emit([self.number], msg_id=self.number)
        time.sleep(0.05)  # a source with a rate of its own


class Halve(Bolt):
    outputs = ["number"]

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector
        self.seen = 0

    def execute(self, tup: Any) -> None:
        self.seen += 1
        if self.seen % 200 == 1:
            self.collector.report_error(ValueError("an odd number"))
        self.collector.emit([tup[0] // 2], anchors=[tup])
        self.collector.ack(tup)


def numbers_topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(), parallelism=2)
    builder.set_bolt("halve it", Halve(), parallelism=2).shuffle_grouping("numbers")
    return builder.create_topology()


class Site:
    """A cluster with a topology, asked over HTTP."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.bases = [f"http://127.0.0.1:{one.http_port}" for one in cluster.processes if one.role == "nimbus"]
        self.base = self.bases[0]

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON, or text where it is none, of one request."""
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(f"{self.base}/api/v1{path}", data, {**JSON, **headers}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                status, text = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode("utf-8", "replace")

    def get(self, path: str) -> Any:
        status, found = self.ask(path)
        assert status == 200, found
        return found


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a store of three dead letters."""
    url = f"sqlite:{tmp_path_factory.mktemp('letters')}/letters.db"
    values = [[f"m{number}", [1], "default", 5, "halve it", 7, "ValueError: odd", "Traceback …"] for number in range(3)]
    open_store(url).add([Letter.of(make_tuple(one, LETTER_FIELDS), "numbers", 100.0) for one in values])
    return url


@pytest.fixture(scope="module")
def site(letters: str) -> Iterator[Site]:
    conf = {"nimbus.dead.letters.stores": {"rejected": letters}, "acker.trees.namespaces": {"orders": {"timeout_s": 5}}}
    with DevCluster(slots=3, nimbuses=2, conf=conf) as cluster:
        cluster.client.put_blob("words", __file__)
        cluster.client.submit("gone", numbers_topology())
        cluster.client.kill("gone", wait_secs=0)
        wait_until(cluster.client.history, 30, what="a topology is removed")
        settings = {"topology.workers": 2, "topology.stats.sample.rate": 1.0}
        settings["topology.blobstore.map"] = {"words": {}}
        cluster.client.submit("numbers", numbers_topology(), settings)
        one = Site(cluster)

        def works() -> bool:
            (summary,) = one.get("/topology/summary")["topologies"]
            page = one.get(f"/topology/{summary['id']}")
            stats, points = page["topologyStats"][0], one.get(f"/topology/{summary['id']}/series")["points"]
            return bool(stats["acked"] and page["topologyErrors"] and points)

        wait_until(works, 90, what="the topology acks, fails and has a chart")
        yield one


@pytest.fixture(scope="module")
def names(site: Site, letters: str) -> dict[str, str]:
    """What stands for {…} in paths."""
    topology = site.get("/topology/summary")["topologies"][0]["id"]
    where = site.get(f"/topology-workers/{topology}")["hostPortList"][0]
    return {
        "{id}": topology,
        "{component}": quote("halve it"),
        "{wait}": "0",
        "{action}": "enable",
        "{samplingPct}": "5",
        "{hostPort}": f"{where['host']}:{where['port']}",
        "{timeout}": "0.02",
        "{store}": "rejected",
        "{letter}": open_store(letters).letters()[0].id,
        "file": quote(f"{topology}/{where['port']}/worker.log", safe=""),
    }


def filled(site: Site, path: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        if name.startswith("{"):
            path = path.replace(name, value)
    topology = names["{id}"]
    if path.startswith("/acker/"):
        path = path.replace(topology, site.get("/acker/summary")["ackers"][0]["id"])
    if path.startswith("/history/"):
        path = path.replace(topology, site.cluster.client.history()[0].id)
    if path.startswith("/owner-resources/"):
        path = path.replace(topology, site.get("/topology/summary")["topologies"][0]["owner"])
    queries = {
        "/supervisor": f"?id={site.get('/supervisor/summary')['supervisors'][0]['id']}",
        "/log": f"?file={names['file']}&format=text",
        "/download": f"?file={names['file']}",
        "/search": f"?file={names['file']}&search-string=worker",
        f"/deepSearch/{topology}": "?search-string=worker",
    }
    return path + queries.get(path, "")


def mismatches(value: Any, kind: Any, where: str = "reply") -> list[str]:
    """What is not as the table says."""
    if isinstance(kind, list):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [found for number, one in enumerate(value) for found in mismatches(one, kind[0], f"{where}[{number}]")]
    if isinstance(kind, str):
        expected = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "any": object, "text": str}
        if value is None and kind.endswith("?"):
            return []
        name = kind.removesuffix("?")
        fits = isinstance(value, expected[name]) and (name in ("boolean", "any") or not isinstance(value, bool))
        return [] if fits else [f"{where} is {value!r}, not {kind}"]
    if set(kind) == {"oneOf"}:
        return min((mismatches(value, one, where) for one in kind["oneOf"]), key=len)
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    if set(kind) == {"*"}:
        return [found for key, one in value.items() for found in mismatches(one, kind["*"], f"{where}.{key}")]
    missing = [f"{where}.{name} is missing" for name in kind.keys() - value.keys()]
    unknown = [f"{where}.{name} is not in the table" for name in value.keys() - kind.keys()]
    both = [name for name in kind if name in value]
    return (
        missing + unknown + [found for name in both for found in mismatches(value[name], kind[name], f"{where}.{name}")]
    )


REPLIES = {f"{one.method} {one.path}": one.reply for one in ENDPOINTS}
ELSEWHERE = ("/download", "/topology/{id}/component/{component}/state")  # the state: test_state_questions.py
GETS = [one.path for one in ENDPOINTS if one.method == "GET" and "{file}" not in one.path and one.path not in ELSEWHERE]
OF_STATES = ("/savepoint", "/state/put", "/state/delete")  # of a topology that has states: test_state_pages.py
POSTS = [one.path for one in ENDPOINTS if one.method == "POST" and not one.path.endswith(("/{wait}", *OF_STATES))]


@pytest.mark.parametrize("path", GETS)
def test_a_page_has_the_fields_of_the_table(site: Site, names: dict[str, str], path: str) -> None:
    assert mismatches(site.get(filled(site, path, names)), REPLIES[f"GET {path}"]) == []


@pytest.mark.parametrize("component", ["numbers", "halve it"])
def test_what_flows_is_counted_in_every_window(site: Site, names: dict[str, str], component: str) -> None:
    page = site.get(f"/topology/{names['{id}']}/component/{quote(component)}?window=600")
    windows = page.get("spoutSummary") or page["boltStats"]
    assert [one["window"] for one in windows] == ["600", "10800", "86400", ":all-time"]
    assert len({one["emitted"] for one in windows}) == 1 and windows[0]["emitted"] > 0
    assert windows[0]["acked"] > 0
    assert sum(one["emitted"] for one in page["executorStats"]) <= windows[0]["emitted"]
    assert {one["port"] for one in page["executorStats"]} <= {int(names["{hostPort}"].split(":")[1])} | {
        one["port"] for one in site.get(f"/topology-workers/{names['{id}']}")["hostPortList"]
    }
    measured = windows[0].get("completeLatencyPercentiles") or windows[0]["processLatencyPercentiles"]
    assert 0 <= measured["p50"] <= measured["p99"] <= measured["p999"]
    assert page["outputStats"][0]["emitted"] > 0
    if component == "halve it":
        (received,) = page["inputStats"]
        assert (received["component"], received["stream"]) == ("numbers", "default")
        assert received["executed"] > 0 and received["acked"] > 0
        assert "ValueError: an odd number" in page["componentErrors"][0]["error"]


def test_the_ackers_are_a_component_of_the_system(site: Site, names: dict[str, str]) -> None:
    topology = names["{id}"]

    def bolts(query: str) -> dict[str, Any]:
        return {one["boltId"]: one for one in site.get(f"/topology/{topology}{query}")["bolts"]}

    def counted() -> bool:
        return bolts("?window=600&sys=true")["__acker"]["executed"] > 0

    assert set(bolts("")) == {"halve it"} and set(bolts("?sys=true")) == {"halve it", "__acker"}
    wait_until(counted, 60, what="an acker has told of the topology")
    page = site.get(f"/topology/{topology}/component/__acker?sys=true")
    assert mismatches(page, REPLIES["GET /topology/{id}/component/{component}"]) == []
    streams = {one["stream"]: one["emitted"] for one in page["outputStats"]}
    assert streams["__ack_ack"] > 0 and set(streams) == {"__ack_ack", "__ack_fail", "__ack_reset_timeout"}
    ackers = {(one["host"], one["port"]) for one in site.get("/acker/summary")["ackers"]}
    shards = site.get(f"/topology/{topology}")["ackerShards"]
    assert page["tasks"] == page["executors"] == len(page["executorStats"]) == shards
    assert {(one["host"], one["port"]) for one in page["executorStats"]} <= ackers
    assert {(one["workerLogLink"], one["supervisorId"]) for one in page["executorStats"]} == {("", "")}
    total = next(one for one in page["boltStats"] if one["window"] == ":all-time")
    assert total["executed"] == total["acked"] >= total["emitted"] > 0


def test_blobs_and_namespaces_are_listed(site: Site) -> None:
    (blob,) = site.get("/blob/summary")["blobs"]
    assert (blob["key"], blob["version"], blob["topologies"]) == ("words", 1, ["numbers"])
    assert blob["bytes"] == os.path.getsize(__file__)
    (namespace,) = site.get("/namespace/summary")["namespaces"]
    ackers = [one["id"] for one in site.get("/acker/summary")["ackers"]]
    assert (namespace["name"], [one["id"] for one in namespace["ackers"]]) == ("orders", ackers)
    assert {(one["timeoutSeconds"], one["openTrees"]) for one in namespace["ackers"]} == {(5.0, 0)}


@pytest.mark.parametrize("path", POSTS)
def test_an_action_answers_what_the_table_says(site: Site, names: dict[str, str], path: str) -> None:
    body = {
        "/topology/{id}/logconfig": {"namedLoggerLevels": {"ROOT": {"target_level": "WARN", "timeout": 60}}},
        "/topology/{id}/configuration": {"set": {"topology.max.spout.pending": 5000}, "unset": ["topology.version"]},
    }.get(path, {})
    if path.endswith("restartworker/{hostPort}"):
        status, found = site.ask(filled(site, path, {**names, "{hostPort}": "127.0.0.1:1"}), "POST", body)
        assert (status, found["error"]) == (404, "404 Not Found")
        return
    status, found = site.ask(filled(site, path, names), "POST", body)
    assert status == 200, found
    assert mismatches(found, REPLIES[f"POST {path}"]) == []


def test_what_is_asked_of_a_standby_is_answered_by_the_leader(site: Site, names: dict[str, str]) -> None:
    topology = names["{id}"]
    leaders = []
    for base in site.bases:
        site.base = base
        nimbuses = site.get("/nimbus/summary")["nimbuses"]
        leaders.append([one["id"] for one in nimbuses if one["status"] == "Leader"])
        link = site.get(f"/topology/{topology}")["workers"][0]["workerLogLink"]
        assert link.startswith(base)  # a client goes on with the nimbus it knows
        for action, status in (("deactivate", "INACTIVE"), ("activate", "ACTIVE")):
            assert site.ask(f"/topology/{topology}/{action}", "POST")[0] == 200
            assert site.get(f"/topology/{topology}")["status"] == status  # at once: what was kept is forgotten
    site.base = site.bases[0]
    assert leaders[0] == leaders[1] and len(leaders[0]) == 1


def test_who_may_have_been_sent_by_a_foreign_page_changes_nothing(site: Site, names: dict[str, str]) -> None:
    path = f"/topology/{names['{id}']}/deactivate"
    host = site.base.removeprefix("http://")
    plain = {"Content-Type": "text/plain"}
    for headers, status in (
        (plain, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({**plain, "Origin": "null"}, 403),
        ({**plain, "Origin": f"http://{host}"}, 200),
        ({**plain, "X-Requested-With": "XMLHttpRequest"}, 200),
    ):
        found, reply = site.ask(path, "POST", **headers)
        assert found == status, (headers, reply)
    assert site.ask(path, "GET")[0] == 405
    assert site.ask(f"/topology/{names['{id}']}/activate", "POST")[0] == 200


def test_what_makes_no_sense_gets_a_sentence(site: Site, names: dict[str, str]) -> None:
    topology = names["{id}"]
    for path, status, sentence in (
        ("/topology/nope", 404, "there is no topology with the id 'nope'"),
        (
            f"/topology/{topology}/component/nope",
            404,
            "topology 'numbers' has no component 'nope'; it has halve it, numbers",
        ),
        (f"/topology/{topology}?window=5", 400, "the window is one of 600, 10800, 86400, :all-time, not '5'"),
        (f"/topology/{topology}?callback=a(b", 400, "callback must be the name of a JavaScript function"),
        ("/acker/nope", 404, "there is no acker with the id 'nope'"),
        ("/log?file=a", 400, "file must be TOPOLOGY/PORT/NAME"),
        ("/no/such/path", 404, "there is nothing at /api/v1/no/such/path"),
        ("/supervisor", 400, "give the id or the host of a supervisor"),
    ):
        found, reply = site.ask(path)
        assert found == status and reply["errorMessage"].startswith(sentence), reply
    too_large = {"rebalanceOptions": {"numWorkers": "1" * 1_000_001}}
    assert site.ask(f"/topology/{topology}/rebalance/0", "POST", too_large)[0] == 413
    found, reply = site.ask(
        f"/topology/{topology}/rebalance/0", "POST", {"rebalanceOptions": {"executors": {"numbers": 9}}}
    )
    assert (found, reply["error"]) == (400, "400 Bad Request")


def test_a_callback_wraps_the_page(site: Site) -> None:
    status, text = site.ask("/cluster/summary?callback=my.page")
    assert status == 200 and text.startswith("/**/my.page({") and text.endswith("});")


def test_a_topology_is_rebalanced_and_killed(site: Site) -> None:
    site.cluster.client.submit("brief", numbers_topology())
    topology = next(one["id"] for one in site.get("/topology/summary")["topologies"] if one["name"] == "brief")
    body = {"rebalanceOptions": {"numWorkers": 1, "executors": {"numbers": "1"}}}
    status, found = site.ask(f"/topology/{topology}/rebalance/0", "POST", body)
    assert (status, found["topologyOperation"]) == (200, "rebalance")
    wait_until(lambda: site.get(f"/topology/{topology}")["executorsTotal"] == 3, 30, what="it has fewer executors")
    status, found = site.ask(f"/topology/{topology}/kill/0", "POST")
    assert (status, found.pop("waitSeconds"), found.pop("unfinished") >= 0) == (200, 0, True)
    assert found == {"topologyOperation": "kill", "topologyId": topology, "status": "success"}
    wait_until(lambda: site.ask(f"/topology/{topology}")[0] == 404, 30, what="it is gone")


def test_the_table_has_the_paths_and_fields_of_storm() -> None:
    assert STORM.keys() <= REPLIES.keys()
    for key, groups in STORM.items():
        for group in groups:
            where, colon, fields = group.partition(": ")
            kinds = within(REPLIES[key], where.split(".") if colon else [])
            for name in (fields if colon else where).split():
                assert any(name in kind for kind in kinds), f"{key}: {where} has no {name}"


def within(kind: Any, steps: list[str]) -> list[Any]:
    """The objects that a path through a type leads to."""
    if isinstance(kind, list):
        return within(kind[0], steps)
    if isinstance(kind, dict) and set(kind) == {"oneOf"}:
        return [found for one in kind["oneOf"] for found in within(one, steps)]
    if not steps:
        return [kind]
    return within(kind[steps[0]], steps[1:]) if steps[0] in kind else []


def test_the_page_about_rest_is_of_the_same_table() -> None:
    assert PAGE.read_text().partition(MARK)[2].lstrip("\n") == rest_reference.rendered()


def test_a_page_that_is_open_survives_the_leader(site: Site, names: dict[str, str]) -> None:
    """The last of this module: it kills the leader."""
    topology = names["{id}"]
    before = site.get(f"/topology/{topology}")["topologyStats"][-1]["emitted"]
    leader = next(one for one in site.get("/nimbus/summary")["nimbuses"] if one["status"] == "Leader")
    dead = next(number for number, base in enumerate(site.bases) if base.endswith(f":{leader['httpPort']}"))
    site.base = site.bases[1 - dead]
    site.cluster.kill("nimbus", dead)
    reasons = set()

    def leads() -> bool:
        status, found = site.ask("/nimbus/summary")
        if status == 200:
            return any(one["status"] == "Leader" and one["id"] != leader["id"] for one in found["nimbuses"])
        assert (status, found["error"]) == (503, "503 Service Unavailable")
        reasons.add(found["errorMessage"])
        return False

    wait_until(leads, 30, what="the other nimbus leads")
    assert all("lead" in reason for reason in reasons), reasons

    def goes_on() -> bool:
        found = site.get(f"/topology/{topology}?window=600")
        return found["topologyStats"][-1]["emitted"] > before and found["topologyStats"][0]["emitted"] > 0

    wait_until(goes_on, 30, what="the figures go on")
