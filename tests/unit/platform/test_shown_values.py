"""A setting of any value gets a sentence of bounded length: no value's own repr, str or size is trusted."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree._limits import environment_fault, shown
from tupletree.config import validate
from tupletree.errors import ConfigError


class Refuses:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


VALUES = [10**5000, -(10**5000), Refuses(), [Refuses()], {"a": [10**5000]}, b"x" * 1_000_000, [0] * 200_000, 2**64]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_shown_in_less_than_a_line(value: Any) -> None:
    assert 0 < len(shown(value)) <= 101
    assert "\n" not in shown(value)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["topology.workers", "topology.acker.executors", "topology.debug"])
def test_a_wrong_value_is_refused_by_the_key(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"configuration key '{name}' takes") as caught:
        validate({name: value})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [10**5000, Refuses()], ids=["long", "without a repr"])
def test_a_variable_whose_value_has_no_text_is_refused_by_its_name(value: Any) -> None:
    assert "the value of 'A'" in (environment_fault({"A": value}) or "")


def test_a_key_that_is_no_string_is_refused_however_it_looks() -> None:
    with pytest.raises(ConfigError, match="configuration keys are strings"):
        validate({10**5000: 1})  # type: ignore[dict-item]
