"""Questions to the states of stateful components: through nimbus to the workers, or to the store itself.

Writes are in state_writes.py.

with StateClient("cluster.example:6627") as states:
    answer = states.get("words", "count", "apple", "pear")
    counts = {one.key: one.value for one in answer.entries}
    page = states.scan("words", "count", limit=1000)          # page.next continues
    states.put("words", "count", "apple", 2413)               # returns when a checkpoint has it
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import indexes_of, namespace_of
from tupletree._checkpoints.record import load_checkpoint
from tupletree._checkpoints.settings import check_state_id
from tupletree._limits import shown
from tupletree._stores.nodes import StateStore
from tupletree.client.direct_questions import DirectQuestions
from tupletree.client.requests import request_of
from tupletree.client.results.state import StateAnswer, StateEntry, answer_of
from tupletree.client.state_writes import StateWriteCalls
from tupletree.config import load
from tupletree.errors import NotFoundError, TupletreeError, UnavailableError, UsageError
from tupletree.state.answers import (
    DEFAULT_ENTRIES,
    MAX_BYTES,
    MAX_KEY_BYTES,
    MAX_KEYS,
    Budget,
    TaskAnswer,
    check_limit,
    encode_key,
    message_of,
    parse_position,
    position,
    read_keys,
    read_page,
)
from tupletree.state.options import CONFIG, PROVIDER
from tupletree.state.providers import open_reader
from tupletree.state.reader import StateReader
from tupletree.state.sizes import ComponentStates, states_of
from tupletree.v1 import nimbus_pb2

_CALL_S: Final = 10.0
_LEAST_S: Final = 3.0
"""The time that a call of nimbus has in any case."""
PLACES_S: Final = 1.0
_UNBOUNDED: Final = 1 << 62

_Places = tuple[float, list[str]]
"""Until when they are kept, and the namespaces of the tasks, all of which have a committed checkpoint."""
_NO_PLACES: Final[_Places] = (0.0, [])


class StateClient(StateWriteCalls):
    """Reads and writes the states of running topologies. The arguments are those of NimbusClient.

    Every method raises NotFoundError if the topology, the component or its state does not exist, UsageError if a key is
    invalid or the provider cannot be read from outside, and UnavailableError if a task does not run or does not answer.
    """

    def __init__(
        self,
        seeds: str | Sequence[str] | None = None,
        conf: Mapping[str, Any] | None = None,
        *,
        leader_timeout_s: float = 30.0,
    ) -> None:
        super().__init__(seeds, conf, leader_timeout_s=leader_timeout_s)
        self._direct = DirectQuestions(self._locate_at_known_leader, self._tls)

    def close(self) -> None:
        self._direct.close()
        super().close()

    def get(self, name: str, component: str, *keys: Any, live: bool = False) -> StateAnswer:
        """Return the values of keys. From the second question about a component on, its workers are asked directly
        where they can be reached.

        Every task of the component is asked. If its class says that its keys are those of the grouping
        (``is_divisible = True``), only the task that a key belongs to may be asked, as long as it has the key.

        ``live``: the values that the bolt has now, instead of those of the last checkpoint.
        """
        answers = []
        for part in _parts(keys):
            answer = self._values(name, component, part, live)
            if len(part) > 1:
                for key in dict.fromkeys(one.encoded_key for one in answer.entries if _would_fit(one)):
                    alone = self._values(name, component, [key], live)
                    answer = _with(answer, key, alone)
            answers.append(answer)
        return _joined(answers)

    def scan(self, name: str, component: str, *, after: str = "", limit: int = DEFAULT_ENTRIES) -> StateAnswer:
        """Return a page of committed entries: at most ``limit``, after the position ``next`` of another page."""
        check_limit(limit)
        return self._ask(name=name, component=component, after=after, limit=limit)

    def sizes(self, name: str, component: str = "") -> list[ComponentStates]:
        """Return the sizes of a component's states, by task; without a component, of all components with a state.

        The workers count entries, or estimate where a count would read much, and keep the result for ten seconds. A
        task that cannot be measured has the reason.
        """
        request = request_of(nimbus_pb2.MeasureStatesRequest, name=name, component=component)
        reply = self._call(lambda stub: stub.MeasureStates(request, timeout=_CALL_S), retry=False)
        return states_of(reply.tasks)

    def _values(self, name: str, component: str, keys: list[bytes], live: bool) -> StateAnswer:
        began_s = time.monotonic()
        if isinstance(name, str) and isinstance(component, str) and isinstance(live, bool):
            found = self._direct.ask(name, component, keys, live)
            if found is not None:
                return answer_of(found)
        left_s = max(_LEAST_S, began_s + _CALL_S - time.monotonic())
        return self._ask(left_s, name=name, component=component, keys=keys, is_live=live)

    def _ask(self, timeout_s: float = _CALL_S, **fields: Any) -> StateAnswer:
        request = request_of(nimbus_pb2.ReadStateRequest, **fields)
        # Not repeated: UnavailableError is most often that of a worker, which a later question may find running.
        reply = self._call(lambda stub: stub.ReadState(request, timeout=timeout_s), retry=False)
        return answer_of(reply.tasks, reply.next)

    def _locate_at_known_leader(self, name: str, component: str) -> nimbus_pb2.LocateStateReply:
        if self._leader is None:  # the question itself looks for one, and waits for it
            raise UnavailableError("no leader is known")
        return self._locate(name, component)

    def _locate(self, name: str, component: str) -> nimbus_pb2.LocateStateReply:
        request = request_of(nimbus_pb2.LocateStateRequest, name=name, component=component)
        return self._call(lambda stub: stub.LocateState(request, timeout=_LEAST_S), retry=False)

    def _tls(self) -> ssl.SSLContext | None:
        tls = self.security.tls
        return None if tls is None else tls.client_context()


class _MovedError(UnavailableError):
    """The places of states are no longer those that were read."""


class StoredStates:
    """Reads committed states from their store, without the cluster: also those of a topology that is down or gone.

    ``conf``: the topology's configuration, with ``topology.state.provider`` and ``.config``; None: the result of
    ``tupletree.config.load()``. The store must be reachable from here; SQLite files are on the machines of the tasks.
    The number of tasks comes from the record of the last checkpoint in ZooKeeper.

        with StoredStates(conf) as stored:                    # connections stay open until the end of the block
            answer = stored.get("words", "count", "apple")

    Without ``with``, each call connects anew. Each answer is of the last checkpoint, also after a change of tasks.
    Within ``with``, the record of the last checkpoint is read again after a second, or where a state is gone.
    Workers and nimbus are not asked, so many questions cost the topology nothing but what they take of the store. Not
    thread-safe.

    Every method raises NotFoundError if no checkpoint is stored for the state id or the component has none, UsageError
    if the provider cannot be read from here, and UnavailableError if a store cannot be reached.
    """

    def __init__(self, conf: Mapping[str, Any] | None = None) -> None:
        self._conf = load() if conf is None else conf
        self._kept: contextlib.ExitStack | None = None
        self._store: StateStore | None = None
        self._readers: dict[tuple[str, str], dict[str, StateReader]] = {}  # by namespace, of each component
        self._places: dict[tuple[str, str], _Places] = {}  # of each component

    def __enter__(self) -> StoredStates:
        self._kept = contextlib.ExitStack()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what a ``with`` block keeps open. A later call connects anew."""
        kept, self._kept, self._store = self._kept, None, None
        self._places.clear()
        while self._readers:
            _close_all(self._readers.popitem()[1])
        if kept is not None:
            kept.close()

    def get(self, state_id: str, component: str, *keys: Any) -> StateAnswer:
        """Return the values of keys. ``state_id``: the topology's ``topology.state.id``, by default its name."""
        parts = _parts(keys)
        return self._at_present((state_id, component), lambda: self._get(parts, state_id, component))

    def scan(self, state_id: str, component: str, *, after: str = "", limit: int = DEFAULT_ENTRIES) -> StateAnswer:
        """Return a page of entries: at most ``limit``, after the position ``next`` of another page."""
        check_limit(limit)
        return self._at_present((state_id, component), lambda: self._scan(state_id, component, after, limit))

    def _at_present(self, where: tuple[str, str], ask: Callable[[], StateAnswer]) -> StateAnswer:
        """Ask, and once more if the places that were kept are those of a layout before."""
        is_kept = time.monotonic() < self._places.get(where, _NO_PLACES)[0]
        try:
            return ask()
        except _MovedError:
            if not is_kept:
                raise
        return ask()

    def _get(self, parts: Sequence[Sequence[bytes]], state_id: str, component: str) -> StateAnswer:
        names, is_committed = self._namespaces(state_id, component)
        answers = []
        for part in parts:
            found: list[TaskAnswer] = []
            for index in indexes_of(part, len(names)):
                with self._reader((state_id, component), names[index]) as reader:
                    found.append(read_keys(index, reader, part, Budget(_UNBOUNDED)))
                if is_committed and found[-1].committed is None:
                    raise self._missing((state_id, component), names[index])
            answers.append(_answer(found))
        return _joined(answers)

    def _scan(self, state_id: str, component: str, after: str, limit: int) -> StateAnswer:
        index, key = parse_position(after)
        names, is_committed = self._namespaces(state_id, component)
        found: list[TaskAnswer] = []
        budget = Budget()
        while index < len(names):
            if limit <= 0 or budget.left <= 0:
                return _answer(found, position(index, key))
            with self._reader((state_id, component), names[index]) as reader:
                answer = read_page(index, reader, key, limit, budget)
            if is_committed and answer.committed is None:
                raise self._missing((state_id, component), names[index])
            found.append(answer)
            limit -= len(answer.entries)
            if not answer.has_more:
                index, key = index + 1, b""
            elif answer.entries:
                key = answer.entries[-1].key
            else:
                return _answer(found, position(index, key))
        return _answer(found)

    def _namespaces(self, state_id: str, component: str) -> tuple[list[str], bool]:
        """Return the namespace of each task of a component, and True if they must have a committed checkpoint.

        Within a ``with`` block the namespaces are kept for PLACES_S, once they have a committed checkpoint.
        """
        until_s, kept = self._places.get((state_id, component), _NO_PLACES)
        if time.monotonic() < until_s:
            return kept, True
        if self._conf.get(PROVIDER) in (None, "memory"):
            raise UsageError(
                f"the states of the provider 'memory' are in the workers: ask the running topology, or set {PROVIDER} "
                f"and {CONFIG} to those of the topology"
            )
        check_state_id(state_id)
        with self._coordination() as store:
            checkpoint = load_checkpoint(store, state_id)[0]
        tasks = checkpoint.tasks.get(component)
        if tasks is None:
            names = ", ".join(sorted(checkpoint.tasks)) or "none yet"
            raise NotFoundError(
                f"the last checkpoint of state id '{state_id}' has no component {shown(component)}; it has {names}"
            )
        layout = checkpoint.layouts.get(component, 0)
        namespaces = [namespace_of(state_id, component, index, tasks, layout) for index in range(tasks)]
        readers = self._readers.get((state_id, component), {})
        _close_all(readers, but=namespaces)  # of the layout before a change of tasks, whose states are removed
        is_committed = namespaces == kept or (checkpoint.phase is Phase.COMMITTED and checkpoint.txid > 0)
        if self._kept is not None and is_committed:
            self._places[state_id, component] = time.monotonic() + PLACES_S, namespaces
        return namespaces, is_committed

    @contextlib.contextmanager
    def _coordination(self) -> Iterator[StateStore]:
        from tupletree._stores.zookeeper_nodes import open_store  # imports ZooKeeper's client

        if self._store is not None:
            yield self._store
            return
        with contextlib.ExitStack() as alone:
            store = open_store(self._conf)
            if self._kept is not None:
                self._store = store
            (self._kept or alone).callback(store.close)
            yield store

    @contextlib.contextmanager
    def _reader(self, where: tuple[str, str], namespace: str) -> Iterator[StateReader]:
        """Yield the reader of a namespace. ``where``: the state id and the component."""
        with contextlib.ExitStack() as alone:
            reader = self._readers.get(where, {}).get(namespace)
            if reader is None:
                reader = open_reader(namespace, self._conf)
                if self._kept is not None and reader.is_kept:
                    self._readers.setdefault(where, {})[namespace] = reader
                else:
                    alone.callback(reader.close)
            yield reader

    def _missing(self, where: tuple[str, str], namespace: str) -> TupletreeError:
        """Return the error of a state that is not there, although the checkpoint that was read has it."""
        self._places.pop(where, None)
        if namespace not in self._namespaces(*where)[0]:
            return _MovedError(f"the states of component '{where[1]}' have just moved: repeat the question")
        return UsageError(
            f"the provider '{self._conf[PROVIDER]}' has no state '{namespace}' here, but the last checkpoint has: this "
            f"is not the store, or the machine, that it was written to"
        )


def _close_all(readers: dict[str, StateReader], but: Collection[str] = ()) -> None:
    """Close and drop readers."""
    for namespace in [one for one in readers if one not in but]:
        readers.pop(namespace).close()


def _parts(keys: Sequence[Any]) -> list[list[bytes]]:
    """Encode keys, and split them into questions. Raises UsageError for an invalid key, or without a key."""
    if not keys:
        raise UsageError("get needs a key or more; scan returns the entries of a state")
    parts: list[list[bytes]] = [[]]
    for key in dict.fromkeys(map(encode_key, keys)):
        if len(parts[-1]) >= MAX_KEYS or sum(map(len, parts[-1])) + len(key) > MAX_KEY_BYTES:
            parts.append([])
        parts[-1].append(key)
    return parts


def _would_fit(entry: StateEntry) -> bool:
    return entry.is_left_out and len(entry.encoded_key) + entry.size <= MAX_BYTES


def _with(answer: StateAnswer, key: bytes, alone: StateAnswer) -> StateAnswer:
    """Return an answer with the entries of one key replaced by those of another answer."""
    others = [one for one in answer.entries if one.encoded_key != key]
    entries = sorted([*others, *alone.entries], key=lambda one: one.task)
    return StateAnswer(tuple(entries), answer.committed)


def _joined(answers: Sequence[StateAnswer]) -> StateAnswer:
    if len(answers) == 1:
        return answers[0]
    entries = sorted((entry for answer in answers for entry in answer.entries), key=lambda one: one.task)
    return StateAnswer(tuple(entries), {index: txid for one in answers for index, txid in one.committed.items()})


def _answer(tasks: Iterable[TaskAnswer], following: str = "") -> StateAnswer:
    return answer_of(map(message_of, tasks), following)
