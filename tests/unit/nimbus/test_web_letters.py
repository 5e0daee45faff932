"""What REST says about dead letters, how stores are configured, and that a store that hangs holds up nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tupletree import config
from tupletree.dead_letters import DeadLetterStore, Letter
from tupletree.errors import ConfigError, NotFoundError, UsageError
from tupletree.nimbus.config import NimbusConfig
from tupletree.nimbus.web import letters, requests
from tupletree.nimbus.web.letter_stores import MAX_WAITING, LetterStore, LetterStores
from tupletree.nimbus.web.requests import ApiCall, StoreFailedError

LONG = "<b>" * 10_000


def letter(number: int) -> Letter:
    return Letter(
        f"id{number}", LONG, 100.5 + number, LONG, LONG, LONG, 5, LONG, 7, LONG, LONG, b"\x80 a pickle, perhaps"
    )


def test_texts_are_cut_and_the_row_is_not_shown() -> None:
    page = letters.page("orders", "sqlite:x", letters.Read(1, [letter(1)], ["x" * 300]), 50, 7.0)
    [shown] = page["letters"]
    assert {len(text) for name, text in shown.items() if isinstance(text, str) and name != "id"} == {201}
    one = letters.letter("orders", "sqlite:x", letter(1))
    assert {name: len(one[name]) for name in ("message", "values", "error", "traceback")} == dict.fromkeys(
        ("message", "values", "error", "traceback"), 10_001
    )
    assert one["topology"] == LONG[:200] + "…"
    assert "row" not in shown.keys() | one.keys()


def test_a_page_names_the_place_where_the_next_one_begins() -> None:
    two = [letter(2), letter(1)]
    assert letters.page("orders", "", letters.Read(2, two, []), 2, 0.0)["next"] is None
    first = letters.page("orders", "", letters.Read(2, two, []), 1, 0.0)
    assert ([one["id"] for one in first["letters"]], first["next"]) == (["id2"], "102.5:id2")
    assert letters.after_of(ApiCall(query={"after": first["next"]})) == (102.5, "id2")
    assert letters.after_of(ApiCall(query={"after": "1e9:a:b"})) == (1e9, "a:b")
    assert letters.after_of(ApiCall()) is None and letters.until_of(ApiCall()) is None
    assert letters.until_of(ApiCall(query={"until": "5.5"})) == 5.5


@pytest.mark.parametrize("text", ["x", "5", "nan:x", "x:y", "inf:x"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^after (is the 'next' of a list of letters|has Unix seconds), not '"):
        letters.after_of(ApiCall(query={"after": text}))


@pytest.mark.parametrize("text", ["x", "nan", "inf"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^until has Unix seconds, not '"):
        letters.until_of(ApiCall(query={"until": text}))


def test_a_store_that_fails_does_not_look_like_a_cluster_without_a_leader() -> None:
    assert requests.failure(StoreFailedError("it is away")) == (
        502,
        {"error": "502 Bad Gateway", "errorMessage": "it is away"},
    )


@pytest.mark.parametrize(
    ("stores", "message"),
    [
        ({"a/b": "sqlite:x"}, "takes names of 1 to 100 letters, digits, .* not 'a/b'$"),
        ({"": "sqlite:x"}, "takes names of 1 to 100"),
        ({"a": "letters.db"}, r", store 'a': a store of dead letters is sqlite:PATH or redis://HOST:PORT/DB, not"),
    ],
)
def test_a_store_has_a_name_and_an_address(stores: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^configuration key 'nimbus.dead.letters.stores'.*{message}"):
        NimbusConfig.from_conf({**config.defaults(), "nimbus.dead.letters.stores": stores})


@pytest.mark.parametrize("wrong", [["sqlite:x"], {"a": 1}, {"a": ""}, {1: "sqlite:x"}, "sqlite:x", None])
def test_stores_are_a_mapping(wrong: Any) -> None:
    message = "'nimbus.dead.letters.stores' takes a mapping of names to strings"
    with pytest.raises(ConfigError, match=message):
        config.validate({"nimbus.dead.letters.stores": wrong})


def test_a_password_is_not_shown() -> None:
    store = LetterStore("orders", "redis://ann:secret@127.0.0.1:1/0")
    assert store.address == "redis://ann:*****@127.0.0.1:1/0"


def hung(store: LetterStore, calls: int, gate: threading.Event) -> list[asyncio.Task[object]]:
    """Calls at a store that end when the gate is opened."""
    wait: Callable[[DeadLetterStore], object] = lambda opened: gate.wait()  # noqa: E731
    return [asyncio.create_task(store.run(wait)) for _ in range(calls)]


def test_a_store_that_hangs_is_given_up_and_holds_up_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        silent = LetterStore("hung", f"sqlite:{tmp_path}/a.db", limit_s=0.05)
        well = LetterStore("well", f"sqlite:{tmp_path}/b.db")
        gate = threading.Event()
        try:
            waiting = hung(silent, MAX_WAITING, gate)
            for one in waiting:
                with pytest.raises(StoreFailedError, match=r"^the store of dead letters 'hung' does not answer within"):
                    await one
            with pytest.raises(StoreFailedError, match=r"'hung' does not answer: 8 calls wait$"):
                await silent.run(lambda opened: opened.count())
            assert await well.run(lambda opened: opened.count()) is None
        finally:
            gate.set()
        while True:
            try:
                assert await silent.run(lambda opened: opened.count()) is None
                break
            except StoreFailedError:
                await asyncio.sleep(0)

    asyncio.run(main())


def test_what_fails_in_a_store_is_said_with_its_name(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "file").write_text("")
        stores = LetterStores({"orders": f"sqlite:{tmp_path}/file/letters.db"})
        with pytest.raises(StoreFailedError, match=r"^the store of dead letters 'orders' cannot be used: dead letters"):
            await stores.named("orders").run(lambda opened: opened.count())
        with pytest.raises(NotFoundError, match=r"^nimbus\.dead\.letters\.stores has no store 'other'$"):
            stores.named("other")

    asyncio.run(main())
