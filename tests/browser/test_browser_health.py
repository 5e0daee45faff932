"""The command, the REST interface and the pages say the same of a cluster: when it is well, and when it is not."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import browser_topologies
import greenstalk
import pytest
from browser_harness import address, api, topology_id
from playwright.sync_api import Browser, Page, expect

from tests.integration.transactional.database_servers import Server
from tupletree._net import ReservedPorts
from tupletree.cli.main import main
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Said:
    """A verdict, its faults and its notes, as somebody tells them."""

    verdict: str
    faults: list[str]
    notes: list[str]


@pytest.fixture(scope="module")
def cluster(browser: Browser) -> Iterator[DevCluster]:
    # A killed acker is registered as long as its session lasts: long enough to be looked at from three sides.
    with DevCluster(slots=3, ackers=2, conf={"zookeeper.session.timeout": 40_000}) as cluster:
        cluster.client.submit("words", browser_topologies.words(), {"topology.workers": 2})
        wait_until(lambda: cluster.client.list()[0].workers_ready == 2, 60, what="words runs")
        yield cluster


@pytest.fixture
def command(cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> Callable[[], Said]:
    """What ``tupletree health`` says, and that its exit status does."""

    def ask() -> Said:
        capsys.readouterr()
        status = main(["health", "--json", "--nimbus", cluster.client.seeds[0]])
        found = json.loads(capsys.readouterr().out)
        assert status == ["healthy", "degraded", "down"].index(found["verdict"])
        assert found["reasons"] == [one["sentence"] for one in found["faults"]]
        return Said(found["verdict"], found["reasons"], [one["sentence"] for one in found["notes"]])

    return ask


def rest(cluster: DevCluster) -> Said:
    found = api(cluster, "cluster/health")
    return Said(found["verdict"], *([one["sentence"] for one in found[kind]] for kind in ("faults", "notes")))


def shown(page: Page) -> Said:
    """What the open page says first."""
    verdict = page.get_by_role("region", name="Verdict")
    headline, rows = verdict.evaluate(
        """(region) => [
            region.querySelector(".headline span:last-child").textContent,
            [...region.querySelectorAll("li")].map((row) => [row.className, row.children[1].textContent]),
        ]"""
    )
    word = headline.partition(":")[0].partition(";")[0]
    faults = [text for level, text in rows if level == "bad"]
    return Said(word.lower(), faults, [text for level, text in rows if level != "bad"])


def kinds(cluster: DevCluster) -> set[str]:
    """Of faults and warnings."""
    found = api(cluster, "cluster/health")
    return {one["kind"] for one in (*found["faults"], *found["notes"]) if one["severity"] != "note"}


def agreed(cluster: DevCluster, page: Page, command: Callable[[], Said], verdict: str, fault: str) -> Said:
    """Wait until the cluster page shows a verdict with a fault, and all three say exactly the same; what that is.

    They are asked one after the other, and figures in sentences go on changing: so at some moment, not at any.
    """
    said: list[Said] = []

    def do_agree() -> bool:
        said[:] = [rest(cluster), command(), shown(page), rest(cluster)]
        first = said[0]
        is_so = first.verdict == verdict and (any(fault in one for one in first.faults) if fault else not first.faults)
        return is_so and all(one == first for one in said)

    try:
        wait_until(do_agree, 90)
    except TimeoutError:
        pytest.fail("\n".join(map(str, said)))
    return said[0]


def test_all_say_that_a_healthy_cluster_is_healthy(
    cluster: DevCluster, page: Page, command: Callable[[], Said]
) -> None:
    page.goto(address(cluster))
    expect(page.get_by_role("region", name="Verdict")).to_be_visible()
    agreed(cluster, page, command, "healthy", "")


@pytest.mark.nightly
def test_all_name_a_topology_whose_workers_crash(cluster: DevCluster, page: Page, command: Callable[[], Said]) -> None:
    cluster.client.submit("crashing", browser_topologies.crashing(), {})
    wait_until(
        lambda: {"worker.crash_loop", "component.error"} <= kinds(cluster), 90, what="nimbus sees the crash loop"
    )
    page.goto(address(cluster))
    expect(page.get_by_role("region", name="Verdict")).to_be_visible()
    said = agreed(cluster, page, command, "degraded", "died")
    [loop] = [one for one in said.faults if "died" in one]
    assert loop.startswith("topology 'crashing': its worker at ")
    [error] = [one for one in said.notes if "fatal: reported an error" in one]
    assert "ValueError: no sentence at all" in error

    verdict, subject = page.get_by_role("region", name="Verdict"), loop.partition(" died ")[0]
    expect(verdict.get_by_role("listitem").filter(has_text=subject)).to_contain_text("tupletree errors crashing")
    verdict.get_by_role("link", name=subject).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("crashing")
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("Degraded")
    own = [one for one in api(cluster, "cluster/health")["faults"] if one["topologyId"]]
    assert {one["subject"] for one in own} == {"crashing"}
    page.goto(address(cluster, "topology", topology_id(cluster, "words")))
    expect(page.get_by_role("heading", level=1)).to_have_text("words")
    assert shown(page) == Said("healthy", [], [])

    page.goto(address(cluster, "topology", topology_id(cluster, "crashing")))
    times = page.locator("ul.errors li").filter(has_text="no sentence at all")
    expect(times).to_have_count(1)  # however often it came
    expect(times).to_contain_text("times")
    cluster.client.kill("crashing", wait_secs=0)
    wait_until(lambda: rest(cluster).verdict == "healthy", 60, what="all is well again")


class Beanstalkd(Server):
    def __init__(self) -> None:
        super().__init__("beanstalkd")
        self.ports = ReservedPorts()
        [self.port] = self.ports.reserve(1)

    def command(self) -> Sequence[str]:
        return ["beanstalkd", "-l", "127.0.0.1", "-p", str(self.port)]

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


@pytest.fixture
def beanstalkd() -> Iterator[Beanstalkd]:
    if shutil.which("beanstalkd") is None:
        pytest.skip("beanstalkd is not installed: sh deploy/setup/servers.sh")
    server = Beanstalkd()
    yield server
    server.close()


@pytest.mark.nightly
def test_all_say_that_a_queue_is_away(
    cluster: DevCluster, page: Page, command: Callable[[], Said], beanstalkd: Beanstalkd
) -> None:
    cluster.client.submit("orders", browser_topologies.orders(f"127.0.0.1:{beanstalkd.port}"), {})
    page.goto(address(cluster))
    expect(page.get_by_role("region", name="Verdict")).to_be_visible()
    fault = "topology 'orders', orders: 2 of 2 tasks are not connected to beanstalkd: "  # of 1 while the other starts
    said = agreed(cluster, page, command, "degraded", fault)
    [away] = [one for one in said.faults if "not connected" in one]
    assert away.startswith(fault)
    page.get_by_role("region", name="Verdict").get_by_role("link", name=away).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    rows = page.get_by_role("region", name="Table: Source", exact=True).locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("not connected")
    expect(rows.first).to_contain_text("ConnectionRefusedError")

    beanstalkd.start()
    with contextlib.closing(greenstalk.Client(("127.0.0.1", beanstalkd.port), use="orders")) as client:
        for number in range(30):
            client.put(f"{number}")
        expect(rows.last.locator("td")).to_have_text(["beanstalkd", "connected", "10", "10", ""])
        expect(page.get_by_role("region", name="Verdict")).not_to_contain_text("not connected")
    topology = topology_id(cluster, "orders")
    assert api(cluster, f"topology/{topology}/lag")["orders"]["spoutLagResult"] == {
        "source": "beanstalkd",
        "lag": 10,
        "lagUnit": "messages",
        "outstanding": 20,
        "connectedTasks": 2,
        "tasks": 2,
    }
    cluster.client.kill("orders", wait_secs=0)
    wait_until(lambda: rest(cluster).verdict == "healthy", 60, what="all is well again")


def test_a_supervisor_that_hangs_is_named_and_holds_nobody_up(cluster: DevCluster, page: Page, command: Any) -> None:
    page.goto(address(cluster))
    expect(page.get_by_role("region", name="Verdict")).to_be_visible()
    cluster.kill("supervisor", 0, signal.SIGSTOP)
    try:
        wait_until(lambda: "supervisor.unreachable" in kinds(cluster), 60, what="nimbus sees that it is silent")
        said = agreed(cluster, page, command, "degraded", "does not answer")
        assert said.faults[0].startswith("supervisor ")
    finally:
        cluster.kill("supervisor", 0, signal.SIGCONT)
    wait_until(lambda: rest(cluster).verdict == "healthy", 60, what="it answers again")


def test_all_name_a_killed_acker(cluster: DevCluster, page: Page, command: Callable[[], Said]) -> None:
    page.goto(address(cluster))
    expect(page.get_by_role("region", name="Verdict")).to_be_visible()
    cluster.kill("acker", 0)
    said = agreed(cluster, page, command, "degraded", "connection refused")
    [fault] = [one for one in said.faults if "connection refused" in one]
    assert fault.endswith("is not ready: cannot be reached: connection refused")
    [reason] = [one for one in api(cluster, "cluster/health")["faults"] if one["sentence"] == fault]
    assert (reason["severity"], reason["kind"], reason["command"]) == (
        "degraded",
        "acker.unreachable",
        "tupletree ackers",
    )
    page.get_by_role("region", name="Verdict").get_by_role("link", name=fault).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(":")
    expect(page.get_by_role("region", name="Verdict")).to_contain_text(fault)
    page.goto(address(cluster))  # before the acker of the other page is gone
    cluster.restart("acker", 0)
    agreed(cluster, page, command, "healthy", "")  # with a note of the trees that failed
