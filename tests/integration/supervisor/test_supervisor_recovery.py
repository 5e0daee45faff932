"""A supervisor that is killed, stopped or cut off from ZooKeeper: its workers run on, and nothing is forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervisor_harness import SUPERVISE, Supervisor, alive, make_bundle, supervisor, workers_of

from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._process_table import HAS_PROC
from tupletree.bundle import BundleInfo
from tupletree.testing.wait import wait_until

pytestmark = pytest.mark.long

FAST = {
    "supervisor.worker.shutdown.sleep.secs": 0.5,
    "supervisor.worker.timeout.secs": 3,
    "supervisor.monitor.frequency.secs": 0.5,
}


@pytest.fixture
def subject(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> Iterator[Supervisor]:
    with supervisor(zookeeper, zookeeper_root, 2, **FAST) as one:
        one.start()
        yield one


@pytest.fixture
def plain(subject: Supervisor, tmp_path: Path) -> BundleInfo:
    return subject.bundles.add(make_bundle(tmp_path))


def test_workers_survive_a_killed_supervisor_and_the_next_one_adopts_them(
    subject: Supervisor, plain: BundleInfo
) -> None:
    topology_id, port = subject.submit("adopted", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    subject.wait_presence(topology_id, port, first.worker_id)
    address = subject.announced()["grpc_port"]
    subject.kill()
    assert alive(first.pid)
    subject.start()
    assert subject.announced()["grpc_port"] == address  # the workers know no other
    slot = subject.wait_slot(port, "running")
    assert (slot.worker_id, slot.pid, slot.launches) == (first.worker_id, first.pid, 0)
    assert subject.presences(topology_id)[port].worker_id == first.worker_id
    assert "adoptions_total 1.0" in subject.get("/metrics")[1]

    os.kill(first.pid, signal.SIGKILL)  # an adopted worker is watched like any other
    second = subject.wait_slot(port, "running", unlike=first.worker_id)
    subject.wait_presence(topology_id, port, second.worker_id)


def test_a_worker_that_died_unseen_is_removed_and_replaced(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, other, port = subject.submit("unseen", plain), subject.submit("gone", plain), subject.ports[0]
    subject.assign(topology_id, port)
    subject.assign(other, subject.ports[1])
    first, second = subject.wait_slot(port, "running"), subject.wait_slot(subject.ports[1], "running")
    subject.wait_presence(topology_id, port, first.worker_id)
    subject.wait_presence(other, subject.ports[1], second.worker_id)
    subject.kill()
    for pid in (first.pid, second.pid):
        os.kill(pid, signal.SIGKILL)
    subject.assign(other)  # this one is not even wanted any more
    subject.start()
    replacement = subject.wait_slot(port, "running", unlike=first.worker_id)
    subject.wait_presence(topology_id, port, replacement.worker_id)
    wait_until(lambda: subject.presences(other) == {})


@pytest.mark.skipif(not HAS_PROC, reason="other groups of a session are found by /proc")
def test_what_a_worker_that_died_unseen_has_started_is_ended(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("apart", plain, **{"standin.mode": "apart"}), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    child = int((subject.directory / "logs" / topology_id / str(port) / "child.pid").read_text())
    subject.kill()
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not alive(first.pid))
    assert alive(child)
    subject.start()
    wait_until(lambda: not alive(child))


def test_what_was_unassigned_meanwhile_is_stopped_after_the_restart(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("unassigned", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    subject.kill()
    subject.assign(topology_id)
    subject.start()
    subject.wait_slot(port, "empty")
    assert not alive(first.pid)
    wait_until(lambda: subject.presences(topology_id) == {})


def test_workers_in_no_slot_of_this_supervisor_are_ended(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("orphan", plain, **{"standin.mode": "stubborn"}), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    subject.wait_presence(topology_id, port, first.worker_id)
    subject.kill()
    subject.start(**{"supervisor.slots.ports": subject.ports[1:]})
    wait_until(lambda: workers_of(subject.directory) == [])
    wait_until(lambda: os.listdir(subject.directory / "data" / "workers") == [])
    wait_until(lambda: subject.presences(topology_id) == {})


def test_a_worker_launched_but_not_noted_yet_is_found_by_its_command_line(
    subject: Supervisor, plain: BundleInfo
) -> None:
    topology_id, port = subject.submit("unnoted", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    subject.kill()
    (subject.directory / "data" / "workers" / first.worker_id / "process.json").unlink()
    subject.start()
    assert subject.wait_slot(port, "running").pid == first.pid


def test_a_stopped_supervisor_leaves_its_workers_running(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("upgrade", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    subject.signal(signal.SIGTERM)
    assert subject.join() == 0, subject.output()
    assert alive(first.pid)
    assert subject.store.supervisors() == {}
    subject.start()
    assert subject.wait_slot(port, "running").pid == first.pid


def test_a_stopped_supervisor_stops_its_workers_if_told_so(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("stopped", plain), subject.ports[0]
    subject.kill()
    subject.start(**{"supervisor.stop.workers.on.shutdown": True})
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    subject.wait_presence(topology_id, port, first.worker_id)
    subject.signal(signal.SIGTERM)
    assert subject.join() == 0, subject.output()
    assert not alive(first.pid)
    assert subject.presences(topology_id) == {}


def test_a_supervisor_that_was_suspended_does_not_blame_its_workers(subject: Supervisor, plain: BundleInfo) -> None:
    topology_id, port = subject.submit("suspended", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    subject.signal(signal.SIGSTOP)
    silence_s = FAST["supervisor.worker.timeout.secs"] + 1.5
    with pytest.raises(TimeoutError):
        wait_until(lambda: not alive(first.pid), silence_s)
    subject.signal(signal.SIGCONT)
    wait_until(lambda: "supervisor.overslept" in subject.log())
    assert subject.wait_slot(port, "running").worker_id == first.worker_id


def test_workers_run_on_while_zookeeper_is_away_and_a_death_is_told_when_it_is_back(
    subject: Supervisor, plain: BundleInfo, zookeeper: EmbeddedZooKeeper
) -> None:
    topology_id, ports = subject.submit("away", plain), subject.ports
    subject.assign(topology_id, *ports)
    kept, lost = (subject.wait_slot(port, "running") for port in ports)
    subject.wait_presence(topology_id, lost.port, lost.worker_id)
    zookeeper.kill()
    try:
        wait_until(lambda: subject.get("/readyz")[0] == 503)
        os.kill(lost.pid, signal.SIGKILL)
        replaced = subject.wait_slot(lost.port, "running", unlike=lost.worker_id)  # what should run here is known
        assert subject.slot(kept.port).worker_id == kept.worker_id
    finally:
        zookeeper.start()
    subject.wait_presence(topology_id, lost.port, replaced.worker_id, 20)
    wait_until(subject.ready, 20)
    assert subject.slot(kept.port).worker_id == kept.worker_id
    assert subject.slot(lost.port).worker_id == replaced.worker_id


def test_a_supervisor_that_starts_without_zookeeper_adopts_and_waits(
    subject: Supervisor, plain: BundleInfo, zookeeper: EmbeddedZooKeeper
) -> None:
    topology_id, port = subject.submit("patient", plain), subject.ports[0]
    subject.assign(topology_id, port)
    first = subject.wait_slot(port, "running")
    subject.kill()
    zookeeper.stop()
    try:
        subject.launch()
        wait_until(subject.announced, 20)
        assert subject.wait_slot(port, "running").pid == first.pid
        wait_until(lambda: "did not answer" in subject.get("/readyz")[1])
    finally:
        zookeeper.start()
    wait_until(subject.ready, 30)
    assert subject.wait_slot(port, "running").pid == first.pid


def test_slots_on_any_free_port_keep_their_ports(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> None:
    with supervisor(zookeeper, zookeeper_root, 1) as one:
        one.start(**{"supervisor.slots.ports": [0, 0, 0]})
        ports = [slot.port for slot in one.slots()]
        assert len(set(ports)) == 3 and 0 not in ports
        assert list(one.store.supervisors()["me"].slots) == ports
        one.kill()
        one.start()
        assert [slot.port for slot in one.slots()] == ports


def test_an_id_is_made_once_and_kept(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> None:
    with supervisor(zookeeper, zookeeper_root, 1) as one:
        del one.conf["supervisor.id"]
        one.start()
        made = one.announced()["id"]
        one.kill()
        one.start()
        assert one.announced()["id"] == made


def test_a_second_supervisor_on_one_directory_gets_one_sentence(subject: Supervisor) -> None:
    command = [*SUPERVISE, "--conf", str(subject.directory / "tupletree.yaml")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert second.returncode == 2
    reason = f"another supervisor uses local.dir {subject.directory / 'data'}: configure another local.dir"
    assert second.stderr == f"{reason}\n"
    assert subject.slots()


def test_a_port_in_use_gets_one_sentence(subject: Supervisor, tmp_path: Path) -> None:
    port = subject.announced()["grpc_port"]
    command = [*SUPERVISE, "--conf", str(subject.directory / "tupletree.yaml")]
    command += ["-c", f"local.dir={tmp_path / 'data'}", "-c", f"supervisor.port={port}"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert second.returncode == 2
    assert second.stderr == f"port {port} on 127.0.0.1 is in use\n"


def test_a_port_named_twice_gets_one_sentence(subject: Supervisor) -> None:
    command = [
        *SUPERVISE,
        "--conf",
        str(subject.directory / "tupletree.yaml"),
        "-c",
        "supervisor.slots.ports=[7000, 7000]",
    ]
    second = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert second.returncode == 2
    assert second.stderr == "configuration key 'supervisor.slots.ports' names a port twice: [7000, 7000]\n"
