"""The configuration of a running worker: that of its launch, and the keys that it adopts while it runs."""

from __future__ import annotations  # pure

from collections.abc import Mapping
from typing import Any

from tupletree.config import KEYS, faults


class LiveConf:
    """The topology's configuration as it holds now. ``launched``: the configuration that the worker was started with.

    Attributes:
        conf: the whole configuration; the same object for the worker's life.
    """

    def __init__(self, launched: Mapping[str, Any], live: Mapping[str, Any]) -> None:
        self._launched = launched
        self._live = _valid(live)
        self.conf: dict[str, Any] = {**launched, **self._live}

    def apply(self, live: Mapping[str, Any]) -> dict[str, Any]:
        """Adopt the keys of the latest record; return those whose values are new.

        A key that is not among them any more has the value of the launch again. Invalid keys and values, which a nimbus
        of another version can have stored, are left out.
        """
        before, self._live = self._live, _valid(live)
        wanted = {name: self._live.get(name, self._launched.get(name)) for name in before.keys() | self._live.keys()}
        changes = {name: value for name, value in wanted.items() if self.conf.get(name) != value}
        self.conf.update(changes)
        return changes


def _valid(live: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in live.items() if name in KEYS and not any(faults({name: value}))}
