"""The operator of the topology whose states move: what is asked of it, one step after the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from moving_cluster import Cluster
from moving_nouns import EXTRA, ID, Code

from tupletree._checkpoints.record import stored_checkpoint
from tupletree.errors import ConflictError, UnavailableError, UsageError
from tupletree.nimbus.conf_changes import SetConf
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.updates import Rollback, state_versions

LOSES_PATIENCE = 0.03
"""The probability that the operator waits no longer, at each look."""


class Operator:
    """Draws what is asked of the topology, one step after the other."""

    def __init__(self, cluster: Cluster, code: Code, kinds: tuple[str, ...]) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.left = self.world.shape.steps
        self._newest = code
        self._is_hasty = False  # the next step does not wait for the last one
        steps: dict[str, Callable[[], object]] = {
            "rescale": self.rescale,
            "update": self.update,
            "migrate": self.migrate,
            "fail": self.fail,
            "rollback": self.roll_back,
            "configure": self.configure,
            "place": self.place,
            "stop": self.stop,
        }
        often = ["rescale", "rescale", "rescale", "update", "migrate", "migrate", "rollback", "rollback", *steps]
        self._steps = [steps[kind] for kind in kinds or often]

    def next(self) -> None:
        """Take the next step, as long as some are left."""
        world = self.world
        if self.left <= 0 or not world.is_faulty:
            self.left = 0
            return
        self.left -= 1
        self.try_to(world.rng.choice(self._steps))
        self._is_hasty = world.rng.random() < world.shape.haste
        self._go_on_after(world.judge.commits)

    def _go_on_after(self, commits: int) -> None:
        """Take the next step after a pause, rather when the last one is over and a checkpoint has followed it."""
        world = self.world
        pause_s = world.rng.uniform(0, world.shape.pause_s)
        self._is_hasty |= world.rng.random() < LOSES_PATIENCE
        if self._is_hasty or (self.cluster.is_settled() and world.judge.commits > commits):
            world.at(pause_s, self.next)
        else:
            world.at(0.1, partial(self._go_on_after, commits))

    def begin(self) -> None:
        """Take the first step, rather when there is a checkpoint."""
        self._is_hasty = self.world.rng.random() < self.world.shape.haste / 3
        self._go_on_after(0)

    def try_to(self, step: Callable[[], object]) -> None:
        """Ask for something. It may be refused, or not be answered; then it is possibly asked again."""
        name = getattr(step, "__name__", "step")
        for _ in range(2):
            try:
                step()
                self.world.tell(f"the operator asks: {name}")
                self.world.counts[f"asked to {name}"] += 1
                return
            except UsageError as error:
                self.world.tell(f"the operator asks: {name}; refused: {error}")
                self.world.counts["requests refused"] += 1
                return
            except (UnavailableError, ConflictError) as error:
                self.world.tell(f"the operator asks: {name}; no answer: {error}")
                if self.world.rng.random() < 0.5:
                    return

    def rescale(self) -> object:
        tasks = {name: self.world.draw_tasks(name) for name in self._scalable() if self.world.rng.random() < 0.5}
        return self.cluster.ask(lifecycle.Rebalance(self.cluster.wait_s(), 0, {}, tasks or {"events": 1}))

    def _scalable(self) -> list[str]:
        tasks = sorted(self.cluster.record.value.tasks)  # a map of protobuf has no order
        return [one for one in tasks if one != "late" and not one.startswith("$")]

    def place(self) -> object:
        """Other workers and executors: the tasks stay, with their ids."""
        rng, record = self.world.rng, self.cluster.record.value
        executors = {name: rng.randint(1, record.tasks[name]) for name in self._scalable() if rng.random() < 0.3}
        return self.cluster.ask(lifecycle.Rebalance(self.cluster.wait_s(), rng.randint(1, 4), executors))

    def configure(self) -> object:
        """A key that changes with a restart."""
        value = {"topology.transfer.batch.size": self.world.rng.choice([1, 2, 5, 50])}
        return self.cluster.ask(SetConf(json.dumps(value), [], self.cluster.wait_s()))

    def stop(self) -> object:
        """The spouts rest for a while."""
        resume = partial(self.try_to, self.resume)
        self.world.at(self.world.rng.uniform(0.1, 1.5), resume)
        return self.cluster.ask(lifecycle.Deactivate())

    def resume(self) -> object:
        return self.cluster.ask(lifecycle.Activate())

    def roll_back(self) -> object:
        return self.cluster.ask(Rollback(self.cluster.wait_s()))

    def update(self) -> object:
        """Other code, perhaps with other numbers of tasks, with or without a component."""
        rng, code = self.world.rng, self._newest
        tasks = {
            name: count if rng.random() < 0.7 else self.world.draw_tasks(name) for name, count in code.tasks.items()
        }
        return self._update(tasks=tasks, has_extra=rng.random() < 0.5, batch_size=rng.choice([code.batch_size, 1, 4]))

    def migrate(self) -> object:
        """Code that stores the values of some components in another form."""
        rng, versions = self.world.rng, dict(self._newest.versions)
        for name in self._newest.tasks:
            if name in ("count", "timers", "results", EXTRA) and rng.random() < 0.6:
                versions[name] = versions.get(name, 1) + 1
        return self._update(versions=versions)

    def fail(self) -> object:
        """Code that cannot start: it is taken back."""
        return self._update(starts=False)

    def go_on(self) -> object:
        """Code that reads whatever is stored: the way out, where the code that runs cannot."""
        return self._update()

    def _update(self, **changes: Any) -> object:
        newest = self._newest
        # The versions are never lower than those of any code before: that is what its writers promise.
        code = Code(
            **{
                "number": newest.number + 1,
                "tasks": newest.tasks,
                "versions": newest.versions,
                "has_extra": newest.has_extra,
                "starts": True,
                "batch_size": newest.batch_size,
                **changes,
            }
        )
        self._newest = code
        return self.cluster.update(code)

    def needs_help(self) -> bool:
        """True if the code that runs cannot read what is stored."""
        stored = stored_checkpoint(self.world.store, ID)
        versions = state_versions(self.cluster.outline)
        return any(one > versions[name] for name, one in stored.versions.items() if name in versions)
