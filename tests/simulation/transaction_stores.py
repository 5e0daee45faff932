"""The store and the databases as a task reaches them: a request may fail before, in the middle of, or after it is done.

Each request of a step to the outside is one of the points between which everything else may happen:

refused         UnavailableError; nothing was done
reply lost      done, then UnavailableError
late            UnavailableError; and done some time later
killed          the process dies before it, or when it is done
paused          before it, or when it is done: the rest of the world goes on meanwhile
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from transaction_tasks import Incarnation

from tupletree._stores.nodes import Node, Write
from tupletree.errors import AuthorityError, ConflictError, FailedException, UnavailableError
from tupletree.testing.simulation.workers import Killed
from tupletree.transactional.databases.contract import Changes, Database, Row, View

if TYPE_CHECKING:
    from transaction_world import World

FATES = ("refused", "reply lost", "late", "killed before", "killed after", "paused before", "paused after")


class Outside:
    """Carries out requests to the outside of the process that makes them."""

    def __init__(self, world: World) -> None:
        self.world = world

    def request(self, what: str, perform: Callable[[], Any], risk: float, is_away: bool = False) -> Any:
        world = self.world
        asker = world.running[-1] if world.running else None
        if asker is not None and not asker.alive:
            raise Killed
        if is_away:
            raise UnavailableError(f"{what}: the store is away")
        if asker is None or not world.is_faulty or world.rng.random() >= risk:
            return perform()
        fate = world.rng.choice(FATES)
        world.network.counts[fate] += 1
        world.tell(None, f"{asker}: {what} is {fate}")
        return self._carry_out(fate, what, asker, perform)

    def _carry_out(self, fate: str, what: str, asker: Incarnation, perform: Callable[[], Any]) -> Any:
        world = self.world
        match fate:
            case "refused":
                raise UnavailableError(f"{what} was refused")
            case "reply lost":
                _alone(perform)
                raise UnavailableError(f"the reply to {what} was lost")
            case "late":
                world.at(world.rng.uniform(0, world.rng.choice([0.05, 0.5, 2.0])), lambda: _alone(perform))
                raise UnavailableError(f"{what} took too long")
            case "killed before":
                asker.kill(f"before {what}")
                raise Killed
            case "killed after":
                _alone(perform)
                asker.kill(f"after {what}")
                raise Killed
            case "paused before":
                world.pause(asker)
                return perform()
        result = perform()
        world.pause(asker)
        return result


def _alone(perform: Callable[[], Any]) -> None:
    """Nobody waits for the result."""
    with suppress(ConflictError, FailedException, AuthorityError):
        perform()


class SimulatedStore:
    """The store of progress as one incarnation reaches it."""

    def __init__(self, world: World, owner: Incarnation) -> None:
        self._world = world
        self._owner = owner

    def get(self, path: str) -> Node | None:
        node: Node | None = self._request(f"get {path}", lambda: self._world.store.get(path))
        return node

    def children(self, path: str) -> list[str]:
        names: list[str] = self._request(f"children of {path}", lambda: self._world.store.children(path))
        return names

    def write(self, writes: Sequence[Write]) -> None:
        def perform() -> None:
            self._world.store.write(writes)
            self._world.judge.stored(self._owner, writes)

        self._request(f"write {writes[-1].path}", perform)

    def close(self) -> None:
        pass

    def _request(self, what: str, perform: Callable[[], Any]) -> Any:
        world = self._world
        return world.outside.request(what, perform, world.faults.operations, is_away=world.now_s < world.store_back_s)


class SimulatedDatabase(Database):
    """A database as whoever is running reaches it."""

    def __init__(self, world: World, database: Database) -> None:
        self._world = world
        self._database = database

    def apply(self, table: str, decide: Callable[[View], Changes]) -> Changes:
        world = self._world
        changes: Changes = world.outside.request(
            f"update {table}", lambda: self._database.apply(table, decide), world.faults.updates
        )
        return changes

    def read(self, table: str, keys: Collection[str] | None = None) -> dict[str, Row]:
        return self._database.read(table, keys)

    def close(self) -> None:
        pass

    def __deepcopy__(self, memo: object) -> SimulatedDatabase:
        return self

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return object, ()
