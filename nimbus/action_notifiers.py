"""The notifiers of actions on topologies: classes of the operator, each called on a thread of its own.

Requests put an action into the queue of each notifier and continue; actions beyond those that may wait are left out and
counted. An action is done when its notifiers are told, so nothing that they do can fail it, and a slow one delays no
other. Without notifiers there is no thread.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tupletree._background_queue import BackgroundQueue
from tupletree._log import event
from tupletree._named_classes import made_of
from tupletree._security.guard import caller
from tupletree.errors import ConfigError
from tupletree.hooks import ActionNotifier, TopologyAction
from tupletree.v1 import topology_pb2 as pb

from .conf_changes import SetConf
from .leader import lifecycle
from .masking import masked
from .updates import Rollback, Update

KEY: Final = "nimbus.topology.action.notifiers"
MAX_WAITING: Final = 1000
LINGER_S: Final = 1.0  # how long ``close`` waits for the remaining actions

_ACTIONS: Final[Mapping[type, str]] = {
    lifecycle.Kill: "kill",
    lifecycle.Activate: "activate",
    lifecycle.Deactivate: "deactivate",
    lifecycle.Rebalance: "rebalance",
    lifecycle.Autoscale: "autoscale",
    SetConf: "set_conf",
    Update: "update",
    Rollback: "rollback",
}
"""By the type of the request. Of log levels, samples and traces, notifiers are not told."""

log = logging.getLogger("tupletree.nimbus")


class ActionNotifiers:
    """The notifiers of one nimbus. ``put`` may be called from any thread."""

    def __init__(self, notifiers: Sequence[ActionNotifier], conf: Mapping[str, Any]) -> None:
        self._threads = [_NotifierThread(one, conf) for one in notifiers]

    @classmethod
    def named(cls, conf: Mapping[str, Any]) -> ActionNotifiers:
        """Return those that the configuration names. Raises ConfigError if one cannot be made."""
        return cls(made_of(KEY, conf[KEY] or (), ActionNotifier, ConfigError), conf)

    def open(self) -> None:
        """Start the threads, which prepare the notifiers."""
        for one in self._threads:
            one.open()

    def close(self) -> None:
        """Tell what waits and close the notifiers, as far as they do so in time: all at once."""
        if self._threads:
            with ThreadPoolExecutor(len(self._threads)) as pool:
                list(pool.map(_NotifierThread.close, self._threads))

    def changed(self, request: lifecycle.Request, record: pb.TopologyRecord) -> None:
        """Tell of a request that was accepted, if it is an action."""
        action = _ACTIONS.get(type(request))
        if action is not None:
            self.put(action, record)

    def put(self, action: str, record: pb.TopologyRecord) -> None:
        """Tell of an action of the caller, or leave it out and count it if too many wait."""
        if not self._threads:
            return
        who = caller.get()
        told = TopologyAction(
            time.time(),
            action,
            record.name,
            record.id,
            record.owner,
            "" if who is None else who.name,
            masked(json.loads(record.conf_json or "{}")),
            {name: count for name, count in record.tasks.items() if not name.startswith("$")},
        )
        for one in self._threads:
            one.put(told)


class _NotifierThread:
    """One notifier, the actions that wait for it, and its thread."""

    def __init__(self, notifier: ActionNotifier, conf: Mapping[str, Any]) -> None:
        self._notifier = notifier
        self._conf = conf
        self._name = type(notifier).__name__
        self._queue = BackgroundQueue[TopologyAction](f"action-notifier {self._name}", MAX_WAITING, LINGER_S)
        self._is_prepared = True  # until it has failed to prepare

    def open(self) -> None:
        self._queue.start(self._run)

    def close(self) -> None:
        """Tell what waits and close the notifier, as far as it does so in time."""
        self._queue.close()

    def put(self, action: TopologyAction) -> None:
        if self._is_prepared:
            self._queue.put(action)

    def _run(self) -> None:
        self._is_prepared = self._call("prepare", self._conf)
        if not self._is_prepared:
            return
        while (action := self._queue.get()) is not None:
            self._call("notify", action)
            if count := self._queue.take_left_out():
                event(log, "action_notifiers.behind", level=logging.WARNING, of=self._name, left_out=count)
        self._call("close")

    def _call(self, method: str, *arguments: Any) -> bool:
        """Call a method of the notifier. Returns False if it raises, which is logged."""
        try:
            getattr(self._notifier, method)(*arguments)
        except (Exception, SystemExit) as error:
            cause = f"{type(error).__name__}: {error}"
            event(log, "action_notifier.failed", level=logging.ERROR, of=self._name, method=method, error=cause)
            return False
        return True
