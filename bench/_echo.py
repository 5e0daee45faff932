"""Questions of a bare socket to a process that sends them back: what a question costs where nothing is looked up."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

LOOPBACK: Final = "127.0.0.1"
SIZE: Final = 64 * 1024


class _Echo(asyncio.Protocol):
    """Sends back what it receives."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def _serve(port: Connection) -> None:
    server = await asyncio.get_running_loop().create_server(_Echo, LOOPBACK, 0)
    port.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _run(port: Connection) -> None:
    asyncio.run(_serve(port))


@contextmanager
def echoing(connections: int) -> Iterator[list[socket.socket]]:
    """Yield connections to a process that echoes; it ends with them."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender,), daemon=True)
    process.start()
    try:
        port = receiver.recv()
        with ExitStack() as stack:
            made = [
                stack.enter_context(closing(socket.create_connection((LOOPBACK, port)))) for _ in range(connections)
            ]
            for one in made:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield made
    finally:
        process.kill()
        process.join()


def echoed(connection: socket.socket, text: str) -> bool:
    """Return True if a text comes back. It must fit into one piece."""
    data = text.encode()
    connection.sendall(data)
    return connection.recv(SIZE) == data
