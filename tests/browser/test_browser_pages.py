"""Every page of the UI shows the truth about a running cluster, on a screen and on a phone, in light and in dark.

With TUPLETREE_SCREENSHOTS=DIRECTORY the pages are also pictured for docs/ui.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import browser_topologies
import pytest
from browser_harness import (
    CLIPPED,
    LABELS_OFF,
    MIN_CONTRAST,
    SHOWN,
    UNHINTED,
    Watched,
    address,
    api,
    contrasts,
    growing,
    horizontal_excess,
    row,
    shot,
    table,
    topology_id,
)
from playwright.sync_api import Browser, Page, expect

from examples import stateful_words, transactional_words
from tupletree.testing import DevCluster, wait_until

SOON_MS = 20_000.0
NAMES = ("ailing", "stateful", "transactional", "words")


@pytest.fixture(scope="module")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A cluster with a healthy topology, an ailing one, one with states and one with transactions."""
    directory = tmp_path_factory.mktemp("browser-pages")
    lines = Path(directory, "lines")
    lines.mkdir()
    with DevCluster(supervisors=2, slots=3, ackers=1, nimbuses=1) as cluster, growing(lines / "text"):
        submit = cluster.client.submit
        submit("words", browser_topologies.words(), {"topology.workers": 2})
        submit("ailing", browser_topologies.ailing(), {})
        submit("stateful", stateful_words.topology(), {"topology.max.spout.pending": 5})
        submit("transactional", transactional_words.topology(str(lines), str(directory), 64), {})
        wait_until(lambda: all(one.workers_ready == one.record.workers for one in cluster.client.list()), 60)
        wait_until(lambda: acked(cluster, "words") > 50 and acked(cluster, "ailing") > 50, 60)
        yield cluster


def acked(cluster: DevCluster, name: str) -> int:
    found = cluster.client.describe(name).components
    return sum(int(one.total.acked) for one in found if one.component_id == "sentences")


@pytest.fixture(scope="module")
def views(cluster: DevCluster) -> dict[str, tuple[str, ...]]:
    """Every view by the name of its picture."""
    words, ailing = topology_id(cluster, "words"), topology_id(cluster, "ailing")
    return {
        "cluster": (),
        "topology": ("topology", words),
        "topology-ailing": ("topology", ailing),
        "component": ("topology", words, "component", "split"),
        "transactions": ("topology", topology_id(cluster, "transactional"), "transactions"),
        "checkpoints": ("topology", topology_id(cluster, "stateful"), "transactions"),
        "logs": ("topology", words, "logs"),
        "supervisors": ("supervisors",),
        "ackers": ("ackers",),
        "acker": ("acker", cluster.client.cluster().ackers[0].presence.id),
        "shared": ("shared",),
        "configuration": ("configuration",),
    }


def figure(page: Page, label: str) -> str:
    """The figure under a label of the row of figures."""
    entry = page.locator(".figures > div").filter(has=page.get_by_text(label, exact=True))
    return entry.locator("dd").first.inner_text()


def cells(page: Page, caption: str, first: str) -> dict[str, str]:
    """The cells of that row by their headings, without the arrow of the one that is sorted by."""
    headings = table(page, caption).locator("thead th").all_inner_texts()
    texts = row(page, caption, first).locator("th, td").all_inner_texts()
    return {heading.strip(" ↑↓\n"): text for heading, text in zip(headings, texts, strict=True)}


def whole(text: str) -> float:
    """A number as the page writes it: 45.6 k is 45600."""
    found = re.match(r"([\d.]+)\s*([kMG]?)", re.sub("(?<=\\d)\u202f(?=\\d)", "", text).replace("\u202f", " "))
    assert found, text
    return float(found[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[found[2]]


@pytest.mark.long
def test_the_cluster_page_says_what_is_wrong_first(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text(re.compile("Healthy; .* worth a look"), timeout=SOON_MS)
    expect(verdict.get_by_role("link", name=re.compile("^topology 'ailing', sentences: .* trees fail"))).to_be_visible()
    expect(verdict).not_to_contain_text("topology 'words'")
    verdict.get_by_role("link", name=re.compile("^topology 'ailing', picky: reported an error")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("picky")


def test_the_cluster_page_has_the_clients_figures(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    listed = cluster.client.list()
    expect(row(page, "Topologies", "words")).to_be_visible()
    for one in listed:
        shown = cells(page, "Topologies", one.record.name)
        assert shown["Status"] == "ACTIVE"
        assert shown["Workers ready"] == f"{one.workers_ready} of {one.workers_used}"
        assert int(shown["Tasks"]) == one.tasks_total
        assert shown["Owner"] == one.record.owner
    described = cluster.client.cluster()
    assert figure(page, "Topologies") == str(len(NAMES))
    assert figure(page, "Slots used") == f"{described.slots_used} of {described.slots_total}"
    assert figure(page, "Executors") == str(sum(one.executors_total for one in listed))
    leader = described.nimbuses[0].presence
    assert cells(page, "Nimbuses", f"{leader.host}:{leader.grpc_port}")["Status"] == "Leader"
    acker = described.ackers[0].presence
    expect(row(page, "Ackers", f"{acker.host}:{acker.grpc_port}").get_by_text("ready")).to_be_visible(timeout=SOON_MS)


def test_pending_trees_of_the_cluster_are_those_of_its_topologies(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    expect(row(page, "Topologies", "words")).to_be_visible()
    shown = page.evaluate(SHOWN, "Pending")
    assert len(shown["column"]) == len(NAMES)
    assert whole(shown["figures"]["Pending trees"]) == sum(map(whole, shown["column"]))


def test_charts_end_with_the_present_figures(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "words")))
    expect(page.get_by_role("img", name=re.compile("^Throughput: emitted [1-9]"))).to_be_visible(timeout=SOON_MS)
    shown = page.evaluate(SHOWN, "Pending")
    for figure_label, line in (("Emitted", "emitted"), ("Acked", "acked"), ("Pending trees", "pending")):
        assert shown["figures"][figure_label] == shown["charts"][line]


def test_topologies_are_sorted_by_their_headings(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    topologies = table(page, "Topologies")
    names = topologies.locator("tbody th")
    expect(names).to_have_text(list(NAMES))
    expect(topologies.locator("th[aria-sort=ascending]")).to_have_count(1)
    topologies.get_by_role("button", name="Name").press("Enter")
    expect(names).to_have_text(list(reversed(NAMES)))
    expect(topologies.locator("th[aria-sort=descending]")).to_have_count(1)


def test_the_topology_page_draws_components_and_streams(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "words")))
    boxes = page.locator(".graph a.box")
    expect(boxes).to_have_count(3)
    drawn = {box.locator(".box-name").text_content(): box.get_attribute("class") or "" for box in boxes.all()}
    assert {name: "spout" in classes for name, classes in drawn.items()} == {
        "sentences": True,
        "split": False,
        "count": False,
    }
    titles = sorted(one.text_content() or "" for one in page.locator(".graph .stream title").all())
    assert [one.partition(":")[0] for one in titles] == [
        "sentences → split, stream default, shuffle grouping",
        "split → count, stream default, fields grouping",
    ]
    expect(page.get_by_role("list", name="Legend")).to_contain_text("failing")
    rate = re.compile(r"default, fields grouping: (\d+)/s")
    wait_until(lambda: rate_of(page, rate) > 100, 20)
    page.get_by_role("link", name=re.compile("^bolt split,")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("split")


def test_labels_of_the_drawing_stand_on_their_lines(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "transactional")))
    expect(page.locator(".graph .stream")).to_have_count(7)
    assert max(page.evaluate(LABELS_OFF)) < 2
    expect(page.locator(".graph a.box", has_text="lines:coordinator")).to_contain_text("spout · 1 executor ·")


def rate_of(page: Page, pattern: re.Pattern[str]) -> float:
    texts = [one.text_content() or "" for one in page.locator(".graph .stream title").all()]
    return max((float(found[1]) for text in texts if (found := pattern.search(text))), default=0.0)


def test_the_topology_page_has_the_clients_figures(cluster: DevCluster, page: Page) -> None:
    before = totals(cluster, "words")
    page.goto(address(cluster, "topology", topology_id(cluster, "words")) + "?window=:all-time")
    expect(row(page, "Bolts", "split")).to_be_visible()
    shown = {name: whole(cells(page, "Bolts", name)["Executed"]) for name in ("split", "count")}
    shown["sentences"] = whole(cells(page, "Spouts", "sentences")["Acked"])
    after = totals(cluster, "words")
    for name, figure_shown in shown.items():
        assert 0.98 * before[name] <= figure_shown <= 1.02 * after[name] + 500, name
    expect(page.get_by_role("radio", name="All time")).to_be_checked()
    assert figure(page, "Workers ready") == "2 of 2"
    workers = cluster.client.describe("words").workers
    expect(table(page, "Workers").locator("tbody th")).to_have_text(sorted(f"{one.host}:{one.port}" for one in workers))


def totals(cluster: DevCluster, name: str) -> dict[str, int]:
    found = cluster.client.describe(name).components
    return {one.component_id: int(one.total.executed or one.total.acked) for one in found}


@pytest.mark.long
def test_charts_move_by_themselves(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "words")))
    chart = page.get_by_role("img", name=re.compile("^Throughput: emitted"))
    expect(chart.locator("canvas")).to_be_visible()
    shown = chart.get_attribute("aria-label")
    expect(chart).not_to_have_attribute("aria-label", shown or "", timeout=SOON_MS)
    expect(page.get_by_role("img", name=re.compile(r"^Complete latency: p50"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile(r"^Pending tuple trees: pending \d"))).to_be_visible()


def test_an_ailing_component_is_red_in_words_and_its_error_stays_text(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "ailing")))
    expect(page.locator(".graph a.box.failing", has_text="picky")).to_contain_text("✕ failing")
    errors = page.locator("ul.errors")
    errors.get_by_text("<img src=x onerror=alert(1)> is no sentence").first.click()
    expect(errors.locator("pre").first).to_contain_text("Traceback (most recent call last)")
    expect(errors.locator("pre").first).to_contain_text("raise ValueError")
    assert page.locator("main img").count() == 0
    table(page, "Bolts").get_by_role("link", name="picky").click()
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("failed")


def test_the_component_page_has_executors_windows_and_streams(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "words"), "component", "split"))
    executors = table(page, "Executors")
    expect(executors.locator("tbody tr")).to_have_count(2)
    windows = table(page, "Statistics by window")
    expect(windows.locator("tbody th")).to_have_text(["10 min", "3 h", "1 day", "All time"])
    assert whole(cells(page, "Output streams", "default")["Emitted"]) > 500
    page.get_by_role("radio", name="All time").check()
    expect(page).to_have_url(re.compile("window=%3Aall-time$"))


def test_ackers_show_the_ledger(cluster: DevCluster, page: Page) -> None:
    presence = cluster.client.cluster().ackers[0].presence
    page.goto(address(cluster, "ackers"))
    page.get_by_role("link", name=f"{presence.host}:{presence.grpc_port}").click()
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("Healthy", timeout=SOON_MS)
    served = cluster.client.ledger(f"{presence.host}:{presence.grpc_port}").shards
    expect(table(page, "Shards").locator("tbody tr")).to_have_count(len(served))
    expect(page.get_by_role("img", name=re.compile(r"^Pending trees: pending \d"))).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_role("img", name=re.compile(r"^Verdicts: completed [1-9]"))).to_be_visible(timeout=SOON_MS)


@pytest.mark.long
def test_transactions_show_the_committed_one(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "transactional"), "transactions"))
    expect(page.get_by_role("heading", name="Transactions of transactional-words")).to_be_visible(timeout=SOON_MS)
    wait_until(lambda: whole(figure(page, "Committed txid")) > 2, 30)
    first = whole(figure(page, "Committed txid"))
    wait_until(lambda: whole(figure(page, "Committed txid")) > first, 30)
    stored = api(cluster, f"transactions/{topology_id(cluster, 'transactional')}")["coordinators"][0]["stored"]
    assert whole(figure(page, "Stored txid")) <= stored["committed"]


@pytest.mark.long
def test_checkpoints_go_on(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "stateful"), "transactions"))
    expect(page.get_by_role("heading", name="Checkpoints of stateful")).to_be_visible(timeout=SOON_MS)
    first = whole(figure(page, "Checkpoint"))
    wait_until(lambda: whole(figure(page, "Checkpoint")) > first, 30)
    expect(table(page, "Tasks with a state in this checkpoint")).to_contain_text("count")


def test_supervisors_show_every_slot(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "supervisors"))
    described = cluster.client.cluster()
    slots = table(page, "Slots")
    expect(slots).to_have_count(2)
    expect(slots.locator("tbody tr")).to_have_count(described.slots_total)
    expect(slots.get_by_text("running", exact=True)).to_have_count(described.slots_used, timeout=SOON_MS)
    expect(slots.get_by_text("free", exact=True)).to_have_count(described.slots_total - described.slots_used)


def test_configuration_is_searched(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "configuration"))
    keys = table(page, "Configuration").locator("tbody th")
    expect(keys).to_have_count(len(api(cluster, "cluster/configuration")))
    page.get_by_role("searchbox").fill("topology.MESSAGE.timeout")
    expect(keys).to_have_text(["topology.message.timeout.secs"])
    page.get_by_role("searchbox").fill("advertise.host")
    assert cells(page, "Configuration", "advertise.host")["Value"] == "null"
    expect(page.locator(".foot")).to_contain_text("refreshes every 2 s")
    page.get_by_role("searchbox").fill("no such key")
    expect(page.get_by_text("Nothing contains “no such key”.")).to_be_visible()


def test_logs_of_all_workers_are_followed_and_searched(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "topology", topology_id(cluster, "words"), "logs"))
    workers = sorted(f"{one.host}:{one.port}" for one in cluster.client.describe("words").workers)
    log = page.get_by_role("log")
    expect(log).to_contain_text("worker.ready", timeout=SOON_MS)
    assert set(log.locator(".from").all_inner_texts()) == set(workers)
    page.get_by_role("combobox", name="Worker").select_option(workers[0])
    expect(page.get_by_role("heading", name=f"Worker {workers[0]}")).to_be_visible()
    expect(log).to_contain_text("worker.ready", timeout=SOON_MS)
    page.get_by_role("combobox", name="Worker").select_option("")
    page.get_by_role("searchbox").fill("worker.ready")
    page.get_by_role("searchbox").press("Enter")
    found = page.get_by_role("region", name="Lines found")
    expect(found.locator("mark")).to_have_count(2)
    expect(found.locator("mark").first).to_have_text("worker.ready")
    page.get_by_role("button", name="Back to the log").click()
    expect(log).to_contain_text("worker.ready")


def test_a_topology_that_is_not_there_is_said_so(cluster: DevCluster, watched: Watched) -> None:
    watched.page.goto(address(cluster, "topology", "no-such-1-1"))
    expect(watched.page.get_by_text("Topology not found")).to_be_visible()
    watched.page.goto(address(cluster, "nothing", "here"))
    expect(watched.page.get_by_role("heading", name="Page not found")).to_be_visible()
    assert all("404" in one for one in watched.problems)  # the browser's own words for the answer
    watched.problems.clear()


def settled(page: Page) -> None:
    """Until the view has its answers."""
    expect(page.locator("main h1")).to_be_visible()
    expect(page.get_by_text(re.compile("^Waiting for"))).to_have_count(0, timeout=SOON_MS)


@pytest.mark.nightly
def test_every_page_fits_a_phone(cluster: DevCluster, views: dict[str, tuple[str, ...]], page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for name, parts in views.items():
        page.goto(address(cluster, *parts))
        settled(page)
        assert horizontal_excess(page) <= 0, name
        assert page.evaluate(UNHINTED) == [], name
        assert page.evaluate(CLIPPED) == [], name
        drawing = page.get_by_role("region", name="Drawing of the topology")
        assert all(one.evaluate("one => one.scrollWidth <= one.clientWidth") for one in drawing.all()), name


@pytest.mark.nightly
def test_every_text_can_be_read_in_light_and_in_dark(
    cluster: DevCluster, views: dict[str, tuple[str, ...]], page: Page, screenshots: str | None
) -> None:
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for name, parts in views.items():
        page.goto("about:blank")  # nothing of the view before is in the picture
        page.goto(address(cluster, *parts))
        settled(page)
        expect(page.locator("main .problem")).to_have_count(0)
        shot(page, screenshots, name)
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            faint = [one for one in contrasts(page) if one[0] < MIN_CONTRAST]
            assert faint == [], (name, scheme)
        page.emulate_media(color_scheme="light")


def test_a_view_shows_nothing_of_the_view_before(cluster: DevCluster, page: Page) -> None:
    stateful, transactional = (topology_id(cluster, name) for name in ("stateful", "transactional"))
    page.goto(address(cluster, "topology", transactional, "transactions"))
    expect(page.get_by_role("heading", name="Transactions of transactional-words")).to_be_visible(timeout=SOON_MS)
    page.route("**/api/v1/**", lambda route: None)  # no request is answered any more
    page.evaluate("id => { location.hash = `#/topology/${id}/transactions`; }", stateful)
    expect(page.get_by_text(stateful)).to_be_visible()
    expect(page.get_by_role("heading", name="Transactions of transactional-words")).to_have_count(0)


def test_the_theme_is_switched_and_kept(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    switch = page.get_by_role("button", name="Colours")
    switch.click()
    expect(switch).to_contain_text("light")
    switch.click()
    expect(switch).to_contain_text("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    expect(page.get_by_role("button", name="Colours")).to_contain_text("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
