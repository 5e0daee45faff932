"""The configuration of one topology, and the requests that change it."""

from __future__ import annotations  # pure

import json
from typing import Any

from tupletree.config.effective import settings
from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

from ..conf_changes import SetConf
from ..leader.lifecycle import status_name
from ..rpc_replies import shown
from .requests import ApiCall


def conf_page(record: pb.TopologyRecord) -> dict[str, Any]:
    """``topology/{id}/configuration``. Secrets are masked."""
    found = shown(record, 0)
    conf = json.loads(found.conf_json or "{}")
    return {
        "id": record.id,
        "name": record.name,
        "status": status_name(record.status),
        "pendingDueUnixSeconds": record.pending.due_unix_s or None,
        "settings": [
            {
                "key": one["key"],
                "value": one["value"],
                "source": one["source"],
                "changes": one["changes"],
                "submitted": one.get("submitted", one["value"]),
                "pending": one.get("pending"),
                "isPending": "pending" in one,
            }
            for one in settings(conf, found.submitted_conf, found.pending.conf, record.workers)
        ],
    }


def conf_request(call: ApiCall) -> SetConf:
    """``{"set": {"KEY": VALUE}, "unset": ["KEY"], "waitSeconds": 10}``, each part optional. Raises UsageError."""
    body = call.body
    if not isinstance(body, dict):
        raise UsageError("the body must be a JSON object")
    unknown = sorted(body.keys() - {"set", "unset", "waitSeconds"})
    if unknown:
        raise UsageError(f"unknown key {unknown[0][:100]!r} in the body: only set, unset and waitSeconds are allowed")
    conf, remove, wait_s = body.get("set", {}), body.get("unset", []), body.get("waitSeconds")
    if not isinstance(conf, dict):
        raise UsageError("set must be a JSON object of configuration keys and values")
    if not isinstance(remove, list) or not all(isinstance(key, str) for key in remove):
        raise UsageError("unset must be a list of configuration keys")
    if wait_s is not None and (isinstance(wait_s, bool) or not isinstance(wait_s, int | float)):
        raise UsageError("waitSeconds must be a number of seconds")
    try:
        return SetConf(json.dumps(conf), remove, None if wait_s is None else float(wait_s))
    except (OverflowError, RecursionError):
        raise UsageError("waitSeconds is too large, or a value is nested too deeply") from None
