"""The configurations that follow from a topology's record: what holds, what workers start with, what they adopt.

``conf_json`` is the configuration that holds. Of the keys that an operator has changed since the submission,
``submitted_conf`` has the values at submission, and ``live_keys`` names those that running workers adopt.
"""

from __future__ import annotations  # pure

import hashlib
import json
from typing import Any

from tupletree.v1 import topology_pb2 as pb


def launch_conf_json(record: pb.TopologyRecord) -> str:
    """Return the configuration that workers are started with, as JSON: without the changes that they adopt themselves.

    It is the text of ``conf_json`` where nothing is adopted. An unreadable configuration is returned as it is.
    """
    if not record.live_keys:
        return record.conf_json
    try:
        conf = json.loads(record.conf_json)
        for name in record.live_keys:
            if text := record.submitted_conf[name]:
                conf[name] = json.loads(text)
            else:
                conf.pop(name, None)  # a key that is newer than the submission
    except (ValueError, TypeError, RecursionError):
        return record.conf_json
    return json.dumps(conf, sort_keys=True, separators=(",", ":"))


def live_values(record: pb.TopologyRecord) -> dict[str, Any]:
    """Return the keys that running workers adopt, with their values; nothing if the record is malformed."""
    if not record.live_keys:
        return {}
    try:
        conf = json.loads(record.conf_json)
        return {name: conf[name] for name in record.live_keys}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def digest(conf_json: str) -> str:
    """Return a digest by which a worker recognizes the configuration that it was started with."""
    return hashlib.sha256(conf_json.encode("utf-8", "surrogatepass")).hexdigest()
