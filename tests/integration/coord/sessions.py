"""How tests break a session without waiting for its timeout."""

from __future__ import annotations

import socket

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from tupletree.testing.wait import wait_until


def expire(client: KazooClient) -> None:
    """End the client's session at the server, as if its timeout had passed, and wait until the client has noticed."""
    old = client.client_id
    lost: list[str] = []
    client.add_listener(lambda state: lost.append(state) if state == KazooState.LOST else None)
    thief = KazooClient(hosts=",".join(f"{h}:{p}" for h, p in client.hosts), client_id=old)
    thief.start()
    thief.stop()  # closing a session ends it for everybody who holds it
    thief.close()
    wait_until(lambda: lost and client.connected and client.client_id != old, what="the session is a new one")


def drop_connection(client: KazooClient) -> None:
    """Cut the TCP connection and wait until it is back; the session lives on."""
    suspended: list[str] = []
    client.add_listener(lambda state: suspended.append(state) if state == KazooState.SUSPENDED else None)
    client._connection._socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: suspended and client.connected, what="the connection is a new one")
