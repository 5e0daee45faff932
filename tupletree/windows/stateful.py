"""Windowed bolts with a state: a window whose effects are in the state is not evaluated again after replays."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Self

from tupletree._checkpoints.settings import interval_s
from tupletree._log import event
from tupletree.component import StatefulBolt
from tupletree.errors import UsageError
from tupletree.state.contract import KeyValueState
from tupletree.tuples import Tuple

from .bolt import WindowedBolt
from .recovery import Name, Recovery, Remembered, Replay
from .settings import SECOND
from .spans import Place

log = logging.getLogger(__name__)

KEY = "$windows"
"""The key of the state under which the window data is stored."""


class StatefulWindowedBolt(WindowedBolt, StatefulBolt):
    """A windowed bolt with a persistent state.

        class Totals(StatefulWindowedBolt):
            def init_state(self, state):
                super().init_state(state)
                self.totals = state

            def execute_window(self, window):
                for tup in window.new:
                    self.totals.put(tup["shop"], self.totals.get(tup["shop"], 0) + tup["amount"])

        Totals().with_tumbling_window(100).with_message_id_field("sale")

    After a crash or a rollback the state is that of the last checkpoint, and tuples that were not acked are replayed.
    The bolt recognizes replayed tuples by their **message id**: a field with a whole number or a string that is unique
    among the tuples of one task and stream, and the same in a replay. If the state has already seen a tuple in a
    window, the tuple is put back for future windows, or only acked if it has been in its last window. No window whose
    effects are in the state is evaluated again.

    No window is evaluated until all tuples kept for it are back. Tuples that are still missing after a message timeout
    are given up. In processing time a replayed tuple has the time of its return. In event time there is no watermark
    until every stream has brought a tuple again. A replayed tuple that was in no window yet can be late like any other
    tuple.

    A subclass that overrides ``init_state``, ``pre_prepare`` or ``pre_rollback`` must call the base method too, and
    must not use the key ``$windows``. Each checkpoint saves the ids of the tuples in windows, and of the tuples evicted
    since the previous checkpoint. After a recovery ``window.expired`` lacks tuples that are not replayed.
    """

    needs_message_ids = True
    is_divisible = False

    _state: KeyValueState[Any, Any] | None = None
    _recovery: Recovery[Tuple] | None = None
    _has_windows = False  # all kept tuples are back or given up
    _is_out_of_date = False  # the state was rolled back
    _acked: list[Tuple]  # since the last checkpoint was prepared
    _prepared: list[Tuple]  # between the last two prepared checkpoints: the last is possibly not committed

    def with_message_id_field(self, field: str) -> Self:
        """Set the message id field: a whole number or a string. A tuple without an id is failed and reported."""
        if not isinstance(field, str) or not field:
            raise UsageError(f"{self._name}: a message id field must be the name of a field, not {field!r}")
        return self._set(message_id_field=field)

    def component_configuration(self) -> Mapping[str, Any]:
        # Without ticks, missing tuples would be given up only when another tuple comes.
        return {"topology.tick.tuple.freq.secs": SECOND.seconds, **super().component_configuration()}

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Begin with the last committed state, unless this was already done after a rollback."""
        if not self._is_open:
            self._open()
        if state is not self._state or self._is_out_of_date:
            self._state = state
            self._begin_recovery(state)

    def pre_rollback(self) -> None:
        """Drop all windows: they match the current state, which is about to be rolled back."""
        # Pending acks are dropped: tuples that were evicted, or acked before the last checkpoint, are failed only here.
        for tup in [*self._held(), *self._acked, *self._prepared]:
            self._plain.fail(tup)
        self._acked, self._prepared = [], []
        self._recovery, self._has_windows = None, False
        self._is_out_of_date = True

    def _begin_recovery(self, state: KeyValueState[Any, Any]) -> None:
        stored = state.get(KEY)
        remembered = Remembered(Place()) if stored is None else Remembered.decode(stored)
        until_s = self.context.clock() + self.context.conf["topology.message.timeout.secs"]
        self._is_out_of_date = False
        self._recovery = Recovery(remembered, until_s)
        self._has_windows = False
        self._go_on_if_complete()

    def pre_prepare(self, txid: int) -> None:
        """Put the window data into the state."""
        if self._state is None or not self._has_windows:
            return  # the window data in the state is still valid
        unseen = {self._name_of(tup) for tup in self._spans.unseen}
        evicted = [self._name_of(tup) for tup in self._acked]
        if self._recovery is not None:
            evicted += self._recovery.evicted
        kept = [self._name_of(tup) for tup in self._spans.kept]
        place = self._spans.place
        if not self._settings.is_in_event_time:
            place = Place(None, place.passed)  # the time of this process means nothing to the next
        # The replay of a failed tuple, which is in windows as a new tuple, must be new again after a recovery.
        kept, evicted = ([name for name in names if name not in unseen] for names in (kept, evicted))
        self._state.put(KEY, Remembered(place, kept, evicted).encode())
        self._acked, self._prepared = [], self._acked

    def execute_batch(self, tuples: list[Tuple]) -> None:
        if self._state is None:
            raise UsageError(f"{self._name}.init_state must call super().init_state(state)")
        if self._is_out_of_date:  # tuples can come before init_state is called
            self._begin_recovery(self._state)
        is_tick = tuples[0].is_tick
        if not is_tick:
            tuples = [tup for tup in tuples if self._has_id(tup)]
            if self._recovery is not None:
                tuples = self._without_replays(self._recovery, tuples)
        if self._recovery is not None:
            if not self._has_windows and not is_tick:
                self._recovery.waiting += tuples
                tuples = []
            self._go_on_if_complete()
        if self._has_windows and tuples:
            super().execute_batch(tuples)

    def _open(self) -> None:
        super()._open()
        self._acked, self._prepared = [], []

    @property
    def _acks_wait_s(self) -> float:
        return interval_s(self.context.conf)

    def _go_on_if_complete(self) -> None:
        """Restore the windows once all kept tuples are back or given up, then process the tuples that waited."""
        recovery, now_s = self._recovery, self.context.clock()
        assert recovery is not None
        if not self._has_windows and recovery.is_complete(now_s):
            if recovery.missing:
                event(log, "windows.incomplete", component=self.context.component_id, missing=recovery.missing)
            self._begin(recovery.place, self._in_order(recovery.kept))
            self._has_windows = True
            waiting, recovery.waiting = recovery.waiting, []
            for _, group in itertools.groupby(waiting, lambda tup: (tup.source_component, tup.source_stream)):
                super().execute_batch(list(group))
        if self._has_windows and recovery.is_over(now_s):
            self._recovery = None

    def _in_order(self, kept: Iterable[Tuple]) -> list[tuple[int, Tuple]]:
        """Return the kept tuples with their times."""
        if not self._settings.is_in_event_time:
            now_us = self._arrival.at(self._clock_us())
            return [(now_us, tup) for tup in kept]
        return [(at_us, tup) for tup in kept if (at_us := self._timestamp_us(tup)) is not None]

    def _without_replays(self, recovery: Recovery[Tuple], tuples: Iterable[Tuple]) -> list[Tuple]:
        """Return the new tuples. Of the replays, kept tuples are put back and evicted tuples are acked."""
        new = []
        for tup in tuples:
            match recovery.judge(self._name_of(tup), tup):
                case Replay.NEW:
                    new.append(tup)
                case Replay.EVICTED:
                    self._ack_evicted([tup])
        return new

    def _ack_evicted(self, evicted: list[Tuple]) -> None:
        self._acked += evicted
        super()._ack_evicted(evicted)

    def _held(self) -> list[Tuple]:
        """Return every tuple that is neither acked nor failed."""
        if self._has_windows:
            return self._spans.kept + self._spans.unseen
        return [] if self._recovery is None else self._recovery.kept + self._recovery.waiting

    def _has_id(self, tup: Tuple) -> bool:
        """True if a tuple has an id. A tuple without an id is failed."""
        try:
            self._settings.message_id(tup)
        except ValueError as error:
            field = str(self._settings.message_id_field)
            self._reject(tup, f"message id field '{field}'", field, error)
            return False
        return True

    def _name_of(self, tup: Tuple) -> Name:
        source = (tup.source_component, tup.source_stream, tup.source_task)
        return source, self._settings.message_id(tup)
