"""Emits and acks of hosted components without messages, where their classes leave those of pystorm as they are.

pystorm's ``emit`` makes a message, which is then carried out: several calls, two dictionaries and a list of ids for
each tuple. The methods here do the same to the collector at once. They come before the user's class, and only in place
of pystorm's own: a class that overrides ``emit``, ``ack`` or what these call gets messages as ever. So does what is
rare: other threads, direct tasks, anchors that are no list, tuples that are neither lists nor tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import Any, Final

from tupletree.multilang.hosting import UNKNOWN_ANCHOR, Messages, PystormError
from tupletree.outputs import DEFAULT_STREAM
from tupletree.tuples import Tuple

_LIBRARIES: Final = ("pystorm", "streamparse")


def origin_of(cls: type, name: str) -> str:
    """Return the name of the class of pystorm that a method of ``cls`` is of; "" if the user's classes have their own.

    ``Bolt`` for ``_run`` of most bolts, ``BatchingBolt`` for that of its subclasses.
    """
    having = [one for one in cls.__mro__ if name in vars(one)]
    is_own = any(one.__module__.partition(".")[0] not in _LIBRARIES for one in having)
    return "" if is_own or not having else having[0].__name__


def leaves(cls: type, *names: str) -> bool:
    """Return whether a class leaves these methods of pystorm as they are."""
    return all(origin_of(cls, name) for name in names)


def mixins_of_bolt(cls: type) -> list[type]:
    """Return the replacements of pystorm's methods that a bolt's class permits."""
    mixins: list[type] = []
    if leaves(cls, "emit", "send_message", "read_task_ids"):
        mixins.append(BatchingEmits if origin_of(cls, "emit") == "BatchingBolt" else BoltEmits)
    if leaves(cls, "ack", "send_message"):
        mixins.append(BoltAcks)
    return mixins


def mixins_of_spout(cls: type) -> list[type]:
    """Return the replacement of pystorm's ``emit`` that a spout's class permits."""
    if not leaves(cls, "emit", "send_message", "read_task_ids"):
        return []
    return [ReliableEmits if origin_of(cls, "emit") == "ReliableSpout" else SpoutEmits]


class Direct:
    """A component with its task's collector. ``_tupletree_inputs``: a bolt's tuples, by the ids that it knows."""

    _tupletree_messages: Messages
    _tupletree_collector: Any
    _tupletree_inputs: dict[str, Tuple]


class BoltEmits(Direct):
    """``emit`` of Bolt."""

    auto_anchor: bool
    _current_tups: list[Any]

    def emit(
        self,
        tup: Sequence[Any],
        stream: str | None = None,
        anchors: Sequence[Any] | None = None,
        direct_task: int | None = None,
        need_task_ids: bool = False,
    ) -> list[int] | None:
        given = (self._current_tups if self.auto_anchor else []) if anchors is None else anchors
        is_plain = (type(tup) is list or type(tup) is tuple) and type(given) is list and direct_task is None
        if not is_plain or get_ident() != self._tupletree_messages.thread:
            rest = {"stream": stream, "anchors": anchors, "direct_task": direct_task, "need_task_ids": need_task_ids}
            return super().emit(tup, **rest)  # type: ignore[misc, no-any-return]
        inputs = self._tupletree_inputs
        try:
            if len(given) == 1:
                anchor = given[0]
                found: Any = inputs[anchor if type(anchor) is str else anchor[0]]
            else:
                found = [inputs[anchor if type(anchor) is str else anchor[0]] for anchor in given]
        except (KeyError, TypeError):
            raise PystormError(UNKNOWN_ANCHOR) from None
        tasks = self._tupletree_collector.emit(tup, found, DEFAULT_STREAM if stream is None else stream)
        return list(tasks) if need_task_ids else None


class BatchingEmits(BoltEmits):
    """``emit`` of BatchingBolt, which never returns task ids."""

    def emit(self, tup: Sequence[Any], **arguments: Any) -> None:  # type: ignore[override]
        arguments["need_task_ids"] = False
        super().emit(tup, **arguments)


class BoltAcks(Direct):
    """``ack`` of Bolt."""

    def ack(self, tup: Any) -> None:
        if get_ident() != self._tupletree_messages.thread:
            super().ack(tup)  # type: ignore[misc]
            return
        found = self._tupletree_inputs.pop(tup[0] if isinstance(tup, tuple) else tup, None)
        if found is not None:
            self._tupletree_collector.ack(found)


class SpoutEmits(Direct):
    """``emit`` of Spout."""

    def emit(
        self,
        tup: Sequence[Any],
        tup_id: Any = None,
        stream: str | None = None,
        direct_task: int | None = None,
        need_task_ids: bool = False,
    ) -> list[int] | None:
        is_plain = (type(tup) is list or type(tup) is tuple) and direct_task is None
        if not is_plain or not self._keeps(tup, tup_id, stream, need_task_ids):
            rest = {"tup_id": tup_id, "stream": stream, "direct_task": direct_task, "need_task_ids": need_task_ids}
            return super().emit(tup, **rest)  # type: ignore[misc, no-any-return]
        tasks = self._tupletree_collector.emit(tup, tup_id, DEFAULT_STREAM if stream is None else stream)
        return list(tasks) if need_task_ids else None

    def _keeps(self, tup: Sequence[Any], tup_id: Any, stream: str | None, need_task_ids: bool) -> bool:
        """Return whether the tuple may be emitted here, after what the class does before an emit."""
        return get_ident() == self._tupletree_messages.thread


class ReliableEmits(SpoutEmits):
    """``emit`` of ReliableSpout, which keeps what it has emitted until that is acked."""

    unacked_tuples: dict[Any, Any]

    def _keeps(self, tup: Sequence[Any], tup_id: Any, stream: str | None, need_task_ids: bool) -> bool:
        if tup_id is None or get_ident() != self._tupletree_messages.thread:
            return False
        self.unacked_tuples[tup_id] = (tup, stream, None, need_task_ids)
        return True
