"""The decoded values of a state in memory, and the keys that changed. BufferedState, in buffered.py, adds the store.

Each read and change by a bolt runs through this module, so it is compiled where it can be (docs/adr/0016).
"""

from __future__ import annotations  # pure

from collections.abc import Callable
from typing import Any, Final

from tupletree.errors import UsageError

ABSENT: Final[Any] = object()


class ValueBuffer:
    """Decoded values by key, or ABSENT, those changed since the last checkpoint apart. Not thread-safe.

    Attributes:
        default_factory: as in KeyValueState.
        _live: the values of keys changed since the last prepare_commit.
        _values: the values known here of other keys, and outdated ones of keys in ``_live``. A key that is in neither
            is looked up by ``_load``.
        _is_whole: a key that is in neither does not exist.
    """

    __slots__ = ("_is_whole", "_live", "_namespace", "_values", "default_factory")

    def __init__(self, namespace: str, is_whole: bool) -> None:
        self.default_factory: Callable[[], Any] | None = None
        self._namespace = namespace
        self._values: dict[Any, Any] = {}
        self._live: dict[Any, Any] = {}
        self._is_whole = is_whole

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or ``default``."""
        value = self._find(key)
        return default if value is ABSENT else value

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self._change(key, value)

    def add(self, key: Any, amount: Any) -> Any:
        """Add to the value of a key, and return the sum; a missing key gets ``amount``."""
        value = self._find(key)
        if value is not ABSENT:
            amount = value + amount
        self._live[key] = amount
        return amount

    def delete(self, key: Any) -> None:
        """Remove a key if it exists."""
        self._change(key, ABSENT)

    def __getitem__(self, key: Any) -> Any:
        value = self._find(key)
        if value is not ABSENT:
            return value
        if self.default_factory is None:
            raise KeyError(key)
        return self.default_factory()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._change(key, value)

    def __delitem__(self, key: Any) -> None:
        if self._find(key) is ABSENT:
            raise KeyError(key)
        self._change(key, ABSENT)

    def __contains__(self, key: Any) -> bool:
        return self._find(key) is not ABSENT

    def _find(self, key: Any) -> Any:
        kind = type(key)
        if kind is not str and kind is not int and kind is not bytes:
            check_key(self._namespace, key)
        value = self._live.get(key)  # what changes often is found by one lookup
        if value is None and key not in self._live:  # a stored None is rare
            value = self._values.get(key)
            if value is None and key not in self._values:
                return ABSENT if self._is_whole else self._load(key)
        return value

    def _change(self, key: Any, value: Any) -> None:
        kind = type(key)
        if kind is not str and kind is not int and kind is not bytes:
            check_key(self._namespace, key)
        self._live[key] = value

    def _load(self, key: Any) -> Any:
        """Return the committed value of a key that is not in memory, or ABSENT."""
        raise NotImplementedError


def check_key(namespace: str, key: Any) -> None:
    """Raise UsageError for an invalid key. A bool or float is refused because it could equal an int key."""
    culprit = _culprit(key)
    if culprit is not ABSENT:
        where = "" if culprit is key else f" in {key!r}"
        raise UsageError(
            f"state {namespace!r}: a key must be a str, bytes, an int or a tuple of these, but {culprit!r}{where} is "
            f"of type {type(culprit).__qualname__}"
        )


def _culprit(key: Any) -> Any:
    """Return the part of a key that has an invalid type, or ABSENT if the key is valid."""
    if type(key) in (str, bytes, int):
        return ABSENT
    if type(key) is tuple:
        return next((found for found in map(_culprit, key) if found is not ABSENT), ABSENT)
    return key
