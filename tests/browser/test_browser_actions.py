"""What can be done from the UI does what it says after its dialog, and nothing without; and a cluster that has nothing.

The tests run in the order of this file: what needs an empty cluster comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import browser_topologies
import pytest
from browser_harness import Watched, address, api, horizontal_excess, topology_id
from playwright.sync_api import Browser, Locator, Page, expect

from tupletree.client import TopologySummary, WorkerSummary
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long

COMPONENTS = 200
DRAWN_WITHIN_MS = 10_000.0  # a bound for a machine that does much else


@pytest.fixture(scope="module")
def cluster(browser: Browser) -> Iterator[DevCluster]:
    """A cluster that is empty at first."""
    with DevCluster(supervisors=1, slots=3, ackers=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topology(cluster: DevCluster) -> str:
    """The id of a topology that runs from now on."""
    cluster.client.submit("words", browser_topologies.words(), {})
    wait_until(lambda: record(cluster).workers_ready == 1, 60)
    return topology_id(cluster, "words")


def record(cluster: DevCluster, name: str = "words") -> TopologySummary:
    return next(one for one in cluster.client.list() if one.record.name == name)


def status(cluster: DevCluster, name: str = "words") -> str:
    found = api(cluster, "topology/summary")["topologies"]
    return str(next(one["status"] for one in found if one["name"] == name))


def dialog(page: Page, button: str, title: str) -> Locator:
    """Press a button and return the dialog that comes, which names the topology."""
    page.get_by_role("button", name=button).first.click()
    found = page.get_by_role("dialog", name=title)
    expect(found).to_be_visible()
    return found


def test_an_empty_cluster_says_what_to_do_next(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("Healthy")
    expect(page.get_by_text("No topology runs yet.")).to_be_visible()
    expect(page.get_by_role("link", name="Dead letters")).to_have_count(0)  # no store is configured
    command = page.locator(".command code").inner_text()
    assert re.fullmatch(r"tupletree submit examples/word_count\.py --name words .*", command), command
    page.goto(address(cluster, "ackers"))
    expect(page.get_by_role("region", name="Table: Ackers").locator("tbody tr")).to_have_count(1)
    page.goto(address(cluster, "supervisors"))
    expect(page.get_by_text("free", exact=True)).to_have_count(3)


def test_the_command_that_an_empty_cluster_shows_works(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    command = page.locator(".command code").inner_text()
    seeds = re.search(r"-c 'nimbus\.seeds=\[\"([^\"]+)\"\]'", command)
    assert seeds is not None, command
    assert seeds[1] == cluster.client.leader()


def test_deactivate_and_activate(cluster: DevCluster, topology: str, page: Page) -> None:
    page.goto(address(cluster, "topology", topology))
    dialog(page, "Deactivate…", "Deactivate words?").get_by_role("button", name="Deactivate").click()
    expect(page.get_by_role("main").get_by_text("INACTIVE")).to_be_visible()
    expect(page.get_by_text("words is deactivated.")).to_be_visible()
    assert status(cluster) == "INACTIVE"
    dialog(page, "Activate…", "Activate words?").get_by_role("button", name="Activate").click()
    expect(page.get_by_role("button", name="Deactivate…")).to_be_visible()
    assert status(cluster) == "ACTIVE"


def test_nothing_is_done_without_confirmation(cluster: DevCluster, topology: str, watched: Watched) -> None:
    page = watched.page
    page.goto(address(cluster, "topology", topology))
    titles = {"Deactivate…": "Deactivate words?", "Rebalance…": "Rebalance words?", "Kill…": "Kill words?",
              "Sample…": "Sample tuples of words?", "Set a level…": "Set a log level in words",
              "Memory…": "Dump the memory of a worker of words?", "Restart…": "Restart a worker of words?"}  # fmt: skip
    for button, title in titles.items():
        dialog(page, button, title).get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        dialog(page, button, title)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    assert watched.posts == []
    assert status(cluster) == "ACTIVE"


def test_rebalance(cluster: DevCluster, topology: str, watched: Watched) -> None:
    page = watched.page
    page.goto(address(cluster, "topology", topology))
    found = dialog(page, "Rebalance…", "Rebalance words?")
    found.get_by_label("Workers").fill("2")
    found.get_by_label("Wait, in seconds").fill("0")
    found.get_by_text("Executors of 3 components").click()
    found.locator("[name='executors count']").fill("1")
    found.get_by_text("Tasks of 3 components").click()
    found.get_by_label("Tasks of split").fill("3")
    found.get_by_role("button", name="Rebalance").click()
    expect(page.get_by_text("words is being rebalanced.")).to_be_visible()
    wait_until(lambda: record(cluster).record.tasks["split"] == 3, 30)
    wait_until(lambda: record(cluster).workers_ready == 2, 60)
    assert (record(cluster).record.workers, record(cluster).record.executors["count"]) == (2, 1)
    expect(page.get_by_role("region", name="Table: Workers").locator("tbody tr")).to_have_count(2)
    assert watched.posts == [f"topology/{topology}/rebalance/0"]


def test_roll_back(cluster: DevCluster, topology: str, watched: Watched) -> None:
    page = watched.page
    page.goto(address(cluster, "topology", topology))
    expect(page.get_by_role("button", name="Rebalance…")).to_be_visible()
    expect(page.get_by_role("button", name="Roll back…")).to_have_count(0)  # it was never updated
    cluster.client.update("words", browser_topologies.words(), {"topology.debug": True}, wait_secs=0)
    wait_until(lambda: record(cluster).record.version == 1 and not record(cluster).record.trial_began_unix_s, 60)
    expect(page.get_by_text("runs update 1")).to_be_visible()
    found = dialog(page, "Roll back…", "Roll words back?")
    expect(found).to_contain_text("It runs update 1 and goes back to what was submitted")
    found.get_by_label("Wait, in seconds").fill("0")
    found.get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("words goes back to what was submitted.")).to_be_visible()
    wait_until(lambda: record(cluster).record.version == 0 and record(cluster).workers_ready > 0, 60)
    expect(page.get_by_text("runs what was submitted")).to_be_visible()
    assert watched.posts == [f"topology/{topology}/rollback/0"]


def test_what_the_server_refuses_is_said_in_the_dialog(cluster: DevCluster, topology: str, watched: Watched) -> None:
    page = watched.page
    page.goto(address(cluster, "topology", topology))
    found = dialog(page, "Set a level…", "Set a log level in words")
    found.get_by_label("Logger").fill("no logger")
    found.get_by_role("button", name="Set level").click()
    expect(found.get_by_role("alert")).to_contain_text("'no logger' is not a logger name")
    found.get_by_role("button", name="Cancel").click()
    assert all("400" in one for one in watched.problems)  # the browser's own words for the answer
    watched.problems.clear()


def test_kill_waits_as_long_as_it_is_told(cluster: DevCluster, topology: str, watched: Watched) -> None:
    conf = {"topology.message.timeout.secs": 5, "topology.enable.message.timeouts": False}
    cluster.client.submit("doomed", browser_topologies.holding(), conf)
    wait_until(lambda: sum(one.total.pending for one in cluster.client.describe("doomed").components) > 0, 60)
    page = watched.page
    page.goto(address(cluster, "topology", topology_id(cluster, "doomed")))
    found = dialog(page, "Kill…", "Kill doomed?")
    expect(found.get_by_label("Wait, in seconds")).to_have_value("5")
    found.get_by_label("Wait, in seconds").fill("3600")
    found.get_by_role("button", name="Kill doomed").click()
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("topology 'doomed' is being killed")
    expect(page.get_by_role("button", name="Rebalance…")).to_have_count(0)
    assert status(cluster, "doomed") == "KILLED"
    found = dialog(page, "Kill…", "Kill doomed?")
    found.get_by_label("Wait, in seconds").fill("0")
    found.get_by_role("button", name="Kill doomed").click()
    wait_until(lambda: [one.record.name for one in cluster.client.list()] == ["words"], 30)
    page.get_by_role("link", name="all topologies", exact=True).click()
    topologies = page.get_by_role("region", name="Table: Topologies")
    expect(topologies.locator("tbody th")).to_have_text(["words"])
    assert status(cluster) == "ACTIVE"
    assert all("404" in one for one in watched.problems)  # the browser's own words for the answer
    watched.problems.clear()


def test_tuples_are_sampled_and_no_longer(cluster: DevCluster, topology: str, page: Page) -> None:
    page.goto(address(cluster, "topology", topology))
    found = dialog(page, "Sample…", "Sample tuples of words?")
    found.get_by_label("Percent of tuples").fill("25")
    found.get_by_role("button", name="Sample").click()
    expect(page.get_by_text("Sampled tuples: 25 %")).to_be_visible()
    assert dict(record(cluster).record.sampled_percent) == {"": 25.0}
    dialog(page, "Stop sampling…", "Stop sampling tuples of words?").get_by_role("button", name="Stop sampling").click()
    expect(page.get_by_text("Sampled tuples: off")).to_be_visible()
    page.goto(address(cluster, "topology", topology, "component", "split"))
    dialog(page, "Sample…", "Sample tuples of split?").get_by_role("button", name="Sample").click()
    expect(page.get_by_text("Sampled tuples: 10 %")).to_be_visible()
    assert dict(record(cluster).record.sampled_percent) == {"split": 10.0}


def test_a_log_level_is_set_and_cleared(cluster: DevCluster, topology: str, page: Page) -> None:
    page.goto(address(cluster, "topology", topology))
    found = dialog(page, "Set a level…", "Set a log level in words")
    found.get_by_label("Logger").fill("my.module")
    found.get_by_label("Level").select_option("DEBUG")
    found.get_by_role("button", name="Set level").click()
    levels = page.get_by_role("region", name="Table: Log levels")
    expect(levels).to_contain_text("my.module")
    assert record(cluster).record.log_levels["my.module"].level == "DEBUG"
    dialog(page, "Clear…", "Clear the level of my.module in words?").get_by_role("button", name="Clear").click()
    expect(levels).to_have_count(0)
    assert dict(record(cluster).record.log_levels) == {}


def test_a_worker_is_restarted(cluster: DevCluster, topology: str, page: Page) -> None:
    before = min(cluster.client.describe("words").workers, key=lambda one: one.port)
    page.goto(address(cluster, "topology", topology))
    worker = page.get_by_role("region", name="Table: Workers").locator("tbody tr").first
    expect(worker).to_contain_text(str(before.pid))
    worker.get_by_role("button", name="Restart…").press("Enter")
    page.get_by_role("dialog", name="Restart a worker of words?").get_by_role("button", name="Restart worker").click()
    expect(page.get_by_text(f"The worker at {before.host}:{before.port} is restarted.")).to_be_visible()

    def again() -> WorkerSummary:
        return min(cluster.client.describe("words").workers, key=lambda one: one.port)

    wait_until(lambda: again().ready and again().pid not in {0, before.pid}, 60)
    expect(worker).to_contain_text(str(again().pid))


def test_the_memory_of_a_worker_is_dumped(cluster: DevCluster, topology: str, page: Page) -> None:
    page.goto(address(cluster, "topology", topology))
    worker = page.get_by_role("region", name="Table: Workers").locator("tbody tr").first
    worker.get_by_role("button", name="Memory…").click()
    asked = page.get_by_role("dialog", name="Dump the memory of a worker of words?")
    asked.get_by_role("button", name="Dump memory").click()
    with page.expect_download() as started:
        page.get_by_role("link", name="memory-").click()
    assert "objects of Python" in Path(started.value.path()).read_text()


def test_by_keyboard_alone(cluster: DevCluster, topology: str, watched: Watched) -> None:
    """From the address to the dialog that kills a topology, and back without doing it."""
    page = watched.page
    page.goto(address(cluster))
    expect(page.get_by_role("link", name="words", exact=True)).to_be_visible()
    press_until(page, "Skip to content")
    page.keyboard.press("Enter")
    press_until(page, "words")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("words")
    expect(page.get_by_role("button", name="Kill…")).to_be_visible()
    press_until(page, "Kill…")
    page.keyboard.press("Enter")
    found = page.get_by_role("dialog", name="Kill words?")
    expect(found.get_by_role("button", name="Cancel")).to_be_focused()
    inside = set()
    for _ in range(8):
        page.keyboard.press("Tab")
        inside.add(
            page.evaluate(
                "Boolean(document.activeElement.closest('dialog')) || document.activeElement === document.body"
            )
        )
    assert inside == {True}  # the browser's own frame apart, nothing behind the dialog is reached
    found.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Kill…")).to_be_focused()
    assert watched.posts == []
    assert status(cluster) == "ACTIVE"


def press_until(page: Page, wanted: str) -> None:
    """Tab until what has the focus says so, and can be seen to have it."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == wanted:
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
            return
    raise AssertionError(f"{wanted!r} is not reached by keyboard")


@pytest.mark.nightly
def test_a_topology_of_two_hundred_components(cluster: DevCluster, watched: Watched) -> None:
    cluster.client.submit("many", browser_topologies.many(COMPONENTS), {}, inactive=True)
    try:
        page = watched.page
        page.goto(address(cluster, "topology", topology_id(cluster, "many")))
        boxes = page.locator(".graph a.box")
        expect(boxes).to_have_count(COMPONENTS, timeout=DRAWN_WITHIN_MS)
        assert page.evaluate(OVERLAPS) == []
        assert horizontal_excess(page) <= 0
        frame = page.get_by_role("region", name="Drawing of the topology")
        height = frame.locator("svg").evaluate("one => one.getBoundingClientRect().height")
        page.get_by_role("button", name="Larger").click()
        wait_until(lambda: frame.locator("svg").evaluate("one => one.getBoundingClientRect().height") > height, 10)
        page.get_by_role("button", name="Fit").click()
        excess = "one => one.scrollWidth - one.clientWidth"
        wait_until(lambda: frame.evaluate(excess) <= 0, 10)
        page.get_by_role("link", name=re.compile("^bolt step-142,")).press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("step-142")
        layout_ms = page.evaluate(LAYOUT, COMPONENTS)
        assert layout_ms < DRAWN_WITHIN_MS
    finally:
        cluster.client.kill("many", wait_secs=0)


# The pairs of boxes of the drawing that lie over each other.
OVERLAPS = """
() => {
  const boxes = [...document.querySelectorAll(".graph a.box .box-frame")].map((one) => one.getBoundingClientRect());
  const found = [];
  boxes.forEach((one, at) => boxes.slice(at + 1).forEach((other) => {
    const across = one.left < other.right && other.left < one.right;
    const down = one.top < other.bottom && other.top < one.bottom;
    if (across && down) found.push([one.left, other.left]);
  }));
  return found;
}
"""

# How long the drawing of as many components as that takes to lay out, in milliseconds.
LAYOUT = """
async (components) => {
  const { layout } = await import("./js/layout.js");
  const names = Array.from({ length: components }, (_, at) => `step-${at}`);
  const edges = names.slice(1).map((to, at) => ({ key: to, from: names[Math.max(0, at - 2)], to }));
  const begun = performance.now();
  layout(names, edges);
  return performance.now() - begun;
}
"""
