"""The fields of every response. The table of endpoints (routes.py) names the schema of each.

The notation of types is that of schema_objects.py.
"""

from __future__ import annotations  # pure

from typing import Final

from .schema_objects import (
    ACKER,
    ASKED,
    BOLT,
    BOLT_PAGE,
    COUNTS,
    ERROR,
    GAUGES,
    LEDGER,
    LEDGER_RATES,
    LETTER,
    LOGVIEWER,
    MATCH,
    MS_OF_INPUT,
    OF_INPUT,
    OF_STREAM,
    OF_TOPOLOGY,
    OWNER,
    PAST,
    PERCENTILES,
    RATES,
    REASON,
    SPOUT,
    SPOUT_PAGE,
    STATUS,
    SUPERVISOR,
    TOPOLOGY,
    WINDOW,
    WORKER,
    Type,
)

FAILURE: Final = {"error": "string", "errorMessage": "string"}
TEXT: Final = "text"
BYTES: Final = "bytes"

CONFIGURATION: Final[Type] = {"*": "any"}
CLUSTER_SUMMARY: Final[Type] = {
    "user": "string",
    "stormVersion": "string",
    "versionMatch": "boolean",
    "supervisors": "integer",
    "topologies": "integer",
    "slotsTotal": "integer",
    "slotsUsed": "integer",
    "slotsFree": "integer",
    "executorsTotal": "integer",
    "tasksTotal": "integer",
    "totalMem": "number",
    "totalCpu": "number",
    "availMem": "number",
    "availCpu": "number",
    "fragmentedMem": "number",
    "fragmentedCpu": "number",
    "memAssignedPercentUtil": "string",
    "cpuAssignedPercentUtil": "string",
    "availGenerics": "string",
    "totalGenerics": "string",
    "schedulerDisplayResource": "boolean",
    "bugtracker-url": "string?",
    "central-log-url": "string?",
    "alternativeWorkerVersions": ["string"],
    "epoch": "integer",
    "ackers": "integer",
    "ackersReachable": "integer",
    "deadLetterStores": "integer",
}
CLUSTER_HEALTH: Final[Type] = {"verdict": "string", "faults": [REASON], "notes": [REASON]}
CLUSTER_OVERVIEW: Final[Type] = {
    "window": "string",
    "topologies": [
        {
            "id": "string",
            "emittedPerSecond": "number",
            "ackedPerSecond": "number",
            "ackedLately": "integer",
            "failedLately": "integer",
            "timeoutsLately": "integer",
            "completeLatency": "string",
            "completeLatencyPercentiles": PERCENTILES,
            "pending": "integer",
            "capacity": "string",
            "busiest": "string",
            "workersReady": "integer",
            "errorsLately": "integer",
            "lastErrors": [ERROR],
        }
    ],
}
PROMETHEUS_TARGETS: Final[Type] = [{"targets": ["string"], "labels": {"*": "string"}}]
NIMBUS_SUMMARY: Final[Type] = {
    "nimbuses": [
        {
            "host": "string",
            "port": "integer",
            "status": "string",
            "version": "string",
            "nimbusUpTime": "string",
            "nimbusUpTimeSeconds": "string",
            "nimbusLogLink": "string",
            "id": "string",
            "httpPort": "integer",
        }
    ]
}
OWNERS: Final[Type] = {"owners": [OWNER], "schedulerDisplayResource": "boolean"}
OWNER_PAGE: Final[Type] = {**OWNER, "topologies": [TOPOLOGY]}
HISTORY: Final[Type] = {"topo-history": ["string"], "topologies": [PAST]}
PAST_TOPOLOGY: Final[Type] = {
    **PAST,
    "components": [
        {
            "component": "string",
            "tasks": "integer",
            "emitted": "integer",
            "executed": "integer",
            "acked": "integer",
            "failed": "integer",
        }
    ],
    "workers": [{"host": "string", "port": "integer", "supervisorId": "string", "workerLogLink": "string"}],
    "errors": [ERROR],
    "isShortened": "boolean",
}
SUPERVISOR_SUMMARY: Final[Type] = {"supervisors": [SUPERVISOR], "schedulerDisplayResource": "boolean", **LOGVIEWER}
SUPERVISOR_PAGE: Final[Type] = {
    "supervisors": [SUPERVISOR],
    "workers": [WORKER],
    "schedulerDisplayResource": "boolean",
    **LOGVIEWER,
}
TOPOLOGY_SUMMARY: Final[Type] = {"topologies": [TOPOLOGY], "schedulerDisplayResource": "boolean"}
TOPOLOGY_PAGE: Final[Type] = {
    **TOPOLOGY,
    "user": "string",
    "window": "string",
    "windowHint": "string",
    "msgTimeout": "integer",
    "topologyStats": [
        {
            **WINDOW,
            **COUNTS,
            "completeLatency": "string",
            "timeouts": "integer",
            "completeLatencyPercentiles": PERCENTILES,
        }
    ],
    "spouts": [SPOUT],
    "bolts": [BOLT],
    "workers": [WORKER],
    "configuration": {"*": "any"},
    "debug": "boolean",
    "samplingPct": "number",
    "visualizationTable": ["any"],
    "schedulerDisplayResource": "boolean",
    "requestedRegularOnHeapMem": "number",
    "requestedSharedOnHeapMem": "number",
    "requestedRegularOffHeapMem": "number",
    "requestedSharedOffHeapMem": "number",
    "assignedRegularOnHeapMem": "number",
    "assignedSharedOnHeapMem": "number",
    "assignedRegularOffHeapMem": "number",
    "assignedSharedOffHeapMem": "number",
    "tracedOneIn": "integer",
    "shards": [{"shard": "integer", "ackerId": "string", "address": "string", "drainingAckerId": "string"}],
    "topologyErrors": [ERROR],
}
TOPOLOGY_WORKERS: Final[Type] = {"hostPortList": [{"host": "string", "port": "integer"}], **LOGVIEWER}
TOPOLOGY_METRICS: Final[Type] = {
    "window": "string",
    "windowHint": "string",
    "window-hint": "string",
    "spouts": [
        {
            "id": "string",
            "emitted": OF_STREAM,
            "transferred": OF_STREAM,
            "acked": OF_STREAM,
            "failed": OF_STREAM,
            "complete_ms_avg": [{"stream_id": "string", "value": "string"}],
            "complete_ms_percentiles": PERCENTILES,
        }
    ],
    "bolts": [
        {
            "id": "string",
            "emitted": OF_STREAM,
            "transferred": OF_STREAM,
            "acked": OF_INPUT,
            "failed": OF_INPUT,
            "process_ms_avg": MS_OF_INPUT,
            "executed": OF_INPUT,
            "executed_ms_avg": MS_OF_INPUT,
            "process_ms_percentiles": PERCENTILES,
        }
    ],
}
LAG: Final[Type] = {"*": {"spoutId": "string", "spoutType": "string", "spoutLagResult": {"*": "any"}}}
AUTOSCALE: Final[Type] = {
    "topologyId": "string",
    "topologyName": "string",
    "workers": "integer",
    "wantedWorkers": "integer",
    "components": {
        "*": {
            "executors": "integer",
            "wantedExecutors": "integer",
            "min": "integer",
            "max": "integer",
            "busy": "number",
            "demand": "number",
            "reason": "string",
        }
    },
    "sentence": "string",
    "last": "any?",
}
VISUALIZATION_INIT: Final[Type] = {
    "visualizationTable": [{":row": [{"stream": "string", "sani-stream": "string", "checked": "boolean"}]}]
}
VISUALIZATION: Final[Type] = {
    "*": {
        ":type": "string",
        ":capacity": "number",
        ":latency": {"*": "number"},
        ":transferred": {"*": "integer"},
        ":stats": [
            {
                ":host": "string",
                ":port": "integer",
                ":uptime_secs": "integer",
                ":transferred": {"*": {"*": "integer"}},
            }
        ],
        ":link": "string",
        ":inputs": [{":component": "string", ":stream": "string", ":sani-stream": "string", ":grouping": "string"}],
        "outputs": [{"stream": "string", "fields": ["string"], "direct": "boolean"}],
        **RATES,
        "failed": "integer",
        "percentiles": PERCENTILES,
        **GAUGES,
    }
}
TOPOLOGY_SERIES: Final[Type] = {
    "id": "string",
    "component": "string?",
    "stepSeconds": "number",
    "time": "integer",
    "points": [
        {
            "time": "integer",
            **RATES,
            "failedPerSecond": "number",
            "latencyP50": "number?",
            "latencyP99": "number?",
            "pending": "integer",
            "queued": "integer",
        }
    ],
}
STATUSES: Final[Type] = {"topologyId": "string", "statuses": [STATUS]}
COMPONENT_PAGE: Final[Type] = {"oneOf": [SPOUT_PAGE, BOLT_PAGE]}
ACKER_SUMMARY: Final[Type] = {
    "ackers": [ACKER],
    "pending": "integer",
    "oldestAgeSeconds": "number",
    "unassignedShards": "integer",
}
ACKER_PAGE: Final[Type] = {
    **ACKER,
    "shardList": [{"topologyId": "string", "topologyName": "string", "shard": "integer", "role": "string", **LEDGER}],
}
ACKER_SERIES: Final[Type] = {
    "id": "string",
    "points": [{"time": "integer", "pending": "integer", "oldestAgeSeconds": "number", **LEDGER_RATES}],
}
PIPELINES: Final[Type] = {
    **OF_TOPOLOGY,
    "pipelines": [
        {
            **STATUS,
            "state": "any",
            "reason": "any",
            "committedTxid": "any",
            "batchesInFlight": "integer",
            "oldestBatchSeconds": "number?",
            "rowsPerSecond": "any",
            "rowsTotal": "any",
            "batchesTotal": "any",
            "batchSeconds": "any",
            "batches": [{"*": "any"}],
            "spark": "any",
        }
    ],
}
TRANSACTIONS: Final[Type] = {
    **OF_TOPOLOGY,
    "coordinators": [
        {
            **STATUS,
            "transactionalId": "any",
            "state": "any",
            "committedTxid": "any",
            "batchesInFlight": "integer",
            "oldestBatchSeconds": "number?",
            "batches": [{"*": "any"}],
            "failures": "any",
            "lag": "any",
            "stored": "any",
        }
    ],
    "storedUnavailable": "string",
}
CHECKPOINTS: Final[Type] = {
    **OF_TOPOLOGY,
    "checkpoints": [
        {
            **STATUS,
            "stateId": "any",
            "state": "any",
            "txid": "any",
            "phase": "any",
            "isRecovering": "any",
            "step": "any",
            "stepSeconds": "any",
            "lastCheckpointSeconds": "any",
            "failures": "any",
            "stored": "any",
        }
    ],
    "storedUnavailable": "string",
}
LOG_FILES: Final[Type] = ["string"]
SEARCH: Final[Type] = {
    "isDaemon": "string",
    "searchString": "string",
    "startByteOffset": "integer",
    "matches": [MATCH],
    "nextByteOffset": "integer?",
    "incomplete": "string",
}
DEEP_SEARCH: Final[Type] = {
    "searchString": "string",
    "fileOffset": "integer",
    "numberOfMatches": "integer",
    "matches": [
        {
            "fileName": "string",
            "host": "string",
            "port": "integer",
            "numMatches": "integer",
            "matches": [MATCH],
            "isDaemon": "string",
        }
    ],
    "incomplete": ["string"],
}
DUMPS: Final[Type] = {
    "topologyId": "string",
    "host": "string",
    "port": "integer",
    "files": [{"name": "string", "size": "integer", "modifiedUnixSeconds": "number", "link": "string"}],
}
DEAD_LETTER_STORES: Final[Type] = {
    "stores": [{"name": "string", "address": "string", "count": "integer?", "error": "string"}]
}
DEAD_LETTERS: Final[Type] = {
    "store": "string",
    "address": "string",
    "count": "integer?",
    "letters": [LETTER],
    "damaged": ["string"],
    "next": "string?",
    "readUnixSeconds": "number",
}
DEAD_LETTER: Final[Type] = {"store": "string", "address": "string", **LETTER, "traceback": "string"}
LETTERS_CHANGED: Final[Type] = {"store": "string", "letters": "integer", "isComplete": "boolean"}
PROFILING_START: Final[Type] = {**ASKED, "timeout": "string", "dumplink": "string"}
STACKS: Final[Type] = {**ASKED, "text": "string"}
MEMORY: Final[Type] = {**ASKED, "file": "string", "dumplink": "string"}
