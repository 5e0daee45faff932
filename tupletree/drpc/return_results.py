"""ReturnResults: the last bolt of a topology that answers requests."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import grpc

from tupletree._rpc.channels import channel
from tupletree._rpc.status import from_rpc_error
from tupletree.collector import BoltCollector
from tupletree.component import Bolt, TopologyContext
from tupletree.drpc.linger import Linger
from tupletree.drpc.lingering import wait_to_write
from tupletree.drpc.local import LOCAL, find
from tupletree.drpc.values import encoded, parsed_return_info
from tupletree.errors import TupletreeError, UnavailableError, UsageError
from tupletree.tuples import Tuple
from tupletree.v1 import drpc_pb2 as pb
from tupletree.v1 import drpc_pb2_grpc

_MAX_BATCH: Final = 1000
_MAX_BATCH_BYTES: Final = 2 * 1024 * 1024
MAX_RESULT_BYTES: Final = 12 * 1024 * 1024
"""Of one result, so that the message that it ends fits what a server accepts."""


class ReturnResults(Bolt):
    """Sends results to the DRPC servers whose requests they answer.

    Takes tuples of two values: the result, a JSON value, and the ``return_info`` of the DRPCSpout. A tuple is acked
    when the server has confirmed the result. If the server is gone, the tuple fails; the call has broken already.
    """

    holds_tuples = True
    _result, _info = 0, 1  # the places of the two values

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self._links: dict[str, _Link] = {}
        context.outstanding = lambda: sum(len(link.unconfirmed) for link in list(self._links.values()))

    def cleanup(self) -> None:
        for link in self._links.values():
            link.close()

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            self.collector.ack(tup)
            return
        values = tup.values
        try:
            if len(values) != 2:
                raise UsageError(f"ReturnResults takes tuples of two values, result and return_info, not {len(values)}")
            place, id = parsed_return_info(values[self._info])
            text = encoded(values[self._result], "the result of a DRPC request")
        except UsageError as error:
            self.collector.fail(tup, error)
            return
        if len(text) > MAX_RESULT_BYTES or len(value := text.encode()) > MAX_RESULT_BYTES:
            why = f"the result of a DRPC request is longer than {MAX_RESULT_BYTES} bytes as JSON"
            self.collector.fail(tup, UsageError(why))
            return
        if place.startswith(LOCAL):
            find(place.removeprefix(LOCAL)).add_result(self.context.topology_id, id, text)
            self.collector.ack(tup)
            return
        link = self._links.get(place)
        if link is None or link.has_ended:
            link = self._links[place] = _Link(place, self.context, self.collector)
        link.send(id, value, tup)


class _Link:
    """A stream to one DRPC server, until it breaks. Its two threads are gRPC's and one that reads the replies."""

    def __init__(self, address: str, context: TopologyContext, collector: BoltCollector) -> None:
        self.has_ended = False
        self.unconfirmed: deque[Tuple] = deque()
        self._address = address
        self._context = context
        self._collector = collector
        self._results: queue.SimpleQueue[pb.RequestResult | None] = queue.SimpleQueue()
        self._confirmed = 0
        self._channel = channel(address)
        self._thread = threading.Thread(target=self._run, name=f"drpc results {address}", daemon=True)
        self._thread.start()

    # On the task's thread

    def send(self, id: str, value: bytes, tup: Tuple) -> None:
        self.unconfirmed.append(tup)
        self._results.put(pb.RequestResult(id=id, value=value))

    def close(self) -> None:
        self._results.put(None)
        self._channel.close()
        self._thread.join()

    def _confirm(self, count: int) -> None:
        done = [self.unconfirmed.popleft() for _ in range(count - self._confirmed)]
        self._confirmed = count
        self._collector.ack_many(done)

    def _end(self, error: TupletreeError) -> None:
        self.has_ended = True
        self._results.put(None)
        while self.unconfirmed:
            self._collector.fail(self.unconfirmed.popleft(), error)
        self._channel.close()

    # On the link's own threads

    def _run(self) -> None:
        peer = f"the DRPC server at {self._address}"
        try:
            for reply in drpc_pb2_grpc.DrpcStub(self._channel).Answer(self._requests()):
                if reply.confirmed:
                    self._soon(self._confirm, reply.confirmed)
            known: TupletreeError = UnavailableError(f"{peer} has ended the stream of results")
        except grpc.RpcError as error:
            known = from_rpc_error(error, peer)
        except ValueError:  # the channel was closed
            return
        self._soon(self._end, known)

    def _soon(self, function: Callable[[Any], None], argument: Any) -> None:
        self._context.call_first(lambda: function(argument))

    def _requests(self) -> Iterator[pb.AnswerRequest]:
        yield pb.AnswerRequest(hello=pb.AnswerHello(topology_id=self._context.topology_id))
        linger = Linger()
        while (first := self._results.get()) is not None:
            wait_to_write(linger)
            batch = [first]
            size = len(first.value)
            while len(batch) < _MAX_BATCH and size < _MAX_BATCH_BYTES and not self._results.empty():
                item = self._results.get()
                if item is None:
                    return
                batch.append(item)
                size += len(item.value)
            linger.wrote(len(batch), time.monotonic())
            yield pb.AnswerRequest(results=pb.Results(results=batch))
