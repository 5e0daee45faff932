"""The Drpc gRPC service: translates between messages and the desk. For the protocol see drpc.proto."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from tupletree._security.current import current
from tupletree._security.guard import caller
from tupletree.drpc.requests import Kind, check_function
from tupletree.errors import ForbiddenError, ProtocolError, UnavailableError
from tupletree.v1 import drpc_pb2 as pb
from tupletree.v1 import drpc_pb2_grpc

from .call_stream import KINDS, CallStream, failure_of
from .desk import Desk, ServingTask
from .topology_owners import TopologyOwners

_KIND_OF: Final = {number: kind for kind, number in KINDS.items()}


class DrpcService(drpc_pb2_grpc.DrpcServicer):
    """Serves callers and topologies."""

    def __init__(self, desk: Desk, owners: TopologyOwners) -> None:
        self._desk = desk
        self._owners = owners

    async def Call(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.CallReply]:
        if self._desk.is_closing:
            raise UnavailableError("the DRPC server is ending; call another")
        stream = CallStream(self._desk, caller.get())
        reading = asyncio.create_task(stream.read(request_iterator))
        try:
            await stream.opened.wait()
            yield pb.CallReply()
            while (reply := await stream.next()) is not None:
                yield reply
            if reading.done() and not reading.cancelled() and (error := reading.exception()) is not None:
                raise error
        finally:
            reading.cancel()
            stream.abandon()

    async def Execute(self, request: pb.ExecuteRequest, context: Any) -> pb.ExecuteReply:
        try:
            args = request.args.decode()
        except UnicodeDecodeError:
            raise ProtocolError("the arguments are not JSON") from None
        ended = await self._desk.execute(caller.get(), request.function, args, request.timeout_s)
        if ended.kind is Kind.ANSWERED:
            return pb.ExecuteReply(result=ended.text.encode())
        return pb.ExecuteReply(failure=failure_of(ended))

    async def Serve(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.ServeReply]:
        requests = aiter(request_iterator)
        first = await anext(requests, None)
        if first is None or not first.HasField("hello"):
            raise ProtocolError("the first message of Serve must be a hello")
        hello = first.hello
        await self._check_owner(hello)
        room = hello.max_in_flight or 1
        task = self._desk.connect(hello.function, hello.topology_id, room, hello.collects, hello.paused)
        reading = asyncio.create_task(self._read(task, requests))
        try:
            yield pb.ServeReply()
            while (news := await task.next()) is not None:
                assigned, ended = news
                sent = [pb.DrpcRequest(id=one.id, args=one.args.encode()) for one in assigned]
                yield pb.ServeReply(requests=sent, ended=ended)
            if reading.done() and not reading.cancelled() and (error := reading.exception()) is not None:
                raise error
        finally:
            reading.cancel()
            self._desk.disconnect(task)

    async def _check_owner(self, hello: pb.ServeHello) -> None:
        """Raise ForbiddenError unless the topology may serve the function."""
        rights, function, id = self._desk.rights, check_function(hello.function), hello.topology_id
        if caller.get() is None or not rights.restricts_owners(function):
            return
        why = rights.serve_refusal(await self._owners.owner(id), id, function, current().admins)
        if why is not None:
            raise ForbiddenError(why)

    async def _read(self, task: ServingTask, requests: Any) -> None:
        try:
            async for request in requests:
                self._apply(task, request.update)
        finally:
            task.close()

    def _apply(self, task: ServingTask, update: pb.ServeUpdate) -> None:
        desk, number = self._desk, task.number
        for id in update.completed:
            desk.end(desk.requests.complete(number, id))
        for one in update.failed:
            kind = _KIND_OF.get(one.failure.kind, Kind.FAILED)
            desk.end(desk.requests.fail(number, one.id, kind, one.failure.reason))
        desk.requests.give_back(number, update.given_back)
        desk.requests.pause(number, update.paused)
        desk.assign(task.function)

    async def Answer(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.AnswerReply]:
        topology_id = None
        count = 0
        async for request in request_iterator:
            if topology_id is None:
                if not request.HasField("hello"):
                    raise ProtocolError("the first message of Answer must be a hello")
                topology_id = request.hello.topology_id
            for result in request.results.results:
                count += 1
                self._desk.add_result(topology_id, result.id, result.value.decode())
            yield pb.AnswerReply(confirmed=count)
