"""A Python worker of Spark imports the reader of its source, and not the rest of the library."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tupletree.spark

READER = """
import sys
import tupletree.spark.sources.lines
print(*sorted({"grpc", "pandas", "tupletree.client", "tupletree.spark.streaming"} & sys.modules.keys()))
"""


def test_a_reader_brings_neither_the_client_nor_other_faces() -> None:
    run = subprocess.run([sys.executable, "-c", READER], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_every_public_name_is_found_on_first_access_and_no_other() -> None:
    assert {getattr(tupletree.spark, name).__name__ for name in tupletree.spark.__all__} == {*tupletree.spark.__all__}
    assert {*tupletree.spark.__all__} <= {*dir(tupletree.spark)}
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        tupletree.spark.Nothing  # type: ignore[attr-defined]  # noqa: B018
