"""One Spark session for all tests of this folder that can share it: a start takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from local_spark import LOCAL

from tupletree.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """A session on two cores of this machine."""
    try:
        yield session.acquire(LOCAL)
    finally:
        session.release()
