"""Leaders that die, stop, or lack a bundle: somebody who has everything takes over, and nothing is half done."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from nimbus_harness import Bench, NimbusProcess, report, send_report, submission, topology, upload

from tupletree._rpc.channels import channel
from tupletree.client import NimbusClient
from tupletree.errors import UnavailableError
from tupletree.testing.wait import wait_until
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1.nimbus_pb2_grpc import NimbusStub

pytestmark = pytest.mark.long


@pytest.fixture
def pair(bench: Bench) -> tuple[NimbusProcess, NimbusProcess]:
    """A leader and a standby."""
    leader = bench.leader("n1")
    standby = bench.nimbus("n2")
    wait_until(lambda: standby.leader().address == leader.address)
    return leader, standby


def _report(stub: NimbusStub) -> Callable[..., object]:
    """The call that reports once."""
    return lambda request, timeout: list(stub.ReportWorker(iter([request]), timeout=timeout))


def test_a_standby_names_the_leader_and_does_nothing_else(pair: tuple[NimbusProcess, NimbusProcess]) -> None:
    leader, standby = pair
    reply = standby.leader()
    assert (reply.address, reply.is_me) == (leader.address, False)
    assert standby.readiness() == (True, [])
    with channel(standby.address) as one:
        for call, request in (
            (NimbusStub(one).ListTopologies, rpc.ListTopologiesRequest()),
            (NimbusStub(one).Kill, rpc.KillRequest(name="wc")),
            (_report(NimbusStub(one)), rpc.WorkerReport()),
        ):
            with pytest.raises(grpc.RpcError) as raised:
                call(request, timeout=5)
            assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
            assert raised.value.details() == f"this nimbus does not lead; the leader is {leader.address}"


def test_when_a_submission_returns_the_standby_has_the_bundle_and_it_leads_within_seconds(
    bench: Bench, pair: tuple[NimbusProcess, NimbusProcess]
) -> None:
    leader, standby = pair
    registration = bench.register_supervisor("s1", 6700, 6701)
    client = bench.client(leader, standby)
    topology_id = client.submit("wc", topology(), {"topology.workers": 2})
    assert standby.files() == leader.files() != []
    before = bench.await_assignment(topology_id, lambda one: len(one.workers) == 2)
    leader.kill()
    began = time.monotonic()
    wait_until(standby.leads, 10, what="the standby leads")
    assert time.monotonic() - began < 5, "it waited for the session of the dead leader to end"
    assert standby.leader().epoch == before.epoch + 1
    assert [one.record.name for one in client.list()] == ["wc"]
    assert client.describe("wc").spec.components[0].id == "lines"
    assert bench.assignment(topology_id) == before, "nothing moved"
    client.kill("wc", wait_secs=0)
    wait_until(lambda: client.list() == ())
    registration.stop()


def test_figures_of_workers_that_are_no_more_survive_their_leader(bench: Bench) -> None:
    leader = bench.leader("n1", "nimbus.monitor.freq.secs=1")
    standby = bench.nimbus("n2")
    bench.register_supervisor("s1", 6700)
    client = bench.client(leader, standby)
    topology_id = client.submit("wc", topology())
    bench.await_assignment(topology_id, lambda one: one.workers)

    def executed(nimbus: NimbusProcess, worker_id: str, count: int) -> int:
        stats = rpc.TaskStats(task_id=3, component_id="split", executed=count)
        send_report(nimbus, report(topology_id, "s1", 6700, worker_id, stats))
        return client.describe("wc").components[1].total.executed

    wait_until(lambda: executed(leader, "w1", 100) == 100)
    assert executed(leader, "w2", 20) == 120
    wait_until(lambda: b"w2" in bench.store.statistics([topology_id])[topology_id])
    leader.kill()
    wait_until(standby.leads, 10)
    wait_until(lambda: executed(standby, "w2", 21) == 121)


def test_a_leader_killed_during_an_upload_leaves_nothing_and_the_name_is_free(
    bench: Bench, pair: tuple[NimbusProcess, NimbusProcess], tmp_path: Path
) -> None:
    leader, standby = pair
    good = submission(tmp_path, "wc", padding=1_000_000)

    def dying() -> Iterator[rpc.SubmitRequest]:
        requests = good.requests()
        yield next(requests)
        yield next(requests)
        wait_until(leader.files, what="the upload has begun")
        leader.kill()
        yield from requests

    with pytest.raises(UnavailableError):
        upload(leader.address, dying())
    wait_until(standby.leads, 10)
    assert bench.store.topologies() == {}
    assert upload(standby.address, good.requests())
    again = bench.nimbus("n1")
    wait_until(lambda: again.files() == standby.files(), what="the old leader has what it lacks, and nothing else")


def test_a_stopped_leader_orders_its_standby_down_at_once(
    bench: Bench, pair: tuple[NimbusProcess, NimbusProcess]
) -> None:
    leader, standby = pair
    assert leader.stop() == 0
    wait_until(standby.leads, 5)
    assert bench.store.nimbuses().keys() == {standby.id}


def test_a_leader_that_was_suspended_changes_nothing_when_it_wakes(bench: Bench) -> None:
    old = bench.leader("n1", "zookeeper.session.timeout=2000")
    new = bench.nimbus("n2", "zookeeper.session.timeout=2000")
    client = bench.client(old, new)
    client.submit("wc", topology())
    old.signal(signal.SIGSTOP)
    late: list[str] = []

    def ask_the_sleeper() -> None:
        with channel(old.address) as one:
            try:
                NimbusStub(one).Deactivate(rpc.DeactivateRequest(name="wc"), timeout=20)
                late.append("done")
            except grpc.RpcError as error:
                late.append(error.code().name)

    asking = threading.Thread(target=ask_the_sleeper)
    asking.start()
    wait_until(new.leads, 15, what="the standby leads")
    old.signal(signal.SIGCONT)
    asking.join()
    assert late == ["UNAVAILABLE"]
    wait_until(lambda: not old.leader().is_me)
    wait_until(lambda: old.leader().address == new.address)
    assert client.list()[0].record.status == client.activate("wc").status, "still active"


def test_a_nimbus_without_a_living_topologys_bundle_does_not_lead_until_it_has_it(bench: Bench) -> None:
    nimbus = bench.leader("n1")
    client = bench.client(nimbus)
    client.submit("wc", topology())
    (name,) = nimbus.files()
    saved = shutil.copy(nimbus.blobs / name, bench.directory / "saved")
    assert nimbus.stop() == 0
    (nimbus.blobs / name).unlink()
    again = bench.nimbus("n1")
    wait_until(lambda: not again.readiness()[0], what="it is not ready")
    assert again.readiness()[1] == ["bundles: no reachable nimbus has the bundle of 'wc': start a nimbus that has it"]
    assert again.leader() == rpc.GetLeaderReply()
    said = f"no nimbus leads.*: nimbus at {again.address} answers and does not lead .*/readyz.* says why"
    with NimbusClient(again.address, leader_timeout_s=0.5) as impatient, pytest.raises(UnavailableError, match=said):
        impatient.list()
    shutil.copy(saved, nimbus.blobs / name)
    wait_until(again.leads, 10)
    assert again.readiness() == (True, [])


def test_a_leader_that_loses_a_bundle_gives_leadership_up_until_one_that_has_it_comes(bench: Bench) -> None:
    leader = bench.leader("n1", "nimbus.monitor.freq.secs=1")
    standby = bench.nimbus("n2")
    bench.client(leader, standby).submit("wc", topology())
    (name,) = leader.files()
    standby.kill()
    (leader.blobs / name).unlink()
    wait_until(lambda: not leader.leads(), 20, what="the leader notices and stands down")
    again = bench.nimbus("n2")
    wait_until(lambda: again.leads() or leader.leads(), 10, what="one of them leads")
    wait_until(lambda: leader.files() == [name], what="the other one has fetched it")
    wait_until(lambda: leader.readiness() == (True, []))


def test_three_nimbuses_of_which_two_die(bench: Bench) -> None:
    leader = bench.leader("n1")
    others = [bench.nimbus(f"n{number}") for number in (2, 3)]
    wait_until(lambda: all(one.leader().address == leader.address for one in others))
    wait_until(lambda: len(bench.session.get_children(f"{bench.root}/leader/candidates")) == 3)
    others[0].kill()
    leader.kill()
    wait_until(others[1].leads, 10, what="the last one leads")


def test_zookeeper_restarts_and_the_leader_goes_on(bench: Bench, pair: tuple[NimbusProcess, NimbusProcess]) -> None:
    leader, standby = pair
    client = bench.client(leader, standby)
    client.submit("wc", topology())
    bench.zookeeper.kill()
    wait_until(lambda: not leader.readiness()[0], what="the leader says that it is not ready")
    bench.zookeeper.start()
    wait_until(lambda: leader.readiness() == (True, []), 20, what="the leader says that it is ready")
    client.kill("wc", wait_secs=0)
    wait_until(lambda: client.list() == (), 20)
    client.submit("wc", topology())


def test_a_leader_that_zookeeper_is_silent_to_does_not_claim_to_lead(bench: Bench) -> None:
    """Another may lead, and clients that ask this one first would go on calling it."""
    leader = bench.leader("n1", "zookeeper.session.timeout=3000")
    bench.zookeeper.kill(signal.SIGSTOP)

    def claims() -> str:
        try:
            return leader.leader().address
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            return f"not: {error.details()}"

    said = wait_until(lambda: claims().partition("not: ")[2], 20, what="it does not claim to lead")
    assert said == "ZooKeeper does not answer, so this nimbus may no longer lead; try again later"
    bench.zookeeper.kill(signal.SIGCONT)
    wait_until(lambda: claims() == leader.address, 20, what="it leads")
