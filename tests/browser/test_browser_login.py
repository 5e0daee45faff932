"""Where nimbus asks for tokens: the page that takes one, who is logged in, what one may not do, and the way out."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_harness import MIN_CONTRAST, Watched, address, contrasts
from playwright.sync_api import Browser, expect

from tupletree._security.files import write_private
from tupletree._security.tokens import Keyring
from tupletree.testing import DevCluster


@pytest.fixture(scope="module")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DevCluster, Keyring]]:
    secret = secrets.token_hex(32).encode()
    path = Path(tmp_path_factory.mktemp("browser-login"), "secret")
    write_private(path, secret)
    keyring = Keyring("tupletree", secret)
    operator = keyring.issue("operator", "user", roles=frozenset({"admin"}))
    conf = {"security.tokens": True, "security.secret.file": str(path), "security.token": operator}
    with DevCluster(supervisors=0, ackers=0, conf=conf) as cluster:
        yield cluster, keyring


def test_who_shows_a_token_is_let_in_and_out_again(cluster: tuple[DevCluster, Keyring], watched: Watched) -> None:
    (running, keyring), page = cluster, watched.page
    page.goto(address(running))
    expect(page).to_have_url(re.compile("/login"))
    assert [one for one in contrasts(page) if one[0] < MIN_CONTRAST] == []
    page.get_by_label("Your token").fill("no token at all")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Your token").fill(keyring.issue("ada", "user", roles=frozenset({"read"})))
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("No topology runs yet.")).to_be_visible()
    page.get_by_role("button", name="Log out ada").click()
    expect(page.get_by_label("Your token")).to_be_visible()
    page.goto(address(running))
    expect(page).to_have_url(re.compile("/login"))
    assert all("401" in one for one in watched.problems)  # the browser's own words for the answer
    watched.problems.clear()


@pytest.mark.long
def test_a_page_whose_token_is_gone_asks_for_another(cluster: tuple[DevCluster, Keyring], watched: Watched) -> None:
    (running, keyring), page = cluster, watched.page
    page.goto(address(running))
    page.get_by_label("Your token").fill(keyring.issue("ada", "user", roles=frozenset({"read"})))
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".pulse")).to_have_text("live")
    page.context.clear_cookies()
    expect(page.get_by_label("Your token")).to_be_visible()
    assert all("401" in one for one in watched.problems)
    watched.problems.clear()
