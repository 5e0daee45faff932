"""Division of the states of a component among another number of tasks (docs/adr/0049).

Run by the worker of the checkpoint spout, before the spout sends its first step. Each state of the earlier layout is
opened, so that no earlier task can write it any more, and brought to the stored checkpoint. Each entry is then written
to the state of the task that the component's fields grouping sends its key to.

**Idempotent.** Nothing of the earlier layout is changed until the new layout is stored in the checkpoint record. A
state of the new layout that is at the stored checkpoint was completed by an earlier try, whose entries were the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from zlib import crc32

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import Checkpoint
from tupletree._stored_states import has_known_keys, is_divisible
from tupletree._wire.codec import decode_value, encode_columns, encode_value
from tupletree._wire.value_hash import hash_values
from tupletree.component import Component, Spout, StatefulBolt
from tupletree.context import TopologyContext
from tupletree.errors import ConflictError, TopologyError
from tupletree.state.buffered import BufferedState
from tupletree.state.contract import KeyValueState
from tupletree.state.providers import is_durable, open_state, remove_state

from ..core.key_hash import KeyHash
from .spout_participant import POSITION

_BEGUN: Final = crc32(encode_columns([["x"]], "", [""])[:-2])
_TEXTS: Final = frozenset([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])  # the first bytes of texts in MessagePack

State = KeyValueState[Any, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A component whose tasks have changed. ``context``: of one of its tasks.

    ``groupings``: the fields of each of its fields groupings.
    """

    component: Component
    context: TopologyContext
    groupings: Sequence[Sequence[str]]


@dataclass(slots=True)
class Content:
    """The contents of a new state: entries, and entries that are encoded."""

    entries: dict[Any, Any] = field(default_factory=dict)
    encoded: dict[bytes, bytes] = field(default_factory=dict)


def redistribute(
    load: Callable[[str], Part], state_id: str, stored: Checkpoint, tasks: Mapping[str, int]
) -> tuple[Checkpoint, Callable[[], None]]:
    """Divide the states of all components that have another number of tasks. See MoveStates in _checkpoints/spout.py.

    ``load``: makes a component. ``stored``: the stored checkpoint. ``tasks``: the present numbers of tasks.
    """
    changed = {id: count for id, count in tasks.items() if stored.tasks.get(id, count) != count}
    txid = stored.txid - (stored.phase is Phase.PREPARING)
    layouts = dict(stored.layouts)
    removals: list[Callable[[], None]] = []
    for id in sorted(changed):
        part = load(id)
        if not is_durable(part.context.conf):
            continue
        if not is_divisible(part.component):
            raise refusal(id, stored.tasks[id], changed[id], f"a {type(part.component).__name__} cannot divide it")
        earlier = names_of(state_id, id, stored.tasks[id], layouts.get(id, 0))
        layouts[id] = txid
        _move(part, stored, txid, earlier, names_of(state_id, id, changed[id], txid))
        removals += [partial(remove_state, name, part.context.conf, part.context) for name in earlier]

    def remove_earlier() -> None:
        for remove in removals:
            remove()

    return replace(stored, tasks={**stored.tasks, **changed}, layouts=layouts), remove_earlier


def names_of(state_id: str, component: str, tasks: int, layout: int) -> list[str]:
    """Return the namespaces of the states of all tasks of a component."""
    return [namespace_of(state_id, component, index, tasks, layout) for index in range(tasks)]


def _move(part: Part, stored: Checkpoint, txid: int, earlier: Sequence[str], names: Sequence[str]) -> None:
    before = _settled(part, stored, txid, earlier)
    if isinstance(part.component, Spout):
        contents = _joined(part, part.component, before, len(earlier), len(names))
    else:
        assert isinstance(part.component, StatefulBolt)
        contents = _divided(Division(part.component, part, len(earlier), len(names)), before, len(names))
    for name, content in zip(names, contents, strict=True):
        with opened(part, name) as state:
            if state.committed != txid:
                state.rollback()  # what a try before this one has prepared
                fill(state, content, txid)


def _settled(part: Part, stored: Checkpoint, txid: int, names: Sequence[str]) -> Iterator[State]:
    """Yield the states of before, at the stored checkpoint. One is open at a time: a process may open few files."""
    for name in names:
        with opened(part, name) as state:
            _settle(name, state, stored, txid)
            yield state


@contextmanager
def opened(part: Part, name: str) -> Iterator[State]:
    """Open a state for the time of a ``with`` block."""
    _, state = open_state(name, part.context.conf, part.context)
    with closing(state):
        yield state


def fill(state: State, content: Content, txid: int) -> None:
    """Write the entries of a new state, and commit them."""
    if isinstance(state, BufferedState):
        plain = {encode_value(key): encode_value(value) for key, value in content.entries.items()}
        state.prepare_encoded(txid, {**content.encoded, **plain})
    else:
        for key, value in content.entries.items():
            state.put(key, value)
        for encoded, data in content.encoded.items():
            state.put(decode_value(encoded), decode_value(data))
        state.prepare_commit(txid)
    state.commit(txid)


def _settle(name: str, state: KeyValueState[Any, Any], stored: Checkpoint, txid: int) -> None:
    """Complete what the stored checkpoint decides on, as the tasks of before would have."""
    if state.prepared is not None:
        if stored.phase is Phase.COMMITTING and state.prepared == txid:
            state.commit(txid)
        else:
            state.rollback()
    if state.committed != txid:
        found = "is empty" if state.committed is None else f"was last committed with checkpoint {state.committed}"
        raise ConflictError(f"state {name!r} {found}, and the last checkpoint of the topology is {txid}")


def _joined(part: Part, spout: Spout, before: Iterable[State], tasks: int, tasks_after: int) -> Sequence[Content]:
    positions = [state.get(POSITION) for state in before if POSITION in state]  # one that was never open has none
    return positions_joined(part, spout, positions, tasks, tasks_after)


def positions_joined(
    part: Part, spout: Spout, positions: Sequence[Any], tasks: int, tasks_after: int
) -> Sequence[Content]:
    """Return the states of a spout's new tasks, which all begin with the joined positions of the old ones.

    Raises TopologyError if the spout cannot join them.
    """
    if not positions:
        return [Content() for _ in range(tasks_after)]
    try:
        joined = spout.merge_states(positions)
    except (Exception, SystemExit) as error:
        fault = f"its merge_states raises {_described(error)}"
        raise refusal(part.context.component_id, tasks, tasks_after, fault) from error
    return [Content({POSITION: joined}) for _ in range(tasks_after)]


def _divided(division: Division, before: Iterable[State], tasks_after: int) -> Sequence[Content]:
    contents = [Content() for _ in range(tasks_after)]
    shared: dict[Any, list[Any]] = {}
    for index, state in enumerate(before):
        if isinstance(state, BufferedState):
            _add_encoded(division, index, state, contents, shared)
            continue
        for key, value in state.scan():
            target = division.target(key, index)
            if target is None:
                shared.setdefault(key, []).append(value)
            else:
                contents[target].entries[key] = value
    for key, values in shared.items():
        joined = division.merged(key, values)
        for content in contents:
            content.entries[key] = joined
    return contents


def _add_encoded(
    division: Division,
    index: int,
    state: BufferedState[Any, Any],
    contents: Sequence[Content],
    shared: dict[Any, list[Any]],
) -> None:
    """Add the entries of a BufferedState, without decoding their values."""
    changes = [content.encoded for content in contents]
    for page in state.scan_encoded():
        for encoded, data in page:
            target = division.target_of_text(encoded, index)
            if target < 0:
                key = decode_value(encoded)
                found = division.target(key, index)
                if found is None:
                    shared.setdefault(key, []).append(decode_value(data))
                    continue
                target = found
            changes[target][encoded] = data


class Division:
    """The rule by which the entries of a bolt's state are divided among its tasks.

    ``is_placed``: the entries are those of tasks; otherwise another program wrote them, by the keys of the grouping.
    """

    def __init__(self, bolt: StatefulBolt, part: Part, before: int, after: int, *, is_placed: bool = True) -> None:
        self.bolt = bolt
        self._component = part.context.component_id
        self._groupings = list(dict.fromkeys(map(tuple, part.groupings)))
        self._before = before
        self._after = after
        self._hash = KeyHash()
        self._is_unknown = is_placed and before == 1 and not has_known_keys(bolt)
        self._takes_texts = type(bolt).values_of_key is StatefulBolt.values_of_key and all(
            len(fields) == 1 for fields in self._groupings
        )

    def target_of_text(self, encoded: bytes, index: int) -> int:
        """Return what ``target`` returns for a key that is a text, given its encoding; -1 for ``target`` to be asked.

        The hash of a text is the CRC-32 of a head and of the text's encoding (``hash_values``).
        """
        if self._is_unknown or not self._takes_texts or encoded[0] not in _TEXTS:
            return -1
        hashed = crc32(encoded, _BEGUN)
        return hashed % self._after if hashed % self._before == index else -1

    def target(self, key: Any, index: int) -> int | None:
        """Return the index of the task that an entry moves to; None for an entry that is no key's.

        ``index``: of the task whose state it is in.

        Raises:
            TopologyError: the grouping would have sent this key to another task, or says nothing of it.
        """
        if not self._groupings:
            raise self._refusal(key, "belongs to no fields grouping")
        if self._is_unknown:
            kind = type(self.bolt).__name__
            raise self._refusal(
                key,
                f"is possibly none of the grouping's, which one task does not show: set is_divisible = True on {kind}",
            )
        hashed = self._hashed(key, self._groupings[0])
        if any(self._hashed(key, fields) != hashed for fields in self._groupings[1:]):
            raise self._refusal(key, "belongs to different tasks by its different inputs")
        if hashed is None:
            return None
        if hashed % self._before != index:
            raise self._refusal(
                key, f"is in the state of task {index}, and {hashed % self._before} receives its tuples"
            )
        return hashed % self._after

    def merged(self, key: Any, values: Sequence[Any]) -> Any:
        """Return the value of an entry that is no key's. Raises TopologyError if the bolt has none to store."""
        try:
            value = self.bolt.merge_values(key, values)
            encode_value(value)
        except (Exception, SystemExit) as error:
            raise self._refusal(key, f"has no value for all tasks: merge_values: {_described(error)}") from error
        return value

    def _hashed(self, key: Any, fields: Sequence[str]) -> int | None:
        try:
            values = self.bolt.values_of_key(key, fields)
            count = 0 if values is None else len(values)
        except (Exception, SystemExit) as error:
            raise self._refusal(key, f"belongs to no task: values_of_key: {_described(error)}") from error
        if values is None:
            return None
        if count != len(fields):
            raise self._refusal(key, f"is not a value for each field of the grouping by {', '.join(fields)}")
        hashed = self._hash.of(values[0]) if len(values) == 1 else -1
        return hashed if hashed >= 0 else hash_values(values, self._component, fields)

    def _refusal(self, key: Any, fault: str) -> TopologyError:
        return refusal(self._component, self._before, self._after, f"key {_shown(key)} {fault}")


def refusal(component: str, before: int, after: int, fault: str) -> TopologyError:
    """Return the error of a component whose state cannot be divided, with what to do."""
    return TopologyError(
        f"component {component!r} has {_tasks(after)}, and the stored checkpoint was taken with {before}; its state "
        f"cannot be divided, as {fault}; go back to {_tasks(before)}, by a rebalance or as you submit the topology, or "
        f"begin with empty states by another topology.state.id",
        component=component,
    )


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 100 else f"{text[:97]}..."
