"""A cluster whose every daemon runs on a machine of its own, beside one for the client."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

from tupletree import Topology
from tupletree._devcluster.daemon import DaemonProcess
from tupletree._devcluster.guard import Guard
from tupletree._devcluster.machines import Network, enter
from tupletree._devcluster.plan import ZOOKEEPER, Size, names_of, plan_on_machines
from tupletree._devcluster.workers import LiveWorker, live_workers
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.client import NimbusClient
from tupletree.config import defaults
from tupletree.testing import wait_until

START_S = 60
SIZE = Size(supervisors=2, slots=4, ackers=2, nimbuses=2)


class SpreadCluster:
    """ZooKeeper, two nimbuses, two supervisors, two ackers and a client, on eight machines."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        self._open = ExitStack()
        try:
            self._start(conf)
        except BaseException:
            self.close()
            raise

    def _start(self, conf: Mapping[str, Any]) -> None:
        self.network = Network([*names_of(SIZE), "client"])
        self._open.callback(self.network.close)
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="tupletree-network-"))
        if not os.environ.get("NETWORK_KEEP"):  # for its logs
            self._open.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self._open.callback(Guard(self.directory, remove=False).close)
        machines = self.network.machines
        plan = plan_on_machines(self.directory, SIZE, self.network.addresses, defaults(), conf)
        self.conf = plan.conf
        self.daemons = {one.name: DaemonProcess(one, run=partial(self.network.run, one.name)) for one in plan.daemons}
        self.zookeeper = EmbeddedZooKeeper(plan.zookeeper_directory, plan.zookeeper_port, host=plan.host, durable=False)
        self.network.run(ZOOKEEPER, self.zookeeper.start)
        for daemon in self.daemons.values():
            daemon.launch()
        for name, daemon in self.daemons.items():
            wait_until(lambda name=name, daemon=daemon: machines[name].run(daemon.ready), START_S, what=f"{name} ready")
        self._pool = ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), begin, (machines["client"].pid, self.conf)
        )
        self._open.callback(self._pool.shutdown)
        wait_until(self.is_whole, START_S, what="all daemons are registered")

    def ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """``call(client, *arguments)`` on the client's machine; both ways pickled."""
        return self._pool.submit(answer, call, arguments).result()

    def leader(self) -> str:
        """The name of the machine whose nimbus leads; empty if none can be asked."""
        address = self.ask(leader_address).partition(":")[0]
        return next((name for name, one in self.network.machines.items() if one.address == address), "")

    def is_whole(self) -> bool:
        """True if a nimbus leads and sees every supervisor and acker."""
        return bool(self.ask(seen) == (SIZE.supervisors, SIZE.ackers))

    def homes(self, topology: str) -> dict[str, set[str]]:
        """The supervisors' names of the workers of a topology, by component."""
        return dict(self.ask(homes, topology))

    def workers(self, name: str) -> list[LiveWorker]:
        """The worker processes that live on a supervisor's machine."""
        return live_workers(f"{self.directory}/{name}")

    def close(self) -> None:
        """End everything. Idempotent."""
        self._open.close()


# What runs in the client's process. It entered its machine before gRPC had a thread.
_client: NimbusClient | None = None


def begin(holder: int, conf: Mapping[str, Any]) -> None:
    global _client  # noqa: PLW0603 - one process, one client
    enter(holder)
    _client = NimbusClient(conf={**defaults(), **conf})


def answer(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return call(_client, *arguments)


def submit(client: NimbusClient, name: str, make: Callable[..., Topology], how: Any, conf: Mapping[str, Any]) -> None:
    client.submit(name, make(*how), conf)


def kill(client: NimbusClient, name: str) -> None:
    client.kill(name, wait_secs=0)


def rebalance(client: NimbusClient, name: str, workers: int) -> None:
    client.rebalance(name, wait_secs=0, workers=workers)


def leader_address(client: NimbusClient) -> str:
    from tupletree.errors import UnavailableError

    try:
        return client.leader()
    except UnavailableError:
        return ""


def seen(client: NimbusClient) -> tuple[int, int]:
    from tupletree.errors import UnavailableError

    try:
        reply = client.cluster()
    except UnavailableError:
        return 0, 0
    return len(reply.supervisors), len(reply.ackers)


def homes(client: NimbusClient, name: str) -> dict[str, set[str]]:
    topology = client.describe(name)
    found: dict[str, set[str]] = {}
    first = 1
    for component, tasks in sorted(topology.summary.record.tasks.items()):
        wanted = range(first, first + tasks)
        first += tasks
        found[component] = {
            worker.supervisor_id
            for worker in topology.assignment.workers
            if any(executor.first_task in wanted for executor in worker.executors)
        }
    return found
