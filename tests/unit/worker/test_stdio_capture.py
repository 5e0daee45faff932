"""What a component prints is in the worker's log, line by line."""

import logging
import threading

from tupletree.worker.reporting.stdio_capture import LogWriter


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
