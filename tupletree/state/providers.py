"""The state provider that a topology's configuration names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

from tupletree.context import TopologyContext
from tupletree.errors import ConfigError, UsageError
from tupletree.state.bulk import BulkProvider, BulkState
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.options import CONFIG, PROVIDER, STORM_NAMES, as_mapping, parsed
from tupletree.state.reader import StateReader

BUILT_IN: Final = {
    "memory": "tupletree.state.memory:MemoryStateProvider",
    "sqlite": "tupletree.state.sqlite:SqliteStateProvider",
    "rocksdb": "tupletree.state.rocksdb.provider:RocksDBStateProvider",
    "postgres": "tupletree.state.postgres:PostgresStateProvider",
    "redis": "tupletree.state.redis:RedisStateProvider",
    "zookeeper": "tupletree.state.zookeeper:ZooKeeperStateProvider",
}


def open_state(
    namespace: str, conf: Mapping[str, Any], context: TopologyContext
) -> tuple[StateProvider, KeyValueState[Any, Any]]:
    """Open a state with the provider that ``topology.state.provider`` and ``.config`` name.

    Each call creates a new provider, so states of the memory provider do not survive to the next call.

    Raises:
        UsageError: the configuration is invalid, the class cannot be imported, or it is not a StateProvider.
        UnavailableError: the store cannot be reached.
    """
    check_provider(conf)
    provider = _made(provider_name(conf))
    return provider, provider.new_state(namespace, as_mapping(conf.get(CONFIG)), context)


def bulk_opener(conf: Mapping[str, Any]) -> Callable[[str], BulkState] | None:
    """Return the function that opens a namespace in bulk; None if the provider cannot. Raises UsageError as above."""
    check_provider(conf)
    provider = _made(provider_name(conf))
    opens = next(vars(one) for one in type(provider).__mro__ if "new_state" in vars(one))
    if (
        isinstance(provider, BulkProvider) and "open_bulk" in opens
    ):  # a subclass that opens others may store other bytes
        return partial(provider.open_bulk, conf=as_mapping(conf.get(CONFIG)))
    return None


def remove_state(namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:
    """Remove the data of a namespace. Raises UsageError and UnavailableError as ``open_state``."""
    _made(provider_name(conf)).remove_state(namespace, as_mapping(conf.get(CONFIG)), context)


def open_reader(namespace: str, conf: Mapping[str, Any], provider: StateProvider | None = None) -> StateReader:
    """Open a reader of a namespace's committed values. ``provider``: the one that has the namespace open, if known.

    Raises the errors of ``open_state``, and UsageError if the provider cannot be read from outside.
    """
    if provider is None:
        check_provider(conf)
        provider = _made(provider_name(conf))
    return provider.open_reader(namespace, as_mapping(conf.get(CONFIG)), conf)


def is_durable(conf: Mapping[str, Any]) -> bool:
    """True if the states of the configured provider survive their process. Raises UsageError as ``open_state``."""
    check_provider(conf)
    return _made(provider_name(conf)).is_durable


def outlives_workers(provider: str | None) -> bool:
    """True unless the states of a provider, given by its name in the configuration, end with their process."""
    try:
        return _made(provider or "memory").is_durable
    except UsageError:  # those who open its states say so
        return True


def check_provider(conf: Mapping[str, Any]) -> None:
    """Refuse an unknown provider or an invalid provider configuration, without importing or opening anything.

    Raises:
        ConfigError: the provider is unknown; its configuration is not a mapping; or, for a built-in provider, a key is
            unknown or missing or has a value of the wrong kind.
    """
    name = provider_name(conf)
    config = as_mapping(conf.get(CONFIG))
    if name in BUILT_IN:
        parsed(name, config)
    elif name.startswith("org.apache.storm."):
        raise ConfigError(
            f"{PROVIDER}: {name!r} is a class of Java: write {', '.join(BUILT_IN)}, or a class of your own"
        )
    elif not _is_class(name):
        nearest = difflib.get_close_matches(name.lower(), BUILT_IN, n=1, cutoff=0.0)[0]
        raise ConfigError(
            f"{PROVIDER}: there is no provider {name!r}; did you mean {nearest!r}? A class of your own is written as "
            f"'module.Class' or 'module:Class'"
        )


def provider_name(conf: Mapping[str, Any]) -> str:
    """Return the name of the configured provider: a short one, or that of a class. Raises ConfigError if it is none."""
    name = conf.get(PROVIDER)
    if name is None:
        return "memory"
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{PROVIDER} takes the name of a provider or of a class, not {name!r}")
    return STORM_NAMES.get(name, name)


def _split(path: str) -> tuple[str, str]:
    """Return module and class of ``module:Class`` or ``module.Class``."""
    module, _, cls = path.rpartition(":" if ":" in path else ".")
    return module, cls


def _is_class(path: str) -> bool:
    module, cls = _split(path)
    return all(part.isidentifier() for part in [*module.split("."), *cls.split(".")])


def _made(name: str) -> StateProvider:
    """Import a provider and create it without arguments."""
    path = BUILT_IN.get(name, name)
    module, cls = _split(path)
    try:
        found: Any = import_module(module)
        for part in cls.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{PROVIDER}: {path!r} cannot be imported: {error}") from error
    if not isinstance(found, type) or not issubclass(found, StateProvider):
        raise UsageError(f"{PROVIDER}: {path!r} is not a class that extends tupletree.state.StateProvider")
    try:
        return found()
    except TypeError as error:
        raise UsageError(f"{PROVIDER}: {path!r} cannot be created without arguments: {error}") from error
