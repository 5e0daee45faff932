"""Handlers of the REST API for the states of components: their sizes, questions to them, and changes from outside."""

from __future__ import annotations

from typing import Any

from tupletree.errors import UnavailableError

from ..leader_api import LeaderApi
from ..savepoints import Savepoints
from ..state_queries import StateQueries
from ..state_sizes import SizeQueries
from ..state_writes import WriteRequests
from . import states
from .requests import ApiCall, StoreFailedError


class StateHandlers:
    """One method per endpoint of routes.py. A worker or a store that does not answer is a StoreFailedError."""

    def __init__(self, leader_api: LeaderApi, state_queries: StateQueries, savepoints: Savepoints) -> None:
        self._leader_api = leader_api
        self._savepoints = savepoints
        self._state_queries = state_queries
        self._state_sizes = SizeQueries(leader_api, state_queries)
        self._state_writes = WriteRequests(state_queries)

    async def state_sizes(self, call: ApiCall) -> Any:
        record = (await self._leader_api.view()).record(call.path["id"])
        try:
            reply = await self._state_sizes.measure(record, call.query.get("component", ""))
        except UnavailableError as error:
            raise StoreFailedError(str(error)) from error
        return states.sizes_page(record.name, reply)

    async def state(self, call: ApiCall) -> Any:
        record, asked = (await self._leader_api.view()).record(call.path["id"]), states.question(call)
        try:
            reply = await self._state_queries.read(record, asked)
        except UnavailableError as error:
            raise StoreFailedError(str(error)) from error
        return states.page(asked.component, asked.is_live, reply)

    async def put_state(self, call: ApiCall) -> Any:
        return await self._write(call, states.puts(call))

    async def delete_state(self, call: ApiCall) -> Any:
        return await self._write(call, states.deletions(call))

    async def savepoint(self, call: ApiCall) -> Any:
        record = (await self._leader_api.view()).record(call.path["id"])
        return states.savepoint_page(record, self._savepoints.are_configured, self._savepoints.last(record.id))

    async def take_savepoint(self, call: ApiCall) -> Any:
        record, (to, wait_s) = (await self._leader_api.view()).record(call.path["id"]), states.savepoint_request(call)
        address = self._leader_api.reconciler().address
        attempt = self._savepoints.begin(record.id, record.name, to, wait_s, address)
        return states.savepoint_page(record, self._savepoints.are_configured, attempt)

    async def _write(self, call: ApiCall, asked: states.Asked) -> Any:
        view = await self._leader_api.view(is_fresh=True)
        record = view.record(call.path["id"])
        try:
            reply = await self._state_writes.write(view, record, asked)
        except UnavailableError as error:
            raise StoreFailedError(str(error)) from error
        return states.written(asked.component, reply)
