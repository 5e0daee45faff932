"""The page of what topologies and other programs share, in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser_harness import address
from playwright.sync_api import Page, expect

from tupletree.testing import DevCluster

NAMESPACES = {"orders": {"max_open_trees": 500, "timeout_s": 90}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=1, conf={"acker.trees.namespaces": NAMESPACES}) as running:
        yield running


@pytest.mark.long
def test_blobs_and_namespaces_of_trees_are_shown(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    page.get_by_role("link", name="Shared", exact=True).click()
    blobs = page.get_by_role("region", name="Table: Blobs")
    expect(page.get_by_text("There are no blobs that you may read.")).to_be_visible()
    cluster.client.put_blob("dictionary", __file__)
    expect(blobs.locator("tbody tr")).to_contain_text(["dictionary"])
    orders = page.get_by_role("region", name="Table: Namespaces of trees").locator("tbody tr")
    expect(orders).to_contain_text(["orders"])
    expect(orders).to_contain_text(["500"])
