"""The processes of a cluster on one machine, with their ports and configurations. Pure.

Every daemon has its own directory below the cluster's, so that several supervisors or nimbuses on one machine are as
separate as on several machines:

    <cluster>/zookeeper/                 data of ZooKeeper
    <cluster>/logs/zookeeper.log
    <cluster>/<name>/tupletree.yaml      the configuration of the daemon
    <cluster>/<name>/announce.json       written by the daemon once it serves
    <cluster>/<name>/out.log             its standard output and error
    <cluster>/<name>/data/               its local.dir
    <cluster>/<name>/logs/               its logs.dir; workers log below their supervisor's
"""

from __future__ import annotations  # pure

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, cast

from tupletree.errors import UsageError

Role = Literal["nimbus", "supervisor", "acker", "drpc"]

_MODULES: Final = {"drpc": "tupletree.drpc_server"}

ZOOKEEPER: Final = "zookeeper"  # the name of the machine of ZooKeeper
PORT_STEP: Final = 100  # between the ports of the first and the second daemon of a role, when ports are fixed


@dataclass(frozen=True, slots=True)
class Size:
    """The number of processes of each role. ``slots`` is per supervisor.

    ``zookeepers`` is 1, or 0 for a part of a cluster whose ZooKeeper runs elsewhere.
    """

    supervisors: int = 1
    slots: int = 4
    ackers: int = 1
    nimbuses: int = 1
    zookeepers: int = 1
    drpc_servers: int = 0

    def __post_init__(self) -> None:
        zero = dict.fromkeys(("supervisors", "ackers", "drpc_servers"), 0)
        for name, least in {"slots": 1, "nimbuses": self.zookeepers, **zero}.items():
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}, expected at least {least}")

    @property
    def ports(self) -> int:
        """The number of ports that the cluster listens on, including those of ZooKeeper and the workers."""
        daemons = self.nimbuses + self.supervisors + self.ackers + self.drpc_servers
        return self.zookeepers + 2 * daemons + self.supervisors * self.slots


@dataclass(frozen=True, slots=True)
class DaemonPlan:
    """One daemon process. ``conf`` holds the differences from the defaults."""

    role: Role
    index: int
    directory: str
    grpc_port: int
    http_port: int
    slots: tuple[int, ...]
    conf: Mapping[str, Any]
    host: str = "127.0.0.1"

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}"

    @property
    def module(self) -> str:
        """The Python module that runs the daemon."""
        return _MODULES.get(self.role, f"tupletree.{self.role}")

    @property
    def conf_path(self) -> str:
        return f"{self.directory}/tupletree.yaml"

    @property
    def announce_path(self) -> str:
        return f"{self.directory}/announce.json"

    @property
    def output_path(self) -> str:
        return f"{self.directory}/out.log"

    @property
    def log_path(self) -> str:
        return f"{self.directory}/logs/{self.role}.log"


class Listener(NamedTuple):
    """A port to listen on, of a process, and the configuration key that sets the port."""

    name: str
    host: str
    port: int
    who: str
    key: str


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The cluster, or the part of it on this machine. ``conf`` is its clients' configuration; ``host`` ZooKeeper's."""

    directory: str
    host: str
    zookeeper_port: int | None
    daemons: tuple[DaemonPlan, ...]
    conf: Mapping[str, Any]

    @property
    def zookeeper_directory(self) -> str:
        return f"{self.directory}/zookeeper"

    @property
    def log_directory(self) -> str:
        return f"{self.directory}/logs"

    def listeners(self) -> Iterator[Listener]:
        """Yield each port."""
        if self.zookeeper_port is not None:
            yield Listener(ZOOKEEPER, self.host, self.zookeeper_port, "ZooKeeper", "zookeeper.port")
        for daemon in self.daemons:
            name, host = daemon.name, str(daemon.conf.get("bind.host", daemon.host))
            yield Listener(name, host, daemon.grpc_port, name, f"{daemon.role}.port")
            yield Listener(name, host, daemon.http_port, name, f"{daemon.role}.http.port")
            for port in daemon.slots:
                yield Listener(name, host, port, f"a worker of {name}", "supervisor.slots.ports")


class _Dealt:
    """Ports assigned from a list, one after the other."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = iter(ports)

    def zookeeper(self) -> int:
        return next(self._ports)

    def daemon(self, role: Role, index: int) -> tuple[int, int]:
        return next(self._ports), next(self._ports)

    def slots(self, index: int, count: int) -> tuple[int, ...]:
        return tuple(next(self._ports) for _ in range(count))


class _Fixed:
    """The configured ports for the first daemon of each role, plus PORT_STEP for each further daemon."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        self._conf = conf

    def zookeeper(self) -> int:
        return int(self._conf["zookeeper.port"])

    def daemon(self, role: Role, index: int) -> tuple[int, int]:
        step = index * PORT_STEP
        return int(self._conf[f"{role}.port"]) + step, int(self._conf[f"{role}.http.port"]) + step

    def slots(self, index: int, count: int) -> tuple[int, ...]:
        first = int(self._conf["supervisor.slots.ports"][0])
        return tuple(range(first + index * PORT_STEP, first + index * PORT_STEP + count))


def plan_with_ports(directory: str, size: Size, ports: list[int], conf: Mapping[str, Any]) -> ClusterPlan:
    """Return a plan on the given ``size.ports`` ports; ``conf`` overrides the defaults."""
    return _plan(directory, size, _Dealt(ports), conf)


def plan_with_fixed_ports(
    directory: str, size: Size, complete: Mapping[str, Any], conf: Mapping[str, Any]
) -> ClusterPlan:
    """Return a plan on the ports of the ``complete`` configuration. Raises UsageError if two daemons share a port."""
    plan = _plan(directory, size, _Fixed(complete), conf)
    taken: dict[int, str] = {}
    for _, _, port, who, _ in plan.listeners():
        if port in taken:
            raise UsageError(f"port {port} is needed by {taken[port]} and by {who}: ask for fewer slots or daemons")
        taken[port] = who
    return plan


def with_supervisor_confs(plan: ClusterPlan, confs: Sequence[Mapping[str, Any]]) -> ClusterPlan:
    """Return the plan with configurations of their own for its first supervisors."""
    own = {("supervisor", index): conf for index, conf in enumerate(confs)}
    daemons = [replace(one, conf={**one.conf, **own.get((one.role, one.index), {})}) for one in plan.daemons]
    return replace(plan, daemons=tuple(daemons))


def loopback_addresses(size: Size) -> dict[str, str]:
    """Return an address of the loopback interface for each of ``names_of(size)``, from 127.0.0.2 on."""
    first = int(ipaddress.IPv4Address("127.0.0.2"))
    return {name: str(ipaddress.IPv4Address(first + number)) for number, name in enumerate(names_of(size))}


def names_of(size: Size) -> list[str]:
    """Return the names of the machines of a plan with one per daemon, that of ZooKeeper first."""
    roles = {
        "nimbus": size.nimbuses, "supervisor": size.supervisors, "acker": size.ackers, "drpc": size.drpc_servers
    }  # fmt: skip
    return [ZOOKEEPER, *(f"{role}-{index}" for role, count in roles.items() for index in range(count))]


def plan_on_machines(
    directory: str, size: Size, addresses: Mapping[str, str], complete: Mapping[str, Any], conf: Mapping[str, Any]
) -> ClusterPlan:
    """Return a plan with a machine per daemon: all use the ports of the ``complete`` configuration, on their own host.

    ``addresses`` has that of each of ``names_of(size)``.
    """
    first, count = int(complete["supervisor.slots.ports"][0]), size.slots
    port = int(complete["zookeeper.port"])
    nimbus = int(complete["nimbus.port"])
    shared = {
        "zookeeper.session.timeout": 6000,
        **conf,
        "zookeeper.servers": [addresses[ZOOKEEPER]],
        "zookeeper.port": port,
        "nimbus.seeds": [f"{addresses[f'nimbus-{index}']}:{nimbus}" for index in range(size.nimbuses)],
    }
    if size.drpc_servers:
        drpc = int(complete["drpc.port"])
        shared["drpc.servers"] = [f"{addresses[f'drpc-{index}']}:{drpc}" for index in range(size.drpc_servers)]
    daemons = []
    for name in names_of(size)[1:]:
        role, _, index = name.rpartition("-")
        ports = int(complete[f"{role}.port"]), int(complete[f"{role}.http.port"])
        slots = tuple(range(first, first + count)) if role == "supervisor" else ()
        own = {"security.insecure": True, **shared, "bind.host": addresses[name]}
        daemon = _daemon(directory, cast(Role, role), int(index), ports, slots, own, addresses[name])
        identity = {"supervisor.id": name} if role == "supervisor" else {}
        daemons.append(replace(daemon, conf={**daemon.conf, **identity}))
    return ClusterPlan(directory, addresses[ZOOKEEPER], port, tuple(daemons), shared)


def _plan(directory: str, size: Size, ports: _Dealt | _Fixed, conf: Mapping[str, Any]) -> ClusterPlan:
    host = str(conf.get("bind.host", "127.0.0.1"))
    local = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    zookeeper_port = ports.zookeeper() if size.zookeepers else None
    nimbus_ports = [ports.daemon("nimbus", index) for index in range(size.nimbuses)]
    shared = {"zookeeper.session.timeout": 6000, **conf}
    if zookeeper_port is not None:
        shared |= {"zookeeper.servers": [local], "zookeeper.port": zookeeper_port}
    if nimbus_ports:
        shared |= {"nimbus.seeds": [f"{local}:{grpc_port}" for grpc_port, _ in nimbus_ports]}
    drpc_ports = [ports.daemon("drpc", index) for index in range(size.drpc_servers)]
    if drpc_ports:
        shared |= {"drpc.servers": [f"{local}:{grpc_port}" for grpc_port, _ in drpc_ports]}
    daemons = [
        _daemon(directory, "nimbus", index, nimbus_ports[index], (), shared, local) for index in range(size.nimbuses)
    ]
    for index in range(size.supervisors):
        own = ports.daemon("supervisor", index)
        daemons.append(_daemon(directory, "supervisor", index, own, ports.slots(index, size.slots), shared, local))
    daemons += [
        _daemon(directory, "acker", index, ports.daemon("acker", index), (), shared, local)
        for index in range(size.ackers)
    ]
    daemons += [_daemon(directory, "drpc", index, own, (), shared, local) for index, own in enumerate(drpc_ports)]
    return ClusterPlan(directory, local, zookeeper_port, tuple(daemons), shared)


def _daemon(
    cluster: str,
    role: Role,
    index: int,
    ports: tuple[int, int],
    slots: tuple[int, ...],
    shared: Mapping[str, Any],
    host: str,
) -> DaemonPlan:
    directory = f"{cluster}/{role}-{index}"
    conf = {
        **shared,
        "local.dir": f"{directory}/data",
        "logs.dir": f"{directory}/logs",
        f"{role}.port": ports[0],
        f"{role}.http.port": ports[1],
    }
    if slots:
        conf["supervisor.slots.ports"] = list(slots)
    if role == "supervisor" and index > 0:
        conf.pop("supervisor.id", None)  # two daemons cannot share one identity
    return DaemonPlan(role, index, directory, ports[0], ports[1], slots, conf, host)
