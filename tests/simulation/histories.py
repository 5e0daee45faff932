"""Histories of a simulated world by their seeds."""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar

from transaction_nouns import Violation


class World(Protocol):
    """A world that goes through one history, and tells it if it is made with ``is_telling``."""

    story: Any
    steps: int

    def run(self) -> Self: ...


W = TypeVar("W", bound=World)


def run(world: type[W], seed: int, rules: Any = None) -> W:
    """Go through one history. If a rule is violated, go through it once more: the Violation has seed and story."""
    make: Any = world
    try:
        return make(seed, rules).run()  # type: ignore[no-any-return]
    except Violation:
        try:
            make(seed, rules, is_telling=True).run()
        except Violation as error:
            raise Violation(f"seed {seed}: {error}") from error.__cause__
        raise


def check_seed(world: type[World]) -> None:
    """Check that a seed is a whole history, told or not."""
    make: Any = world
    one, two = (make(7, is_telling=True).run() for _ in range(2))
    assert one.story == two.story
    assert one.steps == two.steps == make(7).run().steps
