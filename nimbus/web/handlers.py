"""Handlers of the REST API: each reads the state and calls a pure module to build the response."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any
from urllib.parse import quote

from starlette.responses import FileResponse, PlainTextResponse, StreamingResponse

from tupletree._coord.store import Store
from tupletree._security.current import current
from tupletree._security.guard import caller
from tupletree._security.rights import may_read_all
from tupletree.errors import NotFoundError, UnavailableError, UsageError
from tupletree.v1 import topology_pb2 as pb

from .. import autoscale_replies
from ..blob_requests import BlobRequests
from ..cluster_view import ClusterView
from ..config import NimbusConfig
from ..debug_settings import in_force
from ..leader import lifecycle
from ..leader_api import LeaderApi
from ..masking import masked
from ..prometheus_sd import targets
from ..savepoints import Savepoints
from ..state_queries import StateQueries
from ..updates import Rollback
from . import (
    ackers,
    actions,
    cluster,
    component,
    health,
    history,
    logs,
    overview,
    progress,
    topology,
    visualization,
)
from .conf_page import conf_page, conf_request
from .letter_handlers import LetterHandlers
from .letter_stores import LetterStores
from .profiling_handlers import ProfilingHandlers
from .requests import ApiCall
from .shared_handlers import SharedHandlers
from .state_handlers import StateHandlers
from .stored_progress import stored_checkpoints, stored_transactions
from .supervisors import Supervisors
from .topology import Topology


class Handlers(LetterHandlers, SharedHandlers, StateHandlers, ProfilingHandlers):
    """One method per endpoint of routes.py."""

    def __init__(
        self,
        leader_api: LeaderApi,
        state_queries: StateQueries,
        blob_requests: BlobRequests,
        store: Store,
        config: NimbusConfig,
        http_port: int,
        savepoints: Savepoints,
    ) -> None:
        self._store = store
        self._config = config
        self._http_port = http_port
        self._supervisors = Supervisors()
        LetterHandlers.__init__(self, LetterStores(config.letter_stores))
        SharedHandlers.__init__(self, leader_api, blob_requests)
        StateHandlers.__init__(self, leader_api, state_queries, savepoints)

    # The cluster

    async def cluster_configuration(self, call: ApiCall) -> Any:
        return masked(self._config.conf)

    async def cluster_summary(self, call: ApiCall) -> Any:
        stores = len(self._letters.all()) if may_read_all(caller.get(), current().admins) else 0
        return cluster.summary(await self._leader_api.view(), call.user, stores)

    async def cluster_overview(self, call: ApiCall) -> Any:
        view = await self._leader_api.view()
        errors = await self._leader_api.recent_errors(one.id for one in view.records())
        outlines = [(one, await self._leader_api.outline(one)) for one in view.records()]
        return overview.page(Topology(view, one, spec, errors.get(one.id, []), call.base) for one, spec in outlines)

    async def cluster_health(self, call: ApiCall) -> Any:
        return health.page(await self._leader_api.verdict())

    async def nimbus_summary(self, call: ApiCall) -> Any:
        return cluster.nimbuses(await self._leader_api.view(), self._config.conf["nimbus.seeds"], call.base)

    async def supervisor_summary(self, call: ApiCall) -> Any:
        return cluster.supervisors(await self._leader_api.view(), call.base, self._http_port)

    async def supervisor(self, call: ApiCall) -> Any:
        view, query = await self._leader_api.view(), call.query
        return cluster.supervisor(view, query.get("id", ""), query.get("host", ""), call.base, self._http_port)

    async def owners(self, call: ApiCall) -> Any:
        return cluster.owners(await self._leader_api.view())

    async def owner(self, call: ApiCall) -> Any:
        view = await self._leader_api.view()
        return cluster.owner(view, call.path["id"]) | topology.summaries(view, call.path["id"])

    async def history(self, call: ApiCall) -> Any:
        view = await self._leader_api.view()
        return history.summary(view.records(), await self._leader_api.past_topologies(view))

    async def past_topology(self, call: ApiCall) -> Any:
        past = await self._leader_api.past_topology(await self._leader_api.view(), call.path["id"])
        return history.page(past, call.base, time.time())

    async def prometheus_targets(self, call: ApiCall) -> Any:
        # The right to read metrics covers all workers, and their metrics name the topology. So all workers are listed.
        return targets(await self._leader_api.view(is_whole=True))

    # Topologies

    async def topology_summary(self, call: ApiCall) -> Any:
        return topology.summaries(await self._leader_api.view())

    async def topology(self, call: ApiCall) -> Any:
        return topology.page(await self._topology(call), call.window, call.sys, call.user)

    async def configuration(self, call: ApiCall) -> Any:
        return conf_page((await self._leader_api.view()).record(call.path["id"]))

    async def topology_workers(self, call: ApiCall) -> Any:
        return topology.worker_list(await self._topology(call), self._http_port)

    async def component(self, call: ApiCall) -> Any:
        found = await self._topology(call)
        return component.page(
            found,
            call.path["component"],
            call.window,
            call.sys,
            call.user,
            self._supervisors.profiling(found.record.id),
        )

    async def metrics(self, call: ApiCall) -> Any:
        return visualization.metrics(await self._topology(call), call.window, call.sys)

    async def boxes(self, call: ApiCall) -> Any:
        return visualization.boxes(await self._topology(call), call.sys)

    async def graph(self, call: ApiCall) -> Any:
        return visualization.graph(await self._topology(call), call.window, call.sys)

    async def series(self, call: ApiCall) -> Any:
        return topology.series(await self._topology(call), call.query.get("component", ""))

    async def lag(self, call: ApiCall) -> Any:
        return progress.lag(await self._topology(call))

    async def autoscale(self, call: ApiCall) -> Any:
        view = await self._leader_api.view()
        return autoscale_replies.page(view, view.record(call.path["id"]))

    async def log_config(self, call: ApiCall) -> Any:
        view = await self._leader_api.view()
        return actions.shown_log_levels(view.record(call.path["id"]), view.now_unix_s)

    # Progress

    async def statuses(self, call: ApiCall) -> Any:
        found = await self._topology(call)
        return {"topologyId": found.record.id, "statuses": progress.statuses(found)}

    async def pipelines(self, call: ApiCall) -> Any:
        return progress.pipelines(await self._topology(call))

    async def transactions(self, call: ApiCall) -> Any:
        found = await self._topology(call)
        ids = progress.ids_of(found, "coordinator", "transactional_id")
        stored = await asyncio.to_thread(stored_transactions, self._store, found.record, ids)
        return progress.transactions(found, *stored)

    async def checkpoints(self, call: ApiCall) -> Any:
        found = await self._topology(call)
        ids = progress.ids_of(found, "checkpoint", "state_id")
        stored = await asyncio.to_thread(stored_checkpoints, self._store, found.record, ids)
        return progress.checkpoints(found, *stored)

    # Ackers

    async def acker_summary(self, call: ApiCall) -> Any:
        return ackers.summary(await self._leader_api.view())

    async def acker(self, call: ApiCall) -> Any:
        return ackers.page(await self._leader_api.view(), call.path["id"])

    async def acker_series(self, call: ApiCall) -> Any:
        return ackers.series(await self._leader_api.view(), call.path["id"])

    # Logs

    async def log(self, call: ApiCall) -> Any:
        topology_id, port, name = logs.file_of(call)
        start = call.whole("start", -1, 0, 2**53)
        length = call.whole("length", logs.DEFAULT_BYTES, 1, logs.MAX_BYTES)
        place = logs.place_of(await self._logged(topology_id), port, call.query.get("host", ""))
        began = None if start < 0 else start
        part = await self._supervisors.read(self._leader_api.reconciler(), place, name, began, length)
        grep = call.query.get("grep", "")
        if call.wants_json:
            return logs.page(place, name, part, grep)
        return PlainTextResponse(logs.matching(part[1], grep), headers={"cache-control": "no-store"})

    async def download(self, call: ApiCall) -> Any:
        topology_id, port, name = logs.file_of(call)
        place = logs.place_of(await self._logged(topology_id), port, call.query.get("host", ""))
        return await self._file(place, name)

    async def daemon_log(self, call: ApiCall) -> Any:
        path = self._daemon_log(call)
        start = call.whole("start", -1, 0, 2**53)
        length = call.whole("length", logs.DEFAULT_BYTES, 1, logs.MAX_BYTES)
        at, data = await asyncio.to_thread(read_part, path, start, length)
        text = logs.matching(data, call.query.get("grep", ""))
        if call.wants_json:
            return {
                "file": os.path.basename(path),
                "start": at,
                "length": len(data),
                "next": at + len(data),
                "data": text,
            }
        return PlainTextResponse(text, headers={"cache-control": "no-store"})

    async def daemon_download(self, call: ApiCall) -> Any:
        return FileResponse(self._daemon_log(call), media_type="text/plain", filename="nimbus.log")

    async def list_logs(self, call: ApiCall) -> Any:
        view = await self._leader_api.view()
        asked, port = call.query.get("topoId", ""), call.whole("port", 0, 0, 65_535)
        ids = [asked] if asked else [one.id for one in view.records()]
        found = []
        for place in [place for one in ids for place in logs.places_of(await self._logged(one, view), port)]:
            files = await self._supervisors.files(self._leader_api.reconciler(), place)
            found += [(place, file) for file in files]
        return logs.listed(found)

    async def search(self, call: ApiCall) -> Any:
        topology_id, port, name = logs.file_of(call)
        text, most = self._searched(call)
        start = call.whole("start-byte-offset", 0, 0, 2**53)
        place = logs.place_of(await self._logged(topology_id), port, call.query.get("host", ""))
        wanted, reconciler = min(most + 1, logs.MAX_MATCHES), self._leader_api.reconciler()
        found, incomplete = await self._supervisors.search(reconciler, place, name, text, wanted, start)
        return logs.search_result(call, place, found, start, most, incomplete)

    async def deep_search(self, call: ApiCall) -> Any:
        text, most = self._searched(call)
        port = call.whole("port", 0, 0, 65_535)
        found, reasons = [], []
        for place in logs.places_of(await self._logged(call.path["id"]), port):
            try:
                matches, incomplete = await self._supervisors.search(
                    self._leader_api.reconciler(), place, call.query.get("file", ""), text, most
                )
            except (NotFoundError, UnavailableError) as error:
                matches, incomplete = [], str(error)
            found.append((place, [logs.match(call, place, one) for one in matches]))
            reasons.append(incomplete)
        return logs.deep_result(call, found, reasons)

    async def dumps(self, call: ApiCall) -> Any:
        place = await self._logged_place(call)
        return logs.dumps(call.base, place, await self._supervisors.files(self._leader_api.reconciler(), place))

    async def dump(self, call: ApiCall) -> Any:
        name = call.path["file"]
        if not name.startswith(logs.DUMPS):
            raise NotFoundError(f"'{name[:100]}' is not the name of a profile or of a dump of memory")
        return await self._file(await self._logged_place(call), name)

    # Actions

    async def activate(self, call: ApiCall) -> Any:
        await self._change(call, lifecycle.Activate())
        return actions.done(call, "activate")

    async def deactivate(self, call: ApiCall) -> Any:
        await self._change(call, lifecycle.Deactivate())
        return actions.done(call, "deactivate")

    async def rebalance(self, call: ApiCall) -> Any:
        return self._waiting(call, "rebalance", await self._change(call, actions.rebalance(call)))

    async def rollback(self, call: ApiCall) -> Any:
        return self._waiting(call, "rollback", await self._change(call, Rollback(call.seconds("wait"))))

    async def kill(self, call: ApiCall) -> Any:
        return self._waiting(call, "kill", await self._change(call, actions.kill(call)))

    async def set_log_config(self, call: ApiCall) -> Any:
        record = await self._change(call, actions.log_levels(call, time.time()))
        return actions.shown_log_levels(record, time.time())

    async def set_configuration(self, call: ApiCall) -> Any:
        return conf_page(await self._change(call, conf_request(call)))

    async def debug(self, call: ApiCall) -> Any:
        request, operation = actions.sampling(call)
        await self._change(call, request)
        return actions.done(call, operation)

    async def restart_worker(self, call: ApiCall) -> Any:
        view = await self._leader_api.view()
        await self._leader_api.restart_worker(view.record(call.path["id"]).name, *actions.host_port(call))
        return actions.asked(call)

    async def _change(self, call: ApiCall, request: lifecycle.Request) -> pb.TopologyRecord:
        view = await self._leader_api.view()
        return await self._leader_api.change(view.record(call.path["id"]).name, request)

    def _waiting(self, call: ApiCall, operation: str, record: pb.TopologyRecord) -> Any:
        wait_s = max(0.0, record.pending.due_unix_s - time.time())
        return actions.waiting(
            call, operation, wait_s, self._leader_api.reconciler().leader_state.unfinished(record.id)
        )

    async def _topology(self, call: ApiCall) -> Topology:
        view = await self._leader_api.view()
        record = in_force(view.record(call.path["id"]), view.now_unix_s)
        errors = await self._leader_api.errors(record.id)
        return Topology(view, record, await self._leader_api.outline(record), errors, call.base)

    async def _logged(self, topology_id: str, view: ClusterView | None = None) -> logs.Logged:
        """Return a topology whose logs are asked for, which may have been removed. Raises NotFoundError."""
        view = view or await self._leader_api.view()
        if view.has_record(topology_id):
            return logs.Logged(view, topology_id, view.assignment(topology_id).workers)
        return logs.Logged(view, topology_id, (await self._leader_api.past_topology(view, topology_id)).workers)

    async def _logged_place(self, call: ApiCall) -> logs.WorkerPlace:
        host, port = actions.host_port(call)
        return logs.place_of(await self._logged(call.path["id"]), port, host)

    async def _place(self, call: ApiCall) -> logs.WorkerPlace:
        """Return the place of a worker of a topology that exists. Raises NotFoundError."""
        (await self._leader_api.view()).record(call.path["id"])
        return await self._logged_place(call)

    async def _file(self, place: logs.WorkerPlace, name: str) -> StreamingResponse:
        pieces = await self._supervisors.whole(self._leader_api.reconciler(), place, name)
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
        return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)

    def _searched(self, call: ApiCall) -> tuple[str, int]:
        text = call.query.get("search-string", "")
        if not text or len(text) > 1024:
            raise UsageError("search-string must have 1 to 1024 characters")
        return text, call.whole("num-matches", logs.DEFAULT_MATCHES, 1, logs.MAX_MATCHES)

    def _daemon_log(self, call: ApiCall) -> str:
        if call.query.get("file", "nimbus.log") != "nimbus.log":
            raise NotFoundError("only nimbus.log can be read here; other daemons' logs are on their machines")
        path = os.path.join(self._config.logs_dir, "nimbus.log")
        if not os.path.exists(path):
            raise NotFoundError("there is no nimbus.log in the log directory of this nimbus")
        return path


def read_part(path: str, start: int, length: int) -> tuple[int, bytes]:
    """Read ``length`` bytes from ``start``, or from the end if ``start`` is negative. Returns offset and bytes.

    A file that ends before ``start`` was rotated since, and is read from its beginning, as logs of workers are.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        at = max(0, size - length) if start < 0 else start if start <= size else 0
        file.seek(at)
        return at, file.read(length)
