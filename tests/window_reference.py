"""What windows hold, computed anew for each from all that ever came: slow, plain, and without the code it judges.

Times are whole microseconds. A tuple is (time, arrival): its time and its number among those that came in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tupletree.windows import Count, Duration

Row = tuple[int, int]
Length = Count | Duration


@dataclass
class Evaluated:
    """One window as a test compares it."""

    tuples: list[Row]
    new: list[Row]
    expired: list[Row]
    start: int | None
    end: int


@dataclass
class Reference:
    """All tuples that came in time, and all windows so far."""

    length: Length
    slide: Length
    rows: list[Row] = field(default_factory=list)
    windows: list[Evaluated] = field(default_factory=list)
    reached: int | None = None

    def add(self, at_us: int) -> Row:
        row = (at_us, len(self.rows))
        self.rows.append(row)
        return row

    def advance(self, now_us: int) -> None:
        """Evaluate the windows that end after the time that was reached last, and not after this."""
        before, self.reached = self.reached, max(now_us, now_us if self.reached is None else self.reached)
        if not self.rows:
            return
        if isinstance(self.slide, Duration):
            step = self.slide.us
            first = min(self.rows)[0] if before is None else before
            for number in range(first // step, self.reached // step + 1):
                if before is None or number * step > before:
                    self._evaluate_at(number * step)
        else:
            self._evaluate_counts()

    def _evaluate_at(self, end: int) -> None:
        past = sorted(row for row in self.rows if row[0] < end)
        if isinstance(self.length, Count):
            seen = {row for window in self.windows for row in past if row[0] < window.end}
            inside = past[-self.length.value :] if set(past) - seen else []
        else:
            inside = [row for row in past if row[0] >= end - self.length.us]
        if inside:
            self._append(inside, end)

    def _evaluate_counts(self) -> None:
        assert isinstance(self.slide, Count) and self.reached is not None
        past = sorted(row for row in self.rows if row[0] <= self.reached)
        for upto in range((len(self.windows) + 1) * self.slide.value, len(past) + 1, self.slide.value):
            end = past[upto - 1][0]
            if isinstance(self.length, Count):
                inside = past[:upto][-self.length.value :]
            else:
                inside = [row for row in past[:upto] if row[0] > end - self.length.us]
            self._append(inside, end)

    def _append(self, inside: list[Row], end: int) -> None:
        last = self.windows[-1].tuples if self.windows else []
        start = end - self.length.us if isinstance(self.length, Duration) else None
        new, expired = [row for row in inside if row not in last], [row for row in last if row not in inside]
        self.windows.append(Evaluated(inside, new, expired, start, end))

    def held(self) -> set[Row]:
        """The tuples that can still be in a window to come, whatever comes."""
        if self.reached is None:
            return set(self.rows)
        past = sorted(row for row in self.rows if row[0] <= self.reached)
        ahead = set(self.rows) - set(past)
        if isinstance(self.slide, Duration):
            next_end = (self.reached // self.slide.us + 1) * self.slide.us
            if isinstance(self.length, Duration):
                return ahead | {row for row in past if row[0] >= next_end - self.length.us}
            return ahead | set(past[-self.length.value :])
        next_size = (len(past) // self.slide.value + 1) * self.slide.value
        if isinstance(self.length, Count):
            return ahead | set(past[max(0, next_size - self.length.value) :])
        return ahead | {row for row in past if row[0] > self.reached - self.length.us}


def late(timestamps: Sequence[tuple[str, int] | None], streams: set[str], lag_us: int) -> list[bool]:
    """Which of these (stream, time) came after a watermark past them; None is where watermarks are looked at."""
    verdicts: list[bool] = []
    watermark: int | None = None
    for at, event in enumerate(timestamps):
        if event is not None:
            verdicts.append(watermark is not None and event[1] < watermark)
            continue
        came = [earlier for earlier in timestamps[:at] if earlier is not None]
        if {stream for stream, _ in came} == streams:
            latest = [max(time for stream, time in came if stream == one) for one in streams]
            watermark = min(latest) - lag_us if watermark is None else max(watermark, min(latest) - lag_us)
    return verdicts
