"""Machines with addresses of their own, as network namespaces of this one, and a switch between them that can drop.

    machine "nimbus-0"             switch                     machine "supervisor-1"
    eth0 198.18.0.2  ------------ [bridge] ------------       eth0 198.18.0.5

A namespace has no name: it lives as long as its holder, a process that waits for the end of its standard input, and as
the processes inside. So nothing is left behind, however the test ends.

``cut`` drops what one machine sends to another: its frames go to a hardware address that nobody has. Nothing is
refused, nobody is told; only what runs into a timeout notices. ``unplug`` takes the whole machine's cable out.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
NOBODY = "02:ff:ff:ff:ff:ff"
LIBC = ctypes.CDLL(None, use_errno=True)


def why_not() -> str:
    """Why namespaces cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [program for program in ("ip", "unshare") if shutil.which(program) is None]
    if missing:
        return f"{' and '.join(missing)} not found: apt-get install iproute2 util-linux"
    tried = subprocess.run(["unshare", "--net", "ip", "link"], capture_output=True, text=True, check=False)
    return tried.stderr.strip()


def enter(pid: int) -> None:
    """Put the calling thread, and what it starts, into the network of a process."""
    with open(f"/proc/{pid}/ns/net", encoding="ascii") as network:
        if LIBC.setns(network.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


class Machine:
    """One namespace. ``number`` makes its addresses."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"198.18.0.{number}"
        self.hardware = f"02:00:00:00:00:{number:02x}"
        self.port = f"port{number}"  # the switch's end of its cable
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        self._holder.stdout.readline()  # the namespace is there
        self.ip("link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        """The holder."""
        return self._holder.pid

    def run(self, call: Callable[[], T]) -> T:
        """``call()`` in a thread inside: sockets it opens and processes it starts are this machine's."""
        outcome: list[T] = []
        error: list[BaseException] = []

        def inside() -> None:
            try:
                enter(self.pid)
                outcome.append(call())
            except BaseException as raised:
                error.append(raised)

        thread = threading.Thread(target=inside, name=f"on-{self.name}")
        thread.start()
        thread.join()
        if error:
            raise error[0]
        return outcome[0]

    def ip(self, *arguments: str) -> None:
        """Run ip inside."""
        command = ["ip", *arguments]
        done = self.run(lambda: subprocess.run(command, capture_output=True, text=True, check=False))
        assert done.returncode == 0, f"{' '.join(command)} on {self.name}: {done.stderr}"

    def close(self) -> None:
        self._holder.communicate()


class Network:
    """Machines by name, all at one switch."""

    def __init__(self, names: Sequence[str]) -> None:
        self.machines: dict[str, Machine] = {}
        self._open = contextlib.ExitStack()
        try:
            self._switch = self._machine("switch", 1)
            self._switch.ip("link", "add", "bridge", "type", "bridge")
            self._switch.ip("link", "set", "bridge", "up")
            for number, name in enumerate(names, 2):
                self._connect(self._machine(name, number))
                self.machines[name] = self._machine_made
            for machine in self.machines.values():
                for other in self.machines.values():
                    if other is not machine:
                        self._reach(machine, other, other.hardware)
        except BaseException:
            self.close()
            raise

    def _machine(self, name: str, number: int) -> Machine:
        self._machine_made = Machine(name, number)
        self._open.callback(self._machine_made.close)
        return self._machine_made

    def _connect(self, machine: Machine) -> None:
        switch, inside = self._switch, ("address", machine.hardware, "netns", str(machine.pid))
        switch.ip("link", "add", machine.port, "type", "veth", "peer", "name", "eth0", *inside)
        switch.ip("link", "set", machine.port, "master", "bridge", "up")
        machine.ip("address", "add", f"{machine.address}/24", "dev", "eth0")
        machine.ip("link", "set", "eth0", "up")

    def _reach(self, machine: Machine, other: Machine, hardware: str) -> None:
        machine.ip("neigh", "replace", other.address, "lladdr", hardware, "dev", "eth0", "nud", "permanent")

    def cut(self, sender: str, receiver: str, *, one_way: bool = False) -> None:
        """Drop what ``sender`` sends to ``receiver``, and what that answers unless ``one_way``."""
        self._reach(self.machines[sender], self.machines[receiver], NOBODY)
        if not one_way:
            self.cut(receiver, sender, one_way=True)

    def heal(self, one: str, other: str) -> None:
        """Undo any cut between two machines."""
        for machine, peer in self._pair(one, other):
            self._reach(machine, peer, peer.hardware)

    def _pair(self, one: str, other: str) -> Iterator[tuple[Machine, Machine]]:
        first, second = self.machines[one], self.machines[other]
        yield from ((first, second), (second, first))

    def unplug(self, name: str) -> None:
        """Take the cable of one machine out."""
        self._switch.ip("link", "set", self.machines[name].port, "down")

    def plug_in(self, name: str) -> None:
        """Put it back."""
        self._switch.ip("link", "set", self.machines[name].port, "up")

    def close(self) -> None:
        """End every holder. Idempotent."""
        self._open.close()
