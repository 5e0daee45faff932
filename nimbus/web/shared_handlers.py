"""Handlers of the REST API for what topologies and other programs share: blobs, namespaces of trees."""

from __future__ import annotations

from typing import Any

from ..blob_requests import BlobRequests
from ..leader_api import LeaderApi
from . import shared
from .requests import ApiCall


class SharedHandlers:
    """One method per endpoint of routes.py."""

    def __init__(self, leader_api: LeaderApi, blob_requests: BlobRequests) -> None:
        self._leader_api = leader_api
        self._blob_requests = blob_requests

    async def blob_summary(self, call: ApiCall) -> Any:
        return shared.blobs((await self._blob_requests.list_blobs()).blobs)

    async def namespace_summary(self, call: ApiCall) -> Any:
        return shared.namespaces(await self._leader_api.view())
