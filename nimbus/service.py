"""The Nimbus service: each call is translated and handed on. A standby answers GetLeader and FetchBundle only."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import grpc.aio

from tupletree._coord import paths
from tupletree._coord.leader import LeaderElection, Put
from tupletree._coord.store import Leadership, Store, encode
from tupletree._coord.versioned import Versioned
from tupletree._daemon.logs import event
from tupletree._masking import masked
from tupletree.errors import AuthorityError, ConflictError, NotFoundError, UnavailableError, UsageError
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb
from tupletree.v1.nimbus_pb2_grpc import NimbusServicer

from . import cycle, lifecycle, observation, views
from .blobs import BlobStore
from .metrics import NimbusMetrics
from .rule import Rule
from .upload import Uploads, read_outline

log = logging.getLogger("tupletree.nimbus")

_CHUNK_BYTES = 1024 * 1024
_ATTEMPTS = 20

Context = grpc.aio.ServicerContext[Any, Any]


class Office(Protocol):
    """What the service needs of its daemon."""

    store: Store
    election: LeaderElection
    blobs: BlobStore
    uploads: Uploads
    metrics: NimbusMetrics
    identity: str
    version: str
    address: str

    @property
    def conf(self) -> Mapping[str, Any]:
        """The configuration it was started with."""

    @property
    def rule(self) -> Rule | None:
        """The leadership at work, None while this nimbus does not lead."""

    @property
    def leadership(self) -> Leadership | None:
        """Who leads, as last seen in ZooKeeper."""


class NimbusService(NimbusServicer):
    """Translates; the work is done elsewhere."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._outlines: dict[str, pb.TopologySpec] = {}  # by digest

    async def GetLeader(self, request: rpc.GetLeaderRequest, context: Context) -> rpc.GetLeaderReply:
        rule, leadership = self._office.rule, self._office.leadership
        if leadership is None or (rule is None and leadership.identity == self._office.identity):
            return rpc.GetLeaderReply()  # nobody, or this one but not ready yet
        return rpc.GetLeaderReply(
            address=leadership.address,
            epoch=leadership.epoch,
            is_me=rule is not None and rule.reign.epoch == leadership.epoch,
        )

    async def Submit(self, request_iterator: AsyncIterator[rpc.SubmitRequest], context: Context) -> rpc.SubmitReply:
        rule = self._rule()
        outcome = "failed"
        try:
            topology_id = await self._office.uploads.submit(request_iterator, rule.reign)
            outcome = "accepted"
        except AuthorityError as error:
            raise UnavailableError(f"nothing was submitted: {error}") from error
        except UsageError:
            outcome = "refused"
            raise
        finally:
            self._office.metrics.submissions.labels(outcome).inc()
        return rpc.SubmitReply(topology_id=topology_id)

    async def Kill(self, request: rpc.KillRequest, context: Context) -> rpc.TopologyReply:
        wait_s = request.wait_s if request.HasField("wait_s") else None
        return await self._ask(request.name, lifecycle.Kill(wait_s))

    async def Activate(self, request: rpc.ActivateRequest, context: Context) -> rpc.TopologyReply:
        return await self._ask(request.name, lifecycle.Activate())

    async def Deactivate(self, request: rpc.DeactivateRequest, context: Context) -> rpc.TopologyReply:
        return await self._ask(request.name, lifecycle.Deactivate())

    async def Rebalance(self, request: rpc.RebalanceRequest, context: Context) -> rpc.TopologyReply:
        wait_s = request.wait_s if request.HasField("wait_s") else None
        return await self._ask(request.name, lifecycle.Rebalance(wait_s, request.workers, dict(request.executors)))

    async def SetLogLevels(self, request: rpc.SetLogLevelsRequest, context: Context) -> rpc.TopologyReply:
        return await self._ask(request.name, observation.SetLogLevels(dict(request.levels), list(request.remove)))

    async def SetSampling(self, request: rpc.SetSamplingRequest, context: Context) -> rpc.TopologyReply:
        asked = observation.SetSampling(request.component, request.percent, request.until_unix_s)
        return await self._ask(request.name, asked)

    async def SetTracing(self, request: rpc.SetTracingRequest, context: Context) -> rpc.TopologyReply:
        return await self._ask(request.name, observation.SetTracing(request.one_in, request.until_unix_s))

    async def RestartWorker(
        self, request: rpc.RestartTopologyWorkerRequest, context: Context
    ) -> rpc.RestartTopologyWorkerReply:
        rule = self._rule()
        loaded = await asyncio.to_thread(cycle.load, self._office.store)
        record = _named(request.name, loaded.records).value
        worker = views.worker_at(loaded, record, request.host, request.port)
        await rule.restart_worker(loaded.supervisors.get(worker.supervisor_id), record.id, worker)
        return rpc.RestartTopologyWorkerReply()

    async def GetConfiguration(
        self, request: rpc.GetConfigurationRequest, context: Context
    ) -> rpc.GetConfigurationReply:
        self._rule()
        return rpc.GetConfigurationReply(conf_json=json.dumps(masked(self._office.conf)), address=self._office.address)

    async def ListTopologies(self, request: rpc.ListTopologiesRequest, context: Context) -> rpc.ListTopologiesReply:
        rule = self._rule()
        loaded = await asyncio.to_thread(cycle.load, self._office.store)
        found = views.topologies(loaded, rule.reign, time.monotonic(), time.time())
        return rpc.ListTopologiesReply(topologies=found)

    async def DescribeTopology(
        self, request: rpc.DescribeTopologyRequest, context: Context
    ) -> rpc.DescribeTopologyReply:
        rule, store = self._rule(), self._office.store
        loaded = await asyncio.to_thread(cycle.load, store)
        record = _named(request.name, loaded.records).value
        errors = await asyncio.to_thread(store.errors, record.id)
        spec = await self._outline(record)
        return views.topology(loaded, rule.reign, record, spec, errors, time.monotonic(), time.time())

    async def DescribeCluster(self, request: rpc.DescribeClusterRequest, context: Context) -> rpc.DescribeClusterReply:
        rule, store = self._rule(), self._office.store
        loaded = await asyncio.to_thread(cycle.load, store)
        nimbuses = await asyncio.to_thread(store.nimbuses)
        leadership = self._office.leadership
        leader_id = leadership.identity if leadership is not None else ""
        reachable = rule.ackers.alive()
        return views.cluster(loaded, nimbuses, leader_id, reachable, rule.reign.epoch, self._office.version)

    async def FetchBundle(
        self, request: rpc.FetchBundleRequest, context: Context
    ) -> AsyncIterator[rpc.FetchBundleReply]:
        chunks = await asyncio.to_thread(self._office.blobs.read, request.sha256, request.offset, _CHUNK_BYTES)
        while chunk := await asyncio.to_thread(next, chunks, b""):
            yield rpc.FetchBundleReply(chunk=chunk)

    async def ReportWorker(self, request: rpc.WorkerReport, context: Context) -> rpc.WorkerReportReply:
        rule = self._rule()
        rule.reign.report(request, time.monotonic())
        self._office.metrics.reports.inc()
        return rpc.WorkerReportReply(epoch=rule.reign.epoch)

    def _rule(self) -> Rule:
        rule = self._office.rule
        if rule is not None:
            return rule
        leadership = self._office.leadership
        if leadership is None:
            raise UnavailableError("no nimbus leads at the moment")
        raise UnavailableError(f"this nimbus does not lead; the leader is {leadership.address}")

    async def _ask(self, name: str, request: lifecycle.Request) -> rpc.TopologyReply:
        """Apply an operator's request, again on what somebody else wrote in between."""
        rule, store = self._rule(), self._office.store
        for _ in range(_ATTEMPTS):
            stored = _named(name, await asyncio.to_thread(store.topologies))
            record = lifecycle.ask(stored.value, request, time.time())
            if record == stored.value:
                return rpc.TopologyReply(record=record)
            write = Put(paths.topology(store.root, record.id), encode(record), stored.version)
            try:
                await asyncio.to_thread(self._office.election.write, rule.reign.epoch, [write])
            except ConflictError:
                continue
            except AuthorityError as error:
                raise UnavailableError(f"nothing was changed: {error}") from error
            rule.wake()
            status = lifecycle.status_name(record.status)
            was = lifecycle.status_name(stored.value.status)
            event(log, "topology.status", topology=record.id, status=status, was=was, cause=type(request).__name__)
            return rpc.TopologyReply(record=record)
        raise UnavailableError(f"topology '{name}' is being changed by others all the time; try again")

    async def _outline(self, record: pb.TopologyRecord) -> pb.TopologySpec:
        sha256 = record.bundle_sha256
        if sha256 not in self._outlines:
            try:
                self._outlines[sha256] = await asyncio.to_thread(read_outline, self._office.blobs.path(sha256))
            except UsageError:
                return pb.TopologySpec()  # the blob is on its way from another nimbus
        return self._outlines[sha256]


def _named(name: str, records: Mapping[str, Versioned[pb.TopologyRecord]]) -> Versioned[pb.TopologyRecord]:
    for stored in records.values():
        if stored.value.name == name:
            return stored
    raise NotFoundError(f"there is no topology named '{name}'")
