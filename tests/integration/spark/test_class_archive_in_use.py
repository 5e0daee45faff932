"""Spark's JVM takes its classes from the archive that ``make setup`` has prepared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tupletree.spark import prepare
from tupletree.spark.class_archive import archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.nightly
def test_the_jvm_of_a_session_has_mapped_the_archive(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    assert str(archive()) in Path(f"/proc/{gateway.proc.pid}/maps").read_text()


def test_it_is_made_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare.main() == 0
    assert capsys.readouterr().out == ""
