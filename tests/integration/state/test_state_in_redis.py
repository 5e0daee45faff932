"""What is particular to states in Redis."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest
import redis
from state_places import (
    NAMESPACE,
    State,
    StatePlace,
    check_that_all_goes_on_after_an_absence,
    checkpoint,
    context_of,
    redis_place,
)

from tests.integration.transactional.database_servers import RedisServer
from tupletree import config
from tupletree._net import ReservedPorts
from tupletree._stores.redis import warn_if_forgetful
from tupletree.errors import AuthorityError, ConfigError, UnavailableError, UsageError
from tupletree.state import redis as redis_module
from tupletree.state.providers import open_state

Opens = Callable[..., State]


@pytest.fixture
def place(redis_server: RedisServer) -> StatePlace:
    return redis_place(redis_server)


@pytest.fixture
def client(redis_server: RedisServer) -> redis.Redis:
    return redis.Redis.from_url(redis_server.url)


def test_redis_that_is_away_is_said_to_be_and_afterwards_all_goes_on(opened: Opens, redis_server: RedisServer) -> None:
    check_that_all_goes_on_after_an_absence(opened, redis_server, f"Redis at {redis_server.directory}/redis.sock: ")


def test_a_redis_that_forgets_is_warned_of_and_one_that_does_not_is_not(
    opened: Opens, redis_server: RedisServer, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    warn_if_forgetful.cache_clear()
    opened()
    assert caplog.messages == []
    warn_if_forgetful.cache_clear()
    client.config_set("appendfsync", "everysec")
    try:
        opened()
    finally:
        client.config_set("appendfsync", "always")
    [message] = caplog.messages
    assert message.startswith(f"Redis at {redis_server.directory}/redis.sock can lose the last commits")


def test_a_large_checkpoint_is_written_in_chunks_and_leaves_none_behind(
    opened: Opens, client: redis.Redis, place: StatePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_module, "CHUNK_BYTES", 10_000)
    prefix = f"{place.provider_config['prefix']}:{NAMESPACE}"
    state = opened()
    for number in range(100):
        state.put(number, "x" * 1_000)
    state.prepare_commit(1)
    assert len(client.keys(f"{prefix}:prepared:*")) == 12
    state.rollback()
    assert client.keys(f"{prefix}:*") == [f"{prefix}:about".encode()]
    for number in range(50):
        state.put(number, "x" * 1_000)
    state.prepare_commit(1)
    state.commit(1)
    assert sorted(client.keys(f"{prefix}:*")) == [f"{prefix}:{part}".encode() for part in ("about", "committed")]
    assert client.hlen(f"{prefix}:committed") == 50


def test_what_a_prepare_left_half_done_is_removed_by_the_next(
    opened: Opens, client: redis.Redis, place: StatePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_module, "CHUNK_ENTRIES", 2)
    state = opened()
    for number in range(9):
        state.put(number, 1)
    state.prepare_commit(1)
    client.hdel(f"{place.provider_config['prefix']}:{NAMESPACE}:about", "prepared")  # as before its last chunk
    again = opened()
    assert (again.committed, again.prepared) == (None, None)
    again.put("word", 1)
    again.prepare_commit(1)
    again.commit(1)
    assert dict(opened().items()) == {"word": 1}
    assert client.keys(f"{place.provider_config['prefix']}:{NAMESPACE}:prepared:*") == []


def test_a_state_that_redis_lost_is_not_written_to(opened: Opens, client: redis.Redis, place: StatePlace) -> None:
    state = opened()
    state.put("word", 1)
    client.delete(*client.keys(f"{place.provider_config['prefix']}:*"))
    with pytest.raises(AuthorityError, match="the data of state 'words/count/0' was removed from"):
        state.prepare_commit(1)
    assert opened().committed is None


@pytest.mark.parametrize("part", ["about", "committed"])
@pytest.mark.parametrize("kind", ["string", "hash"])
def test_a_key_that_tupletree_did_not_make_is_a_mistake(
    opened: Opens, client: redis.Redis, place: StatePlace, part: str, kind: str
) -> None:
    name = f"{place.provider_config['prefix']}:{NAMESPACE}:{part}"
    if kind == "string":
        client.set(name, "theirs")
    else:
        client.hset(name, "theirs", "1")
    with pytest.raises(UsageError, match=f"'{name}' exists already and was not created by Tupletree"):
        opened()


def test_what_a_newer_version_wrote_is_refused(opened: Opens, client: redis.Redis, place: StatePlace) -> None:
    opened()
    client.hset(f"{place.provider_config['prefix']}:{NAMESPACE}:about", "format", "2")
    with pytest.raises(UsageError, match=r"state 'words/count/0' has format 2, .* up to 1: a newer version"):
        opened()


def test_a_restart_of_redis_while_the_items_are_read_is_said(
    opened: Opens, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cursor would say something else to the new server, and keys would be missing."""
    monkeypatch.setattr(redis_module, "PAGE", 10)
    state = opened()
    for number in range(2_000):
        state.put(number, 1)
    state.prepare_commit(1)
    state.commit(1)
    items = iter(opened().items())
    next(items)
    redis_server.stop()
    redis_server.start()
    with pytest.raises(UnavailableError, match="Redis was restarted while state 'words/count/0' was read"):
        list(items)


def test_the_configuration_that_storm_documents_opens_a_state(client: redis.Redis) -> None:
    ports = ReservedPorts()
    [port] = ports.reserve(1)
    conf = config.defaults() | {
        "topology.state.provider": "org.apache.storm.redis.state.RedisKeyValueStateProvider",
        "topology.state.provider.config": json.dumps(
            {
                "keyClass": "java.lang.String",
                "valueClass": "java.lang.Long",
                "jedisPoolConfig": {
                    "host": "127.0.0.1",
                    "port": port,
                    "timeout": 2000,
                    "database": 3,
                    "password": "x y/z",
                },
            }
        ),
    }
    client.config_set("port", port)
    client.config_set("requirepass", "x y/z")
    try:
        _, state = open_state(NAMESPACE, conf, context_of(conf))
        state.put("word", 7)
        checkpoint(state, 1)
        assert dict(open_state(NAMESPACE, conf, context_of(conf))[1].items()) == {"word": 7}
        assert client.execute_command("SELECT", 3) and client.hlen(f"tupletree-state:{NAMESPACE}:committed") == 1
    finally:
        client.config_set("requirepass", "")
        client.config_set("port", 0)
        ports.release()


@pytest.mark.parametrize("url", ["", "http://example.org", "redis://localhost:port"])
def test_a_url_that_is_none_is_a_mistake(opened: Opens, url: str) -> None:
    with pytest.raises((UsageError, ConfigError)):
        opened(url=url)


def test_without_the_package_it_says_what_to_install(opened: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(
        UsageError, match=r"RedisStateProvider needs the package redis: pip install 'tupletree\[redis\]'"
    ):
        opened()


def test_a_value_longer_than_redis_takes_is_a_mistake(opened: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_module, "MAX_BYTES", 1_000)
    state = opened()
    state.put("word", "x" * 1_000)
    with pytest.raises(UsageError, match=r"'words/count/0': a key and its value take 1,008 bytes; Redis allows 1,000"):
        state.prepare_commit(1)
    state.put("word", "x")
    state.prepare_commit(1)
