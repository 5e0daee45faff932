"""Every path of the REST API, with its method, required right and handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from .handlers import Handlers
from .requests import ApiCall

Right = Literal[
    "read",
    "conf",
    "log",
    "activate",
    "deactivate",
    "rebalance",
    "kill",
    "log_level",
    "debug",
    "profile",
    "restart_worker",
    "metrics",
]
Answer = Callable[[Handlers, ApiCall], Awaitable[Any]]

PREFIX: Final = "/api/v1"


@dataclass(frozen=True)
class Endpoint:
    """One path and method."""

    method: Literal["GET", "POST"]
    path: str  # below PREFIX, with {…} for path parameters
    right: Right  # required right, on the topology {id} if the path has one
    answer: Answer
    summary: str
    is_kept: bool = False  # cached for a second


def _get(path: str, answer: Answer, summary: str, right: Right = "read", is_kept: bool = True) -> Endpoint:
    return Endpoint("GET", path, right, answer, summary, is_kept)


def _post(path: str, right: Right, answer: Answer, summary: str) -> Endpoint:
    return Endpoint("POST", path, right, answer, summary)


_WORKER: Final = "/topology/{id}/profiling"

ENDPOINTS: Final = (
    _get("/cluster/configuration", Handlers.cluster_configuration, "nimbus's configuration, secrets masked", "conf"),
    _get("/cluster/summary", Handlers.cluster_summary, "The cluster in figures"),
    _get(
        "/cluster/health", Handlers.cluster_health, "One verdict on the cluster, and why, as `tupletree health` says it"
    ),
    _get("/cluster/overview", Handlers.cluster_overview, "What every topology did lately"),
    _get("/nimbus/summary", Handlers.nimbus_summary, "Every nimbus, the leader first"),
    _get("/owner-resources", Handlers.owners, "What the topologies of each owner use"),
    _get("/owner-resources/{id}", Handlers.owner, "What the topologies of one owner use, and which they are"),
    _get("/history/summary", Handlers.history, "The topologies whose logs may be read"),
    _get(
        "/prometheus/targets",
        Handlers.prometheus_targets,
        "What Prometheus is to scrape: HTTP service discovery",
        "metrics",
    ),
    _get("/supervisor/summary", Handlers.supervisor_summary, "Every supervisor"),
    _get("/supervisor", Handlers.supervisor, "One supervisor by id, or those of a host, with their workers"),
    _get("/topology/summary", Handlers.topology_summary, "Every topology"),
    _get("/topology/{id}", Handlers.topology, "One topology: its components, windows, workers and configuration"),
    _get("/topology-workers/{id}", Handlers.topology_workers, "Where a topology's workers are"),
    _get("/topology/{id}/metrics", Handlers.metrics, "Every component by stream"),
    _get("/topology/{id}/lag", Handlers.lag, "How far sources are ahead"),
    _get("/topology/{id}/visualization-init", Handlers.boxes, "The streams to choose from"),
    _get("/topology/{id}/visualization", Handlers.graph, "The graph of components, with figures"),
    _get("/topology/{id}/series", Handlers.series, "The last ten minutes in points of five seconds"),
    _get("/topology/{id}/statuses", Handlers.statuses, "What its tasks say of themselves"),
    _get(
        "/topology/{id}/component/{component}", Handlers.component, "One component: windows, streams, executors, errors"
    ),
    _get("/topology/{id}/logconfig", Handlers.log_config, "The log levels that are set"),
    _get("/acker/summary", Handlers.acker_summary, "Every acker"),
    _get("/acker/{id}", Handlers.acker, "One acker and its shards"),
    _get("/acker/{id}/series", Handlers.acker_series, "The last ten minutes in points of two seconds"),
    _get("/pipeline/{id}", Handlers.pipelines, "A topology's pipelines: batches in flight, rows, reasons"),
    _get(
        "/transactions/{id}", Handlers.transactions, "A topology's transactions: batches in flight, what is committed"
    ),
    _get("/checkpoints/{id}", Handlers.checkpoints, "A topology's checkpoints: how far they are, what is stored"),
    _get("/log", Handlers.log, "Part of a worker's log", "log", is_kept=False),
    _get("/daemonlog", Handlers.daemon_log, "Part of nimbus's own log", "conf", is_kept=False),
    _get("/download", Handlers.download, "A worker's file", "log", is_kept=False),
    _get("/daemondownload", Handlers.daemon_download, "nimbus's own log", "conf", is_kept=False),
    _get("/listLogs", Handlers.list_logs, "The files that workers have written", "log"),
    _get("/searchLogs", Handlers.list_logs, "The same, as Storm's page asks for it", "log"),
    _get("/search", Handlers.search, "Lines of one log that hold a text", "log"),
    _get("/deepSearch/{id}", Handlers.deep_search, "Lines of all logs of a topology that hold a text", "log"),
    _get("/dumps/{id}/{hostPort}", Handlers.dumps, "The profiles of a worker", "log"),
    _get("/dumps/{id}/{hostPort}/{file}", Handlers.dump, "One profile of a worker", "log", is_kept=False),
    _post("/topology/{id}/activate", "activate", Handlers.activate, "Let the spouts emit"),
    _post("/topology/{id}/deactivate", "deactivate", Handlers.deactivate, "Let the spouts pause"),
    _post(
        "/topology/{id}/rebalance/{wait}", "rebalance", Handlers.rebalance, "Redistribute the executors after a wait"
    ),
    _post("/topology/{id}/kill/{wait}", "kill", Handlers.kill, "End the topology after a wait"),
    _post("/topology/{id}/logconfig", "log_level", Handlers.set_log_config, "Set the levels of loggers"),
    _post(
        "/topology/{id}/debug/{action}/{samplingPct}", "debug", Handlers.debug, "Write down tuples of all components"
    ),
    _post(
        "/topology/{id}/component/{component}/debug/{action}/{samplingPct}",
        "debug",
        Handlers.debug,
        "Write down tuples of one component",
    ),
    _post(
        f"{_WORKER}/start/{{hostPort}}/{{timeout}}", "profile", Handlers.start_profile, "Profile a worker for minutes"
    ),
    _post(f"{_WORKER}/stop/{{hostPort}}", "profile", Handlers.stop_profile, "End a profile before its time"),
    _post(f"{_WORKER}/dumpjstack/{{hostPort}}", "profile", Handlers.dump_stacks, "What a worker's threads are doing"),
    _post(f"{_WORKER}/restartworker/{{hostPort}}", "restart_worker", Handlers.restart_worker, "Restart a worker"),
)
