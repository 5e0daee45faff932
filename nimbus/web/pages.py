"""What answers each path: it looks, and a pure module makes the page of it."""

from __future__ import annotations

from typing import Any

from tupletree._masking import masked
from tupletree.v1 import topology_pb2 as pb

from .. import lifecycle
from ..config import NimbusConfig
from ..desk import Desk
from ..look import Look
from . import ackers, actions, cluster, component, overview, topology
from .calls import Call
from .recent_errors import RecentErrors
from .topology import Topology


class Pages:
    """The endpoints of routes.py, by name."""

    def __init__(self, desk: Desk, config: NimbusConfig) -> None:
        self._desk = desk
        self._config = config
        self._errors = RecentErrors(desk)
        self.http_port = 0

    # The cluster

    async def cluster_configuration(self, call: Call) -> Any:
        return masked(self._config.conf)

    async def cluster_summary(self, call: Call) -> Any:
        return cluster.summary(await self._desk.look(), call.user)

    async def cluster_overview(self, call: Call) -> Any:
        look = await self._desk.look()
        errors = await self._errors.of(one.id for one in look.records())
        outlines = [(one, await self._desk.outline(one)) for one in look.records()]
        return overview.page(Topology(look, one, spec, errors.get(one.id, []), call.base) for one, spec in outlines)

    async def nimbus_summary(self, call: Call) -> Any:
        return cluster.nimbuses(await self._desk.look(), self._config.conf["nimbus.seeds"], call.base)

    async def supervisor_summary(self, call: Call) -> Any:
        return cluster.supervisors(await self._desk.look(), call.base, self.http_port)

    async def supervisor(self, call: Call) -> Any:
        look, query = await self._desk.look(), call.query
        return cluster.supervisor(look, query.get("id", ""), query.get("host", ""), call.base, self.http_port)

    async def owners(self, call: Call) -> Any:
        return cluster.owners(await self._desk.look())

    async def owner(self, call: Call) -> Any:
        look = await self._desk.look()
        return cluster.owner(look, call.path["id"]) | topology.summaries(look, call.path["id"])

    async def history(self, call: Call) -> Any:
        return cluster.history(await self._desk.look())

    # Topologies

    async def topology_summary(self, call: Call) -> Any:
        return topology.summaries(await self._desk.look())

    async def topology(self, call: Call) -> Any:
        return topology.page(await self._topology(call), call.window, call.sys, call.user)

    async def topology_workers(self, call: Call) -> Any:
        return topology.worker_list(await self._topology(call), self.http_port)

    async def component(self, call: Call) -> Any:
        found = await self._topology(call)
        return component.page(found, call.path["component"], call.window, call.sys, call.user)

    # Ackers

    async def acker_summary(self, call: Call) -> Any:
        return ackers.summary(await self._desk.look())

    async def acker(self, call: Call) -> Any:
        return ackers.page(await self._desk.look(), call.path["id"])

    # Actions

    async def activate(self, call: Call) -> Any:
        await self._ask(call, lifecycle.Activate())
        return actions.done(call, "activate")

    async def deactivate(self, call: Call) -> Any:
        await self._ask(call, lifecycle.Deactivate())
        return actions.done(call, "deactivate")

    async def rebalance(self, call: Call) -> Any:
        await self._ask(call, actions.rebalance(call))
        return actions.done(call, "rebalance")

    async def kill(self, call: Call) -> Any:
        await self._ask(call, actions.kill(call))
        return actions.done(call, "kill")

    async def _ask(self, call: Call, request: lifecycle.Request) -> pb.TopologyRecord:
        look = await self._desk.look()
        return await self._desk.ask(look.record(call.path["id"]).name, request)

    async def _topology(self, call: Call, look: Look | None = None) -> Topology:
        look = look or await self._desk.look()
        record = look.record(call.path["id"])
        errors = await self._desk.errors(record.id)
        return Topology(look, record, await self._desk.outline(record), errors, call.base)
