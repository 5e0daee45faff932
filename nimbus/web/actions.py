"""Translation of operators' HTTP requests to lifecycle requests. Invalid input raises UsageError."""

from __future__ import annotations  # pure

import math
from collections.abc import Mapping
from typing import Any

from tupletree._wire.levels import settled
from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

from ..debug_settings import SetLogLevels, SetSampling
from ..leader.lifecycle import Kill, Rebalance, Request
from .requests import ApiCall


def kill(call: ApiCall) -> Request:
    return Kill(call.seconds("wait"), call.user)


def rebalance(call: ApiCall) -> Request:
    """``{"rebalanceOptions": {"numWorkers": 2, "executors": {"split": 4}, "tasks": {}}}``, each part optional."""
    body = _mapping({} if call.body is None else call.body, "the body")
    options = _mapping(body.get("rebalanceOptions", {}), "rebalanceOptions")
    unknown = sorted(options.keys() - {"numWorkers", "executors", "tasks"})
    if unknown:
        raise UsageError(
            f"unknown key {unknown[0][:100]!r} in rebalanceOptions: only numWorkers, executors and tasks are allowed"
        )
    workers = _count(options.get("numWorkers"), "numWorkers", 0)
    executors, tasks = _counts(options, "executors"), _counts(options, "tasks")
    return Rebalance(call.seconds("wait"), workers, executors, tasks)


def log_levels(call: ApiCall, now_unix_s: float) -> Request:
    """``{"namedLoggerLevels": {"LOGGER": {"target_level": "DEBUG", "reset_level": "INFO", "timeout": 60}}}``.

    A missing or null target level removes the logger's setting. A missing or 0 timeout means no end.
    """
    asked = _mapping(_mapping(call.body, "the body").get("namedLoggerLevels"), "namedLoggerLevels")
    levels, remove = {}, []
    for name, told in asked.items():
        level = _mapping(told, f"the setting of logger '{name[:200]}'")
        target, reset = level.get("target_level"), level.get("reset_level")
        if not (target is None or isinstance(target, str)) or not (reset is None or isinstance(reset, str)):
            raise UsageError("target_level and reset_level must be names of log levels")
        timeout_s = _count(level.get("timeout"), "timeout", 0)
        if not target:
            remove.append(name)
        else:
            until_unix_s = now_unix_s + timeout_s if timeout_s else 0.0
            levels[name] = pb.LogLevel(level=target, reset_level=reset or "", until_unix_s=until_unix_s)
    return SetLogLevels(levels, remove)


def shown_log_levels(record: pb.TopologyRecord, now_unix_s: float) -> dict[str, Any]:
    """``topology/{id}/logconfig``. The root logger is ROOT, as in Storm."""
    return {
        "namedLoggerLevels": {
            name or "ROOT": {
                "target_level": level.level,
                "reset_level": level.reset_level,
                "timeout": max(0, math.ceil(level.until_unix_s - now_unix_s)) if level.until_unix_s else 0,
                "timeout_epoch": int(1000 * level.until_unix_s),
            }
            for name, level in sorted(settled(record.log_levels, now_unix_s).items())
        }
    }


def sampling(call: ApiCall) -> tuple[Request, str]:
    """Return the request of ``debug/{enable or disable}/{samplingPct}``, and its name in the response."""
    action, text = call.path["action"], call.path["samplingPct"]
    if action not in ("enable", "disable"):
        raise UsageError(f"the action of debug must be enable or disable, not '{action[:40]}'")
    try:
        percent = float(text)
    except ValueError:
        raise UsageError(f"samplingPct must be a percentage, not '{text[:40]}'") from None
    component = call.path.get("component", "")
    return SetSampling(component, percent if action == "enable" else 0.0), f"debug/{action}"


def host_port(call: ApiCall) -> tuple[str, int]:
    """Parse the worker's ``host:port`` in the path. Raises UsageError."""
    host, colon, port = call.path["hostPort"].rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
        raise UsageError(f"a worker is named host:port, not '{call.path['hostPort'][:100]}'")
    return host, int(port)


def done(call: ApiCall, operation: str) -> dict[str, Any]:
    """Return the response to an action on a topology, with the fields of Storm's REST API."""
    return {"topologyOperation": operation, "topologyId": call.path["id"], "status": "success"}


def waiting(call: ApiCall, operation: str, wait_s: float, unfinished: int) -> dict[str, Any]:
    """Return the response to a kill or rebalance.

    In addition to Storm's fields: the longest wait, and the number of trees and tuples still unfinished.
    """
    return {**done(call, operation), "waitSeconds": round(wait_s, 3), "unfinished": unfinished}


def asked(call: ApiCall) -> dict[str, Any]:
    """Return the response to an action on a worker, with the fields of Storm's REST API."""
    return {"status": "ok", "id": call.path["hostPort"]}


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} must be a JSON object")
    return value


def _counts(options: Mapping[str, Any], what: str) -> dict[str, int]:
    asked = _mapping(options.get(what, {}), what)
    return {component: _count(count, f"{what} of '{component[:200]}'", 1) for component, count in asked.items()}


def _count(value: Any, what: str, least: int) -> int:
    """Parse a whole number, which may be a string, as sent by Storm's UI. Raises UsageError."""
    if value is None and least == 0:
        return 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
        raise UsageError(f"{what} must be a whole number, at least {least}")
    return value
