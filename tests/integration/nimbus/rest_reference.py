"""The fields that clients written for Storm read, by path, and what is not here with the reason why.

Run it to write the generated part of docs/rest.md anew:  python tests/integration/nimbus/rest_reference.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tupletree._security.rights import Right
from tupletree.nimbus.web.endpoint import PREFIX
from tupletree.nimbus.web.routes import ENDPOINTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "rest.md"
MARK = "<!-- Everything below is written by tests/integration/nimbus/rest_reference.py. -->\n"

TOPOLOGY_RESOURCES = (
    "requestedMemOnHeap requestedMemOffHeap requestedTotalMem requestedCpu requestedGenericResources "
    "assignedMemOnHeap assignedMemOffHeap assignedTotalMem assignedCpu assignedGenericResources"
)
COMPONENT_RESOURCES = "requestedMemOnHeap requestedMemOffHeap requestedCpu requestedGenericResourcesComp"
ERROR = "lastError errorHost errorPort errorTime errorLapsedSecs errorWorkerLogLink"
SUMMARY = (
    "id encodedId name owner status uptime uptimeSeconds tasksTotal workersTotal executorsTotal replicationCount "
    f"schedulerInfo topologyVersion stormVersion {TOPOLOGY_RESOURCES}"
)
WORKER = (
    "supervisorId host port topologyId topologyName owner executorsTotal componentNumTasks assignedMemOnHeap "
    "assignedMemOffHeap assignedCpu uptime uptimeSeconds workerLogLink"
)
SUPERVISOR = (
    "id host uptime uptimeSeconds slotsTotal slotsUsed slotsFree totalMem totalCpu usedMem usedCpu availMem availCpu "
    "totalGenericResources usedGenericResources availGenericResources version blacklisted logLink"
)
OWNER = (
    "owner totalTopologies totalWorkers totalExecutors totalTasks totalMemoryUsage totalCpuUsage memoryGuarantee "
    "cpuGuarantee memoryGuaranteeRemaining cpuGuaranteeRemaining isolatedNodes totalReqOnHeapMem totalReqOffHeapMem "
    "totalReqMem totalReqCpu totalAssignedOnHeapMem totalAssignedOffHeapMem"
)
STATS = "window windowPretty emitted transferred acked failed"
BOLT = "executeLatency executed processLatency"
EXECUTOR = "id encodedId uptime uptimeSeconds host port emitted transferred acked failed workerLogLink"
DONE = "topologyOperation topologyId status"
MATCH = "byteOffset beforeString matchString afterString logviewerURL"
LEVEL = "namedLoggerLevels.*: target_level reset_level timeout timeout_epoch"

STORM: dict[str, list[str]] = {
    "GET /cluster/configuration": [],
    "GET /cluster/summary": [
        "user stormVersion versionMatch supervisors topologies slotsTotal slotsUsed slotsFree executorsTotal "
        "tasksTotal totalMem totalCpu availMem availCpu fragmentedMem fragmentedCpu memAssignedPercentUtil "
        "cpuAssignedPercentUtil availGenerics totalGenerics schedulerDisplayResource bugtracker-url central-log-url "
        "alternativeWorkerVersions"
    ],
    "GET /nimbus/summary": ["nimbuses: host port status version nimbusUpTime nimbusUpTimeSeconds nimbusLogLink"],
    "GET /owner-resources": ["schedulerDisplayResource", f"owners: {OWNER}"],
    "GET /owner-resources/{id}": [OWNER, f"topologies: {SUMMARY}"],
    "GET /history/summary": ["topo-history"],
    "GET /supervisor/summary": [
        "schedulerDisplayResource logviewerPort logviewerScheme",
        f"supervisors: {SUPERVISOR}",
    ],
    "GET /supervisor": ["schedulerDisplayResource", f"supervisors: {SUPERVISOR}", f"workers: {WORKER}"],
    "GET /topology/summary": ["schedulerDisplayResource", f"topologies: {SUMMARY}"],
    "GET /topology/{id}": [
        f"{SUMMARY} user window windowHint msgTimeout configuration debug samplingPct visualizationTable "
        "schedulerDisplayResource requestedRegularOnHeapMem requestedSharedOnHeapMem requestedRegularOffHeapMem "
        "requestedSharedOffHeapMem assignedRegularOnHeapMem assignedSharedOnHeapMem assignedRegularOffHeapMem "
        "assignedSharedOffHeapMem",
        f"topologyStats: {STATS} completeLatency",
        "spouts: spoutId encodedSpoutId executors tasks emitted transferred completeLatency acked failed "
        f"{COMPONENT_RESOURCES} {ERROR}",
        f"bolts: boltId encodedBoltId executors tasks emitted transferred acked failed capacity {BOLT} "
        f"{COMPONENT_RESOURCES} {ERROR}",
        f"workers: {WORKER}",
    ],
    "GET /topology-workers/{id}": ["logviewerPort logviewerScheme", "hostPortList: host port"],
    "GET /topology/{id}/metrics": [
        "window windowHint",
        "spouts: id",
        *(f"spouts.{one}: stream_id value" for one in ("emitted", "transferred", "acked", "failed", "complete_ms_avg")),
        "bolts: id",
        *(f"bolts.{one}: stream_id value" for one in ("emitted", "transferred")),
        *(
            f"bolts.{one}: component_id stream_id value"
            for one in ("acked", "failed", "process_ms_avg", "executed", "executed_ms_avg")
        ),
    ],
    "GET /topology/{id}/lag": ["*: spoutId spoutType spoutLagResult"],
    "GET /topology/{id}/visualization-init": ["visualizationTable.:row: stream sani-stream checked"],
    "GET /topology/{id}/visualization": [
        "*: :type :capacity :latency :transferred :stats :link :inputs",
        "*.:stats: :host :port :uptime_secs :transferred",
        "*.:inputs: :component :stream :sani-stream :grouping",
    ],
    "GET /topology/{id}/component/{component}": [
        f"user id encodedId name executors tasks {COMPONENT_RESOURCES} schedulerDisplayResource topologyId "
        "topologyStatus encodedTopologyId window componentType windowHint debug samplingPct eventLogLink "
        "profilingAndDebuggingCapable profileActionEnabled",
        "profilerActive: host port dumplink timestamp",
        "componentErrors: errorTime errorHost errorPort error errorLapsedSecs errorWorkerLogLink time",
        f"spoutSummary: {STATS} completeLatency",
        f"boltStats: {STATS} {BOLT} capacity",
        "inputStats: component encodedComponentId stream executeLatency processLatency executed acked failed",
        "outputStats: stream emitted transferred completeLatency acked failed",
        f"executorStats: {EXECUTOR} completeLatency capacity {BOLT}",
    ],
    "GET /topology/{id}/logconfig": [LEVEL],
    "POST /topology/{id}/logconfig": [LEVEL],
    "POST /topology/{id}/activate": [DONE],
    "POST /topology/{id}/deactivate": [DONE],
    "POST /topology/{id}/rebalance/{wait}": [DONE],
    "POST /topology/{id}/kill/{wait}": [DONE],
    "POST /topology/{id}/debug/{action}/{samplingPct}": [DONE],
    "POST /topology/{id}/component/{component}/debug/{action}/{samplingPct}": [DONE],
    "POST /topology/{id}/profiling/start/{hostPort}/{timeout}": ["status id timeout dumplink"],
    "POST /topology/{id}/profiling/stop/{hostPort}": ["status id"],
    "POST /topology/{id}/profiling/dumpjstack/{hostPort}": ["status id"],
    "POST /topology/{id}/profiling/dumpheap/{hostPort}": ["status id dumplink"],
    "POST /topology/{id}/profiling/restartworker/{hostPort}": ["status id"],
    "GET /log": [],
    "GET /daemonlog": [],
    "GET /download": [],
    "GET /daemondownload": [],
    "GET /searchLogs": [],
    "GET /listLogs": [],
    "GET /dumps/{id}/{hostPort}": [],
    "GET /dumps/{id}/{hostPort}/{file}": [],
    "GET /search": ["isDaemon searchString startByteOffset nextByteOffset", f"matches: {MATCH}"],
    "GET /deepSearch/{id}": ["searchString fileOffset", "matches: fileName matches", f"matches.matches: {MATCH}"],
}

WITHOUT_MEANING = {
    f"{TOPOLOGY_RESOURCES} and the like of supervisors and owners": (
        "0 or empty under `nimbus.scheduler: even`, when executors are placed by slots"
    ),
    COMPONENT_RESOURCES: "Likewise; what each executor needs",
    "requestedMemOffHeap assignedMemOffHeap fragmentedMem fragmentedCpu and the Shared ones": (
        "0: all memory of a worker is one amount"
    ),
    "memoryGuarantee cpuGuarantee memoryGuaranteeRemaining cpuGuaranteeRemaining": (
        "The owner's quota, an upper limit; `N/A` without one"
    ),
    "isolatedNodes": "The size of the owner's pool (`multitenant.scheduler.user.pools`); `N/A` without one",
    "schedulerDisplayResource": "`true` under `nimbus.scheduler: resource`: pages then show the columns of resources",
    "rack isolatedTopology userPool": (
        "Of supervisors: `supervisor.rack`, the topology that has the machine to itself "
        "(`isolation.scheduler.machines`, `topology.isolate.machines`), and the user to whose pool it belongs "
        "(`multitenant.scheduler.user.pools`); empty without one"
    ),
    "cgroups": "true if the kernel enforces the limits of the machine's workers (`supervisor.cgroup.use`)",
    "blacklisted": "true while a machine that kept failing gets no new workers (`blacklist.scheduler.tolerance.count`)",
    "alternativeWorkerVersions bugtracker-url central-log-url": "Empty or null: there are none",
    "visualizationTable of topology/{id}": "Empty, as in Storm: visualization-init has it",
    "stormVersion": "Tupletree's own version",
}

ABSENT = {
    "GET profiling/…": "Storm changes state by GET there; here only POST does",
    "profiling/dumpprofile/{host-port}": "A profile becomes a file when its time is over, not before; see dumps",
    "doAsUser": "The header `tupletree-as-user` ([security](security.md#what-there-is))",
    "daemonlog and daemondownload of supervisors and ackers": "Their logs are on their machines; nimbus's is served",
    "search of daemons' logs (is-daemon)": "Likewise",
    "searchLogs by user": "Log files of gone topologies are not listed",
    "/drpc/{func}": "Served by [DRPC servers](guides/drpc.md), on `drpc.http.port`",
    "/flux.html": "No drawing of a [YAML](guides/flux.md) file; the page of a topology draws what runs",
}

_SAMPLES = {
    "{id}": "words-1-1700000000",
    "{component}": "split",
    "{wait}": "30",
    "{action}": "enable",
    "{samplingPct}": "10",
    "{hostPort}": "10.0.0.7:6700",
    "{timeout}": "1",
    "{store}": "rejected",
    "{letter}": "5f3ab1c204d7e698",
    "{file}": "profile-20260101T120000.svg",
}
_QUERIES = {
    "/supervisor": "?id=host-1a2b3c4d",
    "/topology/{id}": "?window=600",
    "/topology/{id}/component/{component}": "?window=600&sys=true",
    "/topology/{id}/series": "?component=split",
    "/log": "?file=words-1-1700000000%2F6700%2Fworker.log&length=2000",
    "/daemonlog": "?length=2000",
    "/download": "?file=words-1-1700000000%2F6700%2Fworker.log",
    "/listLogs": "?topoId=words-1-1700000000",
    "/searchLogs": "?topoId=words-1-1700000000&port=6700",
    "/search": "?file=words-1-1700000000%2F6700%2Fworker.log&search-string=error",
    "/dead-letters/{store}": "?topology=orders&limit=20",
    "/dead-letters/{store}/drop": "?topology=orders&until=1700000000",
    "/deepSearch/{id}": "?search-string=error&num-matches=20",
}
_BODIES = {
    "/topology/{id}/rebalance/{wait}": '{"rebalanceOptions": {"numWorkers": 2, "executors": {"split": 4}}}',
    "/topology/{id}/configuration": '{"set": {"topology.max.spout.pending": 500}, "unset": [], "waitSeconds": 10}',
    "/topology/{id}/logconfig": '{"namedLoggerLevels": {"ROOT": {"target_level": "DEBUG", "timeout": 60}}}',
}


def rendered() -> str:
    """The generated part of docs/rest.md."""
    lines = ["## Rights", ""]
    required = {one.row.right for one in ENDPOINTS}
    lines += [f"* `{one.name.lower()}`: {one.value}" for one in Right if one in required]
    lines += ["", "## Paths", ""]
    for one in ENDPOINTS:
        lines += [f"### {one.method} `{PREFIX}{one.path}`", "", f"{one.summary}. Right: {one.right}.", ""]
        lines += [f"    {_example(one.method, one.path)}", ""]
        if one.query:
            lines += [f"* `{name}`: {meaning}" for name, (_, meaning, _must) in one.query.items()] + [""]
        lines += [*_fields(one.reply), ""]
    lines += ["## Fields of Storm's that hold nothing here", "", "| fields | why |", "|---|---|"]
    lines += [f"| {_names(names)} | {why} |" for names, why in WITHOUT_MEANING.items()]
    lines += ["", "## Not here", "", "| what | why |", "|---|---|"]
    lines += [f"| {what} | {why} |" for what, why in ABSENT.items()]
    return "\n".join(lines) + "\n"


def _names(words: str) -> str:
    """Fields among words: the fields as code."""
    plain = {"and", "the", "other", "ones", "like", "of", "supervisors", "owners", "Regular", "Shared"}
    return " ".join(word if word in plain else f"`{word}`" for word in words.split())


def _example(method: str, path: str) -> str:
    url = "http://127.0.0.1:8080" + PREFIX + re.sub(r"\{\w+\}", lambda found: _SAMPLES[found[0]], path)
    url = url.replace("/acker/words-1-1700000000", "/acker/acker-0a1b2c3d4e5f")
    url = url.replace("/owner-resources/words-1-1700000000", "/owner-resources/ann")
    if method == "GET":
        return f"curl '{url}{_QUERIES.get(path, '')}'"
    url += _QUERIES.get(path, "")
    return f"curl -X POST -H 'Content-Type: application/json' -d '{_BODIES.get(path, '{}')}' '{url}'"


def _fields(kind: Any, at: str = "") -> list[str]:
    """One line for each object of a reply: where it is, and its fields."""
    if isinstance(kind, str):
        return [{"text": "A text.", "bytes": "A file."}.get(kind, f"A list of {kind}s.")] if not at else []
    if isinstance(kind, list):
        return _fields(kind[0], f"{at}[]") if not isinstance(kind[0], str) or not at else []
    if set(kind) == {"oneOf"}:
        return [line for one in kind["oneOf"] for line in _fields(one, at)]
    if set(kind) == {"*"} and isinstance(kind["*"], str):
        return [] if at else ["Keys and their values."]
    names = ", ".join(f"`{name}`" for name in kind)
    lines = [f"* {f'`{at}`: ' if at else ''}{names}"] if set(kind) != {"*"} else []
    for name, inner in kind.items():
        lines += _fields(inner, f"{at}.{name}" if at else name)
    return lines


if __name__ == "__main__":
    head = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(head + MARK + "\n" + rendered())
