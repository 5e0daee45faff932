"""What a state of a stateful bolt is, and what provides it.

The user reads and writes between the checkpoints; the framework calls ``prepare_commit``, ``commit`` and ``rollback``
(docs/guides/state.md). All calls of one state come from one thread.

      put, delete           prepare_commit(t)               commit(t)
    live ------------------> prepared under t, durable ----> committed, what a new reader sees
      ^                              |
      +----------- rollback ---------+   both are discarded, and what is committed is there again

A change is visible to the bolt that made it at once. To whoever opens the namespace anew it is visible when it is
committed, and not before. What is prepared outlives the process: the next to open the namespace may be told to commit
it, or to roll it back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from tupletree.component import TopologyContext

K = TypeVar("K")
V = TypeVar("V")


class KeyValueState(ABC, Generic[K, V]):
    """A mapping that belongs to one task.

    Keys are str, bytes, int or tuples of these. Values are what a tuple may carry. A value that was read must not be
    changed in place without a ``put``: only what is put is saved.
    """

    committed: int | None = None
    """The last checkpoint committed to this namespace; None if there was none."""

    prepared: int | None = None
    """The checkpoint that is prepared and neither committed nor rolled back; None if there is none.

    Of a durable provider's state both must be right: they say after a crash what is to be committed.
    """

    @abstractmethod
    def get(self, key: K, default: V | None = None) -> V | None:
        """The value of ``key``, or ``default``.

        Raises:
            UsageError: it is no key.
            UnavailableError: the value must be read from the store, and that is away.
        """

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``."""

    @abstractmethod
    def delete(self, key: K) -> None:
        """Remove ``key``, if it is there."""

    @abstractmethod
    def items(self) -> Iterator[tuple[K, V]]:
        """Every key with its value, in no particular order.

        Do not change the state before the iterator is exhausted. Raises UnavailableError, at any point, as ``get``.
        """

    @abstractmethod
    def prepare_commit(self, txid: int) -> None:
        """Save all changes since the last call under ``txid``, so that ``commit`` cannot fail for lack of them.

        Raises:
            ConflictError: ``txid`` is not above what is committed, or something is prepared already.
            AuthorityError: another has opened the namespace since: this one must stand down.
            UnavailableError: the store is away. Then nothing has changed, or everything is prepared: call it again, or
                ``rollback``.
            UsageError: a key or value that cannot be stored, or more than the store takes. Nothing has changed.
        """

    @abstractmethod
    def commit(self, txid: int) -> None:
        """Make what is prepared under ``txid`` the committed state. Committing what is committed changes nothing.

        Raises:
            ConflictError: nothing is prepared under ``txid``, and it is not what was committed last.
            AuthorityError, UnavailableError: as ``prepare_commit``; after the latter it may be called again.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Discard all changes that are not committed, the prepared ones too. Afterwards ``committed`` is what is.

        A commit that raised UnavailableError may have happened: then it stays, and ``committed`` says so.

        Raises:
            AuthorityError, UnavailableError: as ``prepare_commit``; after the latter it may be called again.
        """

    def close(self) -> None:
        """Give up what the state holds open. What is not prepared is lost."""


class StateProvider(ABC):
    """Opens states. It is made without arguments.

    A user's own is named by ``topology.state.provider: module.Class``, or ``module:Class``.
    """

    is_durable: ClassVar[bool] = True
    """Whether a state outlives its process. Of one that does not, a lost commit is no error."""

    @abstractmethod
    def new_state(self, namespace: str, conf: Mapping[str, Any], context: TopologyContext) -> KeyValueState[Any, Any]:
        """Open the state of a task, as it was last committed, and become its only writer.

        What somebody has prepared is not seen in it: ``prepared`` says that there is something, which is then to be
        committed or rolled back.

        ``namespace``: unique to the task, for example ``words/count/0``: the topology's state id, the component, the
        task's index. ``conf``: ``topology.state.provider.config`` as a mapping. Whoever had the namespace open before
        can write no more: its next write raises AuthorityError. What it reads until then may be of either.

        Raises:
            UsageError: the configuration is faulty.
            UnavailableError: the store is away.
        """
