"""The contents of the states that the tasks of a component get, until they are committed.

    HeldContents      holds all entries, and then writes one state after the other
    SpilledContents   holds entries up to MAX_HELD_BYTES, and then writes those of the state that has most, as a piece

Neither writes anything that counts before ``commit``. A state that is at the checkpoint already is left alone: an
earlier try has completed it, with the same entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tupletree._wire.codec import decode_value, encode_value
from tupletree.component import Component, Spout
from tupletree.context import TopologyContext
from tupletree.state.buffered import BufferedState
from tupletree.state.bulk import BulkState
from tupletree.state.contract import KeyValueState
from tupletree.state.providers import bulk_opener, open_state

MAX_HELD_BYTES: Final = 128 << 20
_ENTRY_BYTES: Final = 200  # of the objects of an entry, beside its key and value

State = KeyValueState[Any, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A component whose states are written. ``context``: of one of its tasks.

    ``groupings``: the fields of each of its fields groupings.
    """

    component: Component
    context: TopologyContext
    groupings: Sequence[Sequence[str]]


class Contents(Protocol):
    """The contents of the states of a component's tasks."""

    def put(self, index: int, key: Any, value: Any) -> None:
        """Add an entry to the state of a task."""

    def put_encoded(self, index: int, key: bytes, value: bytes) -> None:
        """Add an encoded entry to the state of a task. It replaces an earlier one of the same key."""

    def put_shared(self, entries: Mapping[Any, Any]) -> None:
        """Add entries to the states of all tasks."""

    def commit(self) -> None:
        """Write all states, and commit them."""


@contextmanager
def contents_of(part: Part, names: Sequence[str], txid: int) -> Iterator[Contents]:
    """Yield the contents of new states. ``names``: their namespaces. ``txid``: the checkpoint that they are of."""
    open_bulk = bulk_opener(part.context.conf)
    if open_bulk is None or isinstance(part.component, Spout):
        yield HeldContents(part, names, txid)
        return
    with closing(SpilledContents(open_bulk, names, txid)) as spilled:
        yield spilled


@contextmanager
def opened(part: Part, name: str) -> Iterator[State]:
    """Open a state for the time of a ``with`` block."""
    _, state = open_state(name, part.context.conf, part.context)
    with closing(state):
        yield state


@contextmanager
def opened_in_bulk(part: Part, name: str) -> Iterator[State | BulkState]:
    """Open a state for the time of a ``with`` block, in bulk if its provider can."""
    open_bulk = bulk_opener(part.context.conf)
    if open_bulk is None:
        with opened(part, name) as state:
            yield state
    else:
        with closing(open_bulk(name)) as bulk:
            yield bulk


@dataclass(slots=True)
class _Held:
    """Entries of one state: plain, and encoded."""

    plain: dict[Any, Any] = field(default_factory=dict)
    encoded: dict[bytes, bytes] = field(default_factory=dict)


class HeldContents:
    """Contents that are in memory until the last entry is known."""

    def __init__(self, part: Part, names: Sequence[str], txid: int) -> None:
        self._part = part
        self._names = names
        self._txid = txid
        self._held = [_Held() for _ in names]

    def put(self, index: int, key: Any, value: Any) -> None:
        self._held[index].plain[key] = value

    def put_encoded(self, index: int, key: bytes, value: bytes) -> None:
        self._held[index].encoded[key] = value

    def put_shared(self, entries: Mapping[Any, Any]) -> None:
        for held in self._held:
            held.plain.update(entries)

    def commit(self) -> None:
        for name, held in zip(self._names, self._held, strict=True):
            with opened(self._part, name) as state:
                if state.committed != self._txid:
                    state.rollback()  # what a try before this one has prepared
                    _fill(state, held, self._txid)


def _fill(state: State, held: _Held, txid: int) -> None:
    """Write the entries of a new state, and commit them."""
    if isinstance(state, BufferedState):
        plain = {encode_value(key): encode_value(value) for key, value in held.plain.items()}
        state.prepare_encoded(txid, {**held.encoded, **plain})
    else:
        for key, value in held.plain.items():
            state.put(key, value)
        for encoded, data in held.encoded.items():
            state.put(decode_value(encoded), decode_value(data))
        state.prepare_commit(txid)
    state.commit(txid)


class SpilledContents:
    """Contents of states that are opened in bulk. A state is opened when its first piece is written."""

    def __init__(self, open_bulk: Callable[[str], BulkState], names: Sequence[str], txid: int) -> None:
        self._open_bulk = open_bulk
        self._names = names
        self._txid = txid
        self._states: dict[int, BulkState] = {}
        self._held: list[dict[bytes, bytes]] = [{} for _ in names]
        self._sizes = [0] * len(names)
        self._size = 0

    def put(self, index: int, key: Any, value: Any) -> None:
        self.put_encoded(index, encode_value(key), encode_value(value))

    def put_encoded(self, index: int, key: bytes, value: bytes) -> None:
        self._held[index][key] = value
        size = len(key) + len(value) + _ENTRY_BYTES
        self._sizes[index] += size
        self._size += size
        if self._size > MAX_HELD_BYTES:
            self._spill(self._sizes.index(max(self._sizes)))

    def put_shared(self, entries: Mapping[Any, Any]) -> None:
        for key, value in entries.items():
            for index in range(len(self._names)):
                self.put(index, key, value)

    def commit(self) -> None:
        for index in range(len(self._names)):
            self._spill(index)
            state = self._opened(index)
            if state.committed != self._txid:
                state.fill(self._txid)

    def close(self) -> None:
        """Discard what is not committed, and close all states."""
        for state in self._states.values():
            state.close()

    def _spill(self, index: int) -> None:
        """Write the entries of a state that are held."""
        state, held = self._opened(index), self._held[index]
        if held and state.committed != self._txid:
            state.add(sorted(held.items()))
        self._held[index] = {}
        self._size -= self._sizes[index]
        self._sizes[index] = 0

    def _opened(self, index: int) -> BulkState:
        state = self._states.get(index)
        if state is None:
            state = self._states[index] = self._open_bulk(self._names[index])
        return state
