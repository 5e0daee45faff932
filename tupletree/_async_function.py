"""The bolt that ``@bolt`` makes of an async function."""

from __future__ import annotations

from typing import Any

from tupletree._of_function import Function, OfFunction
from tupletree.async_bolt import AsyncBolt
from tupletree.component import Outputs


class AsyncFunctionBolt(OfFunction, AsyncBolt):
    """An async bolt that awaits a coroutine function or async generator function. ``setting``: its attributes."""

    def __init__(self, function: Function, outputs: Outputs, setting: dict[str, Any]) -> None:
        super().__init__(function, outputs, setting)
        vars(self).update(setting, execute=function)
