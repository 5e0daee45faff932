"""Contract of the state of a stateful bolt, and of the providers of states.

The user reads and writes between checkpoints. The framework calls ``prepare_commit``, ``commit`` and ``rollback``
(docs/guides/state.md). All calls of one state come from one thread.

      put, delete           prepare_commit(t)               commit(t)
    live ------------------> prepared under t, durable ----> committed, visible to a new reader
      ^                              |
      +----------- rollback ---------+   live and prepared changes are discarded; committed values are visible again

A change is immediately visible to the bolt that made it. It is visible to a process that opens the namespace anew only
after it was committed. Prepared changes survive the process: the next process that opens the namespace commits them or
rolls them back, as the framework directs.
"""

from __future__ import annotations  # pure

from abc import ABC, abstractmethod
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, ClassVar, Final, TypeVar, cast

from tupletree.context import TopologyContext
from tupletree.errors import UsageError
from tupletree.state.reader import StateReader

K = TypeVar("K")
V = TypeVar("V")

_MISSING: Final[Any] = object()


class KeyValueState(MutableMapping[K, V]):
    """A mapping that belongs to one task: a ``MutableMapping`` with the methods ``put`` and ``delete``.

    Keys are str, bytes, int or tuples of these. Values are any values that a tuple can carry. After changing a value in
    place, ``put`` it again: only values that were put are saved. ``len``, ``in`` of a view, and everything else that
    needs all keys reads the whole state from its store.

    A provider implements the abstract methods.
    """

    default_factory: Callable[[], Any] | None = None
    """Called for the value of a missing key by ``state[key]``, which does not add the key to the state."""

    committed: int | None = None
    """The last checkpoint committed to this namespace; None if there is none."""

    topology_checkpoint: int = 0
    """The last committed checkpoint of the topology when the bolt was initialised, set by the framework; 0 if none."""

    prepared: int | None = None
    """The checkpoint that is prepared and neither committed nor rolled back; None if there is none.

    In a durable provider's state, ``committed`` and ``prepared`` must both be right: after a crash they determine which
    checkpoint is to be committed.
    """

    @abstractmethod
    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default``.

        Raises:
            UsageError: ``key`` is not a valid key.
            UnavailableError: the value must be read from the store, and the store cannot be reached.
        """

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``."""

    def add(self, key: K, amount: V) -> V:
        """Add ``amount`` to the value of ``key`` with ``+``, and return the sum; a missing key gets ``amount``.

        Does the same as ``get`` and ``put``, and raises what they raise; a provider need not implement it.
        """
        value = self.get(key, _MISSING)
        total: V = amount if value is _MISSING else value + amount
        self.put(key, total)
        return total

    @abstractmethod
    def delete(self, key: K) -> None:
        """Remove ``key`` if it exists."""

    @abstractmethod
    def scan(self) -> Iterator[tuple[K, V]]:
        """Iterate over all keys and values, in no particular order.

        Do not change the state before the iterator is exhausted. Each step can raise UnavailableError, as ``get``.
        """

    @abstractmethod
    def prepare_commit(self, txid: int) -> None:
        """Save all changes since the last call durably under ``txid``, so that ``commit`` can rely on them.

        Raises:
            ConflictError: ``txid`` is not above the last committed checkpoint, or a checkpoint is already prepared.
            AuthorityError: the namespace was opened again since; this state must not be used any more.
            UnavailableError: the store cannot be reached. Either nothing or everything is prepared: repeat the call, or
                call ``rollback``.
            UsageError: a key or value cannot be stored, or the store's size limit is exceeded. Nothing has changed.
        """

    @abstractmethod
    def commit(self, txid: int) -> None:
        """Commit the changes prepared under ``txid``. Idempotent.

        Raises:
            ConflictError: nothing is prepared under ``txid``, and ``txid`` is not the last committed checkpoint.
            AuthorityError, UnavailableError: as ``prepare_commit``; after UnavailableError repeat the call.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Discard all uncommitted changes, including prepared changes. Afterwards ``committed`` is up to date.

        A commit that raised UnavailableError possibly succeeded: then it stays, and ``committed`` shows it.

        Raises:
            AuthorityError, UnavailableError: as ``prepare_commit``; after UnavailableError repeat the call.
        """

    def close(self) -> None:
        """Release the resources of the state. Changes that are not prepared are lost."""

    def __getitem__(self, key: K) -> V:
        value = self.get(key, _MISSING)
        if value is not _MISSING:
            return value  # type: ignore[no-any-return]
        if self.default_factory is None:
            raise KeyError(key)
        made: V = self.default_factory()
        return made

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self.delete(key)

    def __contains__(self, key: object) -> bool:
        return self.get(key, _MISSING) is not _MISSING  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.scan())

    def __len__(self) -> int:
        return sum(1 for _ in self.scan())

    def items(self) -> ItemsView[K, V]:
        """Return a view of all keys and values. Do not change the state while iterating."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """Return a view of all values. Do not change the state while iterating."""
        return _Values(self)

    def pop(self, key: K, *default: Any) -> Any:
        """Remove a key and return its value, or the default. Raises KeyError if neither exists."""
        value = self.get(key, _MISSING)
        if value is not _MISSING:
            self.delete(key)
            return value
        if default:
            return default[0]
        raise KeyError(key)

    def setdefault(self, key: K, default: Any = None) -> Any:
        """Return the value of a key, after setting it to ``default`` if it is missing."""
        value = self.get(key, _MISSING)
        if value is _MISSING:
            self.put(key, default)
            return default
        return value

    def clear(self) -> None:
        """Remove all keys."""
        for key in list(self):
            self.delete(key)

    __hash__ = object.__hash__


class _Items(ItemsView[K, V]):
    def __init__(self, state: KeyValueState[K, V]) -> None:
        super().__init__(state)
        self._state = state

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._state.scan()

    def __contains__(self, item: object) -> bool:
        key, value = cast("tuple[K, V]", item)
        return bool(self._state.get(key, _MISSING) == value)


class _Values(ValuesView[V]):
    def __init__(self, state: KeyValueState[Any, V]) -> None:
        super().__init__(state)
        self._state = state

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in self._state.scan())


class StateProvider(ABC):
    """Opens states. The class is instantiated without arguments.

    To use your own provider, set ``topology.state.provider: module.Class``, or ``module:Class``.
    """

    is_durable: ClassVar[bool] = True
    """True if a state survives its process. If a state does not, a lost commit is not an error."""

    @abstractmethod
    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        """Open the last committed state of a task and become its only writer.

        Changes that an earlier process has prepared are not visible. ``prepared`` shows that they exist; they are then
        committed or rolled back.

        ``namespace``: unique to the task, for example ``words/count/0``: the topology's state id, the component, the
        task's index. ``conf``: ``topology.state.provider.config`` as a mapping. A state of the same namespace that was
        opened before can no longer write: its next write raises AuthorityError. Until then its reads can return values
        of either writer.

        Raises:
            UsageError: the configuration is invalid.
            UnavailableError: the store cannot be reached.
        """

    def remove_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> None:  # noqa: B027
        """Remove the data of a namespace that is not needed any more; do nothing if there is none. Idempotent.

        Called when the number of tasks of a component has changed, for the states of the tasks of before. By default,
        nothing is removed. A task of before that still runs may have the namespace open; its writes must fail, or go
        nowhere.

        Raises:
            UsageError, UnavailableError: as ``new_state``.
        """

    def open_reader(self, namespace: str, conf: Mapping[str, Any], topology_conf: Mapping[str, Any]) -> StateReader:
        """Open a reader of the committed values of a namespace, for ``tupletree state`` and ``StateClient``.

        A reader does not take the namespace over, and does not create it. Called from any thread, also while a task of
        this process has the namespace open. ``conf``: as in ``new_state``. ``topology_conf``: the configuration of the
        topology. A provider need not implement it.

        Raises:
            UsageError: the configuration is invalid, or the provider cannot be read from outside.
            UnavailableError: the store cannot be reached.
        """
        raise UsageError(
            f"the states of {type(self).__module__}.{type(self).__qualname__} cannot be read from outside: the class "
            f"does not implement open_reader"
        )
