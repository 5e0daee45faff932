"""Effects that raise anything: their slot fails and says why, the supervisor and its other slot go on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tupletree._daemon.health import Readiness
from tupletree._daemon.task_group import TaskGroup
from tupletree.config import defaults
from tupletree.supervisor.blob_files import BlobFiles
from tupletree.supervisor.blob_plan import LocalBlob
from tupletree.supervisor.blobs import Blobs
from tupletree.supervisor.bundles import Bundles
from tupletree.supervisor.config import SupervisorConfig
from tupletree.supervisor.effects import Effects
from tupletree.supervisor.launcher import LaunchedWorker, Launcher
from tupletree.supervisor.local_assignment import LocalAssignment
from tupletree.supervisor.metrics import Metrics
from tupletree.supervisor.presences import WorkerPresences
from tupletree.supervisor.processes import WorkerProcess
from tupletree.supervisor.slot import Delayed, Empty, Slot, Starting
from tupletree.supervisor.slot_events import (
    Assigned,
    Event,
    ForgetWorker,
    Kill,
    PutPresence,
    RemovePresence,
    Terminate,
    Worker,
)
from tupletree.supervisor.slots import Slots
from tupletree.supervisor.zookeeper_session import EventualSession

BAD = LocalAssignment("bad-1-1", "ba" * 32, 1, "{}", ((1, 1),))
GOOD = LocalAssignment("good-1-1", "90" * 32, 1, "{}", ((1, 1),))
BAD_PORT, GOOD_PORT = 6700, 6701

ERRORS = [
    ValueError("illegal environment variable name"),
    RecursionError("maximum recursion depth exceeded"),
    UnicodeEncodeError("utf-8", "a\ud800", 1, 2, "surrogates not allowed"),
    MemoryError(),
    KeyError("\ud800\0\n"),
]


class World:
    """What slots need, for two topologies: ``raises(stage)`` is called for the bad one, and may raise."""

    def __init__(self, directory: Path, raises: Callable[[str], object]) -> None:
        conf = defaults() | {"local.dir": str(directory), "supervisor.slots.ports": [BAD_PORT, GOOD_PORT]}
        config = SupervisorConfig.from_conf(conf)
        self.processes: list[WorkerProcess] = []
        processes = self.processes

        class SomeBundles(Bundles):
            async def localize(self, sha256: str, size: int) -> Path:
                if sha256 == BAD.bundle_sha256:
                    raises("fetch")
                return directory

        class SomeWorkers(Launcher):
            def launch(
                self,
                worker_id: str,
                port: int,
                work: LocalAssignment,
                bundle_dir: Path,
                python: str,
                blobs: Mapping[str, LocalBlob],
            ) -> tuple[LaunchedWorker, WorkerProcess]:
                if work == BAD:
                    raises("launch")
                process = WorkerProcess.launch(["sleep", "600"], "/", dict(os.environ), str(directory / "out"))
                processes.append(process)
                if work == BAD and raises("watch"):
                    process.close()  # so that nobody can watch it
                return LaunchedWorker(worker_id, port, work, 0.0), process

        self.tasks = TaskGroup()
        readiness, ports = Readiness(), [BAD_PORT, GOOD_PORT]
        session = EventualSession(conf, readiness)
        metrics = Metrics(config, readiness, ports, list)
        launcher = SomeWorkers(config, "me", "127.0.0.1:1", None)
        files = BlobFiles(directory, self._no_leader, metrics.received.inc)
        blobs = Blobs(files, launcher, session, self.tasks, list, self._no_restart, self._no_complaint, 1.0)
        self.effects = Effects(
            config,
            "me",
            SomeBundles(directory, self._no_leader, metrics.received.inc),
            blobs,
            launcher,
            WorkerPresences(session, self.tasks, "me", metrics.removal.observe),
            session,
            self.tasks,
            metrics,
            self._tell,
            ports,
        )
        self.slots = Slots(ports, config.limits, self.effects.carry_out)

    def _tell(self, port: int, event: Event) -> None:
        self.slots.dispatch(port, event)

    async def _no_leader(self) -> str:
        raise AssertionError("nothing is fetched here")

    def _no_restart(self, port: int, topology_id: str) -> None:
        raise AssertionError("no worker has a blob")

    def _no_complaint(self, work: LocalAssignment, message: str) -> None:
        raise AssertionError("no worker has a blob")

    def slot(self, port: int) -> Slot:
        return next(one for one in self.slots if one.port == port)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                assert self.tasks.failure is None
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        self.slots.dispatch_all(Assigned(None))
        for process in self.processes:
            process.signal_group(9)
        await self.until(lambda: all(isinstance(one.state, Empty | Delayed) for one in self.slots))
        assert self.tasks.failure is None
        await self.tasks.cancel()


def run(directory: Path, raises: Callable[[str], object], scenario: Callable[[World], Any]) -> None:
    async def main() -> None:
        world = World(directory, raises)
        try:
            await scenario(world)
        finally:
            await world.end()

    asyncio.run(main())


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("stage", ["fetch", "launch"])
def test_a_slot_whose_effect_raises_anything_is_delayed_and_its_neighbour_runs(
    tmp_path: Path, stage: str, error: Exception
) -> None:
    def raises(at: str) -> None:
        if at == stage:
            raise error

    async def scenario(world: World) -> None:
        world.slots.dispatch(BAD_PORT, Assigned(BAD))
        world.slots.dispatch(GOOD_PORT, Assigned(GOOD))
        await world.until(lambda: isinstance(world.slot(BAD_PORT).state, Delayed))
        await world.until(lambda: isinstance(world.slot(GOOD_PORT).state, Starting))
        assert type(error).__name__ in world.slot(BAD_PORT).last_exit
        assert world.slot(BAD_PORT).last_exit.encode()

    run(tmp_path, raises, scenario)


def test_a_worker_that_cannot_be_watched_is_ended_and_its_launch_has_failed(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.slots.dispatch(BAD_PORT, Assigned(BAD))
        await world.until(lambda: isinstance(world.slot(BAD_PORT).state, Delayed))
        assert not os.path.exists(f"/proc/{world.processes[0].pid}")
        assert world.effects.known_workers == set()

    run(tmp_path, lambda stage: stage == "watch", scenario)


def test_effects_about_a_worker_that_nobody_knows_raise_nothing(tmp_path: Path) -> None:
    stranger = Worker("stranger", 1)

    async def scenario(world: World) -> None:
        for effect in (
            PutPresence(BAD, stranger),
            RemovePresence(BAD, stranger),
            Terminate(stranger),
            Kill(stranger),
            ForgetWorker(BAD, stranger, "clean", ""),
        ):
            world.effects.carry_out(BAD_PORT, effect)
        await asyncio.sleep(0)

    run(tmp_path, lambda stage: None, scenario)


def test_what_is_kept_of_a_bundle_goes_when_no_slot_needs_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.slots.dispatch(GOOD_PORT, Assigned(GOOD))
        await world.until(lambda: isinstance(world.slot(GOOD_PORT).state, Starting))
        world.effects.withdraw_bundles({GOOD.bundle_sha256})
        assert set(world.effects._pythons) == {GOOD.bundle_sha256}
        world.effects.withdraw_bundles(set())
        assert not world.effects._pythons

    run(tmp_path, lambda stage: None, scenario)


def test_a_topology_starts_although_another_with_its_bundle_lacks_a_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_records(blobs: Blobs, keys: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr(Blobs, "_records", no_records)
    lacking = replace(GOOD, topology_id="bad-1-1", conf_json='{"topology.blobstore.map": {"model": {}}}')

    async def scenario(world: World) -> None:
        monkeypatch.setattr(world.effects._blobs, "_works", world.slots.works)
        world.slots.dispatch(BAD_PORT, Assigned(lacking))
        world.slots.dispatch(GOOD_PORT, Assigned(GOOD))
        await world.until(lambda: isinstance(world.slot(GOOD_PORT).state, Starting))
        assert isinstance(world.slot(BAD_PORT).state, Delayed)
        assert world.slot(BAD_PORT).last_exit.startswith("blob 'model', which topology.blobstore.map names, does not")

    run(tmp_path, lambda stage: None, scenario)
