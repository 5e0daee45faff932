"""The table of REST endpoints: method, path, right, handler, fields of the response, parameters."""

from __future__ import annotations

from typing import Any, Final

from tupletree._security.rights import Row

from . import parameters, schemas
from .endpoint import ADMINISTER, CHANGE_ONE, METRICS, SEE, SEE_ALL, SEE_FILE, SEE_LOGS, SEE_ONE, Endpoint, Handler
from .handlers import Handlers
from .schema_objects import ASKED, DONE, LEVELS, SETTINGS, WAITING, Type


def _get(path: str, row: Row, handler: Handler, reply: Type, summary: str, **more: Any) -> Endpoint:
    return Endpoint("GET", path, row, handler, reply, summary, **more)


def _post(path: str, row: Row, handler: Handler, reply: Type, summary: str, **more: Any) -> Endpoint:
    return Endpoint("POST", path, row, handler, reply, summary, is_cached=False, **more)


# fmt: off
ENDPOINTS: Final = (
    _get("/cluster/configuration", SEE, Handlers.cluster_configuration, schemas.CONFIGURATION,
         "nimbus's configuration, secrets masked"),
    _get("/cluster/summary", SEE, Handlers.cluster_summary, schemas.CLUSTER_SUMMARY,
         "The numbers of daemons, slots and topologies"),
    _get("/cluster/health", SEE, Handlers.cluster_health, schemas.CLUSTER_HEALTH,
         "The verdict on the cluster, with reasons, as in `tupletree health`"),
    _get("/cluster/overview", SEE, Handlers.cluster_overview, schemas.CLUSTER_OVERVIEW,
         "Activity of every topology in the last ten minutes"),
    _get("/nimbus/summary", SEE, Handlers.nimbus_summary, schemas.NIMBUS_SUMMARY, "Every nimbus, the leader first"),
    _get("/owner-resources", SEE, Handlers.owners, schemas.OWNERS,
         "Workers, executors and tasks of each owner's topologies"),
    _get("/owner-resources/{id}", SEE, Handlers.owner, schemas.OWNER_PAGE,
         "One owner's topologies, and the sums of their workers, executors and tasks"),
    _get("/history/summary", SEE, Handlers.history, schemas.HISTORY, "The topologies whose logs may be read"),
    _get("/prometheus/targets", METRICS, Handlers.prometheus_targets, schemas.PROMETHEUS_TARGETS,
         "Scrape targets for Prometheus's HTTP service discovery"),
    _get("/supervisor/summary", SEE, Handlers.supervisor_summary, schemas.SUPERVISOR_SUMMARY, "Every supervisor"),
    _get("/supervisor", SEE, Handlers.supervisor, schemas.SUPERVISOR_PAGE,
         "One supervisor by id, or those of a host, with their workers", query=parameters.SUPERVISOR),
    _get("/topology/summary", SEE, Handlers.topology_summary, schemas.TOPOLOGY_SUMMARY, "Every topology"),
    _get("/topology/{id}", SEE_ONE, Handlers.topology, schemas.TOPOLOGY_PAGE,
         "One topology: its components, windows, workers and configuration", query=parameters.WINDOWED),
    _get("/topology/{id}/configuration", SEE_ONE, Handlers.configuration, SETTINGS,
         "The keys of a topology's configuration: values, where they come from, and how each can be changed"),
    _get("/topology-workers/{id}", SEE_ONE, Handlers.topology_workers, schemas.TOPOLOGY_WORKERS,
         "Host and port of each worker of a topology"),
    _get("/topology/{id}/metrics", SEE_ONE, Handlers.metrics, schemas.TOPOLOGY_METRICS,
         "Every component by stream", query=parameters.WINDOWED),
    _get("/topology/{id}/lag", SEE_ONE, Handlers.lag, schemas.LAG, "Lag of coordinators, pipelines and sources"),
    _get("/topology/{id}/visualization-init", SEE_ONE, Handlers.boxes, schemas.VISUALIZATION_INIT,
         "The streams that the graph can show", query=parameters.WINDOWED),
    _get("/topology/{id}/visualization", SEE_ONE, Handlers.graph, schemas.VISUALIZATION,
         "The graph of components, with metrics", query=parameters.WINDOWED),
    _get("/topology/{id}/series", SEE_ONE, Handlers.series, schemas.TOPOLOGY_SERIES,
         "The last ten minutes in points of five seconds", query=parameters.COMPONENT),
    _get("/topology/{id}/statuses", SEE_ONE, Handlers.statuses, schemas.STATUSES, "The latest status of each task"),
    _get("/topology/{id}/component/{component}", SEE_ONE, Handlers.component, schemas.COMPONENT_PAGE,
         "One component: windows, streams, executors, errors", query=parameters.WINDOWED),
    _get("/topology/{id}/component/{component}/state", SEE_ONE, Handlers.state, schemas.STATE,
         "Values of a component's state: of keys, or a page of entries", query=parameters.STATE, is_cached=False),
    _get("/topology/{id}/logconfig", SEE_ONE, Handlers.log_config, LEVELS, "The log levels that are set"),
    _get("/acker/summary", SEE, Handlers.acker_summary, schemas.ACKER_SUMMARY, "Every acker"),
    _get("/acker/{id}", SEE, Handlers.acker, schemas.ACKER_PAGE, "One acker and its shards"),
    _get("/acker/{id}/series", SEE, Handlers.acker_series, schemas.ACKER_SERIES,
         "The last ten minutes in points of two seconds"),
    _get("/pipeline/{id}", SEE_ONE, Handlers.pipelines, schemas.PIPELINES,
         "A topology's pipelines: batches in flight, rows, reasons"),
    _get("/transactions/{id}", SEE_ONE, Handlers.transactions, schemas.TRANSACTIONS,
         "A topology's transactions: batches in flight, what is committed"),
    _get("/checkpoints/{id}", SEE_ONE, Handlers.checkpoints, schemas.CHECKPOINTS,
         "A topology's checkpoints: progress, and what is stored"),
    _get("/log", SEE_FILE, Handlers.log, schemas.TEXT,
         "Part of a worker's log", query={**parameters.FILE, **parameters.PART}, is_cached=False),
    _get("/daemonlog", SEE_ALL, Handlers.daemon_log, schemas.TEXT,
         "Part of nimbus's own log", query={**parameters.DAEMON_FILE, **parameters.PART}, is_cached=False),
    _get("/download", SEE_FILE, Handlers.download, schemas.BYTES,
         "A worker's file", query=parameters.FILE, is_cached=False),
    _get("/daemondownload", SEE_ALL, Handlers.daemon_download, schemas.TEXT,
         "nimbus's own log", query=parameters.DAEMON_FILE, is_cached=False),
    _get("/listLogs", SEE_LOGS, Handlers.list_logs, schemas.LOG_FILES,
         "The files that workers have written", query=parameters.LOGS),
    _get("/searchLogs", SEE_LOGS, Handlers.list_logs, schemas.LOG_FILES,
         "The same as listLogs, at the path that Storm's UI uses", query=parameters.LOGS),
    _get("/search", SEE_FILE, Handlers.search, schemas.SEARCH,
         "Lines of one log that contain a text", query=parameters.SEARCH_FILE),
    _get("/deepSearch/{id}", SEE_ONE, Handlers.deep_search, schemas.DEEP_SEARCH,
         "Lines of all logs of a topology that contain a text", query=parameters.SEARCH_ALL),
    _get("/dumps/{id}/{hostPort}", SEE_ONE, Handlers.dumps, schemas.DUMPS, "The profiles of a worker"),
    _get("/dumps/{id}/{hostPort}/{file}", SEE_ONE, Handlers.dump, schemas.BYTES,
         "One profile of a worker", is_cached=False),
    _get("/dead-letters", SEE_ALL, Handlers.letter_stores, schemas.DEAD_LETTER_STORES,
         "The stores of dead letters that nimbus is configured with, with the number of their letters"),
    _get("/dead-letters/{store}", SEE_ALL, Handlers.letters, schemas.DEAD_LETTERS,
         "Letters of a store, newest first, with texts cut", query=parameters.LETTERS),
    _get("/dead-letters/{store}/{letter}", SEE_ALL, Handlers.letter, schemas.DEAD_LETTER,
         "One letter with its traceback"),
    _post("/topology/{id}/activate", CHANGE_ONE, Handlers.activate, DONE, "Let the spouts emit"),
    _post("/topology/{id}/deactivate", CHANGE_ONE, Handlers.deactivate, DONE, "Let the spouts pause"),
    _post("/topology/{id}/rebalance/{wait}", CHANGE_ONE, Handlers.rebalance, WAITING,
          "Redistribute the executors after a wait", body=parameters.REBALANCE),
    _post("/topology/{id}/rollback/{wait}", CHANGE_ONE, Handlers.rollback, WAITING,
          "Go back to what ran before the last update, after a wait"),
    _post("/topology/{id}/kill/{wait}", CHANGE_ONE, Handlers.kill, WAITING, "End the topology after a wait"),
    _post("/topology/{id}/logconfig", CHANGE_ONE, Handlers.set_log_config, LEVELS,
          "Set the levels of loggers", body=parameters.LOG_LEVELS),
    _post("/topology/{id}/configuration", CHANGE_ONE, Handlers.set_configuration, SETTINGS,
          "Change keys of a running topology's configuration, live or with a restart of the workers",
          body=parameters.CONFIGURATION),
    _post("/topology/{id}/debug/{action}/{samplingPct}", CHANGE_ONE, Handlers.debug, DONE,
          "Start or stop sampling the tuples that all components emit"),
    _post("/topology/{id}/component/{component}/debug/{action}/{samplingPct}", CHANGE_ONE, Handlers.debug, DONE,
          "Start or stop sampling the tuples that one component emits"),
    _post("/topology/{id}/profiling/start/{hostPort}/{timeout}", CHANGE_ONE, Handlers.start_profile,
          schemas.PROFILING_START, "Profile a worker for a number of minutes"),
    _post("/topology/{id}/profiling/stop/{hostPort}", CHANGE_ONE, Handlers.stop_profile, ASKED,
          "Cancel a running profile, without writing a file"),
    _post("/topology/{id}/profiling/dumpjstack/{hostPort}", CHANGE_ONE, Handlers.dump_stacks, schemas.STACKS,
          "The stacks of a worker's threads"),
    _post("/topology/{id}/profiling/restartworker/{hostPort}", CHANGE_ONE, Handlers.restart_worker, ASKED,
          "Restart a worker"),
    _post("/dead-letters/{store}/{letter}/replay", ADMINISTER, Handlers.replay_letters, schemas.LETTERS_CHANGED,
          "Have a DeadLetterSpout emit one letter"),
    _post("/dead-letters/{store}/{letter}/drop", ADMINISTER, Handlers.drop_letters, schemas.LETTERS_CHANGED,
          "Delete one letter"),
    _post("/dead-letters/{store}/replay", ADMINISTER, Handlers.replay_letters, schemas.LETTERS_CHANGED,
          "Have the DeadLetterSpouts emit letters of a store; repeat until `isComplete`", query=parameters.ALL_LETTERS),
    _post("/dead-letters/{store}/drop", ADMINISTER, Handlers.drop_letters, schemas.LETTERS_CHANGED,
          "Delete letters of a store; repeat until `isComplete`", query=parameters.ALL_LETTERS),
)
# fmt: on
