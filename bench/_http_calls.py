"""A slow HTTP server on loopback, and clients with keep-alive connections, all with minimal overhead."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, cast

POST: Final = b"POST / HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
REQUEST: Final = b"GET /%d HTTP/1.1\r\nHost: bench\r\n\r\n"
ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
END_OF_HEAD: Final = b"\r\n\r\n"


class _Answering(asyncio.Protocol):
    """The server's side of a connection: each request is answered after ``delay_s``; one at a time."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # of uvloop: no subclass

    def data_received(self, data: bytes) -> None:
        self._received += data
        while END_OF_HEAD in self._received:
            _, _, self._received = self._received.partition(END_OF_HEAD)
            asyncio.get_running_loop().call_later(self._delay_s, self._transport.write, ANSWER)


class _Calling(asyncio.Protocol):
    """The client's side of a connection: at most one call at a time."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[bytes] | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # of uvloop: no subclass

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) >= len(ANSWER) and self._answer is not None:
            received, self._received = self._received, b""
            if not self._answer.done():
                self._answer.set_result(received)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server closed the connection"))

    async def get(self, number: int) -> bytes:
        """Send a request and return the answer, head and body."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(REQUEST % number)
        return await self._answer


class Poster(asyncio.Protocol):
    """A keep-alive connection that posts one request at a time."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[bytes] | None = None
        self._received = b""

    @classmethod
    async def connect(cls, port: int) -> Poster:
        """Connect to a server on this machine."""
        _, protocol = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # of uvloop: no subclass

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(END_OF_HEAD)
        if end and len(body) >= int(head.lower().partition(b"content-length: ")[2].split(b"\r", 1)[0]):
            received, self._received = self._received, b""
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(received)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the server closed the connection"))

    async def post(self, body: bytes) -> bytes:
        """Post a body and return the response, head and body. Raises OSError if the connection ends."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(POST % len(body) + body)
        return await self._answer

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


class Client:
    """Calls one server over as many connections as there are calls at a time. Used on one event loop."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[_Calling] = []

    async def get(self, number: int) -> None:
        """Call the server. Raises OSError if it cannot be reached, ValueError if the response is not ``ANSWER``."""
        connection = self._free.pop() if self._free else await self._connect()
        answer = await connection.get(number)
        if answer != ANSWER:
            raise ValueError(f"the server answered {answer[:40]!r}")
        self._free.append(connection)

    async def _connect(self) -> _Calling:
        _, protocol = await asyncio.get_running_loop().create_connection(_Calling, "127.0.0.1", self._port)
        return protocol

    def close(self) -> None:
        """Close the connections that are not in use."""
        for connection in self._free:
            connection.transport.close()


async def serve(listening: socket.socket, delay_s: float) -> None:
    """Answer each request after ``delay_s``, until cancelled."""
    server = await asyncio.get_running_loop().create_server(lambda: _Answering(delay_s), sock=listening, backlog=2048)
    async with server:
        await server.serve_forever()


@contextmanager
def serving(delay_s: float) -> Iterator[tuple[int, int]]:
    """Run the server in a process of its own; yield its port and process id."""
    command = [sys.executable, "-m", "bench._http_calls", str(delay_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid  # the server ends when its input is closed


def main() -> None:
    """Print a free port and serve on it until standard input ends, which happens when the parent process ends."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listening.getsockname()[1], flush=True)

    async def until_input_ends() -> None:
        server = asyncio.create_task(serve(listening, float(sys.argv[1])))
        await asyncio.to_thread(sys.stdin.read)
        server.cancel()

    asyncio.run(until_input_ends())


if __name__ == "__main__":
    main()
