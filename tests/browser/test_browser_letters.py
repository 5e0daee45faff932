"""Dead letters in the UI: stores, letters and one letter are shown, replayed and dropped, when confirmed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from browser_harness import MIN_CONTRAST, Watched, address, contrasts, horizontal_excess, shot
from playwright.sync_api import Browser, Locator, Page, expect

from tupletree.dead_letters import DeadLetterStore, Letter, open_store
from tupletree.replaying_spout import LETTER_FIELDS
from tupletree.testing import DevCluster, make_tuple

pytestmark = pytest.mark.long

HOSTILE = "ValueError: <img src=x onerror=alert(1)> is no customer"
TRACEBACK = 'Traceback (most recent call last):\n  File "enrich.py", line 12, in execute\n    raise ValueError(name)\n'


def letter(number: int, name: str = "orders", at_s: float = 1_700_000_000.0) -> Letter:
    values = [f"m{number}", [number, "<b>row</b>"], "default", 5, "enrich", 7, HOSTILE, TRACEBACK + HOSTILE]
    return Letter.of(make_tuple(values, LETTER_FIELDS, component="orders"), name, at_s + number)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser-letters")


@pytest.fixture(scope="module")
def store(directory: Path) -> DeadLetterStore:
    return open_store(f"sqlite:{directory}/letters.db")


@pytest.fixture(scope="module")
def cluster(browser: Browser, store: DeadLetterStore, directory: Path) -> Iterator[DevCluster]:
    store.add([letter(number) for number in range(60)] + [letter(60, "payments")])
    (directory / "damaged.db").write_bytes(b"not SQLite at all" * 100)
    open_store(f"sqlite:{directory}/partly.db").add([letter(0), letter(1)])
    with closing(sqlite3.connect(directory / "partly.db")) as connection, connection:
        connection.execute("UPDATE letters SET attempts = x'80' WHERE id = ?", (letter(0).id,))
    stores = {
        "partly": f"sqlite:{directory}/partly.db",
        "rejected": f"sqlite:{directory}/letters.db",
        "invoices": f"sqlite:{directory}/none.db",
        "damaged": f"sqlite:{directory}/damaged.db",
    }
    with DevCluster(supervisors=0, ackers=0, conf={"nimbus.dead.letters.stores": stores}) as cluster:
        yield cluster


def rows(page: Page, caption: str) -> Locator:
    return page.get_by_role("region", name=f"Table: {caption}").locator("tbody tr")


def asked(page: Page, button: str, title: str) -> Locator:
    """Press a button and return the dialog that comes."""
    page.get_by_role("button", name=button).click()
    found = page.get_by_role("dialog", name=title)
    expect(found).to_be_visible()
    return found


def test_the_stores_are_in_the_navigation(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster))
    page.get_by_role("link", name="Dead letters").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    stores = rows(page, "Stores")
    expect(stores.filter(has_text="rejected")).to_contain_text("61")
    expect(stores.filter(has_text="invoices")).to_contain_text("no file yet")
    expect(stores.filter(has_text="damaged")).to_contain_text("file is not a database")
    expect(page.get_by_role("link", name="Dead letters")).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="invoices").click()
    expect(page.get_by_text("There is no letter here.")).to_be_visible()


def test_letters_are_paged_filtered_and_shown_as_text(cluster: DevCluster, page: Page, screenshots: str | None) -> None:
    page.goto(address(cluster, "dead-letters", "rejected"))
    letters = rows(page, "Letters")
    expect(letters).to_have_count(50)
    expect(letters.first).to_contain_text("payments")
    expect(letters.nth(1)).to_contain_text("<b>row</b>")
    page.get_by_role("link", name="Older letters").click()
    expect(letters).to_have_count(11)
    page.get_by_role("link", name="Newest letters").click()
    page.get_by_role("searchbox", name="Only letters of the topology").fill("payments")
    expect(page.locator(".foot")).not_to_have_text(page.locator(".foot").inner_text())  # drawn anew, with the text
    page.get_by_role("searchbox").press("Enter")
    expect(letters).to_have_count(1)
    letters.get_by_role("link").click()
    expect(page.locator("pre")).to_have_text(TRACEBACK + HOSTILE)
    expect(rows(page, "Letter").filter(has_text="Failed in")).to_contain_text("enrich, task 7")
    expect(rows(page, "Letter").filter(has_text="Values")).to_contain_text("[60, '<b>row</b>']")
    assert page.locator("main img").count() == 0
    shot(page, screenshots, "letter")


def test_every_page_of_letters_fits_a_phone_and_can_be_read(cluster: DevCluster, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for parts in ((), ("rejected",), ("rejected", letter(0).id)):
        page.goto(address(cluster, "dead-letters", *parts))
        expect(page.locator("main table").first).to_be_visible()
        assert horizontal_excess(page) <= 0, parts
        assert page.evaluate("document.querySelector('.top nav').scrollWidth") <= 360, "pages out of sight"
        expect(page.locator(".foot")).to_contain_text("refreshes every 10 s")
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            assert [one for one in contrasts(page) if one[0] < MIN_CONTRAST] == [], (parts, scheme)


def test_damaged_entries_are_named_below_the_letters(cluster: DevCluster, page: Page) -> None:
    page.goto(address(cluster, "dead-letters", "partly"))
    expect(rows(page, "Letters")).to_have_count(1)
    expect(page.locator("main")).to_contain_text(f"1 damaged entry skipped: {letter(0).id}.")


def test_a_store_that_cannot_be_used_is_said_on_its_page_alone(cluster: DevCluster, watched: Watched) -> None:
    page = watched.page
    page.goto(address(cluster, "dead-letters", "damaged"))
    problem = "No letters: the store of dead letters 'damaged' cannot be used: dead letters in "
    expect(page.locator("main .problem")).to_contain_text(problem)
    expect(page.locator(".pulse")).to_have_text("live")
    page.goto(address(cluster, "dead-letters", "rejected", "no-such-letter"))
    expect(page.get_by_text("Letter not found")).to_be_visible()
    assert all("502" in one or "404" in one for one in watched.problems)  # the browser's own words for the answers
    watched.problems.clear()


def test_nothing_is_changed_without_confirmation(cluster: DevCluster, store: DeadLetterStore, watched: Watched) -> None:
    page = watched.page
    page.goto(address(cluster, "dead-letters", "rejected"))
    asked(page, "Replay all…", "Replay all letters in rejected?").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    asked(page, "Drop all…", "Drop all letters in rejected?")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert watched.posts == [] and store.count() == 61


def test_one_letter_is_replayed_and_dropped(cluster: DevCluster, store: DeadLetterStore, watched: Watched) -> None:
    page, one = watched.page, letter(60, "payments")
    page.goto(address(cluster, "dead-letters", "rejected", one.id))
    short = one.id[:8]
    asked(page, "Replay…", f"Replay letter {short} of rejected?").get_by_role("button", name="Replay").click()
    expect(page.get_by_role("main").get_by_text("replay requested")).to_be_visible()
    expect(page.get_by_role("button", name="Replay…")).to_have_count(0)
    assert [found.id for found in store.letters(replayed=True)] == [one.id]
    asked(page, "Drop…", f"Drop letter {short} of rejected?").get_by_role("button", name="Drop").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("rejected")
    expect(page.get_by_text("Letters dropped: 1.")).to_be_visible()
    expect(page.get_by_text("60 letters", exact=True)).to_be_visible()
    assert store.find(one.id) is None
    assert all("404" in one for one in watched.problems)  # the page of the letter may ask once more
    watched.problems.clear()


def test_all_letters_are_dropped_but_those_that_came_later(
    cluster: DevCluster, store: DeadLetterStore, watched: Watched
) -> None:
    page = watched.page
    later = letter(1, "later", at_s=4_000_000_000.0)
    page.goto(address(cluster, "dead-letters", "rejected"))
    asked(page, "Replay all…", "Replay all letters in rejected?").get_by_role("button", name="Replay").click()
    expect(page.get_by_text("Letters to be replayed: 60.")).to_be_visible()
    assert len(store.letters(replayed=True)) == 60
    found = asked(page, "Drop all…", "Drop all letters in rejected?")
    store.add([later])
    found.get_by_role("button", name="Drop").click()
    expect(page.get_by_text("Letters dropped: 60.")).to_be_visible()
    expect(rows(page, "Letters")).to_have_count(1)
    assert store.letters() == [later]
    assert [one.partition("?")[0] for one in watched.posts] == [
        "dead-letters/rejected/replay",
        "dead-letters/rejected/drop",
    ]
