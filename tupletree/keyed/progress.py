"""The progress of one keyed task: its watermark, timers and expiries, and how they are stored beside the values.

====================  ============================================  =================================================
key of the state      value                                         written
====================  ============================================  =================================================
the key itself        value of a key that is str, bytes or int      when it is assigned
("$key", key)         value of a key of several fields, a tuple     when it is assigned
("$timers", key)      [event times, processing times, assigned at]  before a checkpoint, if changed; deleted if empty
("$progress",)        {format, watermark, newest, senders, has_…}  before a checkpoint, if changed
====================  ============================================  =================================================

A key that is a tuple, of several fields or of one, is stored under a tuple that begins with ``$key``. So no key of a
user's tuple is taken for an entry of ours.

``newest`` has [component, index of the task, newest event time] of each sender, since the ids of tasks change when a
topology is submitted anew. ``senders`` has [component, number of tasks]. Once that number has changed, any task may
send what any other would have sent: the least of what all had come to counts for each.
"""

from __future__ import annotations  # pure

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tupletree.errors import UsageError
from tupletree.keyed.settings import KeyedSettings
from tupletree.keyed.timer_queue import TimerQueue
from tupletree.keyed.watermark import BEFORE_ALL, Watermark
from tupletree.state.contract import KeyValueState

FORMAT: Final = 1
PROGRESS: Final = ("$progress",)
TIMERS: Final = "$timers"
VALUE: Final = "$key"
PLAIN: Final = frozenset({str, bytes, int})
"""The types of keys under which values are stored as they are."""

Sender = tuple[str, int]
"""A component, and the index of one of its tasks."""


def is_tuple_key(key: object) -> bool:
    """True for a tuple of one or more plain keys."""
    return type(key) is tuple and bool(key) and all(type(part) in PLAIN for part in key)


def entry_of(key: Hashable) -> Any:
    """Return the key of the state under which the value of ``key`` is stored."""
    return key if type(key) in PLAIN else (VALUE, key)


def key_of(entry: Any) -> Any:
    """Return the key that an entry of the state belongs to, given the entry's key; None for an entry of the task.

    An entry of a key is stored under the key, or under a tuple of a name that begins with ``$``, the key, and what else
    there is.
    """
    if type(entry) is not tuple:
        return entry
    return entry[1] if len(entry) > 1 else None


def merge_progress(stored: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the ``$progress`` of a task that takes over keys of several tasks: the least of what each has seen.

    So no tuple is late that would not have been late at the task it would have come to.
    """
    marks = [one["watermark"] for one in stored]
    seen = [{(component, index): at_ms for component, index, at_ms in one["newest"]} for one in stored]
    common = set[Sender].intersection(*(set(one) for one in seen))
    return {
        "format": max(one["format"] for one in stored),
        "watermark": None if None in marks else min(marks),
        "newest": sorted([*sender, min(one[sender] for one in seen)] for sender in common),
        "senders": stored[0].get("senders", []),
        "has_timers": any(one["has_timers"] for one in stored),
    }


class Progress:
    """Watermark, timers and expiries of one task. Times are whole milliseconds.

    ``senders``: the sending tasks by their ids. ``now_ms``: the processing time. ``timeouts_ms``: the idle timeouts of
    sending components that have one of their own.

    Attributes:
        events, processing: the timers in event time and in processing time.
        expiries: with a time to live, one timer per key that has a value.
    """

    def __init__(
        self,
        settings: KeyedSettings,
        senders: Mapping[int, Sender],
        now_ms: int,
        timeouts_ms: Mapping[str, int | None] = MappingProxyType({}),
    ) -> None:
        self.events = TimerQueue()
        self.processing = TimerQueue()
        self.expiries = TimerQueue()
        own_ms = {task: timeouts_ms[one] for task, (one, _) in senders.items() if one in timeouts_ms}
        self.watermark = Watermark(senders, settings.max_lag_ms, settings.idle_timeout_ms, now_ms, own_ms)
        self._ttl_ms = settings.ttl_ms
        self._written_ms: dict[Hashable, int] = {}  # with a time to live: when the value of each key was assigned last
        self._rewritten: set[Hashable] = set()  # keys of _written_ms that changed since the last save
        self._senders = senders
        self._has_timers = False  # the state has, or has had, entries of timers
        self._saved: Any = None

    # Time to live

    def written(self, key: Hashable, now_ms: int) -> None:
        """Record that the value of a key was assigned. Only with a time to live."""
        assert self._ttl_ms is not None
        self._written_ms[key] = now_ms
        self._rewritten.add(key)
        if key not in self.expiries:  # otherwise the expiry is put off when it is due
            self.expiries.set(key, now_ms + self._ttl_ms)

    def cleared(self, key: Hashable) -> None:
        """Record that the value of a key was removed."""
        if self._written_ms.pop(key, None) is not None:
            self._rewritten.add(key)

    def pop_expired(self, now_ms: int) -> Hashable | None:
        """Return a key whose value has expired, and forget its expiry; None if there is none."""
        while (due := self.expiries.pop(now_ms)) is not None:
            key = due[0]
            written_ms = self._written_ms.get(key)
            if written_ms is None or self._ttl_ms is None:
                continue
            if written_ms + self._ttl_ms > now_ms:
                self.expiries.set(key, written_ms + self._ttl_ms)
                continue
            self.cleared(key)
            return key
        return None

    # Storage

    def save(self, state: KeyValueState[Any, Any]) -> None:
        """Write what has changed since the last call, or since ``restore``. Raises as ``KeyValueState.put``."""
        events, processing = self.events, self.processing
        changed = events.dirty | processing.dirty | self._rewritten
        for key in changed:
            record = [events.times(key), processing.times(key), self._written_ms.get(key)]
            if record == [[], [], None]:
                state.delete((TIMERS, key))
            else:
                state.put((TIMERS, key), record)
        for queue in (events, processing, self.expiries):
            queue.dirty.clear()
        self._rewritten.clear()
        self._has_timers |= bool(changed)
        progress = self._encoded()
        if progress != self._saved:
            state.put(PROGRESS, progress)
            self._saved = progress

    def restore(self, state: KeyValueState[Any, Any]) -> None:
        """Continue from the last checkpoint. Reads all entries of the state, if it has had timers.

        Raises:
            UsageError: a newer version has written the state.
            UnavailableError: the store cannot be reached.
        """
        stored = state.get(PROGRESS)
        if stored is None:
            return
        if stored["format"] > FORMAT:
            raise UsageError(
                f"the timers of this state have format {stored['format']}, and this version of Tupletree knows formats "
                f"up to {FORMAT}: a newer version has written them"
            )
        tasks = {sender: task for task, sender in self._senders.items()}
        newest = {(component, index): at_ms for component, index, at_ms in stored["newest"]}
        self._divide_anew(newest, stored.get("senders", []))
        value = BEFORE_ALL if stored["watermark"] is None else stored["watermark"]
        self.watermark.restore(value, {tasks[one]: at_ms for one, at_ms in newest.items() if one in tasks})
        if stored["has_timers"]:
            self._restore_timers(state)
        self._saved = self._encoded()

    def _divide_anew(self, newest: dict[Sender, int], counts: Sequence[tuple[str, int]]) -> None:
        """Change the newest times of the senders of components that had another number of tasks: see above."""
        present = Counter(component for component, _ in self._senders.values())
        for component, count in counts:
            if present[component] != count:
                times = [newest.pop((component, index), None) for index in range(count)]
                known = [at_ms for at_ms in times if at_ms is not None]
                if len(known) == count:
                    newest.update({(component, index): min(known) for index in range(present[component])})

    def _restore_timers(self, state: KeyValueState[Any, Any]) -> None:
        events, processing = {}, {}
        for entry, record in state.scan():
            if type(entry) is tuple and entry[0] == TIMERS:
                key = entry[1]
                events[key], processing[key], written_ms = record
                if written_ms is not None and self._ttl_ms is not None:
                    self._written_ms[key] = written_ms
        self.events.restore(events)
        self.processing.restore(processing)
        ttl_ms = self._ttl_ms or 0
        self.expiries.restore({key: [written_ms + ttl_ms] for key, written_ms in self._written_ms.items()})
        self._has_timers = bool(events)

    def _encoded(self) -> dict[str, Any]:
        value, newest = self.watermark.value, self.watermark.newest
        known = ((*self._senders[task], at_ms) for task, at_ms in newest.items() if task in self._senders)
        return {
            "format": FORMAT,
            "watermark": None if value == BEFORE_ALL else value,
            "newest": sorted([list(one) for one in known]),
            "senders": sorted([list(one) for one in Counter(sender for sender, _ in self._senders.values()).items()]),
            "has_timers": self._has_timers,
        }
