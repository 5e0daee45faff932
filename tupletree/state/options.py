"""Options of ``topology.state.provider.config`` for each built-in provider, checked before any state is opened."""

from __future__ import annotations  # pure

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tupletree.errors import ConfigError
from tupletree.state.buffered import CACHE_ENTRIES

PROVIDER: Final = "topology.state.provider"
CONFIG: Final = "topology.state.provider.config"


@dataclass(frozen=True, slots=True)
class Option:
    """One key of a provider's configuration, required if ``default`` is None. Numbers must be at least ``minimum``."""

    kind: type[str] | type[int] | type[float]
    default: Any = None
    minimum: float = 0
    choices: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        if self.choices:
            return " or ".join(map(repr, self.choices))
        if self.kind is str:
            return "a string that is not empty"
        return f"a{' whole' if self.kind is int else ''} number of at least {self.minimum}"

    def accepts(self, value: Any) -> bool:
        if self.kind is str:
            return isinstance(value, str) and value != "" and (not self.choices or value in self.choices)
        is_number = isinstance(value, int if self.kind is int else int | float) and not isinstance(value, bool)
        return is_number and self.minimum <= value < float("inf")


_CACHE: Final = {"cache_entries": Option(int, CACHE_ENTRIES, minimum=1)}
_TIMEOUT: Final = Option(float, 5.0, minimum=0.01)

BUILT_IN_OPTIONS: Final[Mapping[str, Mapping[str, Option]]] = {
    "memory": _CACHE,
    "sqlite": {
        "directory": Option(str),
        "synchronous": Option(str, "full", choices=("full", "normal")),
        "busy_timeout_s": Option(float, 10.0, minimum=0.01),
        **_CACHE,
    },
    "postgres": {"url": Option(str), "schema": Option(str, "tupletree"), "timeout_s": _TIMEOUT, **_CACHE},
    "redis": {"url": Option(str), "prefix": Option(str, "tupletree-state"), "timeout_s": _TIMEOUT, **_CACHE},
    "zookeeper": _CACHE,
}
"""The options by the short name of the provider."""


def as_mapping(config: Any) -> Mapping[str, Any]:
    """Return a provider's configuration as a mapping. The input is null, a mapping, or a JSON object as a string.

    Raises:
        ConfigError: ``config`` is none of these.
    """
    given = config
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise ConfigError(f"{CONFIG} is a string, but does not hold a JSON object: {error}") from None
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ConfigError(f"{CONFIG} takes a mapping with names as keys, or a JSON object as a string, not {config!r}")
    return given


def parsed(provider: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a built-in provider, with defaults for options that are not set.

    Raises:
        ConfigError: a key is unknown or missing, or a value is of the wrong kind.
    """
    options = BUILT_IN_OPTIONS[provider]
    for name, value in config.items():
        if name not in options:
            nearest = difflib.get_close_matches(name, options, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{CONFIG} of provider {provider!r} has no key {name!r}; did you mean {nearest!r}?")
        if not options[name].accepts(value):
            raise ConfigError(
                f"{CONFIG}: {name!r} of provider {provider!r} takes {options[name].expected}, not {value!r}"
            )
    for name, option in options.items():
        if option.default is None and name not in config:
            raise ConfigError(f"{CONFIG}: provider {provider!r} needs {name!r}, {option.expected}")
    return {name: config.get(name, option.default) for name, option in options.items()}
