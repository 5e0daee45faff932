"""Checks of arguments, made where a topology is built.

Each function raises UsageError: one sentence with the class that the user wrote, the argument, and what was expected.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from typing import Any

from tupletree._address import split_address
from tupletree._limits import shown
from tupletree.errors import UsageError


def check(owner: str, name: str, value: object, is_right: bool, expected: str, *, is_secret: bool = False) -> None:
    """Refuse a value unless it is right. ``is_secret``: the value may hold a password, and is not in the error."""
    if not is_right:
        raise UsageError(f"{owner}: {name} is {_veiled(value) if is_secret else shown(value)}; {expected} was expected")


def check_text(owner: str, name: str, value: object, *, is_secret: bool = False) -> None:
    """Refuse what is no text, and an empty text."""
    is_text = isinstance(value, str) and bool(value)
    check(owner, name, value, is_text, "a text that is not empty", is_secret=is_secret)


def check_field(owner: str, name: str, value: object) -> None:
    """Refuse what is neither None nor the name of a field."""
    check(owner, name, value, value is None or (isinstance(value, str) and bool(value)), "the name of a field, or None")


def check_flag(owner: str, name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    check(owner, name, value, isinstance(value, bool), "True or False")


def check_whole(owner: str, name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Refuse what is no whole number from ``least`` to ``most``."""
    is_right = type(value) is int and value >= least and (most is None or value <= most)
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    check(owner, name, value, is_right, f"a whole number {bounds}")


def check_seconds(owner: str, name: str, value: object) -> None:
    """Refuse what is no number above 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    check(owner, name, value, is_number, "a number of seconds, more than 0,")


def check_headers(owner: str, name: str, value: object) -> None:
    """Refuse what is neither None nor a dict of texts."""
    items = value.items() if isinstance(value, Mapping) else ()
    is_right = value is None or (
        isinstance(value, Mapping) and all(isinstance(part, str) for item in items for part in item)
    )
    check(owner, name, value, is_right, "a dict of texts, or None", is_secret=True)


def checked_names(owner: str, name: str, value: Any) -> list[str]:
    """Return names of fields as a list. Refuses a text, which is no list of names, an empty list and repeated names."""
    is_right = (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes)
        and bool(value)
        and all(isinstance(one, str) and one for one in value)
        and len(set(value)) == len(value)
    )
    check(owner, name, value, is_right, "a list of different names")
    return list(value)


def check_instance(owner: str, name: str, value: object, kind: type, expected: str) -> None:
    """Refuse what is no instance of a class, such as the class itself."""
    if not isinstance(value, kind):
        given = f"the class {value.__name__}" if isinstance(value, type) else shown(value)
        raise UsageError(f"{owner}: {name} is {given}; {expected} was expected")


def checked_address(owner: str, name: str, value: Any, default_port: int) -> tuple[str, int]:
    """Return host and port of ``HOST`` or ``HOST:PORT``."""
    expected = "HOST or HOST:PORT, with a port from 1 to 65535,"
    is_text = isinstance(value, str) and value.isprintable() and not set(value) & set(" /@")
    check(owner, name, value, is_text, expected, is_secret=True)  # it may be a URL with a password
    host, port = split_address(value, default_port)
    is_host = bool(host) and (":" not in host or host.count(":") > 1)  # several: an IPv6 address
    check(owner, name, value, is_host and 1 <= port <= 65535, expected)
    return host, port


def _veiled(value: object) -> str:
    if value == "":
        return "empty"
    return "not valid" if isinstance(value, str) else f"of type {type(value).__name__}"
