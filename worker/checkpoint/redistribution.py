"""Division of the states of a component among another number of tasks (docs/adr/0049).

Run by the worker of the checkpoint spout, before the spout sends its first step. Each state of the earlier layout is
opened, so that no earlier task can write it any more, and brought to the stored checkpoint. Each entry is then written
to the state of the task that the component's fields grouping sends its key to.

**Idempotent.** Nothing of the earlier layout is changed until the new layout is stored in the checkpoint record. A
state of the new layout that is at the stored checkpoint was completed by an earlier try, whose entries were the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar
from zlib import crc32

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import Checkpoint
from tupletree._stored_states import has_known_keys, is_divisible
from tupletree._wire.codec import decode_value, encode_columns, encode_value
from tupletree.component import Spout, StatefulBolt
from tupletree.errors import ConflictError, TopologyError
from tupletree.state.buffered import BufferedState
from tupletree.state.bulk import BulkState, Entry
from tupletree.state.contract import KeyValueState
from tupletree.state.providers import is_durable, remove_state

from ..core.key_hash import KeyHash
from .contents import Contents, Part, State, contents_of, opened, opened_in_bulk
from .key_places import UnplacedKeyError, hash_of_key
from .spout_participant import POSITION

S = TypeVar("S", bound=State | BulkState)

_BEGUN: Final = crc32(encode_columns([["x"]], "", [""])[:-2])
_LAYOUTS_APART: Final = 1 << 40  # more checkpoints than there will ever be
_TEXTS: Final = frozenset([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])  # the first bytes of texts in MessagePack


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
        layouts[id] = layout_after(layouts.get(id, 0), txid)
        _move(part, txid, earlier, names_of(state_id, id, changed[id], layouts[id]))
        removals += [partial(remove_state, name, part.context.conf, part.context) for name in earlier]

    def remove_earlier() -> None:
        for remove in removals:
            remove()

    return replace(stored, tasks={**stored.tasks, **changed}, layouts=layouts), remove_earlier


def layout_after(before: int, txid: int) -> int:
    """Return the layout of states that move at a checkpoint: its number, or else a number above the layout before.

    So no name is used again. Whoever moved the states before may still be removing them, or has left them for good. A
    savepoint goes back to an earlier checkpoint, but its layout is above those of all checkpoints (restoring.py).
    """
    return txid if txid > before else before + _LAYOUTS_APART


def names_of(state_id: str, component: str, tasks: int, layout: int) -> list[str]:
    """Return the namespaces of the states of all tasks of a component."""
    return [namespace_of(state_id, component, index, tasks, layout) for index in range(tasks)]


def _move(part: Part, txid: int, earlier: Sequence[str], names: Sequence[str]) -> None:
    component = part.component
    settled = partial(_settled, txid, earlier)
    with contents_of(part, names, txid) as contents:
        if isinstance(component, Spout):
            states = settled(partial(opened, part))
            positions = [state.get(POSITION) for state in states if POSITION in state]  # one never open has none
            contents.put_shared(joined_positions(part, component, positions, len(earlier), len(names)))
        else:
            assert isinstance(component, StatefulBolt)
            divider = Divider(Division(component, part, len(earlier), len(names)), contents)
            for index, state in enumerate(settled(partial(opened_in_bulk, part))):
                divider.add_all(index, state)
            divider.end()
        contents.commit()


def _settled(txid: int, names: Sequence[str], open_one: Callable[[str], AbstractContextManager[S]]) -> Iterator[S]:
    """Yield the states of before, at the stored checkpoint. One is open at a time: a process may open few files."""
    for name in names:
        with open_one(name) as state:
            _settle(name, state, txid)
            yield state


def _settle(name: str, state: State | BulkState, txid: int) -> None:
    """Complete what the stored checkpoint decides on, as the tasks of before would have. ``txid``: the last one that is
    decided on, which no state rolls back."""
    if state.prepared is not None:
        if state.prepared == txid:  # possibly committed by the others, while the component was not in the topology
            state.commit(txid)
        else:
            state.rollback()
    if state.committed != txid:
        found = "is empty" if state.committed is None else f"was last committed with checkpoint {state.committed}"
        raise ConflictError(f"state {name!r} {found}, and the last checkpoint of the topology is {txid}")


def joined_positions(
    part: Part, spout: Spout, positions: Sequence[Any], tasks: int, tasks_after: int
) -> Mapping[str, Any]:
    """Return the entries of a spout's new tasks, which all begin with the joined positions of the old ones.

    Raises TopologyError if the spout cannot join them.
    """
    if not positions:
        return {}
    try:
        joined = spout.merge_states(positions)
    except (Exception, SystemExit) as error:
        fault = f"its merge_states raises {_described(error)}"
        raise refusal(part.context.component_id, tasks, tasks_after, fault) from error
    return {POSITION: joined}


class Divider:
    """Adds the entries of states to the contents of new ones, each where a division says."""

    def __init__(self, division: Division, contents: Contents) -> None:
        self._division = division
        self._contents = contents
        self._shared: dict[Any, list[Any]] = {}

    def add_all(self, index: int, state: State | BulkState) -> None:
        """Add the entries of the state of a task."""
        if isinstance(state, KeyValueState) and not isinstance(state, BufferedState):
            for key, value in state.scan():
                target = self._division.target(key, index)
                if target is None:
                    self._shared.setdefault(key, []).append(value)
                else:
                    self._contents.put(target, key, value)
        else:
            for page in state.scan_encoded():
                self.add_encoded(index, page)

    def add_encoded(self, index: int, entries: Iterable[Entry]) -> None:
        """Add entries of the state of a task, without decoding their values."""
        find, put = self._division.target_of_text, self._contents.put_encoded
        for encoded, data in entries:
            target = find(encoded, index)
            if target < 0:
                key = decode_value(encoded)
                found = self._division.target(key, index)
                if found is None:
                    self._shared.setdefault(key, []).append(decode_value(data))
                    continue
                target = found
            put(target, encoded, data)

    def end(self) -> None:
        """Add the entries that are no key's, after all others."""
        self._contents.put_shared({key: self._division.merged(key, values) for key, values in self._shared.items()})


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
            return hash_of_key(self.bolt, self._component, key, fields, self._hash)
        except UnplacedKeyError as error:
            raise self._refusal(key, str(error)) from error

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
