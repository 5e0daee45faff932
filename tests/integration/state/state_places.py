"""Where the states under test are, and what can be done to them from outside."""

from __future__ import annotations

import resource
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.state.object_servers import BUCKET, S3Server
from tests.integration.transactional.database_servers import PostgresServer, RedisServer, Server
from tupletree import config
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.component import TopologyContext
from tupletree.errors import UnavailableError
from tupletree.state import (
    KeyValueState,
    MemoryStateProvider,
    PostgresStateProvider,
    RedisStateProvider,
    RocksDBStateProvider,
    SqliteStateProvider,
    StateProvider,
    ZooKeeperStateProvider,
)
from tupletree.state.buffered import BufferedState
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.state.providers import open_reader, open_state
from tupletree.state.reader import StateReader

NAMESPACE = "words/count/0"

KEYS: list[Any] = ["word", "", "wörter\0", b"bytes", b"", 0, -1, 1 << 80, ("a", 1), (), ("a", (b"b", (2,)), "")]

State = KeyValueState[Any, Any]


def checkpoint(state: State, txid: int) -> None:
    """Both steps."""
    state.prepare_commit(txid)
    state.commit(txid)


def check_that_all_goes_on_after_an_absence(opened: Callable[..., State], server: Server, away: str) -> None:
    """While the server is away, each step says so, in a sentence that begins with ``away``; nothing is lost by it."""
    state = opened()
    state.put("word", 1)
    checkpoint(state, 1)
    state = opened()
    state.put("word", 2)
    server.stop()
    for step in (
        lambda: state.prepare_commit(2),
        lambda: state.get("other"),
        lambda: list(state.items()),
        state.rollback,
        opened,
    ):
        with pytest.raises(UnavailableError, match=f"^{away}"):
            step()
    assert state.get("word") == 2  # live changes are as they were
    server.start()
    state.prepare_commit(2)
    server.stop()
    with pytest.raises(UnavailableError):
        state.commit(2)
    server.start()
    state.commit(2)
    assert dict(opened().items()) == {"word": 2}


def context_of(conf: Mapping[str, Any]) -> TopologyContext:
    """Of the only task of a topology."""
    return TopologyContext(
        topology_id="words-1-1",
        component_id="count",
        task_id=1,
        tasks={"count": [1]},
        sources={},
        targets={},
        conf=conf,
    )


class StatePlace:
    """A provider with a configuration; ``open`` opens a namespace as a worker does."""

    def __init__(
        self, provider: StateProvider, provider_config: Mapping[str, Any], conf: Mapping[str, Any] | None = None
    ) -> None:
        self.provider = provider
        self.provider_config = dict(provider_config)
        self.context = context_of(config.defaults() if conf is None else conf)

    def open(self, namespace: str = NAMESPACE, **changes: Any) -> State:
        return self.provider.new_state(namespace, {**self.provider_config, **changes}, self.context)

    def reader(self, namespace: str = NAMESPACE) -> StateReader:
        return self.provider.open_reader(namespace, self.provider_config, self.context.conf)


class ClassPathPlace(StatePlace):
    """A provider that is named by its class path, as in a topology's configuration: each state has one of its own."""

    def open(self, namespace: str = NAMESPACE, **changes: Any) -> State:
        conf = {
            "topology.state.provider": f"{__name__}:{type(self.provider).__name__}",
            "topology.state.provider.config": {**self.provider_config, **changes},
        }
        return open_state(namespace, conf, self.context)[1]

    def reader(self, namespace: str = NAMESPACE) -> StateReader:
        conf = {
            "topology.state.provider": f"{__name__}:{type(self.provider).__name__}",
            "topology.state.provider.config": self.provider_config,
        }
        return open_reader(namespace, conf)


_stored: dict[str, Namespace] = {}


class OwnStateProvider(StateProvider):
    """What a user may write: named by its class path, each object of it finds what another has stored."""

    is_durable = True

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> State:
        stored = _stored.setdefault(f"{conf['shelf']}/{namespace}", Namespace())
        return BufferedState(namespace, MemoryBackend(namespace, stored), cache_entries=conf.get("cache_entries", 100))


def memory_place() -> StatePlace:
    return StatePlace(MemoryStateProvider(), {})


def own_place() -> StatePlace:
    return ClassPathPlace(OwnStateProvider(), {"shelf": uuid.uuid4().hex})


def sqlite_place(directory: Path) -> StatePlace:
    return StatePlace(SqliteStateProvider(), {"directory": str(directory / "not" / "yet")})


def rocksdb_place(directory: Path) -> StatePlace:
    (directory / "shared").mkdir()
    return StatePlace(
        RocksDBStateProvider(), {"shared": str(directory / "shared"), "directory": str(directory / "not" / "yet")}
    )


def objects_place(server: S3Server, directory: Path) -> StatePlace:
    """A prefix of its own in the bucket of the server."""
    return StatePlace(
        RocksDBStateProvider(),
        {
            "shared": f"s3://{BUCKET}/states/{uuid.uuid4().hex[:12]}",
            "directory": str(directory / "not" / "yet"),
            "storage_options": server.options,
            "timeout_s": 10,
        },
    )


def files_of(folder: Path, kind: str = "segment") -> list[str]:
    """The files of a state in a shared directory, by the beginning of their names."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(kind))


def filled(opened: Callable[..., State], checkpoints: int = 1, **changes: Any) -> State:
    """A state after so many checkpoints, each with a change and a new key."""
    state = opened(**changes)
    for txid in range(1, checkpoints + 1):
        state.put("word", txid)
        state.put(txid, "x" * 100)
        checkpoint(state, txid)
    return state


@contextmanager
def full_disk(free_bytes: int) -> Iterator[None]:
    """No file can become larger than ``free_bytes``."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def redis_place(server: RedisServer) -> StatePlace:
    return StatePlace(RedisStateProvider(), {"url": server.url, "prefix": f"test-{uuid.uuid4().hex[:12]}"})


def postgres_place(server: PostgresServer) -> StatePlace:
    """A schema of its own, with a name that needs quotes."""
    return StatePlace(PostgresStateProvider(), {"url": server.url, "schema": f'Test "{uuid.uuid4().hex[:12]}"'})


def zookeeper_place(server: EmbeddedZooKeeper, root: str) -> StatePlace:
    conf = config.defaults() | {
        "zookeeper.servers": [server.host],
        "zookeeper.port": server.port,
        "zookeeper.session.timeout": 6000,
        "transactional.zookeeper.root": root,
    }
    return StatePlace(ZooKeeperStateProvider(), {}, conf)
