"""The provider of states and the store of checkpoints of moving_world, as the product's code opens them.

Each request is one of the points between which everything else may happen (transaction_stores).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from checkpoint_stores import SimulatedBackend
from transaction_stores import SimulatedStore

from tupletree._stores.nodes import Node, Write
from tupletree.context import TopologyContext
from tupletree.state.buffered import BufferedState
from tupletree.state.contract import KeyValueState, StateProvider

worlds: list[Any] = []
"""The world that is going on, last."""


class Backend(SimulatedBackend):
    """Reading all entries is a request too: a state that moves is read so."""

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        pages: list[Any] = []
        self._request("scan", lambda: pages.extend(list(page) for page in self.inner.scan()))
        yield from pages


class Provider(StateProvider):
    """States that outlive workers."""

    is_durable = True

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        world = worlds[-1]
        worker = world.running[-1]

        def perform() -> Backend:
            backend = Backend(worker, namespace)
            world.judge.opened(worker, namespace)
            return backend

        backend = world.outside.request(f"open {namespace}", perform, world.faults.states)
        return BufferedState(namespace, backend, cache_entries=world.shape.cache_entries)

    def remove_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:
        world = worlds[-1]

        def perform() -> None:
            removed = world.states.pop(namespace, None)
            if removed is not None:
                removed.owner += 1
                world.tell(f"{namespace} is removed")

        world.outside.request(f"remove {namespace}", perform, world.faults.states)


class Nodes:
    """The store of checkpoints, as the worker reaches it in whose step the request is made."""

    def get(self, path: str) -> Node | None:
        return self._own().get(path)

    def children(self, path: str) -> list[str]:
        return self._own().children(path)

    def write(self, writes: Sequence[Write]) -> None:
        self._own().write(writes)

    def close(self) -> None:
        pass

    @staticmethod
    def _own() -> SimulatedStore:
        world = worlds[-1]
        return SimulatedStore(world, world.running[-1])
