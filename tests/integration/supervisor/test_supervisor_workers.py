"""A supervisor process and the workers in its slots: launched, watched, restarted, stopped."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from supervisor_harness import Supervisor, alive, make_bundle, supervisor, time_until

from tupletree._coord import paths
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._process_table import HAS_PROC
from tupletree.bundle import BundleInfo
from tupletree.testing.wait import wait_until
from tupletree.v1 import supervisor_pb2 as pb


@pytest.fixture(scope="module")
def subject(zookeeper: EmbeddedZooKeeper) -> Iterator[Supervisor]:
    """One supervisor for all tests here; each uses topologies of its own and leaves the slots empty."""
    timeouts = {
        "supervisor.worker.timeout.secs": 3,
        "supervisor.worker.start.timeout.secs": 6,
        "supervisor.worker.shutdown.sleep.secs": 0.5,
        "worker.log.max.bytes": 4000,
    }
    with supervisor(zookeeper, "/workers", 2, **timeouts) as one:
        one.start()
        yield one


@pytest.fixture(scope="module")
def plain(subject: Supervisor, tmp_path_factory: pytest.TempPathFactory) -> BundleInfo:
    return subject.bundles.add(make_bundle(tmp_path_factory.mktemp("bundle")))


@pytest.fixture(autouse=True)
def empty_slots(subject: Supervisor) -> Iterator[None]:
    yield
    for topology_id in subject.topologies:
        subject.remove(topology_id)
    subject.topologies.clear()
    for port in subject.ports:
        subject.wait_slot(port, "empty")


def test_an_assignment_becomes_a_worker_and_its_removal_an_empty_slot(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("plain", plain, **{"topology.version": "7"}), subject.ports[0]
    subject.assign(topology_id, port)
    slot = subject.wait_slot(port, "running")
    assert (slot.topology_id, slot.launches, slot.http_port) == (topology_id, 1, 4242)
    presence = subject.wait_presence(topology_id, port, slot.worker_id)
    assert (presence.pid, presence.supervisor_id, presence.host) == (slot.pid, "me", "127.0.0.1")
    assert os.getpgid(slot.pid) == os.getsid(slot.pid) == slot.pid

    directory = subject.directory / "data" / "workers" / slot.worker_id
    launch = json.loads((directory / "launch.json").read_text())
    assert launch["conf"]["topology.version"] == "7"
    assert launch["conf"]["zookeeper.root"] == "/workers"
    assert launch["supervisor_address"] == f"127.0.0.1:{subject.announced()['grpc_port']}"
    assert launch["log_dir"] == str(subject.directory / "logs" / topology_id / str(port))
    assert Path(launch["bundle_dir"], "topology.pb").exists()
    assert Path(launch["bundle_dir"], "code", "bundle_code.py").exists()
    assert slot.worker_id in Path(launch["log_dir"], "worker.out").read_text()

    subject.assign(topology_id)
    subject.wait_slot(port, "empty")
    assert not alive(slot.pid)
    wait_until(lambda: subject.presences(topology_id) == {})
    wait_until(lambda: not directory.exists())


def test_a_killed_worker_is_gone_from_zookeeper_and_replaced_at_once(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("killed", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    subject.wait_presence(topology_id, port, first.worker_id)
    os.kill(first.pid, signal.SIGKILL)

    def changed() -> bool:
        presence = subject.presences(topology_id).get(port)
        return presence is None or presence.worker_id != first.worker_id

    assert time_until(changed) < 1.0  # about 10 ms, if the machine has nothing else to do
    second = subject.wait_slot(port, "running", unlike=first.worker_id)
    assert second.last_exit == "killed by SIGKILL"
    assert second.launches == first.launches + 1
    subject.wait_presence(topology_id, port, second.worker_id)


def test_a_crash_looping_worker_waits_and_its_last_words_are_reported(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("crash", plain, **{"standin.mode": "crash"}), subject.ports[0]
    before = subject.slot(port).launches
    subject.assign(topology_id, port)
    slot = subject.wait_slot(port, "delayed")
    assert slot.launches == before + 2  # the first restart was at once
    assert slot.last_exit == "exit status 3: the stand-in fails on purpose"
    error = wait_until(lambda: subject.store.errors(topology_id))[0]
    assert error.port == port
    assert "died before its first heartbeat: exit status 3: the stand-in fails on purpose" in error.message
    counted = wait_until(lambda: [one for one in subject.store.errors(topology_id) if one.count > 1])
    assert len(subject.store.errors(topology_id)) == 1, "the same one, with a count"
    assert 0 < counted[0].first_unix_s < counted[0].at_unix_s
    assert f'worker_exits_total{{cause="error",slot="{port}"}}' in subject.get("/metrics")[1]
    wait_until(lambda: subject.presences(topology_id) == {})


def test_a_worker_that_ignores_sigterm_is_killed_with_all_it_started(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("stubborn", plain, **{"standin.mode": "stubborn"}), subject.ports[0]
    subject.assign(topology_id, port)
    slot = subject.wait_slot(port, "running")
    child = int((subject.directory / "logs" / topology_id / str(port) / "child.pid").read_text())
    assert alive(child)
    subject.assign(topology_id)
    ended = subject.wait_slot(port, "empty")
    assert ended.last_exit == "stopped: its assignment changed"
    wait_until(lambda: not alive(slot.pid) and not alive(child))


@pytest.mark.skipif(not HAS_PROC, reason="other groups of a session are found by /proc")
def test_a_killed_worker_leaves_no_child_in_another_group_of_its_session(
    subject: Supervisor, plain: BundleInfo
) -> None:
    topology_id, port = subject.submit("apart", plain, **{"standin.mode": "apart"}), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    child = int((subject.directory / "logs" / topology_id / str(port) / "child.pid").read_text())
    assert os.getpgid(child) == child and os.getsid(child) == first.pid
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not alive(child))
    subject.wait_slot(port, "running", unlike=first.worker_id)


def test_other_executors_mean_another_worker(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("rebalanced", plain), subject.ports[0]
    subject.assign(topology_id, port, tasks=2)
    first = subject.wait_slot(port, "running")
    subject.assign(topology_id, port, tasks=1)
    subject.wait_slot(port, "running", unlike=first.worker_id)
    assert not alive(first.pid)


def test_a_slot_goes_from_one_topology_to_another(subject: Supervisor, plain: BundleInfo) -> None:
    one, other, port = subject.submit("one", plain), subject.submit("other", plain), subject.ports[0]
    subject.assign(one, port)
    first = subject.wait_slot(port, "running")
    subject.assign(one)
    subject.assign(other, port)
    second = subject.wait_slot(port, "running", unlike=first.worker_id)
    assert second.topology_id == other
    wait_until(lambda: subject.presences(one) == {})


@pytest.mark.long
def test_a_worker_that_falls_silent_is_restarted(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("silent", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    silence = subject.directory / "logs" / topology_id / str(port) / "be-silent"
    silence.touch()
    wait_until(lambda: subject.slot(port).worker_id != first.worker_id, 10)
    silence.unlink()
    second = subject.wait_slot(port, "running", unlike=first.worker_id)
    assert second.last_exit == "stopped: no heartbeat for 3 s"
    assert any("no heartbeat for 3 s" in error.message for error in subject.store.errors(topology_id))


@pytest.mark.long
def test_a_worker_that_never_gives_a_life_sign_is_restarted(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("mute", plain, **{"standin.mode": "mute"}), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "starting")
    second = subject.wait_slot(port, "starting", unlike=first.worker_id)
    assert second.last_exit == "stopped: no heartbeat within 6 s of its launch"


def test_restart_worker_starts_it_afresh(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("restarted", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    with subject.stub() as stub:
        stub.RestartWorker(pb.RestartWorkerRequest(epoch=0, port=port), timeout=5)
        second = subject.wait_slot(port, "running", unlike=first.worker_id)
        assert second.last_exit == "stopped: a restart was requested"
        with pytest.raises(grpc.RpcError) as caught:
            stub.RestartWorker(pb.RestartWorkerRequest(epoch=0, port=subject.ports[1]), timeout=5)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_commands_of_a_deposed_leader_are_refused(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("epochs", plain), subject.ports[0]
    subject.epoch = 5
    subject.assign(topology_id, port)
    subject.wait_slot(port, "running")
    with subject.stub() as stub:
        for call, request in (
            (stub.Wake, pb.WakeRequest(epoch=4)),
            (stub.RestartWorker, pb.RestartWorkerRequest(epoch=4, port=port)),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(request, timeout=5)
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "epoch 5 has begun" in (caught.value.details() or "")
        stub.Wake(pb.WakeRequest(epoch=6), timeout=5)
        with pytest.raises(grpc.RpcError):
            stub.Wake(pb.WakeRequest(epoch=5), timeout=5)


def test_a_worker_that_nobody_knows_is_told_to_end(subject: Supervisor) -> None:
    with subject.stub() as stub:
        assert stub.Beat(pb.BeatRequest(worker_id="stranger", port=subject.ports[0], pid=1), timeout=5).stop


def test_a_log_is_read_from_its_end_from_an_offset_and_across_rotation(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("logging", plain), subject.ports[0]
    subject.assign(topology_id, port)
    subject.wait_slot(port, "running")
    directory = subject.directory / "logs" / topology_id / str(port)
    with subject.stub() as stub:
        # 2,400 bytes a second, rotated at 4,000: follow until past a rotation
        rotations, text = 0, b""
        call = stub.TailLog(
            pb.TailLogRequest(topology_id=topology_id, port=port, last_bytes=1, follow=True), timeout=90
        )
        last = 0
        for reply in call:
            rotations += reply.offset < last
            last = reply.offset
            text += reply.data
            if rotations:
                break
        call.cancel()
        numbers = [int(line.split()[1]) for line in text.splitlines()[1:-1] if line.startswith(b"line")]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

        replies = list(stub.TailLog(pb.TailLogRequest(topology_id=topology_id, port=port, last_bytes=500), timeout=5))
        assert sum(len(reply.data) for reply in replies) == 500
        replies = list(stub.TailLog(pb.TailLogRequest(topology_id=topology_id, port=port, offset=12), timeout=5))
        assert replies[0].offset == 12
        whole = (directory / "worker.log").read_bytes()
        assert whole[12:].startswith(b"".join(reply.data for reply in replies))

        for wrong in (pb.TailLogRequest(topology_id="none", port=port), pb.TailLogRequest(topology_id="..", port=port)):
            with pytest.raises(grpc.RpcError) as caught:
                list(stub.TailLog(wrong, timeout=5))
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_health_and_metrics_show_the_slots(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("metrics", plain), subject.ports[0]
    subject.assign(topology_id, port)
    subject.wait_slot(port, "running")
    assert subject.get("/healthz")[0] == 200
    assert subject.get("/readyz") == (200, '{"ready":true,"reasons":[]}')
    metrics = subject.get("/metrics")[1]
    assert 'tupletree_supervisor_slots{state="running"} 1.0' in metrics
    assert 'tupletree_supervisor_slots{state="empty"} 1.0' in metrics
    assert "tupletree_supervisor_worker_launches_total" in metrics
    shown = subject.store.supervisors()["me"]
    assert list(shown.slots) == subject.ports
    assert shown.grpc_port == subject.announced()["grpc_port"]


def test_a_topology_s_environment_is_before_the_supervisor_s_own_settings(
    subject: Supervisor, plain: BundleInfo
) -> None:
    wanted = {"MALLOC_TRIM_THRESHOLD_": "131072", "MINE": "1"}
    topology_id, port = subject.submit("own", plain, **{"topology.environment": wanted}), subject.ports[0]
    subject.assign(topology_id, port)
    found = psutil.Process(subject.wait_slot(port, "running").pid).environ()
    assert found.items() >= {**wanted, "MALLOC_MMAP_THRESHOLD_": "33554432"}.items()


@pytest.mark.parametrize(
    ("conf", "sentence"),
    [
        ({"topology.environment": {"A=B": "1"}}, "topology.environment: 'A=B' is not the name of a variable"),
        ({"topology.environment": {"A": "\0"}}, "topology.environment: the value of 'A'"),
        ({"topology.environment": {"A": "\ud800"}}, "topology.environment: the value of 'A'"),
        ({"topology.worker.timeout.secs": "x", "topology.environment": 7}, "topology.environment: must be a mapping"),
        ({"conf_json": '{"my.key":' + "[" * 5000 + "]" * 5000 + "}"}, "cannot be launched: RecursionError"),
        ({"conf_json": "["}, "cannot be launched: JSONDecodeError"),
    ],
    ids=["name", "nul", "surrogate", "kinds", "deep", "no-json"],
)
def test_a_configuration_that_no_worker_can_be_started_with_stops_no_neighbour(
    subject: Supervisor, plain: BundleInfo, conf: dict[str, Any], sentence: str
) -> None:
    """As a nimbus that did not check it may have stored it."""
    neighbour, bad = subject.submit("neighbour", plain), subject.submit("bad", plain, **conf)
    first, second = subject.ports
    subject.assign(neighbour, first)
    running = subject.wait_slot(first, "running")
    subject.assign(bad, second)
    subject.wait_slot(second, "delayed")
    assert sentence in subject.slot(second).last_exit
    reported = wait_until(lambda: subject.store.errors(bad), 10, what="the error is reported")
    assert reported and sentence in reported[0].message
    assert subject.slot(first).worker_id == running.worker_id
    assert subject.slot(first).state == "running"
    assert subject.process is not None and subject.process.poll() is None


@pytest.mark.long
@pytest.mark.parametrize("damaged", [paths.assignment, paths.topology])
def test_a_worker_whose_topology_cannot_be_read_goes_on_and_others_are_launched(
    subject: Supervisor, plain: BundleInfo, damaged: Callable[[str, str], str]
) -> None:
    broken, port, other_port = subject.submit("broken", plain), *subject.ports
    subject.assign(broken, port)
    first = subject.wait_slot(port, "running")
    node = damaged(subject.root, broken)
    stored, _ = subject.store.client.get(node)
    subject.store.client.set(node, b"{damaged")
    other = subject.submit("other", plain)
    subject.assign(other, other_port)
    subject.wait_slot(other_port, "running")
    assert subject.slot(port).worker_id == first.worker_id
    assert subject.ready()

    subject.kill()
    subject.start()
    assert subject.wait_slot(port, "running").worker_id == first.worker_id, "a worker that was adopted is kept, too"
    subject.wait_slot(other_port, "running")
    subject.assign(other)
    subject.wait_slot(other_port, "empty")
    subject.assign(other, port)
    assert subject.wait_slot(port, "running", unlike=first.worker_id).topology_id == other
    assert not alive(first.pid), "what is assigned has the slot"
    subject.assign(other)
    subject.wait_slot(port, "empty")
    subject.store.client.set(node, stored)
    assert subject.wait_slot(port, "running").topology_id == broken
