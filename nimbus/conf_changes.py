"""Changes of a running topology's configuration: its record before and after an operator's request.

``conf_json`` of the record is the configuration that holds. For each key that has been changed, ``submitted_conf`` has
the value at submission. Keys in ``live_keys`` are adopted by running workers: supervisors start workers without these
changes (tupletree/_wire/conf_changes.py), so such a change restarts no worker. All other keys change with a restart:
the topology waits in the status REBALANCING until its tuples in flight are done; ``pending.conf`` then becomes part of
``conf_json``, and the supervisors restart the workers, whose configuration has changed.

A key that was changed with a restart keeps changing with restarts until it has its value at submission again:
``submitted_conf`` has one value per key, and could not tell the value that the workers were started with.
"""

from __future__ import annotations  # pure

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree import config
from tupletree._checkpoints.settings import check_interval
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._coord.forms import encode
from tupletree._limits import parse_conf
from tupletree.config.changes import change_of, check_changeable
from tupletree.errors import ConfigError, UsageError
from tupletree.v1 import topology_pb2 as pb

from .acker_shards import check_follows, follow

MAX_KEYS: Final = 200
"""Keys that one request may name, and keys that may differ from their values at submission."""
MAX_RECORD_BYTES: Final = 600_000
"""A rebalance writes record and assignment together, in a message of at most 1 MiB."""

_TICKS: Final = "topology.tick.tuple.freq.secs"
_ABSENT: Final = ""  # in maps of JSON texts: the key is not set


@dataclass(frozen=True)
class SetConf:
    conf_json: str  # a JSON object of the keys to set
    remove: Sequence[str]  # keys that return to their values at submission
    wait_s: float | None  # before a restart; None: the topology's message timeout


def configured(record: pb.TopologyRecord, request: SetConf, due_unix_s: float) -> pb.TopologyRecord:
    """Return the record with a request applied; equal to ``record`` if nothing changes.

    ``due_unix_s``: the end of the wait, if keys change with a restart. A rebalance that waits already keeps its end.
    Raises UsageError or ConfigError, and then nothing is changed.
    """
    asked = parse_conf(request.conf_json, "the request")
    _check_request(asked, request.remove)
    after = pb.TopologyRecord()
    after.CopyFrom(record)
    wanted = {name: _text(value) for name, value in asked.items()}
    wanted |= {name: record.submitted_conf[name] for name in request.remove if name in record.submitted_conf}
    conf = json.loads(record.conf_json or "{}")
    for name in (*asked, *request.remove):
        now = _now(conf, name)
        value = wanted.get(name, now)
        if name in after.pending.conf or not _is_live(record, name, now, value):
            if value != now or name in after.pending.conf:
                _postpone(after, name, value, due_unix_s)
        elif value != now:
            _change(after, conf, name, value, is_live=True)
    _check_result(after)
    return after


def restarted(record: pb.TopologyRecord) -> None:
    """Make the keys that wait for a restart part of a record's configuration."""
    if record.pending.conf:
        before = json.loads(record.conf_json or "{}")
        conf = dict(before)
        for name, value in record.pending.conf.items():
            _change(record, conf, name, value, is_live=False)
        follow(record, before)


def _check_request(asked: dict[str, Any], remove: Sequence[str]) -> None:
    if not asked and not remove:
        raise UsageError("no configuration key is named: name the keys to set or to unset")
    if len(asked) + len(remove) > MAX_KEYS:
        raise UsageError(f"a request can name at most {MAX_KEYS} configuration keys, not {len(asked) + len(remove)}")
    check_changeable(asked, remove)
    for name in remove:
        if name in asked:
            raise UsageError(f"configuration key '{name}' is both set and unset")


def _is_live(record: pb.TopologyRecord, name: str, now: str, value: str) -> bool:
    """True if running workers adopt the change. Ticks begin and end with a restart: tasks count them from the start."""
    if change_of(name) != "live" or (name in record.submitted_conf and name not in record.live_keys):
        return False
    return name != _TICKS or now == value or {now, value}.isdisjoint({"null", _ABSENT})


def _postpone(record: pb.TopologyRecord, name: str, value: str, due_unix_s: float) -> None:
    """Let a key wait for the restart, which begins with the end of the wait. Join a rebalance that waits already."""
    if record.status != pb.TOPOLOGY_STATUS_REBALANCING:
        record.pending.due_unix_s = due_unix_s
        record.pending.resume = record.status
        record.pending.keeps_placement = True
        record.status = pb.TOPOLOGY_STATUS_REBALANCING
    record.pending.conf[name] = value


def _change(record: pb.TopologyRecord, conf: dict[str, Any], name: str, value: str, *, is_live: bool) -> None:
    """Give a key another value in the record, and in ``conf``, the record's configuration."""
    submitted = record.submitted_conf[name] if name in record.submitted_conf else _now(conf, name)
    if value == _ABSENT:
        conf.pop(name, None)
    else:
        conf[name] = json.loads(value)
    record.conf_json = config.encode_conf(conf)
    live = set(record.live_keys) - {name}
    if value == submitted:
        record.submitted_conf.pop(name, None)
    else:
        record.submitted_conf[name] = submitted
        live |= {name} if is_live else set()
    del record.live_keys[:]
    record.live_keys.extend(sorted(live))


def _now(conf: dict[str, Any], name: str) -> str:
    return _text(conf[name]) if name in conf else _ABSENT


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _check_result(record: pb.TopologyRecord) -> None:
    """Check the configuration that holds now, and the one after the restart."""
    final = pb.TopologyRecord()
    final.CopyFrom(record)
    restarted(final)
    check_follows(record, final)
    if len(final.submitted_conf) > MAX_KEYS:
        raise UsageError(f"a topology can have at most {MAX_KEYS} changed configuration keys: unset some first")
    for one in (record, final):
        conf = json.loads(one.conf_json or "{}")
        if CHECKPOINT_SPOUT in one.tasks:
            check_interval(conf)
        check_record_size(one)


def check_record_size(record: pb.TopologyRecord) -> None:
    """Check that a changed record fits into ZooKeeper. Raises ConfigError."""
    if len(encode(record)) > MAX_RECORD_BYTES:
        raise ConfigError(
            f"topology '{record.name}' would take more than {MAX_RECORD_BYTES} bytes in ZooKeeper: make its "
            f"configuration smaller"
        )
