"""The hooks of a worker process: started before its components, shut down after them."""

from __future__ import annotations

import logging

import cloudpickle

from tupletree._log import event
from tupletree._named_classes import made_of
from tupletree.errors import TopologyError
from tupletree.hooks import WorkerContext, WorkerHook

from ..plan import Plan

KEY = "topology.worker.hooks"

log = logging.getLogger(__name__)


class WorkerHooks:
    """The hooks of one worker: those of the topology, then those of the configuration."""

    def __init__(self, plan: Plan) -> None:
        """Load the hooks. Raises TopologyError if one cannot be loaded here."""
        self.context = WorkerContext(
            topology_id=plan.topology_id,
            conf=plan.conf,
            components=plan.tasks,
            local_tasks=sorted(plan.local_tasks),
            share=plan.shared.get,
        )
        self._hooks = [_loaded(pickled) for pickled in plan.spec.worker_hooks]
        self._hooks += made_of(KEY, plan.conf[KEY] or (), WorkerHook)
        self._started: list[WorkerHook] = []

    def start(self) -> None:
        """Start the hooks. Raises TopologyError if one raises; then ``shutdown`` ends those that are started."""
        for hook in self._hooks:
            try:
                hook.start(self.context.conf, self.context)
            except (Exception, SystemExit) as error:
                raise TopologyError(
                    f"worker hook {type(hook).__name__} cannot start: {type(error).__name__}: {error}"
                ) from error
            self._started.append(hook)

    def shutdown(self) -> None:
        """Shut the started hooks down, the last first. An exception is logged."""
        while self._started:
            hook = self._started.pop()
            try:
                hook.shutdown()
            except (Exception, SystemExit) as error:
                event(
                    log,
                    "hook.shutdown_failed",
                    level=logging.WARNING,
                    hook=type(hook).__name__,
                    error=f"{type(error).__name__}: {error}",
                )


def _loaded(pickled: bytes) -> WorkerHook:
    try:
        hook = cloudpickle.loads(pickled)
    except (Exception, SystemExit) as error:
        raise TopologyError(f"a worker hook cannot be loaded in the worker: {type(error).__name__}: {error}") from error
    assert isinstance(hook, WorkerHook)
    return hook
