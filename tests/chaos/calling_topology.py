"""A topology that calls an HTTP server for each number, and writes down what was answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numbers_topology import append

from bench._http_calls import Client
from tupletree import AsyncBolt, BasicBolt, Message, ReliableSpout, TopologyBuilder


class Numbers(ReliableSpout):
    outputs = ("number",)

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def read(self) -> Any:
        for number in range(self.limit):
            yield Message([number], id=number)


class Call(AsyncBolt):
    outputs = ("number",)
    in_flight = 200

    def __init__(self, port: int) -> None:
        self.port = port

    async def open_async(self) -> None:
        self.client = Client(self.port)

    async def execute(self, tup: Any) -> Any:
        await self.client.get(tup["number"])
        return [[tup["number"]]]

    async def close_async(self) -> None:
        self.client.close()


class Append(BasicBolt):
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def execute(self, tup: Any, collector: Any) -> None:
        append(f"{self.directory}/answered-{self.context.task_id}", f"{tup[0]}")


def calling_topology(directory: Path, port: int, limit: int) -> Any:
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Numbers(limit))
    call = builder.set_bolt("call", Call(port)).shuffle_grouping(numbers)
    builder.set_bolt("sink", Append(directory)).shuffle_grouping(call)
    return builder.create_topology()
