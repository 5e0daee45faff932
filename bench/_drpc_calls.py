"""One client of a DRPC server in a process of its own: calls at a fixed rate, each counted from when it is due.

    python -m bench._drpc_calls --server 127.0.0.1:3772 --rate 1000 --warm 3 --seconds 15

Prints a line of JSON: the latencies of answered calls, the errors by class, and the use of the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tupletree._rpc.channels import aio_channel
from tupletree.drpc import DRPCClient
from tupletree.errors import TupletreeError
from tupletree.v1 import drpc_pb2, drpc_pb2_grpc

FUNCTION: Final = "score"
TIMEOUT_S: Final = 30.0
THREADS: Final = 100
WAYS: Final = ("stream", "threads", "unary")

Call = Callable[[int], Awaitable[int]]


def args_of(number: int) -> dict[str, int]:
    """Return the arguments of a call; the answer is their sum."""
    return {"age": number, "visits": 1}


async def call_all(call: Call, rate: float, warm_s: float, seconds: float) -> dict[str, Any]:
    """Begin call n at n / rate seconds after the start, whether or not earlier calls are answered."""
    latencies_s: list[float] = []
    wrong: list[str] = []
    errors: Counter[str] = Counter()
    began_s, used_s = time.perf_counter(), time.process_time()

    async def one(number: int, due_s: float) -> None:
        try:
            answer = await call(number)
        except TupletreeError as error:
            errors[type(error).__name__] += 1
            return
        if answer != number + 1:
            wrong.append(f"call {number} was answered {answer!r}")
        if due_s >= began_s + warm_s:
            latencies_s.append(time.perf_counter() - due_s)

    count = round(rate * (warm_s + seconds))
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            due_s = began_s + number / rate
            if (early_s := due_s - time.perf_counter()) > 0:
                await asyncio.sleep(early_s)
            group.create_task(one(number, due_s))
    took_s = time.perf_counter() - began_s
    facts = {"calls": count, "took_s": took_s, "cpu_s": time.process_time() - used_s}
    return {**facts, "latencies_s": latencies_s, "errors": errors, "wrong": wrong[:3]}


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Call through DRPCClient, by threads that wait, or with a gRPC call each, as programs in other languages do."""
    timed = (arguments.rate, arguments.warm, arguments.seconds)
    if arguments.way == "threads":
        loop = asyncio.get_running_loop()
        with DRPCClient(arguments.server) as client, ThreadPoolExecutor(THREADS) as pool:

            def execute_blocking(number: int) -> int:
                return int(client.execute(FUNCTION, args_of(number), timeout_s=TIMEOUT_S))

            return await call_all(lambda number: loop.run_in_executor(pool, execute_blocking, number), *timed)
    if arguments.way == "stream":
        async with DRPCClient(arguments.server) as asynchronous:

            async def execute(number: int) -> int:
                return int(await asynchronous.execute_async(FUNCTION, args_of(number), timeout_s=TIMEOUT_S))

            return await call_all(execute, *timed)
    async with aio_channel(arguments.server) as channel:
        stub: Any = drpc_pb2_grpc.DrpcStub(channel)

        async def execute_unary(number: int) -> int:
            request = drpc_pb2.ExecuteRequest(function=FUNCTION, args=json.dumps(args_of(number)).encode())
            try:
                reply = await stub.Execute(request, timeout=TIMEOUT_S)
            except Exception as error:  # refused for lack of streams or of room, or too late
                raise TupletreeError(str(error)) from None
            return int(json.loads(reply.result or b"-1"))

        return await call_all(execute_unary, *timed)


def main() -> int:
    """Call, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--warm", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--way", choices=WAYS, required=True)
    print(json.dumps(asyncio.run(run(parser.parse_args()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
