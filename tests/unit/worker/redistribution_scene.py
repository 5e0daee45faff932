"""Checkpoint spouts that divide states, over stores in memory whose requests are counted, and end a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tupletree import StatefulBolt, config
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord, stored_checkpoint
from tupletree._checkpoints.settings import SAVEPOINT
from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._stores.memory_nodes import MemoryStore
from tupletree._wire.codec import decode_value
from tupletree._wire.value_hash import hash_values
from tupletree.component import TopologyContext
from tupletree.state import StateProvider
from tupletree.state.buffered import BufferedState
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.worker.checkpoint.contents import Part
from tupletree.worker.checkpoint.redistribution import redistribute
from tupletree.worker.checkpoint.restoring import restore

ID = "words"
TXID = 7


class Died(BaseException):
    """The process ends here."""


@dataclass
class World:
    """What outlives a process. ``left``: the requests until the process dies; None: it does not."""

    states: dict[str, Namespace] = field(default_factory=dict)
    store: MemoryStore = field(default_factory=MemoryStore)
    left: int | None = None
    open: int = 0  # states
    most_open: int = 0
    is_after: bool = False  # it dies after the request has taken effect, not before
    conf: dict[str, Any] = field(default_factory=dict)  # more configuration

    def request(self, perform: Callable[[], Any]) -> Any:
        if self.left is None:
            return perform()
        self.left -= 1
        if self.left >= 0:
            return perform()
        if self.is_after and self.left == -1:
            perform()
        raise Died


world = World()


class Backend:
    """A backend whose requests are counted."""

    def __init__(self, name: str) -> None:
        self.inner = MemoryBackend(name, world.states.setdefault(name, Namespace()))
        world.open += 1
        world.most_open = max(world.most_open, world.open)

    def close(self) -> None:
        world.open -= 1

    committed = property(lambda self: self.inner.committed)
    prepared = property(lambda self: self.inner.prepared)

    def scan(self) -> Iterator[Any]:
        yield world.request(lambda: list(self.inner._stored.entries.items()))

    def __getattr__(self, name: str) -> Any:
        return lambda *given: world.request(lambda: getattr(self.inner, name)(*given))


class Provider(StateProvider):
    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> Any:
        return BufferedState(namespace, world.request(lambda: Backend(namespace)))

    def remove_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:
        world.request(lambda: world.states.pop(namespace, None))


class Store:
    """The nodes, whose writes are counted."""

    def get(self, path: str) -> Any:
        return world.store.get(path)

    def write(self, writes: Any) -> None:
        world.request(lambda: world.store.write(writes))


class Reports:
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def report_error(self, error: BaseException) -> None:
        self.errors.append(error)


CONF = {
    **config.defaults(),
    "topology.name": ID,
    "topology.state.id": ID,
    "topology.state.provider": f"{__name__}:Provider",
    "topology.state.checkpoint.aligned": True,
}


def context(component: str, tasks: Mapping[str, Sequence[int]], conf: Mapping[str, Any] = CONF) -> TopologyContext:
    made = TopologyContext(
        topology_id="words-1-1",
        component_id=component,
        task_id=tasks[component][0],
        tasks=tasks,
        sources={},
        targets={},
        conf=conf,
    )
    made.clock = lambda: 0.0
    return made


def begin(
    components: Mapping[str, Any], counts: Mapping[str, int], fields: Sequence[str] = ("word",), bundle_dir: str = ""
) -> list[str]:
    """Let the checkpoint spout of a new process begin; return the errors that it reports."""
    spout, reports = opened(components, counts, fields, bundle_dir=bundle_dir)
    spout.next_tuple()
    return [str(error) for error in reports.errors]


def opened(
    components: Mapping[str, Any],
    counts: Mapping[str, int],
    fields: Sequence[str] = ("word",),
    first_task: int = 1,
    bundle_dir: str = "",
) -> tuple[CheckpointSpout, Reports]:
    """Return the checkpoint spout of a new process. ``bundle_dir``: with the savepoint ``kept``; "": there is none."""
    conf = {**CONF, **world.conf, **({SAVEPOINT: "kept"} if bundle_dir else {})}
    tasks = {"$checkpointspout": [first_task], **{name: list(range(10, 10 + count)) for name, count in counts.items()}}

    def load(name: str) -> Part:
        return Part(components[name], context(name, tasks, conf), [list(fields)])

    bolts = [name for name, one in components.items() if isinstance(one, StatefulBolt)]
    spouts = [name for name in components if name not in bolts]
    spout = CheckpointSpout([], [], bolts, spouts, open_store=lambda conf: Store())  # type: ignore[arg-type,return-value]
    spout.move_states = partial(redistribute, load, ID)
    spout.restore_states = partial(restore, load, ID, "words-1-1", "kept", bundle_dir)
    reports = Reports()
    spout.open(conf, context("$checkpointspout", tasks, conf), reports)  # type: ignore[arg-type]
    return spout, reports


def part_of(components: Mapping[str, Any], counts: Mapping[str, int], name: str) -> Part:
    """A component with so many tasks, whose entries belong to the task of their word."""
    tasks = {one: list(range(10, 10 + count)) for one, count in counts.items()}
    return Part(components[name], context(name, tasks), [["word"]])


def begin_with_crashes(
    components: Mapping[str, Any], counts: Mapping[str, int], is_after: bool, bundle_dir: str = ""
) -> int:
    """Begin again and again, each time one request further, until nothing dies. Return the number of crashes."""
    world.is_after = is_after
    for crashes in range(1000):
        world.left = crashes
        try:
            errors = begin(components, counts, bundle_dir=bundle_dir)
        except Died:
            continue
        finally:
            world.left = None
        assert errors == []
        return crashes
    raise AssertionError("it never ends")


def owner(key: Any, tasks: int) -> int:
    return hash_values([key], "count", ["word"]) % tasks


def store_first(component: str, entries: Sequence[Mapping[Any, Any]], phase: Phase, split: int = 0) -> None:
    """Store the states of a component's tasks at TXID in the first layout, and more, as ``phase`` says.

    While COMMITTING TXID, the first ``split`` tasks have committed it, the others have prepared it. While PREPARING
    TXID + 1, the first ``split`` tasks have prepared changes that must not count.
    """
    for index, own in enumerate(entries):
        state: BufferedState[Any, Any] = BufferedState(
            name := f"{ID}/{component}/{index}", MemoryBackend(name, world.states.setdefault(name, Namespace()))
        )
        for key, value in own.items():
            state.put(key, value)
        state.prepare_commit(TXID)
        if phase is not Phase.COMMITTING or index < split:
            state.commit(TXID)
        if phase is Phase.PREPARING and index < split:
            state.put("not counted", 1)
            state.prepare_commit(TXID + 1)


def record(counts: Mapping[str, int], phase: Phase) -> None:
    txid = TXID + (phase is Phase.PREPARING)
    CheckpointRecord.take_over(world.store, ID, "topology words-0-1").save(Checkpoint(txid, phase, counts, 1))


def stored(component: str, tasks: int) -> list[dict[Any, Any]]:
    """The committed entries of each task, by the stored checkpoint."""
    checkpoint = stored_checkpoint(world.store, ID)
    assert checkpoint.tasks[component] == tasks
    names = [namespace_of(ID, component, index, tasks, checkpoint.layouts.get(component, 0)) for index in range(tasks)]
    assert all(world.states[name].committed == TXID for name in names)
    return [
        {decode_value(key): decode_value(value) for key, value in world.states[name].entries.items()} for name in names
    ]
