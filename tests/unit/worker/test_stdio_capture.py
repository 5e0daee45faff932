"""What a component prints is in the worker's log, line by line."""

import logging
import os
import sys
import threading

import pytest

from tupletree.worker.reporting.stdio_capture import MAX_PARTIAL, LogWriter


def test_complete_lines_are_records_and_a_partial_one_waits(caplog):
    writer = LogWriter(logging.getLogger("printed"), logging.INFO)
    with caplog.at_level(logging.INFO):
        print("one", file=writer)
        print("two, ", end="", file=writer)
        assert caplog.messages == ["one"]
        print("and its end\n\nfour", file=writer)
    assert caplog.messages == ["one", "two, and its end", "", "four"]


def test_lines_of_two_threads_do_not_mix(caplog):
    writer = LogWriter(logging.getLogger("printed"), logging.INFO)
    with caplog.at_level(logging.INFO):
        writer.write("main ")
        other = threading.Thread(target=lambda: print("other", file=writer))
        other.start()
        other.join()
        print("thread", file=writer)
    assert caplog.messages == ["other", "main thread"]


def test_of_a_progress_bar_the_last_state_is_logged_and_no_more_is_kept(caplog):
    writer = LogWriter(logging.getLogger("printed"), logging.INFO)
    with caplog.at_level(logging.INFO):
        for number in range(10_000):
            writer.write(f"\r{number} of 10000")
        assert len(writer._partial.text) < 100
        writer.write("\n")
        writer.write("of Windows\r")
        writer.write("\n")
    assert caplog.messages == ["9999 of 10000", "of Windows"]


def test_a_line_without_an_end_is_logged_when_it_is_long(caplog):
    writer = LogWriter(logging.getLogger("printed"), logging.INFO)
    with caplog.at_level(logging.INFO):
        for _ in range(MAX_PARTIAL + 10):
            writer.write(".")
        assert caplog.messages == ["." * (MAX_PARTIAL + 1)]
        writer.write("\n")
    assert caplog.messages[1] == "." * 9


class Counting(logging.FileHandler):
    """A handler that counts its records, and takes no more after a thousand, so that the test ends."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        if self.count < 1000:
            super().emit(record)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_a_log_that_cannot_be_written_does_not_stop_who_logs(monkeypatch, stream):
    logger = logging.getLogger("of-a-full-disk")
    handler = Counting("/dev/full")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [handler])
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, LogWriter(logger, logging.WARNING))
    logger.warning("a line")
    print("a line", file=getattr(sys, stream))
    monkeypatch.undo()
    assert 2 <= handler.count < 200
    handler.stream = None  # its text is not written at the end either
