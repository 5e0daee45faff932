"""A stream of the calls of threads to one DRPC server, otherwise as in call_stream.py.

a caller's thread   begins a call, and waits for its future
gRPC's thread       writes what is new
the stream's thread reads replies, and ends calls
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import grpc

from tupletree.drpc.linger import Linger
from tupletree.drpc.lingering import wait_to_write
from tupletree.drpc.stream_state import StreamState
from tupletree.errors import ProtocolError, TupletreeError, UnavailableError
from tupletree.v1 import drpc_pb2 as pb
from tupletree.v1 import drpc_pb2_grpc


class BlockingStream:
    """The calls on one stream. Thread-safe."""

    def __init__(self, channel: grpc.Channel, address: str) -> None:
        self._state = StreamState(address)
        self._news = threading.Condition()  # also the lock of the state
        self._linger = Linger()
        self._call = drpc_pb2_grpc.DrpcStub(channel).Call(self._requests())
        self._thread = threading.Thread(target=self._run, name=f"drpc calls {address}", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """True if further calls can be made."""
        return self._state.is_open

    def call(self, function: str, args: bytes, timeout_s: float, deadline_s: float) -> pb.NumberedReply:
        """Make a call and return its reply. Raises as ``CallStream.call``."""
        waiting: Future[pb.NumberedReply] = Future()
        with self._news:
            if not self._state.is_open:
                raise self._state.refusal()  # it has ended since the caller has chosen it
            number = self._state.calls.begin(function, args, timeout_s, waiting)
            self._news.notify()
        try:
            return waiting.result(deadline_s)
        except TimeoutError:
            pass
        except BaseException:
            with self._news:  # such as an interrupt from the keyboard: cancel the request
                self._state.calls.cancel(number)
                self._news.notify()
            raise
        with self._news:
            error = self._state.late(number)
            self._news.notify()
        if waiting.done():  # just now
            return waiting.result()
        raise error

    def close(self) -> None:
        """End the stream. Its calls fail."""
        self._end(UnavailableError("the client was closed"))
        self._call.cancel()
        self._thread.join()

    def drop(self) -> None:
        """End the stream without waiting for its end."""
        self._call.cancel()

    def _end(self, error: TupletreeError) -> None:
        with self._news:
            self._state.end(error)
            self._news.notify()

    def _run(self) -> None:
        state = self._state
        error: TupletreeError = UnavailableError(state.why)
        try:
            for reply in self._call:
                with self._news:
                    state.on_reply(reply)
                    self._news.notify()
        except grpc.RpcError as broken:
            error = state.error_of(broken)
        except ProtocolError as rubbish:
            error = rubbish
        finally:
            self._call.cancel()
            self._end(error)

    def _requests(self) -> Iterator[Any]:
        """Yield messages until the stream has ended."""
        yield pb.CallRequest()
        state = self._state
        while True:
            with self._news:
                self._news.wait_for(lambda: state.can_write or state.has_ended)
                if state.has_ended:
                    return
            wait_to_write(self._linger)
            with self._news:
                if not state.can_write:
                    continue
                request, count = state.request()
            self._linger.wrote(count, time.monotonic())
            yield request
