"""Removed topologies in the UI: the list, one with its last errors, and its logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import browser_topologies
import pytest
from browser_harness import MIN_CONTRAST, Watched, address, contrasts, horizontal_excess, row, table
from playwright.sync_api import Browser, Page, expect

from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def gone(browser: Browser) -> Iterator[tuple[DevCluster, str]]:
    """A cluster, and the id of a topology that was killed there after it had reported errors."""
    with DevCluster(supervisors=1, slots=1) as cluster:
        client = cluster.client
        topology_id = client.submit("ailing", browser_topologies.ailing(), {})
        wait_until(lambda: client.describe("ailing").errors, 60)
        client.kill("ailing", wait_secs=0)
        wait_until(client.history, 30)
        yield cluster, topology_id


def test_a_removed_topology_is_found_from_the_cluster_page(gone: tuple[DevCluster, str], page: Page) -> None:
    cluster, topology_id = gone
    page.goto(address(cluster))
    page.get_by_role("link", name="Removed topologies").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Removed topologies")
    expect(table(page, "Removed topologies").locator("tbody tr")).to_have_count(1)
    expect(row(page, "Removed topologies", topology_id)).to_contain_text("ailing")
    expect(page.get_by_role("link", name="Cluster").first).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name=topology_id).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ailing")
    [entry] = cluster.client.history("ailing")
    expect(table(page, "Components").locator("tbody tr")).to_have_count(len(entry.components))
    expect(page.locator(".errors")).to_contain_text(entry.errors[0].message)
    page.get_by_role("link", name="Log", exact=True).click()
    expect(page.get_by_role("log")).to_contain_text("worker.ready")
    [worker] = entry.workers
    expect(page.get_by_role("heading", name=f"Worker {worker.host}:{worker.port}")).to_be_visible()
    page.get_by_role("searchbox").fill("worker.ready")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_role("region", name="Lines found").locator("mark").first).to_have_text("worker.ready")


def test_the_page_of_a_topology_that_was_removed_leads_to_its_history(
    gone: tuple[DevCluster, str], watched: Watched
) -> None:
    watched.page.goto(address(gone[0], "topology", gone[1]))
    watched.page.get_by_role("link", name="show its history").click()
    expect(watched.page.get_by_role("heading", level=1)).to_have_text("ailing")
    assert all("404" in one for one in watched.problems)  # the browser's own words for the answer
    watched.problems.clear()


def test_one_that_is_not_remembered_is_said_so(gone: tuple[DevCluster, str], watched: Watched) -> None:
    for parts in (("history", "no-such-1-1"), ("history", "no-such-1-1", "logs")):
        watched.page.goto(address(gone[0], *parts))
        expect(watched.page.get_by_text("No topology: there is no topology with the id 'no-such-1-1'")).to_be_visible()
    assert all("404" in one for one in watched.problems)  # the browser's own words for the answer
    watched.problems.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_fit_a_phone_and_can_be_read(
    gone: tuple[DevCluster, str], page: Page, scheme: Literal["light", "dark"]
) -> None:
    cluster, topology_id = gone
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 360, "height": 740})
    for parts in (("history",), ("history", topology_id), ("history", topology_id, "logs")):
        page.goto(address(cluster, *parts))
        expect(page.locator("main .section").first).to_be_visible()
        assert horizontal_excess(page) == 0, parts
        assert [one for one in contrasts(page) if one[0] < MIN_CONTRAST] == [], parts
