"""The nimbus of an open page dies or hangs: the page says so, and goes on by itself when another leads."""

from __future__ import annotations

import re
from collections.abc import Iterator

import browser_topologies
import pytest
from browser_harness import Watched, address, http_port, row, topology_id
from playwright.sync_api import Browser, Page, expect

from tupletree.testing import DevCluster, wait_until

LONG_MS = 60_000.0
BROKEN = re.compile(r"Failed to load resource: (net::ERR_|the server responded with a status of 503)")

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(browser: Browser) -> Iterator[DevCluster]:
    conf = {"zookeeper.session.timeout": 4000}  # how long a killed leader's claim lasts
    with DevCluster(supervisors=1, slots=1, ackers=1, nimbuses=2, conf=conf) as cluster:
        cluster.client.submit("words", browser_topologies.words(), {})
        wait_until(lambda: [one.workers_ready for one in cluster.client.list()] == [1], 60)
        yield cluster


def leading(cluster: DevCluster) -> int:
    """The index of the nimbus that leads."""
    return cluster.client.seeds.index(cluster.client.leader())


def only_broken_connections(watched: Watched) -> None:
    """What the browser itself says of connections that fail is no fault of the page."""
    assert [one for one in watched.problems if not BROKEN.match(one)] == []
    watched.problems.clear()


def emitted(page: Page) -> str:
    return page.get_by_role("region", name="Table: Spouts").locator("tbody td").nth(2).inner_text()


def test_a_page_of_the_survivor_goes_on_without_reload(cluster: DevCluster, watched: Watched) -> None:
    page, index = watched.page, leading(cluster)
    survivor = 1 - index
    page.goto(address(cluster, "topology", topology_id(cluster, "words"), index=survivor))
    expect(page.get_by_role("heading", level=1)).to_have_text("words")
    expect(page.locator(".pulse")).to_have_text("live")
    page.evaluate("window.loadedOnce = true")
    cluster.kill("nimbus", index)
    try:
        wait_until(lambda: cluster.client.leader() == cluster.client.seeds[survivor], 60)
        expect(page.locator(".foot")).to_contain_text(f"Leader {cluster.client.seeds[survivor]}", timeout=LONG_MS)
        expect(page.locator(".pulse")).to_have_text("live", timeout=LONG_MS)
        shown = emitted(page)
        wait_until(lambda: emitted(page) != shown, 60)
        expect(page.locator(".lost-banner")).to_have_count(0)
        assert page.evaluate("window.loadedOnce") is True
    finally:
        cluster.restart("nimbus", index)
    only_broken_connections(watched)


def test_a_page_of_the_killed_leader_leads_to_the_other(cluster: DevCluster, watched: Watched) -> None:
    page, index = watched.page, leading(cluster)
    other = http_port(cluster, 1 - index)
    page.goto(address(cluster, "topology", topology_id(cluster, "words"), index=index))
    expect(page.get_by_role("region", name="Table: Bolts")).to_be_visible()
    cluster.kill("nimbus", index)
    banner = page.get_by_role("status").filter(has_text="This nimbus has not answered")
    expect(banner).to_contain_text("The data shown is from", timeout=LONG_MS)
    expect(page.locator(".pulse")).to_have_text("connection lost")
    expect(page.get_by_role("region", name="Table: Bolts")).to_be_visible()
    link = banner.get_by_role("link", name=f"127.0.0.1:{other}")
    link.click()
    expect(page).to_have_url(re.compile(f"^http://127.0.0.1:{other}/#/topology/words-"))
    expect(page.locator(".pulse")).to_have_text("live", timeout=LONG_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text("words")
    cluster.restart("nimbus", index)
    only_broken_connections(watched)


def test_a_page_goes_on_when_its_own_nimbus_is_back(cluster: DevCluster, watched: Watched) -> None:
    page = watched.page
    standby = 1 - leading(cluster)
    page.goto(address(cluster, index=standby))
    expect(page.locator(".pulse")).to_have_text("live")
    cluster.kill("nimbus", standby)
    expect(page.locator(".pulse")).to_have_text("connection lost", timeout=LONG_MS)
    cluster.restart("nimbus", standby)
    expect(page.locator(".pulse")).to_have_text("live", timeout=LONG_MS)
    expect(page.locator(".lost-banner")).to_have_count(0)
    only_broken_connections(watched)


def test_a_nimbus_that_hangs_has_been_silent_since_its_last_answer(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    expect(row(page, "Topologies", "words")).to_be_visible()
    page.route("**/api/v1/**", lambda route: None)  # as from a process that is stopped
    banner = page.get_by_role("status").filter(has_text="This nimbus has not answered")
    expect(banner).to_contain_text(re.compile(r"not answered for [1-9]\d*\ss \(no answer within 8 seconds\)"))
