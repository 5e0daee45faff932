"""Mistakes in a windowed bolt are errors that name the bolt and what is wrong, as early as they can be seen."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tupletree import Spout, Topology, TopologyBuilder, Window, WindowedBolt
from tupletree.config import defaults
from tupletree.errors import TopologyError, UsageError
from tupletree.windows import Count, Duration
from tupletree.windows.settings import WindowSettings


class Sales(Spout):
    outputs = ["shop", "at"]


class Totals(WindowedBolt):
    outputs = ["total"]

    def execute_window(self, window: Window) -> None:
        self.collector.emit([len(window)])


class Quiet(Totals):
    """Declares its outputs in code, and forgets the rest."""

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(["total"])


def built(bolt: WindowedBolt) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("sales", Sales())
    builder.set_bolt("totals", bolt).shuffle_grouping("sales")
    return builder.create_topology()


@pytest.mark.parametrize(
    ("bolt", "tick_s"),
    [
        (Totals().with_tumbling_window(Count(5)), None),
        (Totals().with_window(Count(5), Duration(0.25)), 0.25),
        (Totals().with_window(Duration(10), Duration(2)), 2),
        (Totals().with_window(Duration(0.5), Count(2)), 0.5),
        (Totals().with_window(Duration(5)), 1),
        (Totals().with_window(Count(5)).with_timestamp_field("at"), 1),
        (Totals().with_window(Count(5)).with_timestamp_field("at").with_watermark_interval(Duration(0.1)), 0.1),
    ],
)
def test_time_is_looked_at_as_often_as_the_windows_want_it(bolt: WindowedBolt, tick_s: float | None) -> None:
    assert built(bolt).components["totals"].conf.get("topology.tick.tuple.freq.secs") == tick_s


def test_the_default_slide_is_every_tuple_and_settings_may_come_in_any_order() -> None:
    bolt = Totals().with_late_tuple_stream("late").with_lag(Duration(2)).with_timestamp_field("at")
    topology = built(bolt.with_window(Duration(dt.timedelta(minutes=1))))
    assert bolt._settings.windows == (Duration(60), Count(1))
    assert topology.components["totals"].outputs["late"].fields == ("late_tuple",)


def test_objects_of_one_class_have_windows_of_their_own() -> None:
    first, second = Totals().with_window(Count(1)), Totals().with_window(Count(2))
    assert (first._settings.length, second._settings.length) == (Count(1), Count(2))
    assert Totals()._settings.length is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Totals().with_window("5"), "Totals: a window's length must be a tuple count or a timedelta, not '5'"),
        (
            lambda: Totals().with_window(Count(5), 2.0),
            "Totals: a window's slide must be a tuple count or a timedelta, not 2.0",
        ),
        (
            lambda: Totals().with_tumbling_window(Count(0)),
            r"Totals: a window's length must be more than zero, not Count\(0",
        ),
        (lambda: Totals().with_window(Count(1), Duration(0)), "Totals: a window's slide must be more than zero"),
        (lambda: Totals().with_lag(3), "Totals: a lag must be a timedelta, not 3"),
        (lambda: Totals().with_watermark_interval(Duration(0)), "a watermark interval must be more than zero"),
        (lambda: Totals().with_timestamp_field(""), "a timestamp field must be the name of a field, not ''"),
        (
            lambda: Totals().with_timestamp_extractor("at"),
            "a timestamp extractor must be a function of a tuple, not 'at'",
        ),
        (lambda: Totals().with_late_tuple_stream(None), "a late tuple stream must be the id of a stream, not None"),
        (lambda: Count(-1), "a Count is a whole number of tuples, not -1"),
        (lambda: Count(1.5), "a Count is a whole number of tuples, not 1.5"),
        (lambda: Duration("5"), "a Duration is a number of seconds or a timedelta, not '5'"),
        (lambda: Duration(float("nan")), "a Duration is a number of seconds"),
        (lambda: Duration(0.0001), "a Duration is at least a millisecond"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_at_once(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()


@pytest.mark.parametrize(
    ("bolt", "words", "field"),
    [
        (Totals(), "bolt 'totals': has no window; call with_window or with_tumbling_window", "window"),
        (Quiet(), "bolt 'Quiet': has no window", "window"),
        (Totals().with_window(Count(1)).with_lag(Duration(1)), "bolt 'totals': with_lag needs event time", "lag"),
        (
            Totals().with_window(Count(1)).with_watermark_interval(Duration(1)),
            "with_watermark_interval needs event time",
            "watermark_interval",
        ),
        (
            Totals().with_window(Count(1)).with_late_tuple_stream("late"),
            "with_late_tuple_stream needs event time",
            "late_tuple_stream",
        ),
        (
            Totals().with_window(Count(1)).with_timestamp_field("at").with_timestamp_extractor(len),
            "has both a timestamp field and a timestamp extractor",
            "timestamp_field",
        ),
        (
            Totals().with_window(Count(1)).with_timestamp_field("when"),
            "bolt 'totals': needs field 'when' of every input, which stream 'default' of 'sales' does not have "
            r"\(its fields: shop, at\)",
            "when",
        ),
        (
            Totals().with_window(Count(1)).with_timestamp_field("at").with_late_tuple_stream("default"),
            "component 'totals': stream 'default' is declared twice",
            "default",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_when_the_topology_is_built(
    bolt: WindowedBolt, words: str, field: str
) -> None:
    with pytest.raises(TopologyError, match=words) as caught:
        built(bolt)
    assert caught.value.field == field


TIMEOUT, PENDING = "topology.message.timeout.secs", "topology.max.spout.pending"


@pytest.mark.parametrize(
    ("settings", "conf", "field"),
    [
        (WindowSettings(Duration(20), Duration(10)), {TIMEOUT: 30}, TIMEOUT),
        (WindowSettings(Duration(20), Duration(10)), {TIMEOUT: 31}, None),
        (WindowSettings(Duration(30)), {TIMEOUT: 30}, TIMEOUT),
        (WindowSettings(Count(5), Duration(30)), {TIMEOUT: 30}, TIMEOUT),
        (WindowSettings(Duration(90)), {TIMEOUT: 30, "topology.enable.message.timeouts": False}, None),
        (WindowSettings(Count(6), Count(5)), {PENDING: 10}, PENDING),
        (WindowSettings(Count(5), Count(5)), {PENDING: 10}, None),
        (WindowSettings(Count(11), Duration(5)), {PENDING: 10}, PENDING),
        (WindowSettings(Count(1_000_000), Count(5)), {}, None),
    ],
)
def test_windows_that_cannot_be_filled_in_time_are_refused(
    settings: WindowSettings, conf: Mapping[str, Any], field: str | None
) -> None:
    if field is None:
        settings.check_limits("totals", {**defaults(), **conf}, takes_checkpoints=False)
        return
    with pytest.raises(TopologyError, match=r"^bolt 'totals': holds") as caught:
        settings.check_limits("totals", {**defaults(), **conf}, takes_checkpoints=False)
    assert (caught.value.component, caught.value.field) == ("totals", field)


@pytest.mark.parametrize(("takes_checkpoints", "is_aligned"), [(True, True), (True, False), (False, True)])
def test_windows_are_refused_where_checkpoints_wait_for_the_tuples_in_them(
    takes_checkpoints: bool, is_aligned: bool
) -> None:
    conf = {**defaults(), "topology.state.checkpoint.aligned": is_aligned}
    settings = WindowSettings(Count(5))
    if takes_checkpoints and is_aligned:
        with pytest.raises(TopologyError, match="an aligned checkpoint would wait"):
            settings.check_limits("totals", conf, takes_checkpoints)
    else:
        settings.check_limits("totals", conf, takes_checkpoints)


def test_windows_take_numbers_and_times() -> None:
    plain = Totals().with_window(5, dt.timedelta(seconds=2)).with_lag(dt.timedelta(seconds=1))
    named = Totals().with_window(Count(5), Duration(2)).with_lag(Duration(1))
    assert plain._settings == named._settings
    with pytest.raises(UsageError, match="Totals: a window's length must be more than zero, not Count"):
        Totals().with_tumbling_window(0)
    with pytest.raises(UsageError, match="a Duration is at least a millisecond"):
        Totals().with_tumbling_window(dt.timedelta(microseconds=1))
