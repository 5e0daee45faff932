"""The Nimbus gRPC service, a thin layer over LeaderApi. A standby answers only GetLeader and FetchBundle."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc.aio

from tupletree._security.current import current
from tupletree._security.guard import caller
from tupletree.errors import AuthorityError, UnavailableError, UsageError
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1.nimbus_pb2_grpc import NimbusServicer

from . import autoscale_replies, debug_settings, rpc_replies
from .blob_requests import BlobRequests
from .conf_changes import SetConf
from .leader import lifecycle
from .leader.known_leader import KnownLeader
from .leader_api import LeaderApi
from .masking import masked
from .metrics import NimbusMetrics
from .state_places import located
from .state_queries import StateQueries
from .state_sizes import SizeQueries
from .state_writes import WriteRequests
from .statistics.report_validation import check_report
from .submission.blob_store import BlobStore
from .submission.submission import Submissions
from .threads import disk
from .update_requests import UpdateRequests
from .updates import Rollback

_CHUNK_BYTES = 1024 * 1024

Context = grpc.aio.ServicerContext[Any, Any]


class NimbusService(NimbusServicer):
    """Translate between gRPC messages and LeaderApi."""

    def __init__(
        self,
        leader_api: LeaderApi,
        state_queries: StateQueries,
        known: KnownLeader,
        submissions: Submissions,
        updates: UpdateRequests,
        blob_requests: BlobRequests,
        blobs: BlobStore,
        metrics: NimbusMetrics,
        conf: Mapping[str, Any],
    ) -> None:
        self._leader_api = leader_api
        self._state_queries = state_queries
        self._state_writes = WriteRequests(state_queries)
        self._state_sizes = SizeQueries(leader_api, state_queries)
        self._known = known
        self._submissions = submissions
        self._updates = updates
        self._blob_requests = blob_requests
        self._blobs = blobs
        self._metrics = metrics
        self._conf = conf

    async def GetLeader(self, request: rpc.GetLeaderRequest, context: Context) -> rpc.GetLeaderReply:
        reconciler, leadership = self._known.own, self._known.leadership
        if leadership is None or (reconciler is None and leadership.identity == self._known.identity):
            return rpc.GetLeaderReply()  # no leader, or this nimbus is elected but not ready yet
        if leadership.identity == self._known.identity and self._known.is_cut_off:
            raise UnavailableError("ZooKeeper does not answer, so this nimbus may no longer lead; try again later")
        return rpc.GetLeaderReply(
            address=leadership.address,
            epoch=leadership.epoch,
            is_me=reconciler is not None and reconciler.leader_state.epoch == leadership.epoch,
        )

    async def Submit(self, request_iterator: AsyncIterator[rpc.SubmitRequest], context: Context) -> rpc.SubmitReply:
        reconciler = self._leader_api.reconciler()
        outcome = "failed"
        try:
            topology_id = await self._submissions.submit(request_iterator, reconciler)
            outcome = "accepted"
        except AuthorityError as error:
            raise UnavailableError(f"nothing was submitted: {error}") from error
        except UsageError:
            outcome = "refused"
            raise
        finally:
            self._metrics.submissions.labels(outcome).inc()
        return rpc.SubmitReply(topology_id=topology_id)

    async def Update(self, request_iterator: AsyncIterator[rpc.SubmitRequest], context: Context) -> rpc.UpdateReply:
        return await self._updates.update(request_iterator)

    async def Rollback(self, request: rpc.RollbackRequest, context: Context) -> rpc.TopologyReply:
        wait_s = request.wait_s if request.HasField("wait_s") else None
        return await self._change(request.name, Rollback(wait_s))

    async def Kill(self, request: rpc.KillRequest, context: Context) -> rpc.TopologyReply:
        wait_s = request.wait_s if request.HasField("wait_s") else None
        return await self._change(request.name, lifecycle.Kill(wait_s, _user()))

    async def Activate(self, request: rpc.ActivateRequest, context: Context) -> rpc.TopologyReply:
        return await self._change(request.name, lifecycle.Activate())

    async def Deactivate(self, request: rpc.DeactivateRequest, context: Context) -> rpc.TopologyReply:
        return await self._change(request.name, lifecycle.Deactivate())

    async def Rebalance(self, request: rpc.RebalanceRequest, context: Context) -> rpc.TopologyReply:
        wait_s = request.wait_s if request.HasField("wait_s") else None
        asked = lifecycle.Rebalance(wait_s, request.workers, dict(request.executors), dict(request.tasks))
        return await self._change(request.name, asked)

    async def SetLogLevels(self, request: rpc.SetLogLevelsRequest, context: Context) -> rpc.TopologyReply:
        return await self._change(request.name, debug_settings.SetLogLevels(dict(request.levels), list(request.remove)))

    async def SetSampling(self, request: rpc.SetSamplingRequest, context: Context) -> rpc.TopologyReply:
        asked = debug_settings.SetSampling(request.component, request.percent, request.until_unix_s)
        return await self._change(request.name, asked)

    async def SetTracing(self, request: rpc.SetTracingRequest, context: Context) -> rpc.TopologyReply:
        return await self._change(request.name, debug_settings.SetTracing(request.one_in, request.until_unix_s))

    async def SetConf(self, request: rpc.SetConfRequest, context: Context) -> rpc.TopologyReply:
        wait_s = request.wait_s if request.HasField("wait_s") else None
        return await self._change(request.name, SetConf(request.conf_json, list(request.remove), wait_s))

    async def RestartWorker(
        self, request: rpc.RestartTopologyWorkerRequest, context: Context
    ) -> rpc.RestartTopologyWorkerReply:
        await self._leader_api.restart_worker(request.name, request.host, request.port)
        return rpc.RestartTopologyWorkerReply()

    async def GetConfiguration(
        self, request: rpc.GetConfigurationRequest, context: Context
    ) -> rpc.GetConfigurationReply:
        address = self._leader_api.reconciler().address
        return rpc.GetConfigurationReply(conf_json=json.dumps(masked(self._conf)), address=address)

    async def ListTopologies(self, request: rpc.ListTopologiesRequest, context: Context) -> rpc.ListTopologiesReply:
        view = await self._leader_api.view(is_fresh=True)
        return rpc.ListTopologiesReply(topologies=rpc_replies.topologies(view))

    async def ListPastTopologies(
        self, request: rpc.ListPastTopologiesRequest, context: Context
    ) -> rpc.ListPastTopologiesReply:
        past = await self._leader_api.past_topologies(await self._leader_api.view(is_fresh=True))
        return rpc.ListPastTopologiesReply(topologies=rpc_replies.past_topologies(past, request.name))

    async def DescribeTopology(
        self, request: rpc.DescribeTopologyRequest, context: Context
    ) -> rpc.DescribeTopologyReply:
        view = await self._leader_api.view(is_fresh=True)
        record = view.named(request.name)
        errors = await self._leader_api.errors(record.id)
        return rpc_replies.topology(view, record, await self._leader_api.outline(record), errors)

    async def DescribeAutoscaling(
        self, request: rpc.DescribeAutoscalingRequest, context: Context
    ) -> rpc.DescribeAutoscalingReply:
        view = await self._leader_api.view()
        return autoscale_replies.autoscaling(view, view.named(request.name))

    async def ReadState(self, request: rpc.ReadStateRequest, context: Context) -> rpc.ReadStateReply:
        view = await self._leader_api.view()
        return await self._state_queries.read(view.named(request.name), request)

    async def LocateState(self, request: rpc.LocateStateRequest, context: Context) -> rpc.LocateStateReply:
        view = await self._leader_api.view()
        record = view.named(request.name)
        who = caller.get()
        keyring = current().keyring
        return located(view, record, request.component, keyring, "" if who is None else who.name)

    async def MeasureStates(self, request: rpc.MeasureStatesRequest, context: Context) -> rpc.MeasureStatesReply:
        view = await self._leader_api.view()
        return await self._state_sizes.measure(view.named(request.name), request.component)

    async def WriteState(self, request: rpc.WriteStateRequest, context: Context) -> rpc.WriteStateReply:
        view = await self._leader_api.view(is_fresh=True)
        return await self._state_writes.write(view, view.named(request.name), request)

    async def HoldCheckpoints(self, request: rpc.HoldCheckpointsRequest, context: Context) -> rpc.HoldCheckpointsReply:
        view = await self._leader_api.view()
        return await self._state_queries.hold(view.named(request.name), request.hold_s)

    async def DescribeCluster(self, request: rpc.DescribeClusterRequest, context: Context) -> rpc.DescribeClusterReply:
        return rpc_replies.cluster(await self._leader_api.view(is_fresh=True))

    async def DescribeHealth(self, request: rpc.DescribeHealthRequest, context: Context) -> rpc.DescribeHealthReply:
        return rpc_replies.health(await self._leader_api.verdict())

    async def PutBlob(self, request_iterator: AsyncIterator[rpc.PutBlobRequest], context: Context) -> rpc.BlobReply:
        return await self._blob_requests.put(request_iterator, is_update=False)

    async def UpdateBlob(self, request_iterator: AsyncIterator[rpc.PutBlobRequest], context: Context) -> rpc.BlobReply:
        return await self._blob_requests.put(request_iterator, is_update=True)

    async def DeleteBlob(self, request: rpc.DeleteBlobRequest, context: Context) -> rpc.DeleteBlobReply:
        await self._blob_requests.delete(request.key, is_forced=request.force)
        return rpc.DeleteBlobReply()

    async def ListBlobs(self, request: rpc.ListBlobsRequest, context: Context) -> rpc.ListBlobsReply:
        return await self._blob_requests.list_blobs()

    async def DescribeBlob(self, request: rpc.DescribeBlobRequest, context: Context) -> rpc.BlobReply:
        return await self._blob_requests.describe(request.key)

    async def FetchBlob(self, request: rpc.FetchBlobRequest, context: Context) -> AsyncIterator[rpc.FetchBlobReply]:
        async for reply in self._blob_requests.fetch(request.key):
            yield reply

    async def FetchBundle(
        self, request: rpc.FetchBundleRequest, context: Context
    ) -> AsyncIterator[rpc.FetchBundleReply]:
        chunks = await disk.run(self._blobs.read, request.sha256, request.offset, _CHUNK_BYTES)
        while chunk := await disk.run(next, chunks, b""):
            yield rpc.FetchBundleReply(chunk=chunk)

    async def ReportWorker(
        self, request_iterator: AsyncIterator[rpc.WorkerReport], context: Context
    ) -> AsyncIterator[rpc.WorkerReportReply]:
        topology_id: str | None = None
        async for report in request_iterator:
            reconciler = self._leader_api.reconciler()
            if topology_id is None:
                topology_id = report.topology_id  # the caller is authorized for this topology
            check_report(report, topology_id, functools.partial(reconciler.leader_state.latest, topology_id))
            leader_state = reconciler.leader_state
            is_known = leader_state.report(report, time.monotonic())
            self._metrics.reports.inc()
            yield rpc.WorkerReportReply(
                epoch=leader_state.epoch,
                takes_changes=True,
                wants_all=not is_known,
                next_after_s=leader_state.next_report_s(topology_id),
            )

    async def _change(self, name: str, request: lifecycle.Request) -> rpc.TopologyReply:
        record = await self._leader_api.change(name, request)
        return rpc.TopologyReply(
            record=rpc_replies.shown(record, self._leader_api.reconciler().leader_state.unfinished(record.id))
        )


def _user() -> str:
    """Return the name of the caller; "" if tokens are disabled."""
    who = caller.get()
    return "" if who is None else who.name
