"""Event loggers of a worker: a thread only when it is needed, errors reported once, a bounded queue."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from tupletree.errors import TupletreeError
from tupletree.hooks import EventLogger, SampledTuple, WorkerContext
from tupletree.worker.hooks import event_loggers
from tupletree.worker.hooks.event_loggers import EventLoggers

CONTEXT = WorkerContext("words-1", {"level": 3}, {"split": [1]}, [1], share=lambda name, make, close: make())


def unreported(component: str, task: int, error: BaseException) -> None:
    raise AssertionError(f"no error is expected, and there is {error}")


def sampled(number: int) -> SampledTuple:
    return SampledTuple(1_700_000_000.0, "split", 1, "default", (2,), (number,))


class Notes(EventLogger):
    """Notes its calls; raises in those that are named. Waits in ``prepare`` for ``may_begin``."""

    def __init__(self, *fails: str) -> None:
        self.fails = fails
        self.calls: list[Any] = []
        self.may_begin = threading.Event()
        self.may_begin.set()

    def prepare(self, conf: Any, context: WorkerContext) -> None:
        self.may_begin.wait()
        self._note("prepare", conf["level"])

    def log(self, sampled: SampledTuple) -> None:
        self._note("log", sampled.values[0])

    def close(self) -> None:
        self._note("close", 0)

    def _note(self, name: str, value: int) -> None:
        self.calls.append((name, value))
        if name in self.fails:
            raise ValueError(f"no {name}")


def test_loggers_get_the_tuples_in_order_and_are_closed() -> None:
    logger = Notes()
    loggers = EventLoggers([logger], CONTEXT, unreported)
    loggers.open()
    loggers.open()
    for number in range(3):
        loggers.put(sampled(number))
    loggers.close()
    assert logger.calls == [("prepare", 3), ("log", 0), ("log", 1), ("log", 2), ("close", 0)]


def test_there_is_no_thread_without_loggers_or_before_tuples_are_sampled() -> None:
    logger, before = Notes(), threading.active_count()
    without, waiting = EventLoggers([], CONTEXT, unreported), EventLoggers([logger], CONTEXT, unreported)
    without.open()
    without.put(sampled(1))
    without.close()
    waiting.close()
    assert threading.active_count() == before and logger.calls == []


def test_a_logger_that_raises_is_reported_once_and_the_others_go_on() -> None:
    bad, good, reported = Notes("log", "close"), Notes(), []

    def report(*error: object) -> None:
        reported.append(error)

    loggers = EventLoggers([bad, good], CONTEXT, report)
    loggers.open()
    loggers.put(sampled(1))
    loggers.put(sampled(2))
    loggers.close()
    assert bad.calls == good.calls == [("prepare", 3), ("log", 1), ("log", 2), ("close", 0)]
    [(component, task, error)] = reported
    assert (component, task) == ("split", 1)
    assert str(error) == "event logger Notes failed: ValueError: no log"
    assert isinstance(error, TupletreeError) and isinstance(error.__cause__, ValueError)


def test_a_logger_that_cannot_be_prepared_is_an_error_of_the_first_task() -> None:
    reported = []
    loggers = EventLoggers([Notes("prepare")], CONTEXT, lambda *error: reported.append(error))
    loggers.open()
    loggers.close()
    [(component, task, error)] = reported
    assert (component, task, str(error)) == ("split", 1, "event logger Notes failed: ValueError: no prepare")


def test_what_waits_is_bounded_and_the_rest_is_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loggers, "MAX_WAITING", 10)
    logger = Notes()
    logger.may_begin.clear()
    loggers = EventLoggers([logger], CONTEXT, unreported)
    with caplog.at_level(logging.WARNING):
        loggers.open()
        for number in range(25):
            loggers.put(sampled(number))
        logger.may_begin.set()
        loggers.close()
    assert [value for name, value in logger.calls if name == "log"] == list(range(10))
    assert "event_loggers.behind" in caplog.text and "left_out=15" in caplog.text
