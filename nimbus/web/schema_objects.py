"""Fields of the objects in responses: topologies, components, workers, ackers and so on.

A type is ``string``, ``integer``, ``number``, ``boolean`` or ``any``, with the suffix ``?`` if nullable. ``[type]`` is
a list, a dict is an object, and a dict with the single key ``*`` is an object with arbitrary keys.
"""

from __future__ import annotations  # pure

from typing import Any, Final

Type = Any  # str | list[Type] | dict[str, Type]

_MEMORY: Final = {"assignedMemOnHeap": "number", "assignedMemOffHeap": "number", "assignedCpu": "number"}
_COMPONENT_MEMORY: Final = {
    "requestedMemOnHeap": "number",
    "requestedMemOffHeap": "number",
    "requestedCpu": "number",
    "requestedGenericResourcesComp": "string",
}
_TOPOLOGY_MEMORY: Final = {
    **_MEMORY,
    "assignedTotalMem": "number",
    "assignedGenericResources": "string",
    "requestedMemOnHeap": "number",
    "requestedMemOffHeap": "number",
    "requestedTotalMem": "number",
    "requestedCpu": "number",
    "requestedGenericResources": "string",
}
LOGVIEWER: Final = {"logviewerPort": "integer", "logviewerScheme": "string"}
PERCENTILES: Final = {"p50": "number?", "p99": "number?", "p999": "number?"}
GAUGES: Final = {"queued": "integer", "pending": "integer", "congested": "boolean"}
RATES: Final = {"emittedPerSecond": "number", "executedPerSecond": "number", "ackedPerSecond": "number"}
COUNTS: Final = {"emitted": "integer", "transferred": "integer", "acked": "integer", "failed": "integer"}
_BOLT_LATENCIES: Final = {"executeLatency": "string", "executed": "integer", "processLatency": "string"}
WINDOW: Final = {"window": "string", "windowPretty": "string"}

SUPERVISOR: Final = {
    "id": "string",
    "host": "string",
    "uptime": "string",
    "uptimeSeconds": "integer",
    "slotsTotal": "integer",
    "slotsUsed": "integer",
    "slotsFree": "integer",
    "totalMem": "number",
    "totalCpu": "number",
    "usedMem": "number",
    "usedCpu": "number",
    "availMem": "number",
    "availCpu": "number",
    "totalGenericResources": "string",
    "usedGenericResources": "string",
    "availGenericResources": "string",
    "version": "string",
    "blacklisted": "boolean",
    "rack": "string",
    "cgroups": "boolean",
    "isolatedTopology": "string",
    "userPool": "string",
    "logLink": "string",
    "schedulerDisplayResource": "boolean",
    "port": "integer",
    "httpPort": "integer",
    "slots": ["integer"],
}
WORKER: Final = {
    "supervisorId": "string",
    "host": "string",
    "port": "integer",
    "topologyId": "string",
    "topologyName": "string",
    "owner": "string",
    "executorsTotal": "integer",
    "componentNumTasks": {"*": "integer"},
    **_MEMORY,
    "uptime": "string",
    "uptimeSeconds": "integer",
    "workerLogLink": "string",
    "workerId": "string",
    "pid": "integer",
    "ready": "boolean",
    "ageSeconds": "number?",
    "httpPort": "integer",
}
OWNER: Final = {
    "owner": "string",
    "totalTopologies": "integer",
    "totalWorkers": "integer",
    "totalExecutors": "integer",
    "totalTasks": "integer",
    "totalMemoryUsage": "number",
    "totalCpuUsage": "number",
    "memoryGuarantee": "string",
    "cpuGuarantee": "string",
    "isolatedNodes": "string",
    "memoryGuaranteeRemaining": "string",
    "cpuGuaranteeRemaining": "string",
    "totalReqOnHeapMem": "number",
    "totalReqOffHeapMem": "number",
    "totalReqMem": "number",
    "totalReqCpu": "number",
    "totalAssignedOnHeapMem": "number",
    "totalAssignedOffHeapMem": "number",
    "schedulerDisplayResource": "boolean",
}
TOPOLOGY: Final = {
    "id": "string",
    "encodedId": "string",
    "name": "string",
    "owner": "string",
    "status": "string",
    "uptime": "string",
    "uptimeSeconds": "integer",
    "tasksTotal": "integer",
    "workersTotal": "integer",
    "executorsTotal": "integer",
    "replicationCount": "integer",
    "schedulerInfo": "string?",
    **_TOPOLOGY_MEMORY,
    "topologyVersion": "string?",
    "stormVersion": "string",
    "ackerShards": "integer",
    "workersWanted": "integer",
    "updateNumber": "integer",
    "previousUpdateNumber": "integer?",
    "updateIsStarting": "boolean",
    "pendingDueUnixSeconds": "number?",
    "pendingUnfinished": "integer?",
}
ERROR: Final = {
    "component": "string",
    "task": "integer",
    "time": "integer",
    "errorTime": "integer",
    "errorHost": "string",
    "errorPort": "integer",
    "errorLapsedSecs": "integer",
    "errorWorkerLogLink": "string",
    "error": "string",
    "message": "string",
    "times": "integer",
    "firstErrorTime": "integer",
    "tasks": ["integer"],
    "isOver": "boolean",
}
PAST: Final = {
    "id": "string",
    "encodedId": "string",
    "name": "string",
    "owner": "string",
    "submittedUnixSeconds": "number",
    "removedUnixSeconds": "number",
    "ranFor": "string",
    "ranForSeconds": "integer",
    "killedBy": "string",
    "updateNumber": "integer",
}
REASON: Final = {
    "severity": "string",
    "kind": "string",
    "subject": "string",
    "sentence": "string",
    "command": "string",
    "topologyId": "string",
    "component": "string",
}
REMARK: Final = {"remark": "string", "remarkKind": "string"}
_COMPONENT: Final = {
    "executors": "integer",
    "tasks": "integer",
    **COUNTS,
    **_COMPONENT_MEMORY,
    "lastError": "string",
    "errorHost": "string",
    "errorPort": "integer?",
    "errorTime": "integer?",
    "errorLapsedSecs": "integer?",
    "errorWorkerLogLink": "string",
    **RATES,
    **GAUGES,
    **REMARK,
}
SPOUT: Final = {
    "spoutId": "string",
    "encodedSpoutId": "string",
    **_COMPONENT,
    "completeLatency": "string",
    "completeLatencyPercentiles": PERCENTILES,
    "timeouts": "integer",
}
BOLT: Final = {
    "boltId": "string",
    "encodedBoltId": "string",
    **_COMPONENT,
    "capacity": "string",
    **_BOLT_LATENCIES,
    "processLatencyPercentiles": PERCENTILES,
}
LEDGER: Final = {
    "pending": "integer",
    "oldestAgeSeconds": "number",
    "bytesHeld": "integer",
    "inits": "integer",
    "acks": "integer",
    "completed": "integer",
    "failed": "integer",
    "timeouts": "integer",
    "resets": "integer",
}
LEDGER_RATES: Final = {
    "initsPerSecond": "number",
    "completedPerSecond": "number",
    "failedPerSecond": "number",
    "timeoutsPerSecond": "number",
}
ACKER: Final = {
    "id": "string",
    "encodedId": "string",
    "host": "string",
    "port": "integer",
    "httpPort": "integer",
    "version": "string",
    "pid": "integer",
    "status": "string",
    "reachable": "boolean",
    "ready": "boolean",
    "reasons": ["string"],
    "draining": "boolean",
    "uptime": "string",
    "uptimeSeconds": "integer",
    "shards": "integer",
    **LEDGER,
    **LEDGER_RATES,
    "ageSeconds": "number?",
}
OF_STREAM: Final = [{"stream_id": "string", "value": "integer"}]
OF_INPUT: Final = [{"component_id": "string", "stream_id": "string", "value": "integer"}]
MS_OF_INPUT: Final = [{"component_id": "string", "stream_id": "string", "value": "string"}]
_EXECUTOR: Final = {
    "id": "string",
    "encodedId": "string",
    "uptime": "string",
    "uptimeSeconds": "integer",
    "host": "string",
    "port": "integer",
    **COUNTS,
    "workerLogLink": "string",
    "supervisorId": "string",
    **GAUGES,
}
STATUS: Final = {
    "component": "string",
    "task": "integer",
    "ageSeconds": "number",
    "kind": "string",
    "status": {"*": "any"},
}
OF_TOPOLOGY: Final = {"topologyId": "string", "topologyName": "string"}
MATCH: Final = {
    "byteOffset": "integer",
    "beforeString": "string",
    "matchString": "string",
    "afterString": "string",
    "line": "string",
    "fileName": "string",
    "logviewerURL": "string",
}
DONE: Final = {"topologyOperation": "string", "topologyId": "string", "status": "string"}
WAITING: Final = {**DONE, "waitSeconds": "number", "unfinished": "number"}
ASKED: Final = {"status": "string", "id": "string"}
SETTINGS: Final = {
    "id": "string",
    "name": "string",
    "status": "string",
    "pendingDueUnixSeconds": "number?",
    "settings": [
        {
            "key": "string",
            "value": "any",
            "source": "string",
            "changes": "string",
            "submitted": "any",
            "pending": "any",
            "isPending": "boolean",
        }
    ],
}
LEVELS: Final = {
    "namedLoggerLevels": {
        "*": {
            "target_level": "string",
            "reset_level": "string",
            "timeout": "integer",
            "timeout_epoch": "integer",
        }
    }
}
_COMPONENT_PAGE: Final = {
    "user": "string",
    "id": "string",
    "encodedId": "string",
    "name": "string",
    "executors": "integer",
    "tasks": "integer",
    "topologyId": "string",
    "encodedTopologyId": "string",
    "topologyStatus": "string",
    "window": "string",
    "windowHint": "string",
    "componentType": "string",
    "hasState": "boolean",
    **_COMPONENT_MEMORY,
    "schedulerDisplayResource": "boolean",
    "debug": "boolean",
    "samplingPct": "number",
    "eventLogLink": "string",
    "profilingAndDebuggingCapable": "boolean",
    "profileActionEnabled": "boolean",
    "profilerActive": [{"host": "string", "port": "string", "dumplink": "string", "timestamp": "string"}],
    "componentErrors": [ERROR],
    **REMARK,
}
LETTER: Final = {
    "id": "string",
    "topology": "string",
    "storedUnixSeconds": "number",
    "message": "string",
    "values": "string",
    "stream": "string",
    "attempts": "integer",
    "component": "string",
    "task": "integer",
    "error": "string",
    "isReplayed": "boolean",
}
SPOUT_PAGE: Final = {
    **_COMPONENT_PAGE,
    "spoutSummary": [
        {
            **WINDOW,
            **COUNTS,
            "completeLatency": "string",
            "completeLatencyPercentiles": PERCENTILES,
            "timeouts": "integer",
        }
    ],
    "outputStats": [
        {
            "stream": "string",
            **COUNTS,
            "completeLatency": "string",
        }
    ],
    "executorStats": [{**_EXECUTOR, "completeLatency": "string"}],
    "connections": [
        {
            "task": "integer",
            "ageSeconds": "number",
            "source": "string",
            "connected": "any",
            "outstanding": "any",
            "lag": "any",
            "lagUnit": "string",
            "error": "any",
        }
    ],
}
BOLT_PAGE: Final = {
    **_COMPONENT_PAGE,
    "boltStats": [
        {**WINDOW, **COUNTS, **_BOLT_LATENCIES, "capacity": "string", "processLatencyPercentiles": PERCENTILES}
    ],
    "inputStats": [
        {
            "component": "string",
            "encodedComponentId": "string",
            "stream": "string",
            **_BOLT_LATENCIES,
            "acked": "integer",
            "failed": "integer",
        }
    ],
    "outputStats": [{"stream": "string", "emitted": "integer", "transferred": "integer"}],
    "executorStats": [{**_EXECUTOR, **_BOLT_LATENCIES, "capacity": "string"}],
}
