"""Every field of every response: the source of the OpenAPI description, docs/rest.md and their tests.

The notation of types is that of schema_objects.py.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from typing import Final

from .schema_objects import (
    ACKER,
    ASKED,
    BOLT,
    BOLT_PAGE,
    COUNTS,
    DONE,
    ERROR,
    GAUGES,
    LEDGER,
    LEDGER_RATES,
    LEVELS,
    LOGVIEWER,
    MATCH,
    MS_OF_INPUT,
    OF_INPUT,
    OF_STREAM,
    OF_TOPOLOGY,
    OWNER,
    PERCENTILES,
    RATES,
    REASON,
    SPOUT,
    SPOUT_PAGE,
    STATUS,
    SUPERVISOR,
    TOPOLOGY,
    WAITING,
    WINDOW,
    WORKER,
    Type,
)

FAILURE: Final = {"error": "string", "errorMessage": "string"}
TEXT: Final = "text"
BYTES: Final = "bytes"

REPLIES: Final[Mapping[str, Type]] = {
    "GET /cluster/configuration": {"*": "any"},
    "GET /cluster/summary": {
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
    },
    "GET /cluster/health": {"verdict": "string", "faults": [REASON], "notes": [REASON]},
    "GET /cluster/overview": {
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
    },
    "GET /prometheus/targets": [{"targets": ["string"], "labels": {"*": "string"}}],
    "GET /nimbus/summary": {
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
    },
    "GET /owner-resources": {"owners": [OWNER], "schedulerDisplayResource": "boolean"},
    "GET /owner-resources/{id}": {**OWNER, "topologies": [TOPOLOGY]},
    "GET /history/summary": {"topo-history": ["string"]},
    "GET /supervisor/summary": {"supervisors": [SUPERVISOR], "schedulerDisplayResource": "boolean", **LOGVIEWER},
    "GET /supervisor": {
        "supervisors": [SUPERVISOR],
        "workers": [WORKER],
        "schedulerDisplayResource": "boolean",
        **LOGVIEWER,
    },
    "GET /topology/summary": {"topologies": [TOPOLOGY], "schedulerDisplayResource": "boolean"},
    "GET /topology/{id}": {
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
    },
    "GET /topology-workers/{id}": {"hostPortList": [{"host": "string", "port": "integer"}], **LOGVIEWER},
    "GET /topology/{id}/metrics": {
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
    },
    "GET /topology/{id}/lag": {"*": {"spoutId": "string", "spoutType": "string", "spoutLagResult": {"*": "any"}}},
    "GET /topology/{id}/visualization-init": {
        "visualizationTable": [{":row": [{"stream": "string", "sani-stream": "string", "checked": "boolean"}]}]
    },
    "GET /topology/{id}/visualization": {
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
    },
    "GET /topology/{id}/series": {
        "id": "string",
        "component": "string?",
        "stepSeconds": "number",
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
    },
    "GET /topology/{id}/statuses": {"topologyId": "string", "statuses": [STATUS]},
    "GET /topology/{id}/component/{component}": {"oneOf": [SPOUT_PAGE, BOLT_PAGE]},
    "GET /topology/{id}/logconfig": LEVELS,
    "GET /acker/summary": {
        "ackers": [ACKER],
        "pending": "integer",
        "oldestAgeSeconds": "number",
        "unassignedShards": "integer",
    },
    "GET /acker/{id}": {
        **ACKER,
        "shardList": [
            {"topologyId": "string", "topologyName": "string", "shard": "integer", "role": "string", **LEDGER}
        ],
    },
    "GET /acker/{id}/series": {
        "id": "string",
        "points": [{"time": "integer", "pending": "integer", "oldestAgeSeconds": "number", **LEDGER_RATES}],
    },
    "GET /pipeline/{id}": {
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
    },
    "GET /transactions/{id}": {
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
    },
    "GET /checkpoints/{id}": {
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
    },
    "GET /log": TEXT,
    "GET /daemonlog": TEXT,
    "GET /download": BYTES,
    "GET /daemondownload": TEXT,
    "GET /listLogs": ["string"],
    "GET /searchLogs": ["string"],
    "GET /search": {
        "isDaemon": "string",
        "searchString": "string",
        "startByteOffset": "integer",
        "matches": [MATCH],
        "nextByteOffset": "integer?",
        "incomplete": "string",
    },
    "GET /deepSearch/{id}": {
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
    },
    "GET /dumps/{id}/{hostPort}": {
        "topologyId": "string",
        "host": "string",
        "port": "integer",
        "files": [{"name": "string", "size": "integer", "modifiedUnixSeconds": "number", "link": "string"}],
    },
    "GET /dumps/{id}/{hostPort}/{file}": BYTES,
    "POST /topology/{id}/activate": DONE,
    "POST /topology/{id}/deactivate": DONE,
    "POST /topology/{id}/rebalance/{wait}": WAITING,
    "POST /topology/{id}/kill/{wait}": WAITING,
    "POST /topology/{id}/logconfig": LEVELS,
    "POST /topology/{id}/debug/{action}/{samplingPct}": DONE,
    "POST /topology/{id}/component/{component}/debug/{action}/{samplingPct}": DONE,
    "POST /topology/{id}/profiling/start/{hostPort}/{timeout}": {**ASKED, "timeout": "string", "dumplink": "string"},
    "POST /topology/{id}/profiling/stop/{hostPort}": ASKED,
    "POST /topology/{id}/profiling/dumpjstack/{hostPort}": {**ASKED, "text": "string"},
    "POST /topology/{id}/profiling/restartworker/{hostPort}": ASKED,
}
