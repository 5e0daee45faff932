"""A topology by hand, which answers a real DRPC server without a cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc

from tupletree.v1 import drpc_pb2 as pb
from tupletree.v1 import drpc_pb2_grpc


class Topology:
    """A spout and its results by hand: it answers what it is sent with the argument, or as ``answer`` says."""

    def __init__(self, opened: Any, function: str = "echo", topology_id: str = "t-1") -> None:
        self.stub = drpc_pb2_grpc.DrpcStub(opened)
        self.hello = pb.ServeHello(topology_id=topology_id, function=function, max_in_flight=10)
        self._news = threading.Condition()
        self._updates: list[pb.ServeUpdate | None] = []
        self.call = self.stub.Serve(self._requests())
        next(self.call)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _requests(self) -> Iterator[pb.ServeRequest]:
        yield pb.ServeRequest(hello=self.hello)
        while True:
            with self._news:
                self._news.wait_for(lambda: self._updates)
                update = self._updates.pop(0)
            if update is None:
                return
            yield pb.ServeRequest(update=update)

    def _tell(self, update: pb.ServeUpdate | None) -> None:
        with self._news:
            self._updates.append(update)
            self._news.notify()

    def _run(self) -> None:
        try:
            for reply in self.call:
                for request in reply.requests:
                    self._end(request)
        except grpc.RpcError:
            pass

    def _end(self, request: pb.DrpcRequest) -> None:
        if request.args == b'"keep"':
            return
        if request.args == b'"fail"':
            failure = pb.DrpcFailure(kind=pb.DrpcFailure.KIND_FAILED, reason="asked to fail")
            self._tell(pb.ServeUpdate(failed=[pb.FailedRequest(id=request.id, failure=failure)]))
            return
        result = pb.Results(results=[pb.RequestResult(id=request.id, value=request.args)])
        hello = pb.AnswerHello(topology_id=self.hello.topology_id)
        sent = [pb.AnswerRequest(hello=hello), pb.AnswerRequest(results=result)]
        assert [one.confirmed for one in self.stub.Answer(iter(sent))] == [0, 1]
        self._tell(pb.ServeUpdate(completed=[request.id]))

    def close(self) -> None:
        self._tell(None)
        self.call.cancel()
        self._thread.join()
