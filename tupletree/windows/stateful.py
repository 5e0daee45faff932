"""Windowed bolts with a state: a window that is in the state is not evaluated again, whatever is replayed."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Self

from tupletree._log import event
from tupletree.component import StatefulBolt
from tupletree.errors import UsageError
from tupletree.state.contract import KeyValueState
from tupletree.state.settings import interval_s
from tupletree.tuples import Tuple

from .bolt import WindowedBolt
from .recovery import Name, Recovery, Remembered, Replay
from .settings import SECOND
from .spans import Place

log = logging.getLogger(__name__)

KEY = "$windows"
"""Under which the state has what is remembered of windows."""


class StatefulWindowedBolt(WindowedBolt, StatefulBolt):
    """A windowed bolt with a state that survives.

        class Totals(StatefulWindowedBolt):
            def init_state(self, state):
                super().init_state(state)
                self.totals = state

            def execute_window(self, window):
                for tup in window.new:
                    self.totals.put(tup["shop"], self.totals.get(tup["shop"], 0) + tup["amount"])

        Totals().with_tumbling_window(Count(100)).with_message_id_field("sale")

    After a crash or a rollback the state is that of the last checkpoint, and tuples that were not acked are replayed.
    Those that the state has seen in windows are known by their **message id**, a field with a whole number or a string
    that is unique among the tuples of one task and stream, and the same in a replay: they are put back for the windows
    to come, or just acked where they have been in their last. No window that is in the state is evaluated again.

    No window is evaluated until everything that was kept for it is back; what is not after a message timeout is given
    up. In processing time a replay is of the time at which it came back. In event time there is no watermark until
    every stream has brought a tuple again, and a replay that was in no window yet can be late like any other tuple.

    A subclass that has its own ``init_state``, ``pre_prepare`` or ``pre_rollback`` calls this one too, and leaves the
    key ``$windows`` alone. Each checkpoint saves the ids of the tuples in windows, and of those evicted since the one
    before. After a recovery ``window.expired`` lacks tuples that are not replayed.
    """

    needs_message_ids = True

    _state: KeyValueState[Any, Any] | None = None
    _recovery: Recovery[Tuple] | None = None
    _has_windows = False  # what was kept is back
    _is_out_of_date = False  # the state has been taken back
    _acked: list[Tuple]  # since the last checkpoint was prepared
    _prepared: list[Tuple]  # before that, since the one before: the last may not be committed

    def with_message_id_field(self, field: str) -> Self:
        """The field that has a tuple's id, a whole number or a string. A tuple without one is failed and reported."""
        if not isinstance(field, str) or not field:
            raise UsageError(f"{self._name}: a message id field is the name of a field, not {field!r}")
        return self._set(message_id_field=field)

    def component_configuration(self) -> Mapping[str, Any]:
        # Without ticks what does not come back would be given up only when something else comes.
        return {"topology.tick.tuple.freq.secs": SECOND.seconds, **super().component_configuration()}

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Begin with what was committed last, unless that was done already, after a rollback."""
        if not self._is_open:
            self._open()
        if state is not self._state or self._is_out_of_date:
            self._state = state
            self._begin_recovery(state)

    def pre_rollback(self) -> None:
        """Drop all windows: they are as far as the state is now, which is about to be what it was."""
        # A tuple that came before the last checkpoint, or is evicted, is failed by nobody else: acks are forgotten.
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
        """Put what is to be remembered of windows into the state."""
        if self._state is None or not self._has_windows:
            return  # what the state has of them still holds
        unseen = {self._name_of(tup) for tup in self._spans.unseen}
        evicted = [self._name_of(tup) for tup in self._acked]
        if self._recovery is not None:
            evicted += self._recovery.evicted
        kept = [self._name_of(tup) for tup in self._spans.kept]
        place = self._spans.place
        if not self._settings.is_in_event_time:
            place = Place(None, place.passed)  # the time of this process means nothing to the next
        # What has failed since, and is here again to be in windows anew, is no replay that is known.
        kept, evicted = ([name for name in names if name not in unseen] for names in (kept, evicted))
        self._state.put(KEY, Remembered(place, kept, evicted).encode())
        self._acked, self._prepared = [], self._acked

    def execute_batch(self, tuples: list[Tuple]) -> None:
        if self._state is None:
            raise UsageError(f"{self._name}.init_state must call super().init_state(state)")
        if self._is_out_of_date:  # tuples may come before init_state does
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
        """Begin windows where they were, once what was kept is back, and take what has waited for that."""
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
        """What was kept, with its times."""
        if not self._settings.is_in_event_time:
            now_us = self._arrival.at(self._clock_us())
            return [(now_us, tup) for tup in kept]
        return [(at_us, tup) for tup in kept if (at_us := self._timestamp_us(tup)) is not None]

    def _without_replays(self, recovery: Recovery[Tuple], tuples: Iterable[Tuple]) -> list[Tuple]:
        """What is new. Of the rest some is put back, and some acked."""
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
        """Every tuple that is neither acked nor failed."""
        if self._has_windows:
            return self._spans.kept + self._spans.unseen
        return [] if self._recovery is None else self._recovery.kept + self._recovery.waiting

    def _has_id(self, tup: Tuple) -> bool:
        """Whether a tuple has an id; one that has none is failed."""
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
