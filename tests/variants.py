"""Variants of a long test: which of them every change waits for, and which run at night."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def at_night_but(kept: Collection[Any], variants: Iterable[Any]) -> list[Any]:
    """Return all variants as parameters, in their order. Those that are not ``kept`` run at night.

    Raises ValueError if one that is kept is no variant: every change would wait for none.
    """
    every = list(variants)
    unknown = [one for one in kept if one not in every]
    if unknown:
        raise ValueError(f"{unknown} is none of the variants {every}")
    return [one if one in kept else pytest.param(one, marks=pytest.mark.nightly) for one in every]
