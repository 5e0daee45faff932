"""Which functions ForeachBatch takes."""

from __future__ import annotations

import functools
from typing import Any

import cloudpickle
import pytest

from tupletree.errors import UsageError
from tupletree.spark.sinks.foreach import ForeachBatch


def save(result: Any, txid: int) -> None:
    pass


class Place:
    def save(self, result: Any, txid: int) -> None:
        pass

    def __call__(self, result: Any, txid: int, more: str = "") -> None:
        pass


@pytest.mark.parametrize(
    "function",
    [
        save,
        lambda result, txid: None,
        Place().save,
        Place(),
        functools.partial(lambda place, result, txid: None, 1),
        lambda *values: None,
    ],
)
def test_whatever_takes_two_arguments_will_do_and_travels_by_pickling(function: Any) -> None:
    assert isinstance(cloudpickle.loads(cloudpickle.dumps(ForeachBatch(function))), ForeachBatch)


def test_a_function_of_other_arguments_is_refused_by_name() -> None:
    def lonely(result: Any) -> None:
        pass

    with pytest.raises(UsageError, match=r"lonely does not take two arguments, a DataFrame and a txid"):
        ForeachBatch(lonely)  # type: ignore[arg-type]


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(UsageError, match="function is 'save'"):
        ForeachBatch("save")  # type: ignore[arg-type]
