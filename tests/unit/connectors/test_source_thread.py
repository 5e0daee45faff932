"""What the thread of a source shows of its end."""

from __future__ import annotations

from typing import ClassVar

from tupletree.backoff import RECONNECT
from tupletree.connectors.source_thread import Broken, Lost, SourceThread


class Nothing:
    """A source with nothing to close."""

    title: ClassVar[str] = "nothing"
    lost_on: ClassVar[tuple[type[Exception], ...]] = ()

    def close(self) -> None:
        pass


class Refused(SourceThread):
    """A thread whose source cannot be opened, nor will be."""

    outstanding = 0

    def __init__(self) -> None:
        super().__init__(Nothing(), 0, RECONNECT)
        self.events: list[Lost | Broken] = []

    def _open(self) -> None:
        raise PermissionError("no right to read 'orders'")

    def _serve(self) -> None:
        raise AssertionError("it was never opened")

    def _notify(self, event: Lost | Broken) -> None:
        self.events.append(event)


def test_the_error_that_ends_a_source_is_shown_before_its_spout_hears_of_it() -> None:
    thread = Refused()
    thread.start()
    thread.join(30)
    assert [type(event) for event in thread.events] == [Broken]
    assert (thread.error, thread.is_connected) == ("PermissionError: no right to read 'orders'", False)
