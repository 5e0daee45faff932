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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tupletree.errors import UsageError

Role = Literal["nimbus", "supervisor", "acker"]

PORT_STEP: Final = 100  # between the ports of the first and the second daemon of a role, when ports are fixed


@dataclass(frozen=True, slots=True)
class Size:
    """The number of processes of each role. ``slots`` is per supervisor."""

    supervisors: int = 1
    slots: int = 4
    ackers: int = 1
    nimbuses: int = 1

    def __post_init__(self) -> None:
        for name, least in (("supervisors", 0), ("slots", 1), ("ackers", 0), ("nimbuses", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}, expected at least {least}")

    @property
    def ports(self) -> int:
        """The number of ports that the cluster listens on, including those of ZooKeeper and the workers."""
        return 1 + 2 * (self.nimbuses + self.supervisors + self.ackers) + self.supervisors * self.slots


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

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}"

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


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The whole cluster. ``conf`` is the configuration of its clients."""

    directory: str
    host: str
    zookeeper_port: int
    daemons: tuple[DaemonPlan, ...]
    conf: Mapping[str, Any]

    @property
    def zookeeper_directory(self) -> str:
        return f"{self.directory}/zookeeper"

    @property
    def log_directory(self) -> str:
        return f"{self.directory}/logs"

    def listeners(self) -> Iterator[tuple[int, str, str]]:
        """Yield each port, its listener, and the configuration key that sets the port."""
        yield self.zookeeper_port, "ZooKeeper", "zookeeper.port"
        for daemon in self.daemons:
            yield daemon.grpc_port, daemon.name, f"{daemon.role}.port"
            yield daemon.http_port, daemon.name, f"{daemon.role}.http.port"
            for port in daemon.slots:
                yield port, f"a worker of {daemon.name}", "supervisor.slots.ports"


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
    for port, who, _ in plan.listeners():
        if port in taken:
            raise UsageError(f"port {port} is needed by {taken[port]} and by {who}: ask for fewer slots or daemons")
        taken[port] = who
    return plan


def _plan(directory: str, size: Size, ports: _Dealt | _Fixed, conf: Mapping[str, Any]) -> ClusterPlan:
    host = str(conf.get("bind.host", "127.0.0.1"))
    local = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    zookeeper_port = ports.zookeeper()
    nimbus_ports = [ports.daemon("nimbus", index) for index in range(size.nimbuses)]
    shared = {
        "zookeeper.session.timeout": 6000,
        **conf,
        "zookeeper.servers": [local],
        "zookeeper.port": zookeeper_port,
        "nimbus.seeds": [f"{local}:{grpc_port}" for grpc_port, _ in nimbus_ports],
    }
    daemons = [_daemon(directory, "nimbus", index, nimbus_ports[index], (), shared) for index in range(size.nimbuses)]
    for index in range(size.supervisors):
        own = ports.daemon("supervisor", index)
        daemons.append(_daemon(directory, "supervisor", index, own, ports.slots(index, size.slots), shared))
    daemons += [
        _daemon(directory, "acker", index, ports.daemon("acker", index), (), shared) for index in range(size.ackers)
    ]
    return ClusterPlan(directory, local, zookeeper_port, tuple(daemons), shared)


def _daemon(
    cluster: str, role: Role, index: int, ports: tuple[int, int], slots: tuple[int, ...], shared: Mapping[str, Any]
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
    return DaemonPlan(role, index, directory, ports[0], ports[1], slots, conf)
