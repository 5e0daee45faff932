"""One client of trees in a process of its own: fans out to its peers, and acks the children that they send.

    python -m bench._tree_client --acker HOST:PORT --namespace fan --me 0 --peers 3 --directory DIR --trees 3000

Prints ``ready``, reads a line, prints ``half`` when half of its trees are begun and a line of JSON when all have ended,
and goes on acking until standard input ends. Child n of a tree goes to peer ``(me + n) % peers``, over a datagram
socket of the directory. A peer that has died gets no further children; the trees with children there time out.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from collections import Counter, deque
from typing import Final

from tupletree.errors import NotFoundError, OverloadedError
from tupletree.trees import Tree, TreeClient

_BATCH: Final = 50  # trees whose tokens travel together
_OVERLOAD_PAUSE_S: Final = 0.01


class Peers:
    """The sockets of the clients."""

    def __init__(self, directory: str, me: int, count: int) -> None:
        self._paths = [f"{directory}/{number}.sock" for number in range(count)]
        self._me = me
        self._alive = set(range(count))
        self._waiting: dict[int, list[str]] = {number: [] for number in range(count)}
        self._own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._own.bind(self._paths[me])
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def add(self, number: int, token: str) -> None:
        """Keep a token for a peer that lives."""
        living = sorted(self._alive)
        self._waiting[living[(self._me + number) % len(living)]].append(token)

    def send(self) -> None:
        """Send all tokens."""
        for peer, tokens in self._waiting.items():
            if not tokens:
                continue
            try:
                self._out.sendto("\n".join(tokens).encode(), self._paths[peer])
            except (ConnectionError, FileNotFoundError):
                self._alive.discard(peer)
            tokens.clear()

    def ack_all(self, trees: TreeClient) -> None:
        """Ack the children of each message, forever."""
        while True:
            for token in self._own.recv(1 << 20).decode().split("\n"):
                try:
                    trees.child(token).ack()
                except NotFoundError:
                    continue


def fan_out(
    trees: TreeClient, peers: Peers, count: int, children: int, most_open: int, timeout_s: float
) -> Counter[str]:
    """Begin trees with children, at most so many open, and return the number of each outcome."""
    ended: Counter[str] = Counter()
    begun: deque[Tree] = deque()
    for number in range(count):
        while True:
            try:
                tree = trees.begin(timeout_s)
                break
            except OverloadedError:
                time.sleep(_OVERLOAD_PAUSE_S)
        for child in range(children):
            peers.add(child, tree.child())
        tree.close()
        begun.append(tree)
        if number % _BATCH == _BATCH - 1:
            peers.send()
        if number == count // 2:
            print("half", flush=True)
        if len(begun) >= most_open:
            ended[begun.popleft().wait().kind] += 1
    peers.send()
    ended.update(tree.wait().kind for tree in begun)
    return ended


def main() -> int:
    """Run one client."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("acker", "namespace", "directory"):
        parser.add_argument(f"--{name}", required=True)
    for name, default in (("me", 0), ("peers", 3), ("trees", 3_000), ("children", 10), ("open", 1_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--timeout", type=float, default=30.0)
    given = parser.parse_args()
    peers = Peers(given.directory, given.me, given.peers)
    with TreeClient(given.acker, namespace=given.namespace) as trees:
        threading.Thread(target=peers.ack_all, args=(trees,), daemon=True).start()
        print("ready", flush=True)
        sys.stdin.readline()
        began_s = time.perf_counter()
        ended = fan_out(trees, peers, given.trees, given.children, given.open, given.timeout)
        took_s = time.perf_counter() - began_s
        print(json.dumps({"took_s": took_s, "cpu_s": time.process_time(), "outcomes": ended}), flush=True)
        sys.stdin.readline()
    return 0


if __name__ == "__main__":
    sys.exit(main())
