"""Handlers of the REST API that look into a worker's process: profiles, stacks, dumps of its memory."""

from __future__ import annotations

from typing import Any

from ..leader_api import LeaderApi
from . import actions, logs
from .formatting import dumps_link
from .requests import ApiCall
from .supervisors import Supervisors


class ProfilingHandlers:
    """One method per endpoint of routes.py that profiles or dumps a worker."""

    _leader_api: LeaderApi
    _supervisors: Supervisors

    async def _place(self, call: ApiCall) -> logs.WorkerPlace:
        """Return the place of a worker of a topology that exists. Raises NotFoundError."""
        raise NotImplementedError

    async def start_profile(self, call: ApiCall) -> Any:
        place, timeout = await self._place(call), call.path["timeout"]
        await self._supervisors.start_profile(self._leader_api.reconciler(), place, 60 * call.seconds("timeout"))
        link = dumps_link(call.base, place.topology_id, place.host, place.port)
        return {**actions.asked(call), "timeout": timeout, "dumplink": link}

    async def stop_profile(self, call: ApiCall) -> Any:
        self._supervisors.stop_profile(await self._place(call))
        return actions.asked(call)

    async def dump_stacks(self, call: ApiCall) -> Any:
        place = await self._place(call)
        return {**actions.asked(call), "text": await self._supervisors.stacks(self._leader_api.reconciler(), place)}

    async def dump_memory(self, call: ApiCall) -> Any:
        place = await self._place(call)
        file = await self._supervisors.dump_memory(self._leader_api.reconciler(), place)
        link = dumps_link(call.base, place.topology_id, place.host, place.port)
        return {**actions.asked(call), "file": file, "dumplink": link}
