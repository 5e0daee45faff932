"""A state provider is chosen by name or class, and its configuration is checked before anything is opened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tupletree import config
from tupletree.component import TopologyContext
from tupletree.errors import ConfigError, UsageError
from tupletree.state import (
    KeyValueState,
    MemoryStateProvider,
    RocksDBStateProvider,
    SqliteStateProvider,
    StateProvider,
)
from tupletree.state.memory import MemoryBackend
from tupletree.state.options import BUILT_IN_OPTIONS, parsed
from tupletree.state.providers import BUILT_IN, bulk_opener, check_provider, open_state


def conf_of(provider: Any, provider_config: Any = None) -> dict[str, Any]:
    return config.defaults() | {
        "topology.state.provider": provider,
        "topology.state.provider.config": provider_config,
    }


def context_of(conf: Mapping[str, Any]) -> TopologyContext:
    return TopologyContext(
        topology_id="words-1-1",
        component_id="count",
        task_id=1,
        tasks={"count": [1]},
        sources={},
        targets={},
        conf=conf,
    )


def opened(provider: Any, provider_config: Any = None) -> tuple[StateProvider, KeyValueState[Any, Any]]:
    conf = conf_of(provider, provider_config)
    return open_state("words/count/0", conf, context_of(conf))


class ListedProvider(StateProvider):
    """A user's own."""

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        state = MemoryStateProvider().new_state(namespace, {}, context)
        state.put("asked for", [namespace, dict(conf), context.component_id])
        return state

    class Inner(MemoryStateProvider):
        """Named with its class."""


class DemandingProvider(MemoryStateProvider):
    """Cannot be made without an argument."""

    def __init__(self, url: str) -> None:
        super().__init__()


class SecretProvider(RocksDBStateProvider):
    """Stores what nobody else can read."""

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        raise NotImplementedError


class NamedProvider(RocksDBStateProvider):
    """Stores what its parent does."""


def test_only_a_class_that_opens_states_as_they_are_stored_opens_them_in_bulk(tmp_path: Path) -> None:
    places = {"shared": str(tmp_path), "directory": str(tmp_path / "copies")}
    for name, opens in {
        "rocksdb": True,
        f"{__name__}:NamedProvider": True,
        f"{__name__}:SecretProvider": False,
    }.items():
        assert (bulk_opener(conf_of(name, places)) is not None) is opens
    assert bulk_opener(conf_of("sqlite", {"directory": str(tmp_path)})) is None
    with pytest.raises(ConfigError, match=r"rocksdb"):
        bulk_opener(conf_of("rocksdb"))


def test_every_built_in_provider_has_options() -> None:
    assert BUILT_IN.keys() == BUILT_IN_OPTIONS.keys()


@pytest.mark.parametrize("name", [None, "memory"])
def test_memory_is_what_is_used_where_nothing_is_named(name: str | None) -> None:
    provider, state = opened(name)
    assert isinstance(provider, MemoryStateProvider)
    assert not provider.is_durable
    state.put("word", 1)
    state.prepare_commit(1)
    state.commit(1)
    assert opened(name)[1].get("word") is None  # each has a memory of its own


@pytest.mark.parametrize("form", [dict, json.dumps])
def test_the_configuration_is_a_mapping_or_a_json_string(form: Any, tmp_path: Path) -> None:
    provider, state = opened("sqlite", form({"directory": str(tmp_path / "states")}))
    assert isinstance(provider, SqliteStateProvider)
    assert len(list((tmp_path / "states").glob("words-count-0-*.db"))) == 1
    state.close()


@pytest.mark.parametrize("path", [f"{__name__}.ListedProvider", f"{__name__}:ListedProvider"])
def test_a_class_of_the_user_is_named_by_its_path(path: str) -> None:
    check_provider(conf_of(path, {"anything": [1]}))
    provider, state = opened(path, '{"anything": [1]}')
    assert isinstance(provider, ListedProvider)
    assert state.get("asked for") == ["words/count/0", {"anything": [1]}, "count"]
    assert isinstance(opened(f"{__name__}:ListedProvider.Inner")[0], ListedProvider.Inner)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("no_such_module.Provider", r"'no_such_module\.Provider' cannot be imported: No module named"),
        ("json:NoSuchProvider", "'json:NoSuchProvider' cannot be imported: module 'json' has no attribute"),
        ("json.dumps", r"'json\.dumps' is not a class that extends tupletree\.state\.StateProvider"),
        ("collections.Counter", r"'collections\.Counter' is not a class that extends"),
        (f"{__name__}.DemandingProvider", "cannot be created without arguments: .*url"),
    ],
)
def test_a_class_that_cannot_be_used_is_told_when_it_is_needed(path: str, sentence: str) -> None:
    check_provider(conf_of(path))  # it may be there on the workers
    with pytest.raises(UsageError, match=rf"^topology\.state\.provider: .*{sentence}"):
        opened(path)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("sqlit", "sqlite"), ("Redis", "redis"), ("postgresql", "postgres"), ("zk", "zookeeper"), ("in-memory", "memory")],
)
def test_an_unknown_name_is_told_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"there is no provider '{name}'; did you mean '{nearest}'"):
        check_provider(conf_of(name))


@pytest.mark.parametrize("name", ["", 7, "a..B", ":B", "a.", "not a name.B"])
def test_what_can_be_no_provider_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=r"^topology\.state\.provider"):
        check_provider(conf_of(name))


@pytest.mark.parametrize(
    ("provider", "given", "sentence"),
    [
        ("sqlite", "{not json", "is a string, but does not hold a JSON object: Expecting"),
        ("sqlite", "[1]", "takes a mapping with names as keys, or a JSON object as a string"),
        ("some.Class", [1], "takes a mapping"),
        ("some.Class", {1: 2}, "takes a mapping"),
        ("memory", 7, "takes a mapping"),
        ("sqlite", {}, "provider 'sqlite' needs 'directory', a string that is not empty"),
        ("sqlite", {"directory": "x", "sync": "full"}, "has no key 'sync'; did you mean 'synchronous'"),
        ("redis", {"uri": "redis://x"}, "provider 'redis' has no key 'uri'; did you mean 'url'"),
        ("postgres", {"schema": "x"}, "provider 'postgres' needs 'url', a string that is not empty"),
        ("postgres", {"url": "x", "prefix": "y"}, "provider 'postgres' has no key 'prefix'; did you mean"),
        ("zookeeper", {"root": "/x"}, "provider 'zookeeper' has no key 'root'; did you mean 'cache_entries'"),
        ("sqlite", {"directory": 7}, "'directory' of provider 'sqlite' takes a string that is not empty, not 7"),
        ("sqlite", {"directory": ""}, "takes a string that is not empty, not ''"),
        ("sqlite", {"directory": "x", "synchronous": "off"}, "takes 'full' or 'normal', not 'off'"),
        ("redis", {"url": "x", "timeout_s": 0}, "takes a number of at least 0.01, not 0"),
        ("redis", {"url": "x", "timeout_s": True}, "takes a number of at least 0.01, not True"),
        ("redis", {"url": "x", "timeout_s": float("nan")}, "takes a number of at least 0.01, not nan"),
        ("redis", {"keySerializerClass": "org.x.Keys"}, "'keySerializerClass' names a class of Java: leave it out"),
        ("redis", {"jedisClusterConfig": {"nodes": ["x:1"]}}, "is a Redis Cluster, which provider 'redis' cannot use"),
        ("redis", {"jedisPoolConfig": {}, "url": "redis://x"}, "has 'url' beside 'jedisPoolConfig': write one of them"),
        ("redis", {"jedisPoolConfig": "x:6379"}, "'jedisPoolConfig' takes a mapping, not 'x:6379'"),
        ("redis", {"jedisPoolConfig": {"hots": "x"}}, "of 'jedisPoolConfig' has no key 'hots'; did you mean 'host'"),
        (
            "redis",
            {"jedisPoolConfig": {"port": 70000}},
            "takes a whole number of at least 1 and at most 65535, not 70000",
        ),
        ("redis", {"keyClass": "java.lang.String"}, "provider 'redis' needs 'url', a string that is not empty"),
        ("memory", {"cache_entries": 0.5}, "takes a whole number of at least 1, not 0.5"),
        ("memory", {"cache_entries": 0}, "takes a whole number of at least 1, not 0"),
        ("memory", {"cache_entries": None}, "takes a whole number of at least 1, not None"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused_with_one_sentence(
    provider: str, given: Any, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^topology\.state\.provider\.config.*{sentence}"):
        check_provider(conf_of(provider, given))
    with pytest.raises(ConfigError):
        opened(provider, given)


def test_what_is_not_given_has_its_default() -> None:
    assert parsed("redis", {"url": "redis://x", "timeout_s": 1}) == {
        "url": "redis://x",
        "prefix": "tupletree-state",
        "timeout_s": 1,
        "cache_entries": 1_000_000,
    }


@pytest.mark.parametrize(
    ("pool", "url"),
    [
        ({}, "redis://localhost:6379/0"),
        ({"host": "::1", "port": 7000, "database": 2, "password": None}, "redis://[::1]:7000/2"),
        ({"host": "db", "password": "a:b@c/d"}, "redis://:a%3Ab%40c%2Fd@db:6379/0"),
    ],
)
def test_the_options_of_storm_for_redis_are_an_address_and_a_time(pool: dict[str, Any], url: str) -> None:
    given = {"jedisPoolConfig": {**pool, "timeout": 1500}, "keyClass": "java.lang.String", "prefix": "p"}
    assert parsed("redis", given) == {"url": url, "prefix": "p", "timeout_s": 1.5, "cache_entries": 1_000_000}
    check_provider(conf_of("org.apache.storm.redis.state.RedisKeyValueStateProvider", given))


def test_another_provider_of_storm_is_told_that_it_is_java() -> None:
    name = "org.apache.storm.state.InMemoryKeyValueStateProvider"
    with pytest.raises(ConfigError, match=rf"^topology\.state\.provider: '{name}' is a class of Java: write memory, "):
        check_provider(conf_of(name))


def test_a_backend_that_nobody_prepared_for_says_so() -> None:
    provider = MemoryStateProvider()
    state: Any = provider.new_state("words/count/0", {}, context_of(config.defaults()))
    assert isinstance(state._backend, MemoryBackend)
    with pytest.raises(Exception, match="checkpoint 3 is not prepared in the store"):
        state._backend.commit(3)
