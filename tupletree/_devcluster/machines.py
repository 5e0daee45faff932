"""Machines with addresses of their own, as network namespaces of this one, and a switch between them that can drop.

    machine "nimbus-0"             switch                     machine "supervisor-1"
    eth0 198.18.0.2  ------------ [bridge] ------------       eth0 198.18.0.5
                                      |
    this machine (with an uplink)     |
    tupletree0 198.18.0.254 ----------

A namespace has no name: it exists as long as its holder, a process that waits for the end of its standard input, or
processes inside. The uplink goes with the switch. So nothing is left behind, however the owner ends, provided that the
processes inside end as well.

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
from typing import Final, Self, TypeVar

from tupletree._devcluster.plan import Size, loopback_addresses, names_of
from tupletree._devcluster.running import RunOn, run_here
from tupletree.errors import UnavailableError, UsageError

T = TypeVar("T")

CLONE_NEWNET: Final = 0x40000000
NOBODY: Final = "02:ff:ff:ff:ff:ff"
HOST: Final = 254  # the number of this machine, at the end of the uplink
MAX_MACHINES: Final = 250
MAX_NETWORKS: Final = 256
UPLINK: Final = "tupletree"


def why_not() -> str:
    """Return the reason why namespaces cannot be made here; empty if they can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    if not os.path.exists("/proc/self/ns/net"):
        return "network namespaces need /proc, as Linux has it"
    missing = [program for program in ("ip", "unshare") if shutil.which(program) is None]
    if missing:
        return f"network namespaces need the programs {' and '.join(missing)}, of the packages iproute2 and util-linux"
    tried = subprocess.run(["unshare", "--net", "ip", "link"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else ""


def enter(pid: int) -> None:
    """Put the calling thread, and what it starts, into the network of a process."""
    with open(f"/proc/{pid}/ns/net", encoding="ascii") as network:
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def of_their_own(size: Size) -> Iterator[tuple[dict[str, str], RunOn, str]]:
    """Yield addresses by name for a cluster with a machine per daemon, the way to run there, and a sentence on both.

    The machines are namespaces that this machine reaches; where there can be none, addresses of the loopback interface.
    """
    names, reason = names_of(size), why_not()
    if len(names) > MAX_MACHINES:
        raise UsageError(f"the cluster has {len(names)} machines, expected at most {MAX_MACHINES}")
    with contextlib.ExitStack() as stack:
        if not reason:
            try:
                network = stack.enter_context(Network(names, uplink=True))
            except UnavailableError as error:
                reason = str(error)
            else:
                yield network.addresses, network.run, "Each process has a machine of its own: a network namespace."
                return
        yield (
            loopback_addresses(size),
            run_here,
            f"Each process has an address of the loopback interface, and no namespace of its own: {reason}.",
        )


class Machine:
    """One namespace, with the address of its ``number`` in a network."""

    def __init__(self, name: str, number: int, network: int = 0) -> None:
        self.name = name
        self.address = f"198.18.{network}.{number}"
        self.hardware = f"02:00:00:00:00:{number:02x}"
        self.port = f"port{number}"  # the switch's end of its cable
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal reaches only the owner
        )
        assert self._holder.stdout is not None
        self._holder.stdout.readline()  # the namespace is there
        self.ip("link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        """The holder."""
        return self._holder.pid

    def run(self, call: Callable[[], T]) -> T:
        """Return ``call()`` of a thread inside: sockets it opens and processes it starts are this machine's."""
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
        """Run ip inside. Raises UnavailableError."""
        self.run(lambda: run_ip(*arguments))

    def close(self) -> None:
        """End the holder."""
        self._holder.communicate()
        self._holder.wait()


def run_ip(*arguments: str) -> None:
    """Run ip. Raises UnavailableError with its message."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Network:
    """Machines by name, all at one switch. With ``uplink``, this machine reaches them and they reach it.

    Entering and leaving is the same as making and closing. Raises UnavailableError if the system refuses a part.
    """

    def __init__(self, names: Sequence[str], *, uplink: bool = False) -> None:
        self.machines: dict[str, Machine] = {}
        self._number = 0
        self._open = contextlib.ExitStack()
        try:
            self._switch = self._machine("switch", 1)
            self._switch.ip("link", "add", "bridge", "type", "bridge")
            self._switch.ip("link", "set", "bridge", "up")
            if uplink:
                self._connect_host()
            for number, name in enumerate(names, 2):
                self.machines[name] = self._machine(name, number)
                self._connect(self.machines[name])
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the machines, by name."""
        return {name: machine.address for name, machine in self.machines.items()}

    def run(self, name: str, call: Callable[[], T]) -> T:
        """Return ``call()`` of a thread on a machine."""
        return self.machines[name].run(call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _machine(self, name: str, number: int) -> Machine:
        machine = Machine(name, number, self._number)
        self._open.callback(machine.close)
        return machine

    def _connect_host(self) -> None:
        """Connect this machine, in the first network that has no uplink yet."""
        for number in range(MAX_NETWORKS):
            if os.path.exists(f"/sys/class/net/{UPLINK}{number}"):
                continue
            name, owner = f"{UPLINK}{number}", ("netns", str(os.getpid()))
            self._switch.ip("link", "add", "uplink", "type", "veth", "peer", "name", name, *owner)
            self._switch.ip("link", "set", "uplink", "master", "bridge", "up")
            run_ip("address", "add", f"198.18.{number}.{HOST}/24", "dev", name)
            run_ip("link", "set", name, "up")
            self._number = number
            return
        raise UnavailableError(f"{MAX_NETWORKS} networks of machines exist already")

    def _connect(self, machine: Machine) -> None:
        switch, inside = self._switch, ("address", machine.hardware, "netns", str(machine.pid))
        switch.ip("link", "add", machine.port, "type", "veth", "peer", "name", "eth0", *inside)
        switch.ip("link", "set", machine.port, "master", "bridge", "up")
        machine.ip("address", "add", f"{machine.address}/24", "dev", "eth0")
        machine.ip("link", "set", "eth0", "up")

    def _reach(self, machine: Machine, other: Machine, hardware: str) -> None:
        machine.ip("neigh", "replace", other.address, "lladdr", hardware, "dev", "eth0", "nud", "permanent")

    def cut(self, sender: str, receiver: str, *, one_way: bool = False) -> None:
        """Drop frames from ``sender`` to ``receiver``, and those in the other direction unless ``one_way``."""
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
