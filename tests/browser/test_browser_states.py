"""States in the UI: how large they are, their entries, and values that are put, changed and deleted if confirmed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import browser_topologies
import pytest
from browser_harness import (
    MIN_CONTRAST,
    Watched,
    address,
    contrasts,
    horizontal_excess,
    row,
    shot,
    table,
    topology_id,
)
from playwright.sync_api import Browser, Locator, Page, expect

from tupletree.client import StateClient
from tupletree.errors import TupletreeError
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long

SOON_MS = 30_000.0  # until a worker measures again


@pytest.fixture(scope="module")
def states(cluster: DevCluster) -> Iterator[StateClient]:
    with StateClient(conf=cluster.conf) as client:
        yield client


@pytest.fixture(scope="module")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    root = {"nimbus.savepoints.address": str(tmp_path_factory.mktemp("browser-savepoints"))}
    with DevCluster(slots=1, conf=root) as cluster, StateClient(conf=cluster.conf) as client:
        conf = {"topology.state.checkpoint.interval.ms": 300}
        cluster.client.submit("tallies", browser_topologies.tallies(), conf)
        wait_until(lambda: committed(client) >= 106, 60, what="all words are committed")
        yield cluster


def committed(client: StateClient) -> int:
    try:
        return len(client.scan("tallies", "tally", limit=1000).entries)
    except TupletreeError:  # no worker runs yet
        return 0


def value(states: StateClient, key: str) -> object:
    return next((one.value for one in states.get("tallies", "tally", key).entries), None)


def asked(page: Page, button: Locator, title: str) -> Locator:
    """Press a button and return the dialog that comes."""
    button.click()
    found = page.get_by_role("dialog", name=title)
    expect(found).to_be_visible()
    return found


def look_up(page: Page, key: str, form: str = "text", which: str = "committed") -> None:
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("combobox", name="Written as").select_option(form)
    page.get_by_role("combobox", name="Value").select_option(which)
    page.get_by_role("button", name="Look up").click()


def test_sizes_are_a_link_away_and_lead_to_each_component(
    cluster: DevCluster, page: Page, screenshots: str | None
) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "tallies")))
    page.get_by_role("link", name="States", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("States")
    tally = row(page, "States", "tally")
    expect(tally).to_contain_text("memory", timeout=SOON_MS)
    expect(row(page, "States", "seen")).to_contain_text("101", timeout=SOON_MS)  # and the time of the task
    shot(page, screenshots, "states")
    tally.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("State of tally")
    expect(table(page, "Tasks with a state").locator("tbody tr")).to_have_count(2)
    expect(table(page, "Largest entries").locator("tbody tr").first).to_contain_text(str(2**60 + 1))
    page.get_by_role("link", name="tally", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("tally")
    page.get_by_role("link", name="State", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("State of tally")
    page.goto(address(cluster, "topology", topology_id(cluster, "tallies"), "component", "alphabet"))
    expect(page.get_by_role("heading", level=1)).to_have_text("alphabet")
    expect(page.get_by_role("link", name="State", exact=True)).to_have_count(0)


def test_a_key_is_looked_up_and_entries_are_paged(cluster: DevCluster, page: Page, screenshots: str | None) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "tallies"), "component", "tally", "state"))
    look_up(page, "word07")
    found = table(page, "Value of the key").locator("tbody tr")
    expect(found).to_have_count(1)
    expect(found).to_contain_text('"word07"1')
    page.get_by_role("button", name="Show entries").click()
    expect(table(page, "Entries")).to_be_visible()
    page.evaluate("scrollTo(0, 0)")
    shot(page, screenshots, "state")
    look_up(page, '"long"', "json", "live")
    expect(found.first).to_contain_text(str(2**60 + 1))
    look_up(page, "nobody")
    expect(page.get_by_text("No task has this key.")).to_be_visible()
    entries = table(page, "Entries").locator("tbody tr")
    expect(entries).to_have_count(50)
    first = entries.first.text_content() or ""
    page.get_by_role("button", name="Next entries").click()
    expect(entries.first).not_to_have_text(first)
    assert page.locator("main img").count() == 0
    page.get_by_role("button", name="From the start").click()
    expect(entries.first).to_have_text(first)


def test_values_are_put_changed_and_deleted(
    cluster: DevCluster, states: StateClient, watched: Watched, page: Page
) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "tallies"), "component", "tally", "state"))
    dialog = asked(page, page.get_by_role("button", name="Put…"), "Put a value?")
    dialog.get_by_label("Key, as JSON").fill("new")
    dialog.get_by_label("Value, as JSON").fill("5")
    dialog.get_by_role("button", name="Put", exact=True).click()
    expect(dialog.get_by_role("alert")).to_have_text('The key is not JSON; a text has quotes: "apple".')
    assert watched.posts == []
    dialog.get_by_label("Key, as JSON").fill('"new"')
    dialog.get_by_label("Value, as JSON").fill(str(2**60 + 1))
    dialog.get_by_role("button", name="Put", exact=True).click()
    expect(page.get_by_text(re.compile("The value is put, committed with checkpoint"))).to_be_visible()
    assert value(states, "new") == 2**60 + 1
    look_up(page, "new")
    found = table(page, "Value of the key").locator("tbody tr")
    expect(found).to_contain_text(str(2**60 + 1))
    dialog = asked(page, found.get_by_role("button", name='Change… "new"'), 'Change the value of "new"?')
    dialog.get_by_label("Value, as JSON").fill('{"count": 1.0}')
    dialog.get_by_role("button", name="Change", exact=True).click()
    expect(found).to_contain_text('{"count":1.0}')
    assert value(states, "new") == {"count": 1.0}
    states.put("tallies", "tally", "new", 6)
    dialog = asked(page, found.get_by_role("button", name='Change… "new"'), 'Change the value of "new"?')
    dialog.get_by_label("Value, as JSON").fill("7")
    dialog.get_by_role("button", name="Change", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("key 'new'")
    dialog.get_by_role("button", name="Cancel").click()
    assert value(states, "new") == 6
    assert all("409" in one for one in watched.problems)  # the browser's own words for the answer
    watched.problems.clear()
    dialog = asked(page, found.get_by_role("button", name='Delete… "new"'), 'Delete "new"?')
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("No task has this key.")).to_be_visible()
    assert value(states, "new") is None


def test_a_savepoint_is_taken_when_confirmed(cluster: DevCluster, watched: Watched, page: Page) -> None:
    topology = topology_id(cluster, "tallies")
    page.goto(address(cluster, "topology", topology, "states"))
    section = page.get_by_role("region", name="Savepoint")
    expect(section).to_contain_text("This nimbus has taken none of this topology.")
    dialog = asked(page, section.get_by_role("button", name="Take a savepoint…"), "Take a savepoint of tallies?")
    dialog.get_by_label("Name").fill("monday")
    dialog.get_by_role("button", name="Take", exact=True).click()
    expect(section.get_by_text("done", exact=True)).to_be_visible()
    expect(section).to_contain_text("/tallies/monday")
    assert watched.posts == [f"topology/{topology}/savepoint"]


def test_a_state_that_cannot_be_written_says_so_and_has_no_buttons(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "tallies"), "component", "seen", "state"))
    expect(page.locator("main")).to_contain_text(
        "Read only: the state of component 'seen' cannot be written from outside: a KeyedProcess keeps entries"
    )
    page.get_by_role("button", name="Show entries").click()
    expect(table(page, "Entries").locator("tbody tr")).to_have_count(50)
    assert page.get_by_role("button", name=re.compile("Put|Change|Delete")).count() == 0


def test_the_pages_fit_a_phone_and_can_be_read(cluster: DevCluster, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    topology = topology_id(cluster, "tallies")
    for parts in (("states",), ("component", "tally", "state")):
        page.goto(address(cluster, "topology", topology, *parts))
        expect(page.locator("main table").first).to_be_visible()
        if parts[0] == "component":
            page.get_by_role("button", name="Show entries").click()
            expect(table(page, "Entries")).to_be_visible()
        assert horizontal_excess(page) <= 0, parts
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            assert [one for one in contrasts(page) if one[0] < MIN_CONTRAST] == [], (parts, scheme)
