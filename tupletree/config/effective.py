"""The keys of a running topology with their values: where each value comes from, and how it can be changed."""

from __future__ import annotations  # pure

import json
from collections.abc import Mapping
from typing import Any, Final

from tupletree.config.changes import change_of
from tupletree.config.keys import KEYS

DEFAULT: Final = "default"
SUBMISSION: Final = "submission"
CHANGED: Final = "changed"


def settings(
    conf: Mapping[str, Any], submitted: Mapping[str, str], pending: Mapping[str, str], workers: int
) -> list[dict[str, Any]]:
    """Return the keys of a topology's configuration: those of the table in its order, then others by name.

    ``conf``: what holds now. ``submitted``: of the keys that were changed, the values at submission. ``pending``: of
    the keys that wait for the restart of the workers, the new values. Both are JSON, "" for a key that is not set.
    ``workers``: the wanted workers, which a rebalance changes.

    An entry has "key", "value", "source" (default, submission or changed) and "changes" (live, restart or fixed); a key
    that was changed has "submitted" too, and a key that waits for the restart has "pending".
    """
    submitted = dict(submitted)
    conf = dict(conf)
    if workers and conf.get("topology.workers") not in (None, workers):
        submitted["topology.workers"] = json.dumps(conf["topology.workers"])
        conf["topology.workers"] = workers
    names = conf.keys() | pending.keys()
    ordered = [name for name in KEYS if name in names] + sorted(names - KEYS.keys())
    return [_setting(name, conf, submitted, pending) for name in ordered]


def _setting(
    name: str, conf: Mapping[str, Any], submitted: Mapping[str, str], pending: Mapping[str, str]
) -> dict[str, Any]:
    value = conf.get(name)
    is_default = name in KEYS and value == KEYS[name].default
    source = CHANGED if name in submitted else DEFAULT if is_default or name not in conf else SUBMISSION
    found = {"key": name, "value": value, "source": source, "changes": change_of(name)}
    if name in submitted:
        found["submitted"] = _value(submitted[name])
    if name in pending:
        found["pending"] = _value(pending[name])
    return found


def _value(text: str) -> Any:
    return json.loads(text) if text else None
