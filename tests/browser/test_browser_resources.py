"""The web UI shows what of a machine's resources is in use, and why a topology waits for room."""

from __future__ import annotations

from collections.abc import Iterator

import browser_topologies
import pytest
from browser_harness import address, topology_id
from playwright.sync_api import Browser, Page, expect

from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(browser: Browser) -> Iterator[DevCluster]:
    conf = {
        "nimbus.scheduler": "resource",
        "supervisor.cpu.capacity": 300,
        "supervisor.memory.capacity.mb": 1000,
        "supervisor.resources": {"gpu": 2},
        "supervisor.rack": "north",
    }
    with DevCluster(slots=2, conf=conf) as cluster:
        cluster.client.submit("words", browser_topologies.words())
        wait_until(lambda: cluster.client.list()[0].workers_ready >= 1, 60, what="words runs")
        cluster.client.submit("large", browser_topologies.words(), {"topology.component.resources.map": {"gpu": 5}})
        wait_until(lambda: "gpu" in cluster.client.describe("large").unscheduled, 30, what="the shortage is explained")
        yield cluster


def test_the_page_of_supervisors_shows_resources_in_use(cluster: DevCluster, page: Page) -> None:
    (used,) = cluster.client.cluster().supervisors
    page.goto(address(cluster, "supervisors"))
    text = f"In use: {used.cpu_percent_used:g} of 300 % of a processor; {used.memory_mb_used:g} of 1000 MB of memory; "
    assert used.memory_mb_used > 0
    expect(page.get_by_text(text + "none of gpu: 2")).to_be_visible()
    expect(page.get_by_text("rack north, ")).to_be_visible()
    page.goto(address(cluster, ""))
    expect(page.get_by_role("cell", name="north")).to_be_visible()


def test_the_page_of_a_topology_says_what_it_waits_for(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "large")))
    expect(page.get_by_text("needs 5 gpu, and no supervisor has more than 2 gpu free").first).to_be_visible()
