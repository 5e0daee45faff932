"""Bolts whose ``execute`` is a coroutine: what they emit, ack and fail, and when."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from local_components import Keep, Log, Shared
from stateful_scene import ALIGNED, Count, Numbers, sevens, sqlite, stored

from tupletree import AsyncBolt, Backoff, FailedException, ReportedFailedException, TopologyBuilder
from tupletree._event_loop import EventLoop
from tupletree.errors import EmitError, TaskFailedError, UsageError
from tupletree.testing import FeederSpout, LocalCluster, complete_topology


@pytest.fixture(autouse=True, params=["asyncio", "uvloop"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The library of the event loop: uvloop if it is installed, and asyncio otherwise."""
    monkeypatch.setattr(EventLoop, "_shared", None)
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    else:
        pytest.importorskip("uvloop", reason="uvloop is not installed")
    return str(request.param)


@pytest.fixture
def timed() -> Iterator[LocalCluster]:
    """A cluster whose time is real, as the timeouts of calls are."""
    with LocalCluster() as running:
        yield running


class Doors(Shared):
    """Calls that stand until the test opens their doors."""

    def __init__(self) -> None:
        super().__init__()
        self.standing: dict[Any, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}
        self.cancelled: list[Any] = []
        self.most = 0

    async def wait(self, key: Any) -> None:
        event = asyncio.Event()
        self.standing[key] = (asyncio.get_running_loop(), event)
        self.most = max(self.most, len(self.standing))
        try:
            await event.wait()
        except asyncio.CancelledError:
            self.cancelled.append(key)
            raise
        finally:
            del self.standing[key]

    def open(self, key: Any) -> None:
        loop, event = self.standing[key]
        loop.call_soon_threadsafe(event.set)


class Waits(AsyncBolt):
    """Emits its input when the door of it has been opened."""

    outputs = ("n",)

    def __init__(self, doors: Doors, **settings: Any) -> None:
        self.doors = doors
        for name, value in settings.items():
            setattr(self, name, value)

    async def execute(self, tup: Any) -> list[list[int]]:
        await self.doors.wait(tup[0])
        return [[tup[0]]]


class Scene:
    """numbers -> bolt -> sink."""

    def __init__(self, cluster: LocalCluster, bolt: Any, conf: dict[str, Any] | None = None) -> None:
        self.cluster = cluster
        self.log = Log()
        self.numbers = FeederSpout(["n"])
        builder = TopologyBuilder()
        builder.set_spout("numbers", self.numbers)
        builder.set_bolt("bolt", bolt).shuffle_grouping("numbers")
        if bolt.outputs:
            builder.set_bolt("sink", Keep(self.log)).shuffle_grouping("bolt")
        cluster.submit("t", builder.create_topology(), conf)

    def feed(self, *numbers: int) -> None:
        for number in numbers:
            self.numbers.feed([number], number)

    def until(self, condition: Callable[[], bool]) -> None:
        self.cluster.wait_until(condition, 20)

    @property
    def kept(self) -> list[int]:
        return [values[0] for _, values in self.log]


def bolt_of(execute: Any, **more: Any) -> Any:
    return type("Awaits", (AsyncBolt,), {"outputs": ["n"], "execute": execute, **more})()


async def returned(self: Any, tup: Any) -> list[list[int]]:
    await asyncio.sleep(0)
    return [[tup[0]], [-tup[0]]]


async def yielded(self: Any, tup: Any) -> AsyncIterator[list[int]]:
    yield [tup[0]]
    await asyncio.sleep(0)
    yield [-tup[0]]


async def emitted(self: Any, tup: Any) -> None:
    self.collector.emit([tup[0]])
    await asyncio.gather(asyncio.sleep(0), emits_more(self, tup))


async def emits_more(self: Any, tup: Any) -> None:
    self.collector.emit_many([[-tup[0]]])


@pytest.mark.parametrize("execute", [returned, yielded, emitted])
def test_rows_are_emitted_in_the_tree_of_the_input_which_is_acked(cluster: LocalCluster, execute: Any) -> None:
    scene = Scene(cluster, bolt_of(execute))
    scene.feed(1)
    cluster.wait_quiet()
    assert scene.kept == [1, -1]
    assert (scene.numbers.acked, scene.numbers.failed) == ([1], [])


def test_a_complete_topology_waits_for_what_is_in_flight() -> None:
    async def slow(self: Any, tup: Any) -> list[list[int]]:
        await asyncio.sleep(0.05)
        return [[tup[0]]]

    builder = TopologyBuilder()
    builder.set_spout("numbers", FeederSpout(["n"]))
    builder.set_bolt("bolt", bolt_of(slow)).shuffle_grouping("numbers")
    emitted = complete_topology(builder.create_topology(), {"numbers": [[n] for n in range(20)]})
    assert sorted(emitted["bolt"]) == [[n] for n in range(20)]


def test_the_event_loop_is_of_uvloop_if_it_is_installed(cluster: LocalCluster, library: str) -> None:
    log = Log()

    async def opened(self: Any) -> None:
        log.append(type(asyncio.get_running_loop()).__module__)

    scene = Scene(cluster, bolt_of(returned, open_async=opened))
    scene.feed(1)
    cluster.wait_quiet()
    [module] = log
    assert module.partition(".")[0] == library


def test_tuples_are_in_flight_together_up_to_the_capacity(cluster: LocalCluster) -> None:
    doors = Doors()
    scene = Scene(cluster, Waits(doors, in_flight=3))
    scene.feed(*range(10))
    scene.until(lambda: len(doors.standing) == 3)
    for number in range(10):
        scene.until(lambda number=number: number in doors.standing)
        doors.open(number)
    scene.until(lambda: len(scene.numbers.acked) == 10)
    assert doors.most == 3


@pytest.mark.parametrize("ordered", [False, True])
def test_results_come_as_they_are_done_or_in_the_order_of_the_inputs(cluster: LocalCluster, ordered: bool) -> None:
    doors = Doors()
    scene = Scene(cluster, Waits(doors, ordered=ordered))
    scene.feed(1, 2, 3)
    scene.until(lambda: len(doors.standing) == 3)
    doors.open(3)
    scene.until(lambda: 3 not in doors.standing)
    doors.open(1)
    scene.until(lambda: 1 in scene.numbers.acked)
    doors.open(2)
    scene.until(lambda: len(scene.kept) == 3)
    assert scene.kept == ([1, 2, 3] if ordered else [3, 1, 2])


@pytest.mark.parametrize("is_reported", [False, True])
def test_a_failed_exception_fails_the_input_and_nothing_is_emitted(cluster: LocalCluster, is_reported: bool) -> None:
    async def execute(self: Any, tup: Any) -> None:
        self.collector.emit([tup[0]])
        raise (ReportedFailedException if is_reported else FailedException)("no")

    scene = Scene(cluster, bolt_of(execute))
    scene.feed(1)
    cluster.wait_quiet()
    assert (scene.kept, scene.numbers.acked, scene.numbers.failed) == ([], [], [1])
    assert [str(error) for _, error in cluster.errors("t")] == (["no"] if is_reported else [])


def test_a_timeout_fails_the_input_and_is_reported(cluster: LocalCluster) -> None:
    scene = Scene(cluster, Waits(Doors(), timeout_s=0.05))
    scene.feed(1)
    cluster.wait_quiet()
    assert scene.numbers.failed == [1]
    assert [str(error) for _, error in cluster.errors("t")] == ["Waits.execute took longer than 0.05 s"]


class SharesRequests(AsyncBolt):
    """Awaits one request for all tuples, which the first timeout cancels."""

    outputs: tuple[str, ...] = ()
    in_flight, timeout_s = 3, 0.05
    request: asyncio.Task[None] | None = None

    async def execute(self, tup: Any) -> None:
        if self.request is None or self.request.done():
            self.request = asyncio.get_running_loop().create_task(asyncio.sleep(3600 if tup[0] < 3 else 0))
        await self.request


def test_tuples_whose_shared_request_is_cancelled_fail_and_free_their_places(cluster: LocalCluster) -> None:
    scene = Scene(cluster, SharesRequests())
    scene.feed(0, 1, 2)
    scene.until(lambda: sorted(scene.numbers.failed) == [0, 1, 2])
    scene.feed(*range(3, 9))
    scene.until(lambda: sorted(scene.numbers.acked) == [3, 4, 5, 6, 7, 8])


def test_a_tuple_whose_call_is_cancelled_from_elsewhere_fails(cluster: LocalCluster) -> None:
    async def execute(self: Any, tup: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    scene = Scene(cluster, bolt_of(execute))
    scene.feed(1)
    scene.until(lambda: scene.numbers.failed == [1])
    [(_, error)] = cluster.errors("t")
    assert str(error).startswith("Awaits.execute was cancelled, or ")


def test_a_tuple_whose_call_is_cancelled_between_attempts_fails(cluster: LocalCluster) -> None:
    async def execute(self: Any, tup: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.01, task.cancel)
        raise ConnectionError("no route")

    scene = Scene(cluster, bolt_of(execute, in_flight=1, retry=Backoff(first_s=600, max_s=600)))
    scene.feed(1, 2)
    scene.until(lambda: scene.numbers.failed == [1, 2])
    assert {str(error) for _, error in cluster.errors("t")} == {"Awaits.execute was cancelled between attempts"}


@pytest.mark.parametrize("pause", ["1", ZeroDivisionError()])
def test_an_exception_of_pause_s_ends_the_worker(cluster: LocalCluster, pause: Any) -> None:
    async def execute(self: Any, tup: Any) -> None:
        raise ConnectionError("no route")

    def pause_s(self: Any, error: BaseException, attempts: int, retry: Backoff) -> Any:
        if isinstance(pause, Exception):
            raise pause
        return pause

    scene = Scene(cluster, bolt_of(execute, pause_s=pause_s, retry=Backoff(first_s=0.001, max_attempts=3)))
    scene.feed(1)
    with pytest.raises(TaskFailedError, match=r"failed: (ZeroDivisionError|TypeError): "):
        scene.until(lambda: False)


def test_another_exception_ends_the_worker(cluster: LocalCluster) -> None:
    async def execute(self: Any, tup: Any) -> None:
        raise ValueError("broken")

    scene = Scene(cluster, bolt_of(execute))
    scene.feed(1)
    with pytest.raises(TaskFailedError, match=r"failed: ValueError: broken; .*: raise tupletree.FailedException "):
        scene.until(lambda: False)


def test_what_fails_is_tried_again_and_fails_the_input_after_the_last_attempt(cluster: LocalCluster) -> None:
    attempts = Log()

    async def execute(self: Any, tup: Any) -> list[list[int]]:
        attempts.append(tup[0])
        self.collector.emit([0])
        if tup[0] == 2 or len(attempts) < 3:
            raise ConnectionError("no route")
        return [[tup[0]]]

    scene = Scene(cluster, bolt_of(execute, retry=Backoff(first_s=0.001, max_attempts=3)))
    scene.feed(1)
    cluster.wait_quiet()
    assert (list(attempts), scene.kept, scene.numbers.acked) == ([1, 1, 1], [0, 1], [1])
    scene.feed(2)
    cluster.wait_quiet()
    assert (list(attempts)[3:], scene.numbers.failed) == ([2, 2, 2], [2])
    [(_, error)] = cluster.errors("t")
    assert str(error) == "3 attempts failed: ConnectionError('no route')"


@pytest.mark.parametrize(
    ("execute", "error", "words"),
    [
        (
            lambda self, tup: self.collector.ack(tup),
            UsageError,
            "the collector of an async bolt has no ack, only emit, emit_many and report_error: the tuple is acked when",
        ),
        (lambda self, tup: self.collector.emit([1], tup), EmitError, "emit without anchors"),
        (lambda self, tup: ["a"], EmitError, "component 'bolt' emitted 'a' on stream 'default': emit a row"),
    ],
)
def test_mistakes_are_told(cluster: LocalCluster, execute: Any, error: type, words: str) -> None:
    async def awaited(self: Any, tup: Any) -> Any:
        return execute(self, tup)

    scene = Scene(cluster, bolt_of(awaited))
    scene.feed(1)
    with pytest.raises(TaskFailedError, match=words) as caught:
        scene.until(lambda: False)
    assert isinstance(caught.value.__cause__, error)


def test_an_overridden_prepare_must_call_the_base_method(cluster: LocalCluster) -> None:
    scene = Scene(cluster, bolt_of(returned, prepare=lambda self, conf, context, collector: None))
    scene.feed(1)
    with pytest.raises(TaskFailedError, match=r"Awaits\.prepare must call super\(\)\.prepare\(conf, "):
        scene.until(lambda: False)


def test_sessions_are_opened_and_closed_on_the_loop_that_all_share(
    cluster: LocalCluster,
) -> None:
    before = set(threading.enumerate())
    log = Log()

    async def opened(self: Any) -> None:
        log.append(("open", threading.current_thread().name))

    async def closed(self: Any) -> None:
        log.append(("close", threading.current_thread().name))

    for name in ("a", "b"):
        builder = TopologyBuilder()
        builder.set_spout("numbers", FeederSpout(["n"]))
        bolt = bolt_of(returned, open_async=opened, close_async=closed)
        builder.set_bolt("bolt", bolt, 2).shuffle_grouping("numbers")
        cluster.submit(name, builder.create_topology())
        cluster.wait_quiet()
    [thread] = [one for one in threading.enumerate() if one.name == "async-bolts" and one not in before]
    for name in ("a", "b"):
        cluster.kill(name)
    assert sorted(log) == [("close", "async-bolts")] * 4 + [("open", "async-bolts")] * 4
    assert not thread.is_alive()


def test_what_is_in_flight_at_the_end_is_cancelled_and_not_acked(cluster: LocalCluster) -> None:
    doors = Doors()
    scene = Scene(cluster, Waits(doors))
    scene.feed(1, 2)
    scene.until(lambda: len(doors.standing) == 2)
    cluster.kill("t")
    assert sorted(doors.cancelled) == [1, 2]
    assert scene.numbers.acked == []


@pytest.mark.long
def test_a_tuple_in_flight_does_not_reach_the_message_timeout(timed: LocalCluster) -> None:
    doors = Doors()
    scene = Scene(timed, Waits(doors, in_flight=2), {"topology.message.timeout.secs": 1})
    scene.feed(1, 2, 3)
    scene.until(lambda: len(doors.standing) == 2)
    time.sleep(3)
    assert sorted(doors.standing) == [1, 2]
    assert not {1, 2} & set(scene.numbers.failed)
    for number in (1, 2):
        doors.open(number)
    scene.until(lambda: {1, 2} <= set(scene.numbers.acked))


def test_an_aligned_checkpoint_waits_for_what_is_in_flight(timed: LocalCluster, tmp_path: Any) -> None:
    class Slow(AsyncBolt):
        outputs = ("word",)

        async def execute(self, tup: Any) -> list[list[str]]:
            await asyncio.sleep(0.01)
            return [[tup["word"]]]

    told, refusals, conf = Log(), Log(), {**ALIGNED, **sqlite(tmp_path)}

    class RefusesOnce(Count):
        def pre_prepare(self, txid: int) -> None:
            if not refusals and self.counts.get("6"):
                refusals.append(txid)
                raise ValueError("not yet")

    builder = TopologyBuilder()
    builder.set_spout("words", Numbers(700, told))
    builder.set_bolt("slow", Slow()).shuffle_grouping("words")
    builder.set_bolt("count", RefusesOnce()).fields_grouping("slow", "word")
    timed.submit("words", builder.create_topology(), conf)
    timed.wait_until(lambda: {number for what, number in told if what == "ack"} >= set(range(700)), 20)
    timed.kill("words")
    assert len(refusals) == 1
    assert stored(conf) == sevens(700)
