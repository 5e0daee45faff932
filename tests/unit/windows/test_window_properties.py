"""Random windows over random input are what a plain computation finds, and tuples are evicted in time, each once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from window_reference import Evaluated, Reference, Row, late

from tupletree.windows import Count, Duration
from tupletree.windows.arrival_time import ArrivalTime
from tupletree.windows.event_time import Watermarks
from tupletree.windows.spans import Spans

MS = 1000
STREAMS = {"a", "b"}

counts = st.integers(1, 6).map(Count)
durations = st.integers(1, 12).map(lambda ms: Duration(ms / 1000))
lengths = st.one_of(counts, durations)
windows = st.one_of(st.tuples(lengths, lengths), lengths.map(lambda length: (length, length)))  # sliding, tumbling


class Watched:
    """Spans next to the computation that judges them: every step is compared."""

    def __init__(self, length: Count | Duration, slide: Count | Duration) -> None:
        self.spans: Spans[Row] = Spans(length, slide)
        self.reference = Reference(length, slide)
        self.evicted: list[Row] = []
        self.evaluated: list[Evaluated] = []

    def add(self, at_us: int) -> None:
        self.spans.add(self.reference.add(at_us), at_us)
        if self.reference.reached is not None:
            self.reference.advance(self.reference.reached)  # it may be of this very time

    def advance(self, now_us: int) -> None:
        self.spans.advance(now_us)
        self.reference.advance(now_us)

    def check(self) -> None:
        while (span := self.spans.next_due()) is not None:
            assert not set(span.items) & set(self.evicted), "a tuple was evicted before its last window"
            self.evaluated.append(Evaluated(span.items, span.new, span.expired, span.start_us, span.end_us))
        assert self.evaluated == self.reference.windows
        self.evicted += self.spans.evict()
        assert len(set(self.evicted)) == len(self.evicted)
        assert set(self.evicted) == set(self.reference.rows) - self.reference.held()
        assert len(self.spans) == len(self.reference.held())
        assert {*self.spans.kept, *self.spans.unseen} == self.reference.held()


@given(
    windows,
    st.integers(0, 8),
    st.lists(st.one_of(st.none(), st.tuples(st.sampled_from(sorted(STREAMS)), st.integers(-20, 60))), max_size=50),
)
def test_windows_in_event_time(
    window: tuple[Count | Duration, Count | Duration], lag: int, events: list[tuple[str, int] | None]
) -> None:
    """None among the events looks at the watermark."""
    watched = Watched(*window)
    watermarks = Watermarks([("c", stream) for stream in STREAMS], lag * MS)
    verdicts = []
    for event in events:
        if event is None:
            watermark_us = watermarks.announce()
            if watermark_us is not None:
                watched.advance(watermark_us)
        else:
            stream, at_us = event[0], event[1] * MS
            watermarks.came(("c", stream), at_us)
            verdicts.append(watermarks.is_late(at_us))
            if not verdicts[-1]:
                watched.add(at_us)
        watched.check()
    in_us = [None if event is None else (event[0], event[1] * MS) for event in events]
    assert verdicts == late(in_us, STREAMS, lag * MS)


@given(windows, st.lists(st.tuples(st.booleans(), st.integers(0, 9_000)), max_size=50))
def test_windows_in_processing_time(
    window: tuple[Count | Duration, Count | Duration], steps: list[tuple[bool, int]]
) -> None:
    """Each step lets some time pass, and then a tuple come or just time be looked at."""
    watched = Watched(*window)
    now_us = 0
    for is_tuple, pause_us in steps:
        now_us += pause_us
        watched.advance(now_us)
        if is_tuple:
            watched.add(now_us)
        watched.check()


@given(
    st.integers(1, 4),
    st.integers(0, 9_999),
    st.lists(st.tuples(st.integers(0, 1_500), st.lists(st.integers(0, 11_499), max_size=3)), min_size=1, max_size=20),
)
def test_each_tuple_is_in_as_many_windows_as_slides_fit_whether_ticks_are_early_or_late(
    slides: int, phase_us: int, ticks: list[tuple[int, list[int]]]
) -> None:
    """Ticks come every 10 ms and up to 1.5 ms late, in another phase than windows; between them tuples, at random."""
    slide_us, began_us = 10_000, 77
    arrival = ArrivalTime(began_us + phase_us, slide_us)
    spans: Spans[int] = Spans(Duration(slides * slide_us / 1_000_000), Duration(slide_us / 1_000_000))
    windows_of: dict[int, int] = {}
    clock_us = began_us + phase_us

    def evaluate(now_us: int) -> None:
        spans.advance(now_us)
        while (span := spans.next_due()) is not None:
            for item in span.items:
                windows_of[item] += 1
        spans.evict()

    for number, (delay_us, offsets) in enumerate([*ticks, *[(0, list[int]())] * (slides + 2)], 1):
        tick_us = began_us + number * slide_us
        for offset_us in sorted(offsets):
            clock_us = max(clock_us, min(tick_us - slide_us + offset_us, tick_us + delay_us))
            now_us = arrival.at(clock_us)
            evaluate(now_us)
            spans.add(len(windows_of), now_us)
            windows_of[len(windows_of)] = 0
        clock_us = max(clock_us, tick_us + delay_us)
        evaluate(arrival.at_tick(clock_us, slide_us))
    assert set(windows_of.values()) <= {slides}
