"""Log lines are events with context, one line each."""

from __future__ import annotations

import logging

import pytest

from tupletree._log import event


def test_an_event_names_its_context(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        event(logging.getLogger("slots"), "slot.launched", topology="wc-1", slot=6700)
    assert caplog.messages == ["slot.launched topology=wc-1 slot=6700"]


def test_an_event_stays_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        event(logging.getLogger("slots"), "slot.ended", level=logging.WARNING, cause="exit 1\nKeyError: 'a'", empty="")
    assert caplog.messages == ["""slot.ended cause="exit 1\\nKeyError: 'a'" empty=''"""]
    assert caplog.records[0].levelname == "WARNING"


def test_an_event_says_nothing_to_a_terminal(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        event(logging.getLogger("security"), "call.refused", operation="GET/\x1b[2J", peer="\ud800")
    assert caplog.messages == [r"call.refused operation='GET/\x1b[2J' peer='\ud800'"]
