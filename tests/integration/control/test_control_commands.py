"""What operators do to a running topology, each command on a real cluster that counts words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import spinning_topology
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.integration.control.conftest import Console
from tupletree import config
from tupletree._coord.presence import Registration
from tupletree._coord.session import connect, disconnect
from tupletree.testing import DevCluster, wait_until
from tupletree.v1.topology_pb2 import Presence


def ports(console: Console) -> list[int]:
    return sorted(worker.port for worker in console.cluster.client.describe("words").assignment.workers)


def log_has(console: Console, text: str, worker: int | None = None) -> bool:
    only = ["--worker", worker] if worker is not None else []
    return any("line" in one for one in console.lines("logs", "words", "--search", text, *only))


def test_monitor_shows_rates_latencies_and_streams(console: Console) -> None:
    [view] = console.lines("monitor", "words", "-i", "1.5", "-n", "1")
    assert view["total"]["acked_per_s"] > 0
    split = next(one for one in view["components"] if one["component"] == "split")
    assert split["watched_per_s"]["emitted"] > split["executed_per_s"] > 0
    assert set(split) >= {"process_p50_ms", "process_p99_ms", "complete_p50_ms", "capacity", "queued"}
    assert "p99" in console("monitor", "words", "-i", "0.5", "-n", "1")
    watched = console("monitor", "words", "-i", "1", "-n", "1", "-m", "split", "-s", "default", "-w", "emitted")
    assert "  split  2/2  default  emitted " in watched
    assert "declares no stream 'nobody'; declared streams: default" in console.refusal(
        "monitor", "words", "-s", "nobody"
    )
    assert "declares no stream" in console.refusal("monitor", "words", "-m", "count", "-s", "default")


def test_levels_of_loggers_are_changed_in_all_workers_and_return(console: Console) -> None:
    shown = console.json("log-level", "words", "-l", "root=debug:600", "-l", "kazoo=error")
    assert [(one["logger"], one["level"]) for one in shown["levels"]] == [
        ("root", "DEBUG"),
        ("kazoo", "ERROR"),
    ]
    for port in ports(console):
        wait_until(lambda port=port: log_has(console, "log.changed of=kazoo to=ERROR was=WARNING", port), 30)
    console("log-level", "words", "-r", "kazoo")
    for port in ports(console):
        wait_until(lambda port=port: log_has(console, "log.restored of=kazoo to=WARNING", port), 30)
        assert log_has(console, "log.changed of=root to=DEBUG was=INFO", port)
    console("log-level", "words", "-l", "root=DEBUG:1")
    wait_until(lambda: all(log_has(console, "log.restored of=root to=INFO", port) for port in ports(console)), 30)
    wait_until(lambda: console.json("log-level", "words")["levels"] == [], 30)
    assert "no logger" in console("log-level", "words")
    console("log-level", "words", "-r", "never.set")


@pytest.mark.parametrize("option", ["a", "=INFO", "a=LOUD", "a=INFO:soon", "a=INFO:-1", "a=INFO:", "a b=INFO"])
def test_a_wrong_level_is_refused(console: Console, option: str) -> None:
    console.refusal("log-level", "words", "-l", option)


def test_sampled_tuples_are_shown_live_and_sampling_ends(console: Console) -> None:
    events = console.lines("debug", "words", "split", "--percent", "5", "-n", "5", "--for", "60")
    assert [event["component"] for event in events if event["kind"] == "tuple"] == ["split"] * 5
    assert all(event["values"][0].startswith("'") and event["targets"] for event in events if event["kind"] == "tuple")
    assert dict(console.cluster.client.describe("words").summary.record.sampled_percent) == {}
    assert "split[" in console("debug", "words", "split", "-n", "1")
    console.cluster.client.set_sampling("words", "lines", 1)
    assert console.json("debug", "words", "--off")["sampled_percent"] == {}
    assert "no component 'spilt'" in console.refusal("debug", "words", "spilt")
    assert "there is no topology named 'nobody'" in console.refusal("debug", "nobody")


def test_a_tree_is_followed_through_both_workers(console: Console) -> None:
    tree = console.json("trace", "words", "--for", "4", "--slowest")
    assert (tree["verdict"], tree["is_whole"], tree["component"]) == ("acked", True, "lines")
    [split] = tree["hops"]
    assert (split["component"], split["outcome"]) == ("split", "acked")
    assert split["hops"]
    for hop in split["hops"]:
        assert (hop["component"], hop["outcome"], hop["hops"]) == ("count", "acked", [])
        times = [hop[at] for at in ("sent_ms", "arrived_ms", "began_ms", "settled_ms") if hop[at] is not None]
        assert times == sorted(times)
        assert split["began_ms"] <= hop["sent_ms"] <= hop["settled_ms"] <= tree["took_ms"]
        assert (hop["arrived_ms"] is not None) == (hop["worker"] != split["worker"])
    assert tree["clock_shifts_ms"] == {}
    assert console.cluster.client.describe("words").summary.record.traced_one_in == 0
    shown = console("trace", "words", "--recent", "-n", "50")  # a line of the text may have no word in it
    assert shown.startswith("tree ")
    assert "  count[" in shown
    console("trace", "words", "--off")


def test_nothing_to_follow_is_said_with_status_1(console: Console) -> None:
    status, out, err = console.run("trace", "words", "--one-in", 2**32 - 1, "--for", "1", "--failed")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "no tree failed" in err


class Collector(BaseHTTPRequestHandler):
    """An OpenTelemetry collector, as far as it takes traces."""

    received: list[ExportTraceServiceRequest] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        self.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces"
    server.shutdown()
    thread.join()
    server.server_close()


def test_trees_are_exported_as_traces(console: Console, collector: str) -> None:
    tree = console.json("trace", "words", "--otlp", collector)
    [request] = Collector.received
    spans = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    assert {span.trace_id.hex() for span in spans} == {tree["root"].rjust(32, "0")}
    by_id = {span.span_id.hex(): span for span in spans}
    [split] = tree["hops"]
    assert by_id[split["edge"]].parent_span_id.hex() == tree["root"]
    for hop in split["hops"]:
        span = by_id[hop["edge"]]
        assert (span.name, span.parent_span_id.hex()) == ("count", split["edge"])
        assert span.start_time_unix_nano <= span.end_time_unix_nano
    assert len(spans) == 2 + len(split["hops"])


def test_logs_are_listed_searched_and_read_by_name(console: Console) -> None:
    listed = {(one["worker"].rpartition(":")[2], one["file"]) for one in console.json("logs", "words", "--list")}
    assert {(str(port), "worker.log") for port in ports(console)} <= listed
    matches = [one for one in console.lines("logs", "words", "--search", "WORKER.STARTED", "-i") if "line" in one]
    assert {one["worker"].rpartition(":")[2] for one in matches} == {str(port) for port in ports(console)}
    assert "no matches" in console("logs", "words", "--search", "worker.started$", "--regex")
    shown = console("logs", "words", "--search", r"worker\.(started|ready)", "--regex", "-C", "1")
    assert len(shown.splitlines()) == len(set(shown.splitlines()) - {"--"}) + shown.splitlines().count("--")
    assert "is not a valid RE2 regular expression" in console.refusal("logs", "words", "--search", "(", "--regex")
    assert "is not a file of a worker" in console.refusal("logs", "words", "--file", "../../launch.json")
    assert "require --search" in console.refusal("logs", "words", "--regex")
    assert "no such worker" in console.refusal("logs", "words", "--worker", "1")


def test_following_goes_on_over_a_restart_of_worker_and_supervisor(console: Console) -> None:
    port = ports(console)[0]
    command = [sys.executable, "-m", "tupletree", "logs", "words", "-f", "-n", "1", "--json", "--nimbus", console.seed]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as following:
        try:
            seen: list[dict[str, str]] = []
            stream = following.stdout or ()
            threading.Thread(target=lambda: seen.extend(map(json.loads, stream)), daemon=True).start()
            wait_until(lambda: len(seen) >= 2, 60, what="the last line of each log is shown")
            console.cluster.kill("supervisor")
            console.cluster.restart("supervisor")
            wait_until(lambda: console.run("restart-worker", "words", port)[0] == 0, 90)
            started = [f":{port}", "worker.ready"]
            wait_until(
                lambda: any(one["worker"].endswith(started[0]) and started[1] in one["line"] for one in seen[2:]),
                60,
                what="the new process' lines are shown",
            )
            shown = list(seen)
            written = console.lines("logs", "words", "-n", "100000")
            twice = Counter(map(json.dumps, shown)) - Counter(map(json.dumps, written))
            assert not twice, "each line is shown once"
        finally:
            following.terminate()


def test_logs_of_a_slot_that_was_left_can_be_read(console: Console) -> None:
    assert "no stored logs" in console.refusal("logs", "words", "--past")
    assert "finished" in console.refusal("logs", "words", "--past", "--follow")
    console("rebalance", "words", "--wait", "0", "--workers", "1")
    left = wait_until(lambda: console.lines("logs", "words", "--past") if len(ports(console)) == 1 else None, 60)
    assert {one["worker"].rpartition(":")[2] for one in left}.isdisjoint(map(str, ports(console)))
    assert any("worker.started" in one["line"] for one in console.lines("logs", "words", "--past", "-n", "100000"))
    (gone,) = {one["worker"] for one in left}
    assert "logs --past" in console.refusal("logs", "words", "--worker", gone)
    console("rebalance", "words", "--wait", "0", "--workers", "2")
    wait_until(lambda: console.cluster.client.describe("words").summary.workers_ready == 2, 60, what="it has two again")


def test_restart_of_a_worker(console: Console) -> None:
    port = ports(console)[0]
    before = {worker.port: worker.worker_id for worker in console.cluster.client.describe("words").workers}
    assert console.json("restart-worker", "words", port)["ready"] is True
    after = {worker.port: worker.worker_id for worker in console.cluster.client.describe("words").workers}
    assert [one for one in before if before[one] != after[one]] == [port]
    assert "no such worker" in console.refusal("restart-worker", "words", "1")
    assert "has several workers, choose one" in console.refusal("restart-worker", "words")


def test_what_threads_are_doing_and_what_cannot_be_profiled(console: Console, tmp_path: Path) -> None:
    text = console("profile", "words", ports(console)[0], "--stacks")
    assert "MainThread" in text
    assert "run-loop" in text
    assert "is a directory" in console.refusal("profile", "words", ports(console)[0], "-o", tmp_path)
    assert "cannot write" in console.refusal("profile", "words", ports(console)[0], "-d", "1", "-o", tmp_path / "no/x")
    assert "no such worker" in console.refusal("profile", "words", "1")


def test_what_fills_the_memory_of_a_worker(console: Console, tmp_path: Path) -> None:
    port, path = ports(console)[0], tmp_path / "memory"
    told = console.json("profile", "words", port, "--memory", "-o", path)
    text = path.read_text()
    assert (told["bytes"], told["file"]) == (len(text), str(path))
    assert text.startswith("Memory of worker ") and "of topology words-" in text.splitlines()[0]
    assert "objects of Python" in text and "largest objects, each without what is in it" in text
    assert "the memory of worker" in console("profile", "words", port, "--memory", "-o", path)
    assert ".txt" in next(line for line in console("logs", "words", "--list").splitlines() if "memory-" in line)
    assert "are two commands: give one of them" in console.refusal("profile", "words", port, "--memory", "--stacks")


@pytest.fixture
def spinning(words: DevCluster) -> Iterator[str]:
    """The name of a topology whose worker is busy, in the third slot."""
    words.client.submit("spinning", spinning_topology.topology())
    wait_until(lambda: words.client.describe("spinning").summary.workers_ready == 1, 90)
    yield "spinning"
    words.client.kill("spinning", wait_secs=0)
    wait_until(lambda: [one.record.name for one in words.client.list()] == ["words"], 60, what="it is gone")


def test_a_worker_is_profiled_in_each_format(console: Console, spinning: str, tmp_path: Path) -> None:
    path = tmp_path / "profile"
    for kind, begins in (("flamegraph", b"<?xml"), ("speedscope", b"{"), ("raw", b"")):
        told = console.json("profile", spinning, "--seconds", "1", "--format", kind, "-o", path)
        data = path.read_bytes()
        assert (told["bytes"], told["file"]) == (len(data), str(path))
        assert data.startswith(begins)
        assert b"spin_here" in data
        assert os.listdir(tmp_path) == ["profile"]


def test_the_clusters_configuration_and_versions(console: Console) -> None:
    assert console("config", "get", "nimbus.port", "--remote").strip() == console.seed.rpartition(":")[2]
    assert console.json("config", "get", "nimbus.port", "--remote")["remote"] is True
    assert "did you mean 'nimbus.port'" in console.refusal("config", "get", "nimbus.prt", "--remote")
    assert console.json("version")["cluster"]["daemons"]["acker"] == {console.json("version")["tupletree"]: 2}
    assert "2 ackers" in console("version")


def test_one_acker_in_detail(console: Console) -> None:
    first = console.json("ackers")[0]
    [detailed] = console.json("ackers", first["address"])
    assert detailed["id"] == first["id"]
    assert all(shard["per_s"]["inits"] is not None for shard in detailed["shards"])
    assert "inits/s" in console("ackers", first["id"])
    assert "no acker matches 'nobody'" in console.refusal("ackers", "nobody")


def test_an_acker_is_not_taken_for_one_that_died_at_its_address(console: Console) -> None:
    """A registration outlives its process for as long as its session with ZooKeeper does."""
    living = console.cluster.client.cluster().ackers[0]
    address = living.presence.address
    host, port = living.presence.host, living.presence.grpc_port
    conf = {**config.defaults(), **console.cluster.conf}
    session = connect(conf)
    try:
        left = Registration(session, conf["zookeeper.root"], "acker", Presence(id="dead", host=host, grpc_port=port))
        left.start()
        wait_until(lambda: "dead" in {one["id"] for one in console.json("ackers")}, 30)
        states = {one["id"]: (one["ready"], one["reasons"]) for one in console.json("ackers")}
        assert states["dead"] == (False, ["another acker answers at this address now"])
        assert states[living.presence.id] == (True, [])
        assert [one["id"] for one in console.json("ackers", address)] == [living.presence.id]
        left.stop()
    finally:
        disconnect(session)


def test_the_doctor_finds_the_cluster_and_compares_clocks(console: Console) -> None:
    conf = console.cluster.conf
    places = [f"zookeeper.servers={conf['zookeeper.servers']}", f"zookeeper.port={conf['zookeeper.port']}"]
    result = console.json("doctor", "-c", places[0], "-c", places[1])
    findings = {one["subject"]: one for one in result["findings"]}
    for subject in ("nimbus", "clock", "zookeeper"):
        assert findings[subject]["level"] == "ok", findings[subject]
    assert "1 nimbus" in findings["nimbus"]["sentence"] and "2 ackers" in findings["nimbus"]["sentence"]
    status, out, _ = console.run("doctor", "-c", "zookeeper.servers=[127.0.0.1:1]")
    assert status == 1 and "problem  zookeeper      127.0.0.1:1 cannot be reached from here: Connection refused" in out


def test_names_are_completed_from_the_cluster_and_silently_not_without_one(console: Console) -> None:
    def complete(words: str, **more: str) -> list[str]:
        count = len(words.split(" ")) - 1
        environment = {
            **os.environ,
            "_TUPLETREE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(count),
        }
        command = [sys.executable, "-m", "tupletree"]
        done = subprocess.run(
            command, env={**environment, **more}, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stderr == ""
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    wait_until(lambda: complete(f"tupletree logs --nimbus {console.seed} w") == ["words"], 60)  # two seconds are little
    assert complete(f"tupletree kill --nimbus {console.seed} words ") == []
    wait_until(lambda: complete("tupletree logs w", TUPLETREE_NIMBUS_SEEDS=f'["{console.seed}"]') == ["words"], 60)
    assert complete("tupletree logs --nimbus 127.0.0.1:1 w") == []
    components = ["count", "lines", "split"]
    wait_until(lambda: sorted(complete(f"tupletree debug --nimbus {console.seed} words ")) == components, 60)
    wait_until(lambda: complete(f"tupletree logs --nimbus {console.seed} words -m s") == ["split"], 60)
    wait_until(lambda: complete(f"tupletree rebalance --nimbus {console.seed} words -e c") == ["count="], 60)
    assert complete(f"tupletree debug --nimbus {console.seed} nobody ") == []
    assert complete("tupletree monitor --nimbus 127.0.0.1:1 words -m s") == []
    assert complete("tupletree mon") == ["monitor"]
    assert "--interval" in complete("tupletree monitor --int")


def test_bash_takes_the_completion_script(console: Console, tmp_path: Path) -> None:
    program = tmp_path / "tupletree"
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m tupletree \"$@\"\n")
    program.chmod(0o755)
    session = (
        'eval "$(tupletree completion bash)"\n'
        f"COMP_WORDS=(tupletree logs --nimbus {console.seed} w); COMP_CWORD=4\n"
        '_tupletree_completion tupletree; echo "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", session], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("words", "")


# What follows breaks the cluster.


@pytest.mark.nightly
def test_health_names_a_killed_acker_a_silent_supervisor_and_what_is_down(console: Console) -> None:
    def kinds() -> tuple[int, set[str]]:
        status, out, _ = console.run("health", "--json", "--timeout", "2")
        return status, {fault["kind"] for fault in json.loads(out)["faults"]}

    wait_until(lambda: console.run("health")[0] == 0, 60)
    assert console("health").startswith("healthy\n")
    console.cluster.kill("acker", 0)
    wait_until(lambda: kinds() == (1, {"acker.unreachable"}) or kinds() == (0, set()), 30)
    console.cluster.kill("acker", 1)
    wait_until(lambda: kinds()[0] == 2, 60)
    assert kinds()[1] & {"acker.none", "acker.none_ready"}
    console.cluster.restart("acker", 0)
    console.cluster.restart("acker", 1)
    wait_until(lambda: kinds()[0] == 0, 90)

    console.cluster.kill("supervisor")
    wait_until(lambda: kinds()[0] != 0, 60)
    assert kinds()[1] & {"supervisor.unreachable", "supervisor.none"}
    console.cluster.restart("supervisor")
    wait_until(lambda: kinds()[0] == 0, 90)


@pytest.mark.nightly
def test_health_without_zookeeper_and_without_a_leader(console: Console) -> None:
    console.cluster.kill("zookeeper")
    status, out, _ = console.run("health", "--json", "--timeout", "1")
    assert (status, json.loads(out)["verdict"]) == (2, "down")
    console.cluster.restart("zookeeper")
    wait_until(lambda: console.run("health", "--timeout", "1")[0] == 0, 120)
    console.cluster.kill("nimbus")
    began_s = time.monotonic()
    status, out, err = console.run("health")
    assert (status, err, out.splitlines()[0]) == (2, "", "down")
    assert console.seed in out, f"it names whom it asked, after {time.monotonic() - began_s:.1f} s"
    status, out, err = console.run("errors", "words")
    assert (status, out, err.count("\n")) == (1, "", 1)
