"""Bolts whose ``execute`` is a coroutine: many tuples are in flight at a time.

    the task's thread                            the thread of the event loop (_event_loop.py)
    execute_batch(tuples)   --- calls --->       an asyncio task for each: await execute(tup)
    emit, then ack or fail  <--- outcomes ---    the rows, or an exception

The terms are those of Flink's Async I/O: a capacity, ordered or unordered results, a timeout, retries.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import CoroutineType
from typing import Any, NoReturn

from tupletree._event_loop import EventLoop
from tupletree._kept_rows import kept_row
from tupletree._time_limits import TimeLimits
from tupletree.backoff import Backoff
from tupletree.collector import BoltCollector
from tupletree.component import RAISE_FAILED, Awaited, Bolt, TopologyContext
from tupletree.errors import EmitError, FailedException, ReportedFailedException, UsageError
from tupletree.tuples import Tuple

Emits = list[tuple[Sequence[Any], str]]


class _Call:
    """The processing of one tuple: what it emits, and the exception that it ended with, if any."""

    __slots__ = ("emits", "error", "has_ended", "is_done", "task", "tup")

    def __init__(self, tup: Tuple) -> None:
        self.tup = tup
        self.task: asyncio.Task[None] | None = None
        self.emits: Emits = []
        self.error: BaseException | None = None
        self.is_done = False
        self.has_ended = False


_current: ContextVar[_Call] = ContextVar("current")
"""The call that a coroutine belongs to, and with it the asyncio tasks that the coroutine has begun."""


class AsyncCollector(BoltCollector):
    """The collector of an async bolt. Emits take effect when the coroutine is done, and not at all if it fails."""

    def __init__(self, plain: BoltCollector) -> None:
        self.plain = plain
        self.context: TopologyContext | None = None

    def emit(self, values: Sequence[Any], anchors: Any = None, stream: str = "default") -> tuple[int, ...]:
        """Emit a tuple anchored to the input. Return (), because the receiving tasks are not known yet."""
        if anchors is not None:
            raise EmitError("an async bolt anchors each tuple to its input: emit without anchors")
        call = _current.get(None)
        if call is None or call.has_ended:
            error = EmitError(
                "an async bolt can emit only while execute runs: await what execute calls; a tick yields its rows"
            )
            self.report_error(error)  # who raises here may be an asyncio task that nobody awaits
            raise error
        call.emits.append((kept_row(values), stream))
        return ()

    def emit_many(self, rows: Iterable[Sequence[Any]], anchors: Any = None, stream: str = "default") -> int:
        count = 0
        for values in rows:
            self.emit(values, anchors, stream)
            count += 1
        return count

    def report_error(self, error: BaseException) -> None:
        if self.context is not None:  # set by ``prepare``
            self.context.call_first(lambda: self.plain.report_error(error))

    def ack(self, tup: Tuple) -> None:
        self._refuse("ack")

    def ack_many(self, tuples: Sequence[Tuple]) -> None:
        self._refuse("ack_many")

    def fail(self, tup: Tuple, error: BaseException | str | None = None) -> None:
        self._refuse("fail")

    def reset_timeout(self, tup: Tuple) -> None:
        self._refuse("reset_timeout")

    def emit_direct(self, *arguments: Any, **named: Any) -> None:
        self._refuse("emit_direct")

    def emit_combined(self, *arguments: Any, **named: Any) -> int:
        self._refuse("emit_combined")

    def _refuse(self, method: str) -> NoReturn:
        raise UsageError(
            f"the collector of an async bolt has no {method}, only emit, emit_many and report_error: the tuple is "
            "acked when execute is done; to fail the tuple, raise tupletree.FailedException in execute"
        )


class AsyncBolt(Bolt):
    """A bolt that awaits calls of services and databases, for up to ``in_flight`` tuples at a time.

        class Enrich(AsyncBolt):
            outputs = ["user", "city"]
            in_flight = 200

            async def open_async(self):
                self.session = aiohttp.ClientSession()

            async def execute(self, tup):
                async with self.session.get(URL + tup["user"]) as response:
                    yield [tup["user"], (await response.json())["city"]]

            async def close_async(self):
                await self.session.close()

    ``execute`` returns rows, yields rows, or emits with ``self.collector``. They are emitted on the task's own thread
    when the coroutine is done, anchored to the input, which is then acked. All async bolts of a worker share one event
    loop on a thread of its own: a coroutine that blocks delays the others.

    **Failures.** FailedException fails the tuple; nothing is emitted then. ``timeout_s`` fails the tuple too, as does
    the cancellation of what it awaits, such as a request that several tuples share. Any other exception ends the
    worker. If ``retry`` is set, these two and other exceptions lead to another call, and the tuple fails after the last
    attempt. A worker that dies loses no tuple: calls in flight are made again, so a service may be called more than
    once for a tuple.

    **Back-pressure.** With ``in_flight`` tuples in flight and others waiting for room, the task accepts no further
    tuple. Neither its tuples nor the tuples in its inbox reach ``topology.message.timeout.secs``.

    **Checkpoints.** A checkpoint passes the bolt when the tuples before it are done.

    A subclass that overrides ``prepare`` or ``cleanup`` must call the base method.

    Attributes:
        in_flight: the maximum number of tuples in flight, per task.
        ordered: emit in the order of the inputs, which makes tuples wait for slower ones before them.
        timeout_s: the maximum duration of one attempt.
        retry: the number of attempts and the pauses between them; None for one attempt.
    """

    _remedy = RAISE_FAILED
    holds_tuples = True
    can_be_full = True
    in_flight: int = 100
    ordered: bool = False
    timeout_s: float = 30.0
    retry: Backoff | None = None

    _async_collector: AsyncCollector | None = None
    _loop: EventLoop | None = None

    async def open_async(self) -> None:
        """Called once on the event loop, before the first ``execute``: open sessions here."""

    async def close_async(self) -> None:
        """Called on the event loop at an orderly shutdown, after all calls in flight were cancelled."""

    def execute(self, tup: Tuple) -> Awaited:
        """Process one tuple: a coroutine or an async generator."""
        raise NotImplementedError

    def pause_s(self, error: BaseException, attempts: int, retry: Backoff) -> float:
        """Return the pause after ``attempts`` failed attempts, of which ``error`` was the last; that of ``retry``."""
        return retry.pause_s(attempts)

    @property
    def collector(self) -> BoltCollector:
        """The collector. Its emits are anchored to the input and take effect when the coroutine is done."""
        if self._async_collector is None:
            raise AttributeError(f"{type(self).__name__} has no collector before it runs")
        return self._async_collector

    @collector.setter
    def collector(self, collector: BoltCollector) -> None:
        if not isinstance(collector, AsyncCollector):
            self._async_collector = AsyncCollector(collector)

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        assert self._async_collector is not None
        if self.in_flight < 1 or self.timeout_s <= 0:
            raise UsageError(f"{type(self).__name__}: in_flight must be at least 1, and timeout_s more than 0")
        self._async_collector.context = context
        self._plain = self._async_collector.plain
        self._calls: dict[_Call, None] = {}  # accepted and not concluded, in the order of the inputs
        self._done: deque[_Call] = deque()
        self._succeeded: list[Tuple] = []  # to be acked at the end of ``_collect``
        self._has_woken = False  # ``_collect`` will be called on the task's thread
        self._ready: deque[_Call] = deque()  # until there is room; used on the event loop alone, as are the next four
        self._running = 0
        self._is_beginning = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._limits = TimeLimits(self.timeout_s)
        self._keep_alive_s = conf["topology.message.timeout.secs"] / 3
        self._kept_alive_s = time.monotonic()
        context.is_full = lambda: len(self._calls) > self.in_flight
        context.outstanding = lambda: len(self._calls)
        self._loop = EventLoop.acquire()
        try:
            self._loop.run(self._open())
        except BaseException:
            self._loop.release()
            self._loop = None
            raise

    def cleanup(self) -> None:
        """Cancel the calls in flight, and close."""
        if self._loop is not None:
            loop, self._loop = self._loop, None
            try:
                loop.run(self._close())
            finally:
                loop.release()

    def execute_batch(self, tuples: list[Tuple]) -> None:
        """Have the event loop call ``execute`` for these tuples, as soon as there is room."""
        if self._loop is None:
            raise UsageError(f"{type(self).__name__}.prepare must call super().prepare(conf, context, collector)")
        calls = [_Call(tup) for tup in tuples]
        self._calls.update(dict.fromkeys(calls))
        self._loop.call(self._accept, calls)

    # On the task's thread

    def _collect(self) -> None:
        """Finish the calls that are done."""
        self._has_woken = False
        while self._done:
            self._finish(self._done.popleft())
        if self._succeeded:
            succeeded, self._succeeded = self._succeeded, []
            self._plain.ack_many(succeeded)
        self._keep_alive()

    def _finish(self, call: _Call) -> None:
        """Conclude a call that is done. If ``ordered``, conclude calls in the order of their inputs."""
        if not self.ordered:
            del self._calls[call]
            self._conclude(call)
            return
        call.is_done = True
        while self._calls and (first := next(iter(self._calls))).is_done:
            del self._calls[first]
            self._conclude(first)

    def _conclude(self, call: _Call) -> None:
        if call.error is None:
            for values, stream in call.emits:
                self._plain.emit(values, call.tup, stream)
            self._succeeded.append(call.tup)
        elif isinstance(call.error, (FailedException, TimeoutError)):
            self._plain.fail(call.tup, call.error)
            if not isinstance(call.error, FailedException) or isinstance(call.error, ReportedFailedException):
                self._plain.report_error(call.error)
        elif isinstance(call.error, Exception | SystemExit):
            raise call.error
        else:  # such as a panic in Rust: as it is, it would end the worker without the name of the component
            raise RuntimeError(f"{type(self).__name__}.execute raised {call.error!r}") from call.error

    def _keep_alive(self) -> None:
        """Restart the message timeouts of the tuples that this task has accepted, three times within one timeout."""
        now_s = time.monotonic()
        if now_s - self._kept_alive_s >= self._keep_alive_s:
            self._kept_alive_s = now_s
            for call in self._calls:
                self._plain.reset_timeout(call.tup)

    # On the event loop

    async def _open(self) -> None:
        await self.open_async()
        self._track(self._wake_regularly())

    async def _close(self) -> None:
        self._ready.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.close_async()

    def _track(self, coroutine: Any) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(coroutine))

    async def _wake_regularly(self) -> None:
        """Have the task keep its tuples alive even if no call ends and no tuple arrives."""
        while True:
            await asyncio.sleep(self._keep_alive_s)
            self._wake()

    def _wake(self) -> None:
        """Have the task's thread collect, after what the event loop has to do now: one call for all that is done."""
        if not self._has_woken:
            self._has_woken = True
            asyncio.get_running_loop().call_soon(self.context.call_first, self._collect)

    def _accept(self, calls: list[_Call]) -> None:
        self._ready.extend(calls)
        self._begin()

    def _begin(self) -> None:
        """Begin calls while there is room."""
        if self._is_beginning:  # below, by an event loop that a user has made eager: its tasks begin at once
            return
        self._is_beginning = True
        create_task, name = asyncio.get_running_loop().create_task, type(self).__name__
        while self._ready and self._running < self.in_flight:
            self._running += 1
            call = self._ready.popleft()
            call.task = task = create_task(self._run(call), name=name)  # a name of asyncio's own costs 0.4 us
            if not task.done():
                self._tasks.add(task)
        self._is_beginning = False

    async def _run(self, call: _Call) -> None:
        task = call.task or asyncio.current_task()
        assert task is not None
        _current.set(call)
        attempts = 0
        while True:
            call.emits.clear()
            call.error = await self._attempt(call, task)
            attempts += 1
            if call.error is None or self.retry is None or isinstance(call.error, FailedException):
                break
            if self.retry.is_last(attempts):
                last, call.error = call.error, ReportedFailedException(f"{attempts} attempts failed: {call.error!r}")
                call.error.__cause__ = last
                break
            try:
                await asyncio.sleep(self.pause_s(call.error, attempts, self.retry))
            except BaseException as error:  # of a subclass's pause_s, or the cancellation of this task
                if isinstance(error, GeneratorExit) or self._loop is None:  # the bolt ends
                    raise
                name = type(self).__name__
                is_cancelled = isinstance(error, asyncio.CancelledError)
                call.error = TimeoutError(f"{name}.execute was cancelled between attempts") if is_cancelled else error
                break
        call.has_ended = True
        self._tasks.discard(task)
        self._done.append(call)
        self._wake()
        self._running -= 1
        self._begin()  # here, not after ``_collect``: that would cost each call the way to the task's thread and back

    async def _attempt(self, call: _Call, task: asyncio.Task[Any]) -> BaseException | None:
        """Run ``execute`` once; return its exception, if any."""
        limit = self._limits.begin(task)
        try:
            result = self.execute(call.tup)
            # A coroutine is looked for first, because a test for AsyncIterator takes longer.
            if not isinstance(result, CoroutineType) and isinstance(result, AsyncIterator):
                async for row in result:
                    call.emits.append((kept_row(row), "default"))
            elif rows := await result:
                call.emits.extend((kept_row(row), "default") for row in rows)
        except asyncio.CancelledError:
            if limit.is_cancelled_otherwise and self._loop is None:  # the bolt ends
                raise
            if limit.has_passed:
                return TimeoutError(f"{type(self).__name__}.execute took longer than {self.timeout_s:g} s")
            return TimeoutError(f"{type(self).__name__}.execute was cancelled, or awaited what another call cancelled")
        except GeneratorExit:
            raise
        except BaseException as error:  # otherwise the tuple would be kept alive, and never end
            return error
        finally:
            self._limits.end(limit)
        return None
