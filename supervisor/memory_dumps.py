"""Dumps of a worker's memory: the worker counts its objects, and the supervisor keeps the text beside its log."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import from_rpc_error
from tupletree._security.current import towards_workers
from tupletree.errors import UnavailableError
from tupletree.v1.worker_pb2 import DumpMemoryRequest
from tupletree.v1.worker_pb2_grpc import WorkerStub

from .file_rights import give

FORMAT: Final = "memory"
DUMPS_KEPT: Final = 10
_DUMP_S: Final = 45.0


async def dump_memory(topology_id: str, address: str, directory: Path) -> Path:
    """Have the worker at ``address`` dump its memory, and return the path of the file.

    Raises:
        ConflictError: the worker is dumping its memory already.
        UnavailableError: the worker does not answer in time.
    """
    async with aio_channel(address, towards_workers("supervisor", topology_id)) as channel:
        try:
            reply = await WorkerStub(channel).DumpMemory(DumpMemoryRequest(topology_id=topology_id), timeout=_DUMP_S)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                why = f"the worker has not dumped its memory within {_DUMP_S:.0f} s; see its stacks with --stacks"
                raise UnavailableError(why) from None
            raise from_rpc_error(error, f"worker at {address}") from None
    path = directory / f"memory-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}.txt"
    await asyncio.to_thread(_write, path, reply.text)
    return path


def _write(path: Path, text: str) -> None:
    """Write a file as a whole, beside the directory of the worker, and remove all but the newest dumps."""
    partial = path.parent.with_name(f"{path.parent.name}.{path.stem}.partial")
    try:
        partial.write_text(text)
        give(partial, path.parent)
        os.replace(partial, path)
    except OSError as error:
        raise UnavailableError(f"the dump cannot be written to {path}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    for old in sorted(path.parent.glob("memory-*.txt"))[:-DUMPS_KEPT]:
        old.unlink(missing_ok=True)
