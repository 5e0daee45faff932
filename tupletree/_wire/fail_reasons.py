"""The reasons of failed trees, on their way from the bolt through the acker to the spout.

    bolt task --- fail root, reason ---> acker --- failed root, reason ---> spout task

For an acker a reason is bytes. Reasons are best effort: bounded in size and number, and lost if the update or the
verdict is lost. A tree that fails without a reason counts as lost with a process.
"""

from __future__ import annotations  # pure

import functools
import linecache
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType, TracebackType
from typing import Final, NamedTuple

import msgpack

from tupletree.errors import named

MAX_BYTES: Final = 4_096
"""Maximum bytes of one encoded reason."""

MAX_PER_FLUSH: Final = 500
"""Maximum reasons in the updates that a run loop sends at a time."""

MAX_WAITING_BYTES: Final = 4_000_000
"""Maximum bytes of reasons that wait for one topology's spouts, or for one worker's stream."""

_MAX_STEPS: Final = 10

_MAX_PLACES: Final = 256
_MAX_REASONS: Final = 16  # of one place

_MAX_TEXT: Final = 700  # characters: at most 2,800 bytes of error and traceback each would not fit both


class FailReason(NamedTuple):
    """The reason why a bolt failed a tuple. ``error`` and ``traceback`` can be empty; ``retry``: false to give up."""

    component: str
    task: int
    error: str = ""
    traceback: str = ""
    retry: bool = True

    @staticmethod
    def of(component: str, task: int, error: BaseException | str | None) -> FailReason:
        """Return the reason of a tuple that a task fails because of an error, if any."""
        if not isinstance(error, BaseException):
            return FailReason(component, task, error or "")
        what = component, task, named(error), getattr(error, "retry", True) is not False
        place = _place(error.__traceback__)
        reason = place.reasons.get(what)
        if reason is None:
            if len(place.reasons) >= _MAX_REASONS:  # each with a text of its own
                place.reasons.clear()
            component, task, text, retry = what
            reason = FailReason(component, task, text, place.lines, retry)
            if len(text) <= _MAX_TEXT:  # longer ones may be of megabytes
                place.reasons[what] = reason
        return reason


class _Place(NamedTuple):
    """A place where errors were raised: the lines of their traceback, as Python prints it, and the newest reasons."""

    lines: str
    codes: Sequence[CodeType]  # must live as long as their ids are a key
    reasons: dict[tuple[str, int, str, bool], FailReason]


_known: Final[dict[tuple[int, ...], _Place]] = {}


def _place(trace: TracebackType | None) -> _Place:
    """Return the place of a traceback. The module ``traceback`` would check each file, for 100 us.

    Kept by places in code: the same failure comes again and again, and a line's number has to be searched.
    """
    places: list[int] = []
    step = trace
    while step is not None:
        places += (id(step.tb_frame.f_code), step.tb_lasti)
        step = step.tb_next
    key = tuple(places[-2 * _MAX_STEPS :])
    known = _known.get(key)
    if known is None:
        if len(_known) >= _MAX_PLACES:
            _known.clear()
        known = _known[key] = _Place(*_formatted(trace), {})
    return known


def _formatted(trace: TracebackType | None) -> tuple[str, Sequence[CodeType]]:
    """Return the lines of a traceback, and its code."""
    text, codes = [], []
    while trace is not None:
        code, number = trace.tb_frame.f_code, trace.tb_lineno
        codes.append(code)
        text.append(
            f'  File "{code.co_filename}", line {number}, in {code.co_name}\n{_source(code.co_filename, number)}'
        )
        trace = trace.tb_next
    return "".join(text[-_MAX_STEPS:]), codes[-_MAX_STEPS:]


@functools.lru_cache(maxsize=4096)
def _source(file: str, number: int) -> str:
    """Return a line of source; "" if there is none. Cached: linecache searches the whole path for a missing file."""
    line = linecache.getline(file, number).strip()
    return f"    {line}\n" if line else ""


@functools.lru_cache(maxsize=256)
def encode(reason: FailReason) -> bytes:
    """Encode a reason in at most MAX_BYTES: keeps the end of a long traceback and the beginning of a long error."""
    for most in (_MAX_TEXT, _MAX_TEXT // 3):
        error, lines = reason.error[:most], reason.traceback[-most:]
        data = _packed(FailReason(reason.component, reason.task, error, lines, reason.retry))
        if len(data) <= MAX_BYTES:
            return data
    return _packed(FailReason(reason.component[:200], reason.task, reason.error[:200], "", reason.retry))


def _packed(reason: FailReason) -> bytes:
    data: bytes = msgpack.packb(tuple(reason), unicode_errors="surrogatepass")
    return data


@functools.lru_cache(maxsize=256)
def decode(data: bytes) -> FailReason | None:
    """Decode a reason; None if the bytes are not a reason."""
    try:
        reason = FailReason(*msgpack.unpackb(data, unicode_errors="surrogatepass"))
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
    fits = map(isinstance, reason, (str, int, str, str, bool))
    return reason if all(fits) else None


class WaitingReasons:
    """Reasons by root, until their trees fail. Bounded by bytes: the oldest are dropped first."""

    def __init__(self, most: int = MAX_WAITING_BYTES) -> None:
        self._most = most
        self._bytes = 0
        self._reasons: dict[int, bytes] = {}

    def add(self, reasons: Mapping[int, bytes]) -> None:
        """Add reasons. A root's new reason replaces its old one."""
        for root, reason in reasons.items():
            self._remove(root)
            self._reasons[root] = reason
            self._bytes += len(reason)
        while self._bytes > self._most:
            self._remove(next(iter(self._reasons)))

    def take(self, roots: Iterable[int]) -> dict[int, bytes]:
        """Remove and return the reasons of these roots, as far as they are known."""
        if not self._reasons:
            return {}
        return {root: reason for root in roots if (reason := self._remove(root)) is not None}

    def _remove(self, root: int) -> bytes | None:
        reason = self._reasons.pop(root, None)
        self._bytes -= 0 if reason is None else len(reason)
        return reason
