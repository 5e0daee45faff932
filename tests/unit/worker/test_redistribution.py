"""Division of states among other numbers of tasks, with a crash before and after each request to a store.

The spout, the division and the buffered states are the real ones, over stores in memory whose requests are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree import KeyedProcess, Spout, StatefulBolt, config
from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import Checkpoint, CheckpointRecord, stored_checkpoint
from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._stores.memory_nodes import MemoryStore
from tupletree._wire.codec import decode_value, encode_value
from tupletree._wire.value_hash import hash_values
from tupletree.component import TopologyContext
from tupletree.errors import AuthorityError
from tupletree.state import StateProvider
from tupletree.state.buffered import BufferedState
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.worker.checkpoint.redistribution import Part, redistribute

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


def context(component: str, tasks: Mapping[str, Sequence[int]]) -> TopologyContext:
    made = TopologyContext(
        topology_id="words-1-1",
        component_id=component,
        task_id=tasks[component][0],
        tasks=tasks,
        sources={},
        targets={},
        conf=CONF,
    )
    made.clock = lambda: 0.0
    return made


def begin(components: Mapping[str, Any], counts: Mapping[str, int], fields: Sequence[str] = ("word",)) -> list[str]:
    """Let the checkpoint spout of a new process begin; return the errors that it reports."""
    spout, reports = opened(components, counts, fields)
    spout.next_tuple()
    return [str(error) for error in reports.errors]


def opened(
    components: Mapping[str, Any], counts: Mapping[str, int], fields: Sequence[str] = ("word",), first_task: int = 1
) -> tuple[CheckpointSpout, Reports]:
    """Return the checkpoint spout of a new process."""
    tasks = {"$checkpointspout": [first_task], **{name: list(range(10, 10 + count)) for name, count in counts.items()}}

    def load(name: str) -> Part:
        return Part(components[name], context(name, tasks), [list(fields)])

    bolts = [name for name, one in components.items() if isinstance(one, StatefulBolt)]
    spouts = [name for name in components if name not in bolts]
    spout = CheckpointSpout([], [], bolts, spouts, open_store=lambda conf: Store())  # type: ignore[arg-type,return-value]
    spout.move_states = partial(redistribute, load, ID)
    reports = Reports()
    spout.open(CONF, context("$checkpointspout", tasks), reports)  # type: ignore[arg-type]
    return spout, reports


def begin_with_crashes(components: Mapping[str, Any], counts: Mapping[str, int], is_after: bool) -> int:
    """Begin again and again, each time one request further, until nothing dies. Return the number of crashes."""
    world.is_after = is_after
    for crashes in range(1000):
        world.left = crashes
        try:
            errors = begin(components, counts)
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


KEYS = st.one_of(st.text(max_size=40), st.integers(), st.binary(max_size=5))


class Keyed(StatefulBolt):
    """Its keys are those of the grouping."""

    is_divisible = True


CASES = {
    "keys": st.dictionaries(KEYS, st.integers(), max_size=12),
    "before": st.integers(1, 4),
    "changes": st.lists(st.integers(1, 4), min_size=1, max_size=3),
    "phase": st.sampled_from(Phase),
    "split": st.integers(0, 4),
    "is_after": st.booleans(),
}


@given(**CASES)
def test_every_entry_is_at_its_task_wherever_the_moves_are_interrupted(
    keys: dict[Any, int], before: int, changes: list[int], phase: Phase, split: int, is_after: bool
) -> None:
    world.__init__()  # type: ignore[misc]
    entries: list[dict[Any, int]] = [{} for _ in range(before)]
    for key, value in keys.items():
        entries[owner(key, before)][key] = value
    store_first("count", entries, phase, split)
    record({"count": before}, phase)
    last = before
    for tasks in changes:
        if tasks == last:
            continue
        crashes = begin_with_crashes({"count": Keyed()}, {"count": tasks}, is_after)
        assert crashes > last + tasks
        found = stored("count", tasks)
        for key, value in keys.items():
            assert found[owner(key, tasks)].pop(key) == value
        assert not any(found), "an entry is at two tasks, or was never committed"
        last = tasks


def test_states_of_before_are_removed_and_their_writers_have_no_say() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [{}, {}], Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)
    late = Provider().new_state(f"{ID}/count/0", {}, None)  # type: ignore[arg-type]
    late.put("late", 1)
    assert begin({"count": StatefulBolt()}, {"count": 3}) == []
    assert sorted(world.states) == [f"{ID}/count@{TXID}.3/{index}" for index in range(3)]
    with pytest.raises(AuthorityError):
        late.prepare_commit(TXID + 1)


def test_one_state_is_open_at_a_time_as_a_process_may_open_few_files() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [{}] * 40, Phase.COMMITTED)
    record({"count": 40}, Phase.COMMITTED)
    assert begin({"count": StatefulBolt()}, {"count": 60}) == []
    assert (world.open, world.most_open, len(stored("count", 60))) == (0, 1, 60)


class Logs(Spout):
    def checkpoint_state(self) -> Any: ...

    def restore_state(self, state: Any) -> None: ...

    def merge_states(self, states: Sequence[Mapping[str, int]]) -> dict[str, int]:
        return {name: max(state.get(name, 0) for state in states) for state in states for name in state}


def test_positions_are_joined_and_each_task_has_all_of_them() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("logs", [{"position": {"a": 1, "b": 5}}, {"position": {"b": 3, "c": 2}}, {}], Phase.COMMITTED)
    record({"logs": 3}, Phase.COMMITTED)
    assert begin_with_crashes({"logs": Logs()}, {"logs": 2}, is_after=True) > 5
    assert stored("logs", 2) == [{"position": {"a": 1, "b": 5, "c": 2}}] * 2


class Sessions(KeyedProcess):
    key = ("user", "shop")


def test_entries_of_a_keyed_process_follow_their_key_and_the_watermark_is_the_lowest() -> None:
    world.__init__()  # type: ignore[misc]
    users = [(f"user {number}", number % 3) for number in range(12)]

    def of(user: tuple[str, int], tasks: int) -> int:
        return hash_values([user[0]], "sessions", ["user"]) % tasks

    entries: list[dict[Any, Any]] = [
        {("$progress",): {"format": 1, "watermark": 50 - at, "newest": [["clicks", 0, 60 - at]], "has_timers": at == 1}}
        for at in range(2)
    ]
    for user in users:
        entries[of(user, 2)] |= {("$key", user): 1, ("$timers", user): [[5], [], None], ("$left", user, 3): [1]}
    store_first("sessions", entries, Phase.COMMITTED)
    record({"sessions": 2}, Phase.COMMITTED)
    assert begin({"sessions": Sessions()}, {"sessions": 3}, ["user"]) == []
    progress = {"format": 1, "watermark": 49, "newest": [["clicks", 0, 59]], "senders": [], "has_timers": True}
    for index, found in enumerate(stored("sessions", 3)):
        assert found.pop(("$progress",)) == progress
        own = [user for user in users if of(user, 3) == index]
        assert found.keys() == {one for user in own for one in (("$key", user), ("$timers", user), ("$left", user, 3))}


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ([{"total": 1}, {"total": 2}], "its state cannot be divided, as key 'total' is in the state of task "),
        (
            [{("a", "b"): 1}, {}],
            "as key ('a', 'b') is not a value for each field of the grouping by word; go back to 2",
        ),
    ],
)
def test_keys_that_the_grouping_does_not_send_are_refused_and_nothing_changes(
    entries: list[dict[Any, Any]], sentence: str
) -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", entries, Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)

    class Totals(StatefulBolt):
        def values_of_key(self, key: Any, fields: Sequence[str]) -> Any:
            return (key,) if isinstance(key, str) else key

    (error,) = begin({"count": Totals()}, {"count": 3})
    assert sentence in error
    assert begin({"count": Totals()}, {"count": 2}) == []
    assert [len(one) for one in stored("count", 2)] == [len(one) for one in entries]


class Raising(StatefulBolt):
    def values_of_key(self, key: Any, fields: Sequence[str]) -> Any:
        return {"one": ["one"], "number": 3, "shared": None}[key]


@pytest.mark.parametrize(
    ("component", "entries", "sentence"),
    [
        (Raising(), {"other": 1}, "key 'other' belongs to no task: values_of_key: KeyError: 'other'; go back to 1"),
        (Raising(), {"number": 1}, "key 'number' belongs to no task: values_of_key: TypeError: "),
        (Raising(), {"shared": 1}, "key 'shared' has no value for all tasks: merge_values: NotImplementedError: Rai"),
        (Logs(), {"position": 3}, "as its merge_states raises TypeError: 'int' object is not iterable; go back to 1"),
    ],
)
def test_methods_of_the_user_that_raise_refuse_the_change_and_end_no_worker(
    component: Any, entries: dict[Any, Any], sentence: str
) -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [entries], Phase.COMMITTED)
    record({"count": 1}, Phase.COMMITTED)
    (error,) = begin({"count": component}, {"count": 3})
    assert sentence in error
    assert begin({"count": component}, {"count": 1}) == []


def test_a_late_checkpoint_spout_of_before_does_not_change_the_tasks_back() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [{}, {}], Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)
    late, reports = opened({"count": StatefulBolt()}, {"count": 2})
    late.next_tuple()
    changed, _ = opened({"count": StatefulBolt()}, {"count": 3}, first_task=20)
    changed.next_tuple()
    assert late._coordinator is not None and late._coordinator.step is not None
    late.fail((late._coordinator.step.round, 0))  # its step finds no task any more
    for now_s in range(1, 100):
        late._clock = partial(float, now_s)
        late.next_tuple()
    assert "has taken over: topology words-1-1, task 20, " in str(reports.errors[0])
    assert late.status()["state"] == "stands still"
    assert len(stored("count", 3)) == 3


def test_a_state_that_lost_what_was_committed_is_not_divided() -> None:
    world.__init__()  # type: ignore[misc]
    store_first("count", [{"a": 1}, {}], Phase.COMMITTED)
    record({"count": 2}, Phase.COMMITTED)
    world.states.clear()
    (error,) = begin({"count": StatefulBolt()}, {"count": 3})
    assert error == f"state 'words/count/0' is empty, and the last checkpoint of the topology is {TXID}"
    assert stored_checkpoint(world.store, ID).tasks == {"count": 2}


def test_layouts_stay_in_the_record_and_an_earlier_form_is_read() -> None:
    world.__init__()  # type: ignore[misc]
    plain, with_layouts = (
        Checkpoint(3, Phase.COMMITTED, {"a": 2}, 9),
        Checkpoint(4, Phase.PREPARING, {"a": 2, "b": 1}, 9, {"a": 3}),
    )
    stored = CheckpointRecord.take_over(world.store, ID, "one")
    for checkpoint in (plain, with_layouts):
        stored.save(checkpoint)
        assert stored_checkpoint(world.store, ID) == checkpoint
    assert (
        encode_value([1, 4, "preparing", {"a": 2, "b": 1}, 9, {"a": 3}])
        == world.store.get("/$checkpoints/words/checkpoint").data
    )  # type: ignore[union-attr]
