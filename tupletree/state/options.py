"""Options of ``topology.state.provider.config`` for each built-in provider, checked before any state is opened."""

from __future__ import annotations  # pure

import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from tupletree.errors import ConfigError
from tupletree.state.buffered import CACHE_ENTRIES
from tupletree.state.object_options import EXAMPLE, check_options, is_address, is_valid_address

PROVIDER: Final = "topology.state.provider"
CONFIG: Final = "topology.state.provider.config"
DURABLE: Final = f'choose another {PROVIDER}, such as sqlite with {CONFIG} {{"directory": "/var/lib/states"}}'
"""What to do about states that a change of their workers would discard."""


@dataclass(frozen=True, slots=True)
class Option:
    """One key of a provider's configuration, required if ``default`` is None. Numbers: ``minimum`` to ``maximum``.

    ``is_path``: a string that is an absolute path. ``is_shared``: also the address of an object store.
    """

    kind: type[str] | type[int] | type[float] | type[dict[str, Any]]
    default: Any = None
    minimum: float = 0
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    is_path: bool = False
    is_shared: bool = False

    @property
    def expected(self) -> str:
        if self.choices:
            return " or ".join(map(repr, self.choices))
        if self.is_shared:
            return f"an absolute path, or an address such as {EXAMPLE} (also gs://, az://)"
        if self.is_path:
            return "an absolute path"
        if self.kind is dict:
            return "a mapping"
        if self.kind is str:
            return "a string that is not empty"
        most = "" if self.maximum == math.inf else f" and at most {self.maximum}"
        return f"a{' whole' if self.kind is int else ''} number of at least {self.minimum}{most}"

    def accepts(self, value: Any) -> bool:
        if self.kind is str:
            is_text = isinstance(value, str) and value != "" and (not self.choices or value in self.choices)
            if self.is_shared:
                return is_text and (value.startswith("/") or is_valid_address(value))
            return is_text and (not self.is_path or value.startswith("/"))
        if self.kind is dict:
            return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
        is_number = isinstance(value, int if self.kind is int else int | float) and not isinstance(value, bool)
        return is_number and self.minimum <= value <= self.maximum and value != math.inf


_CACHE: Final = {"cache_entries": Option(int, CACHE_ENTRIES, minimum=1)}
_TIMEOUT: Final = Option(float, 5.0, minimum=0.01)
_OF_STORES: Final = {"storage_options": Option(dict, {}), "timeout_s": Option(float, 20.0, minimum=0.1, maximum=300)}

BUILT_IN_OPTIONS: Final[Mapping[str, Mapping[str, Option]]] = {
    "memory": _CACHE,
    "sqlite": {
        "directory": Option(str),
        "synchronous": Option(str, "full", choices=("full", "normal")),
        "busy_timeout_s": Option(float, 10.0, minimum=0.01),
        **_CACHE,
    },
    "rocksdb": {
        "shared": Option(str, is_shared=True),
        "directory": Option(str, is_path=True),
        **_OF_STORES,
        **_CACHE,
    },
    "postgres": {"url": Option(str), "schema": Option(str, "tupletree"), "timeout_s": _TIMEOUT, **_CACHE},
    "redis": {"url": Option(str), "prefix": Option(str, "tupletree-state"), "timeout_s": _TIMEOUT, **_CACHE},
    "zookeeper": _CACHE,
}
"""The options by the short name of the provider."""

STORM_NAMES: Final = {"org.apache.storm.redis.state.RedisKeyValueStateProvider": "redis"}
"""Providers of Storm that are configured alike, with our names for them."""

_POOL: Final = "jedisPoolConfig"
_POOL_OPTIONS: Final = {
    "host": Option(str, "localhost"),
    "port": Option(int, 6379, minimum=1, maximum=65535),
    "timeout": Option(int, 2_000, minimum=1),  # milliseconds
    "database": Option(int, 0),
    "password": Option(str, ""),
}
_OF_TYPES: Final = "keyClass", "valueClass"  # what Java needs to know: here each value has its type with it
_OF_SERIALIZERS: Final = "keySerializerClass", "valueSerializerClass"


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

    The options of provider redis may be written as Storm's documents write them (``jedisPoolConfig``).

    Raises:
        ConfigError: a key is unknown or missing, or a value is of the wrong kind.
    """
    if provider == "redis":
        config = _without_storm_options(config)
    options = _checked(f"provider {provider!r}", BUILT_IN_OPTIONS[provider], config)
    if provider == "rocksdb":
        _check_store(config, options)
    return options


def _checked(whose: str, options: Mapping[str, Option], config: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in config.items():
        if name not in options:
            nearest = difflib.get_close_matches(name, options, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{CONFIG} of {whose} has no key {name!r}; did you mean {nearest!r}?")
        if not options[name].accepts(value):
            raise ConfigError(f"{CONFIG}: {name!r} of {whose} takes {options[name].expected}, not {value!r}")
    for name, option in options.items():
        if option.default is None and name not in config:
            raise ConfigError(f"{CONFIG}: {whose} needs {name!r}, {option.expected}")
    return {name: config.get(name, option.default) for name, option in options.items()}


def _check_store(config: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    shared = options["shared"]
    if is_address(shared):
        check_options(f"{CONFIG}: 'storage_options'", shared, options["storage_options"])
        return
    for name in _OF_STORES:
        if name in config:
            raise ConfigError(
                f"{CONFIG}: {name!r} is for states in an object store, and 'shared' is the directory {shared}: leave "
                f"{name!r} out, or let 'shared' be an address such as {EXAMPLE}"
            )


def _without_storm_options(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options of the provider redis with ``url`` and ``timeout_s`` instead of Storm's ``jedisPoolConfig``."""
    ours = {name: value for name, value in config.items() if name not in (_POOL, *_OF_TYPES)}
    for name in _OF_SERIALIZERS:
        if ours.pop(name, None):
            raise ConfigError(
                f"{CONFIG}: {name!r} names a class of Java: leave it out, since keys and values are stored as the "
                f"types that tuples may carry; your own by tupletree.register_type"
            )
    if ours.get("jedisClusterConfig"):
        raise ConfigError(f"{CONFIG}: 'jedisClusterConfig' is a Redis Cluster, which provider 'redis' cannot use")
    if _POOL not in config:
        return ours
    pool, both = config[_POOL], sorted({"url", "timeout_s"} & ours.keys())
    if both:
        raise ConfigError(f"{CONFIG} has {both[0]!r} beside {_POOL!r}: write one of them")
    if not isinstance(pool, Mapping):
        raise ConfigError(f"{CONFIG}: {_POOL!r} takes a mapping, not {pool!r}")
    server = _checked(f"{_POOL!r}", _POOL_OPTIONS, {name: pool[name] for name in pool if pool[name] not in (None, "")})
    user = f":{quote(server['password'], safe='')}@" if server["password"] else ""
    host = f"[{server['host']}]" if ":" in server["host"] else server["host"]
    url = f"redis://{user}{host}:{server['port']}/{server['database']}"
    return {**ours, "url": url, "timeout_s": server["timeout"] / 1000}
