"""Requests and responses about dead letters. Texts are cut: a topology may have stored anything."""

from __future__ import annotations  # pure

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree.dead_letters.letter import Letter
from tupletree.dead_letters.store import DeadLetterStore, Position
from tupletree.errors import NotFoundError, ProtocolError, UsageError

from .requests import ApiCall

DEFAULT_LETTERS: Final = 50
MAX_LETTERS: Final = 200  # in one response
MAX_CHANGED: Final = 10_000  # letters that one request replays or drops
MAX_LISTED: Final = 200  # characters of each text in a list
MAX_TEXT: Final = 10_000  # characters of each text of one letter


def after_of(call: ApiCall) -> Position | None:
    """Parse ``after``, the ``next`` of the response before. Raises UsageError."""
    text = call.query.get("after", "")
    if not text:
        return None
    at_s, colon, id = text.partition(":")
    if not colon:
        raise UsageError(f"after is the 'next' of a list of letters, not {text[:40]!r}")
    return _seconds(at_s, "after"), id


def until_of(call: ApiCall) -> float | None:
    """Parse ``until``: Unix seconds. Raises UsageError."""
    text = call.query.get("until", "")
    return _seconds(text, "until") if text else None


def found(store: DeadLetterStore, call: ApiCall) -> Letter:
    """Return the letter that the path names. Raises NotFoundError."""
    id = call.path["letter"]
    letter = store.find(id)
    if letter is None:
        raise NotFoundError(f"the store '{call.path['store']}' has no letter '{id[:100]}'")
    return letter


@dataclass(frozen=True, slots=True)
class Read:
    """A part of a store: the number of all its entries, some letters, and the ids of damaged entries among them."""

    count: int | None
    letters: Sequence[Letter]
    damaged: Sequence[str]


def read(store: DeadLetterStore, name: str, limit: int, after: Position | None) -> Read:
    """Read up to ``limit`` letters, newest first. Damaged entries are skipped."""
    damaged: list[str] = []
    count = store.count()
    found = store.letters(
        name, limit=limit, newest=True, after=after, rows=False, damaged=lambda id, error: damaged.append(id)
    )
    return Read(count, found, damaged)


def chosen(
    call: ApiCall, *, replayed: bool | None = None, with_damaged: bool = False
) -> Callable[[DeadLetterStore], list[str]]:
    """Return a function that returns the ids of the letters to change, and raises NotFoundError. Raises UsageError.

    ``with_damaged``: the id may be that of an entry that is damaged.
    """

    def one(store: DeadLetterStore) -> list[str]:
        try:
            return [found(store, call).id]
        except ProtocolError:
            if with_damaged:
                return [call.path["letter"]]
            raise

    if "letter" in call.path:
        return one
    name, until_s = call.query.get("topology", ""), until_of(call)
    return lambda store: store.ids(name, replayed=replayed, until_s=until_s, limit=MAX_CHANGED)


def _seconds(text: str, name: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise UsageError(f"{name} has Unix seconds, not {text[:40]!r}")
    return found


def store(name: str, address: str, count: int | None, error: str = "") -> dict[str, Any]:
    """Return one store of ``dead-letters``."""
    return {"name": name, "address": address, "count": count, "error": error}


def page(name: str, address: str, read: Read, limit: int, now_unix_s: float) -> dict[str, Any]:
    """``dead-letters/{store}``. ``read``: up to one letter more than ``limit``."""
    shown = read.letters[:limit]
    last = shown[-1] if len(read.letters) > limit else None
    return {
        "store": name,
        "address": address,
        "count": read.count,
        "letters": [_letter(one, MAX_LISTED) for one in shown],
        "damaged": [cut(one, MAX_LISTED) for one in read.damaged[:MAX_LETTERS]],
        "next": None if last is None else f"{last.at_s!r}:{last.id}",
        "readUnixSeconds": now_unix_s,
    }


def letter(name: str, address: str, one: Letter) -> dict[str, Any]:
    """``dead-letters/{store}/{letter}``."""
    return {"store": name, "address": address, **_letter(one, MAX_TEXT), "traceback": cut(one.traceback, MAX_TEXT)}


def changed(name: str, letters: int) -> dict[str, Any]:
    """Return the response to a replay or a drop."""
    return {"store": name, "letters": letters, "isComplete": letters < MAX_CHANGED}


def cut(text: str, most: int) -> str:
    """Return the text, or its first characters and an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}…"


def _letter(one: Letter, most: int) -> dict[str, Any]:
    return {
        "id": one.id,
        "topology": cut(one.name, MAX_LISTED),
        "storedUnixSeconds": one.at_s,
        "message": cut(one.message, most),
        "values": cut(one.values, most),
        "stream": cut(one.stream, MAX_LISTED),
        "attempts": one.attempts,
        "component": cut(one.component, MAX_LISTED),
        "task": one.task,
        "error": cut(one.error, most),
        "isReplayed": one.is_replayed,
    }
