"""TableJoin: tuples of a stream with the row of their key in a table. See docs/guides/joins.md.

The rules of versions are in ``version_rules`` and ``timeline``; this module calls the user's methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tupletree.component import Yielded
from tupletree.joins.bolt import Join, watermark_of
from tupletree.joins.settings import Side, check_kind, refuse
from tupletree.joins.timeline import MAX_CHUNK
from tupletree.joins.version_rules import VersionBuffer
from tupletree.keyed.access import KeyState, Timers
from tupletree.tuples import Tuple


class TableJoin(Join):
    """A join of a stream with a table: of each tuple with the row of its key.

        class WithUser(TableJoin):
            key = "user"
            stream, table = "clicks", "users"
            kind = "left"
            outputs = ["page", "name"]

            def join(self, click, user):
                yield [click["page"], user["name"] if user else "unknown"]

            def deleted(self, tup):
                return tup["name"] is None

        joined = builder.set_bolt("joined", WithUser(), 4)
        joined.fields_grouping("clicks", "user").fields_grouping("users", "user")

    A KeyedProcess with exactly these two inputs. The table is a stream of changes: a tuple is the new row of its key,
    or removes the row. ``join(left, row)`` is called once for each tuple of the stream; without a row only if ``kind``
    is "left", with None. Changes of the table emit nothing.

    **By arrival**, without ``versioned``: a tuple is joined when it arrives, with the newest row that has arrived. The
    result depends on which of the two came first.

    **By event time**, with ``versioned = True``: a row is valid from its own time on, until the next row of the key. A
    tuple waits until the watermark has passed its time, and is joined with the row that was valid at its time; a row of
    the same time is valid. So the result does not depend on the order of arrival. Tuples of a key are joined in the
    order of their times. Tuples of the stream can be late, as in KeyedProcess. A row of the table that is late is used
    nonetheless for all tuples joined from then on. Rows of ``join`` are those of a timer: not guaranteed without
    aligned checkpoints, as in KeyedProcess.

    The newest row of a key stays until the table deletes it. With ``versioned``, older rows and deletions are removed
    when the watermark has reached the time of the next version.

    FailedException from ``join`` fails the tuple; with ``versioned``, any exception from ``join`` ends the worker.

    Attributes:
        stream, table: the source of each side: a component, (component, stream), or a list of such pairs.
        versioned: True: join by event time. Needs ``event_time``, which is not used otherwise.
        kind: "inner" or "left".
        key, event_time, max_lag, idle_timeout, late_stream: as in KeyedProcess. Without ``idle_timeout``, a table that
            sends nothing holds the watermark back, and all tuples wait.
        ttl: without ``versioned``: a row is removed when it was not sent for this long. None: never.
    """

    stream: Side = ""
    table: Side = ""
    versioned: bool = False

    _max_chunk = MAX_CHUNK

    def join(self, left: Any, row: Any) -> Yielded:
        """Process one tuple and its row: what ``keep`` has returned for each, or None in place of a row.

        Rows may be emitted or yielded.
        """
        raise NotImplementedError

    def deleted(self, tup: Tuple) -> bool:
        """Return True if a tuple of the table removes the row of its key. By default no tuple does."""
        return False

    @property
    def sides(self) -> Mapping[str, Any]:
        return {"stream": self.stream, "table": self.table}

    def _check_settings(self, component: str) -> None:
        super()._check_settings(component)
        check_kind(component, self.kind, ("inner", "left"))
        if not isinstance(self.versioned, bool):
            refuse(component, "versioned", f"versioned must be True or False, not {self.versioned!r}")
        if self.versioned and self.event_time is None:
            refuse(
                component, "event_time", "event_time is missing, and versioned needs it: set it to the name of a field"
            )
        if not self.versioned and self.event_time is not None:
            refuse(
                component, "event_time", "event_time needs versioned = True: otherwise the newest row by arrival counts"
            )
        if self.versioned and self.ttl is not None:
            refuse(component, "ttl", "ttl is not for a versioned table, whose rows are removed by event time")

    def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> None:
        is_row = not self._is_first(tup)
        value = None if is_row and self.deleted(tup) else self.keep(tup)
        if self.versioned:
            self._put(tup, is_row, value, state, timers)
        elif not is_row:
            self._joined(value, state.value)
        elif value is not None:
            state.value = value
        else:
            state.clear()

    def _put(self, tup: Tuple, is_row: bool, value: Any, state: KeyState[Any], timers: Timers) -> None:
        """Keep a tuple or a version."""
        time = self._time_of(tup)
        buffer = VersionBuffer(state.value, self.state, state.key, self._max_chunk)
        if is_row:
            buffer.put(time, value, watermark_of(timers))
        else:
            buffer.wait(time, value)
        self._save(state, timers, buffer)

    def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> None:
        buffer = VersionBuffer(state.value, self.state, key, self._max_chunk)
        for pair in buffer.ready(watermark_of(timers)):
            self._joined(*pair)
        self._save(state, timers, buffer)

    def _joined(self, left: Any, row: Any) -> None:
        if row is not None or self.kind == "left":
            self._emit_joined(self.join(left, row))

    def _takes_late(self, tup: Tuple) -> bool:
        return not self._is_first(tup)
