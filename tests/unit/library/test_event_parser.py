"""Server-sent events as the HTML standard has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.connectors.http.event_parser import EventParser, StreamEvent


def parsed(text: bytes, max_bytes: int = 1000) -> list[StreamEvent]:
    return EventParser(max_bytes).feed(text)


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: a\n\n", [StreamEvent(b"a")]),
        (b"data:a\r\ndata: b\r\rdata:  c\n\n", [StreamEvent(b"a\nb"), StreamEvent(b" c")]),
        (b"\xef\xbb\xbfdata: a\n\n", [StreamEvent(b"a")]),
        (b": comment\n\nevent: x\n\ndata\n\n", [StreamEvent(b"")]),
        (b"id: 7\nevent: add\ndata: a\n\ndata: b\n\n", [StreamEvent(b"a", "7", "add"), StreamEvent(b"b", "7")]),
        (b"id: 7\n\ndata: a\n\nid\ndata: b\n\n", [StreamEvent(b"a", "7"), StreamEvent(b"b", "")]),
        (b"id: a\0b\nother: x\ndata: a\n\n", [StreamEvent(b"a")]),
        (b"data: never ended\n", []),
    ],
)
def test_events(text: bytes, events: list[StreamEvent]) -> None:
    assert parsed(text) == events


def test_the_pause_that_a_server_asks_for() -> None:
    parser = EventParser(100)
    parser.feed(b"retry: 1500\nretry: soon\n\n")
    assert parser.retry_s == 1.5


@pytest.mark.parametrize("text", [b"x" * 1001, b"data: " + b"x" * 1001 + b"\n", b"data: xxxxxxxx\n" * 200])
def test_an_event_that_is_too_large_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^an event is larger than 1000 bytes$"):
        parsed(text)


LINES = st.lists(st.sampled_from([b"data: a", b"data", b"id: 1", b"event: x", b": c", b"", b"\xff"]), max_size=12)


@given(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"]), st.integers(1, 5))
def test_chunks_make_no_difference(lines: list[bytes], end: bytes, size: int) -> None:
    text = b"".join(line + end for line in lines)
    parser = EventParser(1000)
    in_chunks = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    assert in_chunks == parsed(text)
