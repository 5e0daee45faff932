"""The states of tasks: the real buffered state over a backend whose requests fail half-way (transaction_stores).

What an operation was to do may also happen later than its caller gave up on it, but not once the caller has called
again: that is what the contract of backends says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tupletree.state.buffered import BufferedState, Changes

if TYPE_CHECKING:
    from checkpoint_workers import Worker


class Durable:
    """What TaskState wants to know of a provider."""

    is_durable = True


class SimulatedBackend:
    """One namespace as whoever opened it reaches it. ``committed`` and ``prepared`` are what is known here."""

    def __init__(self, worker: Worker, namespace: str) -> None:
        self.worker = worker
        self.world = worker.world
        self.namespace = namespace
        self.inner = worker.world.rules.backend(namespace, self.world.states[namespace])
        self.committed, self.prepared = self.inner.committed, self.inner.prepared
        self._calls = 0

    def get(self, key: bytes) -> bytes | None:
        return self.inner.get(key)

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        return self.inner.scan()

    def prepare(self, txid: int, changes: Changes) -> None:
        self._request("prepare", lambda: self._prepare(txid, changes))
        self.prepared = txid

    def commit(self, txid: int) -> None:
        self._request("commit", lambda: self._commit(txid))
        self.committed, self.prepared = txid, None

    def rollback(self) -> None:
        self._request("rollback", self._rollback)
        self.world.judge.goes_back(self.worker, self.namespace)
        self.committed, self.prepared = self.inner.committed, None

    def close(self) -> None:
        pass

    def _prepare(self, txid: int, changes: Changes) -> None:
        self.inner.prepare(txid, changes)
        self.world.judge.prepared(self.worker, self.namespace, txid)

    def _commit(self, txid: int) -> None:
        is_news = self.inner.committed != txid
        self.inner.commit(txid)
        if is_news:
            self.world.judge.committed(self.worker, self.namespace, txid)

    def _rollback(self) -> None:
        prepared = self.inner.prepared
        self.inner.rollback()
        self.world.judge.rolled_back(self.worker, self.namespace, prepared)

    def _request(self, what: str, perform: Callable[[], None]) -> None:
        self._calls += 1
        call = self._calls

        def unless_called_again() -> None:
            if self._calls == call:
                perform()

        self.world.outside.request(f"{what} of {self.namespace}", unless_called_again, self.world.faults.states)


def open_state(worker: Worker, task: Any) -> tuple[Any, BufferedState[Any, Any]]:
    """The state of a task, for this worker from now on."""
    world, context = worker.world, task.context
    namespace = f"{context.component_id}/{context.task_index}"

    def perform() -> SimulatedBackend:
        backend = SimulatedBackend(worker, namespace)
        world.judge.opened(worker, namespace)
        return backend

    backend = world.outside.request(f"open {namespace}", perform, world.faults.states)
    return Durable, BufferedState(namespace, backend, cache_entries=world.shape.cache_entries)
