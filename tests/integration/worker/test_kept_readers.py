"""Readers of states that take long to open stay open between questions, such as the pages of a savepoint."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any, ClassVar

import pytest
from test_state_reads import KEY, answered, worker_service

from tupletree._wire.codec import encode_value
from tupletree.state import MemoryStateProvider
from tupletree.state.reader import Entries, MappingReader
from tupletree.v1 import worker_pb2
from tupletree.worker.checkpoint import state_reads

ENTRIES = {encode_value(word): encode_value(number) for number, word in enumerate("abc")}
calls: list[str] = []


class SlowReader(MappingReader):
    """Says when it is opened and closed. A key of three ``z`` breaks it."""

    is_kept = True
    closed: ClassVar[asyncio.Event]
    may_scan: ClassVar[threading.Event | None] = None

    def __init__(self) -> None:
        super().__init__(3, ENTRIES)
        calls.append("open")

    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        if after == encode_value("zzz"):
            raise ValueError("broken")
        calls.append("scan")
        if self.may_scan is not None:
            self.may_scan.wait(30)
        return super().scan(after, limit, max_bytes)

    def close(self) -> None:
        calls.append("close")
        self.closed.set()


class SlowProvider(MemoryStateProvider):
    def open_reader(self, namespace: str, conf: Any, topology_conf: Any) -> SlowReader:
        return SlowReader()


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def page(after: str, is_bulk: bool = True) -> worker_pb2.ReadTaskStatesRequest:
    return worker_pb2.ReadTaskStatesRequest(
        topology_id="words-1-1",
        component="count",
        indexes=[0],
        after=encode_value(after) if after else b"",
        limit=2,
        is_bulk=is_bulk,
    )


def ask(*questions: worker_pb2.ReadTaskStatesRequest) -> list[Any]:
    """The entries of each answer, or the error; in the end, a reader is closed."""

    async def call(stub: Any) -> list[Any]:
        replies = []
        SlowReader.closed = closed = asyncio.Event()
        for question in questions:
            try:
                reply = await stub.ReadState(question, timeout=30)
                replies.append([entry.key for entry in reply.tasks[0].entries])
            except Exception as error:
                replies.append(str(error))
        await asyncio.wait_for(closed.wait(), 30)
        return replies

    found: list[Any] = answered(call, f"{__name__}:SlowProvider")
    return found


def test_the_pages_of_a_savepoint_are_read_by_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reads, "KEPT_S", 0.5)
    keys = list(ENTRIES)
    assert ask(page(""), page("b")) == [keys[:2], keys[2:]]
    assert calls == ["open", "scan", "scan", "close"]


def test_other_questions_use_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reads, "KEPT_S", 0.5)
    assert ask(page(""), page("b", is_bulk=False)) == [list(ENTRIES)[:2], list(ENTRIES)[2:]]
    assert calls == ["open", "scan", "scan", "close"]


def test_a_reader_is_closed_after_a_question_that_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reads, "KEPT_S", 0.01)
    may_scan = threading.Event()
    monkeypatch.setattr(SlowReader, "may_scan", may_scan)

    async def give_up() -> None:
        SlowReader.closed = asyncio.Event()
        reads = worker_service(f"{__name__}:SlowProvider").state_reads
        question = asyncio.create_task(reads.read(page("")))
        while "scan" not in calls:
            await asyncio.sleep(0.001)
        question.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await question
        may_scan.set()
        await asyncio.wait_for(SlowReader.closed.wait(), 30)

    asyncio.run(give_up())


def test_a_reader_that_fails_is_closed() -> None:
    _, error = ask(page(""), page("zzz"))
    assert "the state provider raised ValueError: broken" in error
    assert calls == ["open", "scan", "close"]


def test_questions_for_keys_are_read_by_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reads, "KEPT_S", 0.5)
    question = worker_pb2.ReadTaskStatesRequest(topology_id="words-1-1", component="count", indexes=[0], keys=[KEY])
    assert ask(question, question) == [[KEY], [KEY]]
    assert calls == ["open", "close"]
