"""Questions to the states of stateful components: through nimbus to the workers, or to the store itself.

with StateClient("cluster.example:6627") as states:
    answer = states.get("words", "count", "apple", "pear")
    counts = {one.key: one.value for one in answer.entries}
    page = states.scan("words", "count", limit=1000)          # page.next continues
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.places import indexes_of, namespace_of
from tupletree._checkpoints.record import load_checkpoint
from tupletree._checkpoints.settings import check_state_id
from tupletree._limits import shown
from tupletree.client.leader import LeaderCalls
from tupletree.client.requests import request_of
from tupletree.client.results.state import StateAnswer, StateEntry, answer_of
from tupletree.config import load
from tupletree.errors import NotFoundError, UsageError
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
from tupletree.v1 import nimbus_pb2

_CALL_S: Final = 10.0
_UNBOUNDED: Final = 1 << 62


class StateClient(LeaderCalls):
    """Reads the states of running topologies. The arguments are those of NimbusClient.

    Every method raises NotFoundError if the topology, the component or its state does not exist, UsageError if a key is
    invalid or the provider cannot be read from outside, and UnavailableError if a task does not run or does not answer.
    """

    def get(self, name: str, component: str, *keys: Any, live: bool = False) -> StateAnswer:
        """Return the values of keys, which every task of the component is asked for.

        ``live``: the values that the bolt has now, instead of those of the last checkpoint.
        """
        answers = []
        for part in _parts(keys):
            answer = self._ask(name=name, component=component, keys=part, is_live=live)
            if len(part) > 1:
                for key in dict.fromkeys(one.encoded_key for one in answer.entries if _would_fit(one)):
                    alone = self._ask(name=name, component=component, keys=[key], is_live=live)
                    answer = _with(answer, key, alone)
            answers.append(answer)
        return _joined(answers)

    def scan(self, name: str, component: str, *, after: str = "", limit: int = DEFAULT_ENTRIES) -> StateAnswer:
        """Return a page of committed entries: at most ``limit``, after the position ``next`` of another page."""
        check_limit(limit)
        return self._ask(name=name, component=component, after=after, limit=limit)

    def _ask(self, **fields: Any) -> StateAnswer:
        request = request_of(nimbus_pb2.ReadStateRequest, **fields)
        # Not repeated: UnavailableError is most often that of a worker, which a later question may find running.
        reply = self._call(lambda stub: stub.ReadState(request, timeout=_CALL_S), retry=False)
        return answer_of(reply.tasks, reply.next)


class StoredStates:
    """Reads committed states from their store, without the cluster: also those of a topology that is down or gone.

    ``conf``: the topology's configuration, with ``topology.state.provider`` and ``.config``; None: the result of
    ``tupletree.config.load()``. The store must be reachable from here; SQLite files are on the machines of the tasks.
    The number of tasks comes from the record of the last checkpoint in ZooKeeper.

    Every method raises NotFoundError if no checkpoint is stored for the state id or the component has none, UsageError
    if the provider cannot be read from here, and UnavailableError if a store cannot be reached.
    """

    def __init__(self, conf: Mapping[str, Any] | None = None) -> None:
        self._conf = load() if conf is None else conf

    def get(self, state_id: str, component: str, *keys: Any) -> StateAnswer:
        """Return the values of keys. ``state_id``: the topology's ``topology.state.id``, by default its name."""
        parts = _parts(keys)
        names, is_committed = self._namespaces(state_id, component)
        answers = []
        for part in parts:
            found: list[TaskAnswer] = []
            for index in indexes_of(part, len(names)):
                with self._reader(names[index], is_committed) as reader:
                    found.append(read_keys(index, reader, part, Budget(_UNBOUNDED)))
            answers.append(_answer(found))
        return _joined(answers)

    def scan(self, state_id: str, component: str, *, after: str = "", limit: int = DEFAULT_ENTRIES) -> StateAnswer:
        """Return a page of entries: at most ``limit``, after the position ``next`` of another page."""
        check_limit(limit)
        index, key = parse_position(after)
        names, is_committed = self._namespaces(state_id, component)
        found: list[TaskAnswer] = []
        budget = Budget()
        while index < len(names):
            if limit <= 0 or budget.left <= 0:
                return _answer(found, position(index, key))
            with self._reader(names[index], is_committed) as reader:
                answer = read_page(index, reader, key, limit, budget)
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
        """Return the namespace of each task of a component, and True if they must have a committed checkpoint."""
        if self._conf.get(PROVIDER) in (None, "memory"):
            raise UsageError(
                f"the states of the provider 'memory' are in the workers: ask the running topology, or set {PROVIDER} "
                f"and {CONFIG} to those of the topology"
            )
        from tupletree._stores.zookeeper_nodes import open_store  # imports ZooKeeper's client

        check_state_id(state_id)
        with contextlib.closing(open_store(self._conf)) as store:
            checkpoint = load_checkpoint(store, state_id)[0]
        tasks = checkpoint.tasks.get(component)
        if tasks is None:
            names = ", ".join(sorted(checkpoint.tasks)) or "none yet"
            raise NotFoundError(
                f"the last checkpoint of state id '{state_id}' has no component {shown(component)}; it has {names}"
            )
        layout = checkpoint.layouts.get(component, 0)
        namespaces = [namespace_of(state_id, component, index, tasks, layout) for index in range(tasks)]
        return namespaces, checkpoint.phase is Phase.COMMITTED and checkpoint.txid > 0

    @contextlib.contextmanager
    def _reader(self, namespace: str, is_committed: bool) -> Iterator[StateReader]:
        with contextlib.closing(open_reader(namespace, self._conf)) as reader:
            if is_committed and reader.committed is None:
                raise UsageError(
                    f"the provider '{self._conf[PROVIDER]}' has no state '{namespace}' here, but the last checkpoint "
                    f"has: this is not the store, or the machine, that it was written to"
                )
            yield reader


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
