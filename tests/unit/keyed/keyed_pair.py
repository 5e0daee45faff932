"""A bolt and its model, which take the same steps."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from keyed_driver import Driver
from keyed_model import TaskModel

M = TypeVar("M", bound=TaskModel[Any])


class Pair(Generic[M]):
    """Steps that any KeyedProcess and its model take; ``check`` compares what both did."""

    def __init__(self, driver: Driver, model: M) -> None:
        self.driver, self.model = driver, model

    def step(self, kind: str, *details: Any) -> None:
        getattr(self, kind.replace(" ", "_"))(*details)
        self.check()

    def prepare(self) -> None:
        if self.model.prepared is None:
            self.driver.prepare()
            self.model.prepare()

    def commit(self) -> None:
        if self.model.prepared is None:
            self.prepare()
        self.driver.commit()
        self.model.commit()

    def crash(self) -> None:
        self.driver.crash()
        self.model.go_back()

    def commit_after_crash(self) -> None:
        self.driver.crash(commits=True)
        if self.model.prepared is not None:
            self.model.commit()
        self.model.go_back()

    def rollback(self) -> None:
        self.driver.rollback()
        self.model.go_back()

    def check(self) -> None:
        """Compare what was emitted in this step, and what is held after it."""
        raise NotImplementedError
