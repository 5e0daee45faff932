"""The initial load of the guide: Spark writes a savepoint, and a topology can begin with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from document_blocks import DOCS, blocks_of

from tupletree import StatefulBolt, TopologyBuilder, config
from tupletree._savepoints.compare import compare
from tupletree._savepoints.files import Place
from tupletree._wire.codec import decode_value
from tupletree.testing import FeederSpout


class Count(StatefulBolt):
    def execute(self, tup: Any) -> None: ...


@pytest.mark.nightly  # Spark starts
def test_what_spark_has_computed_is_a_savepoint(tmp_path: Path) -> None:
    [block] = [one for one in blocks_of(DOCS / "guides/savepoints.md") if one.kind == "python"]
    (tmp_path / "initial_load.py").write_text(block.text)
    subprocess.run([sys.executable, "initial_load.py"], cwd=tmp_path, check=True, timeout=120, capture_output=True)

    place = Place(str(tmp_path / "history"))
    manifest = place.read_manifest()
    rows = place.read_rows("count", manifest.components["count"], "StatefulBolt")
    assert {decode_value(key): decode_value(value) for _, key, value in rows} == {"apple": 2, "pear": 1}
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"]))
    builder.set_bolt("count", Count(), 3).fields_grouping("words", ["word"])
    conf = {**config.defaults(), "topology.state.provider": "sqlite"}
    assert compare(manifest, builder.create_topology().outline(), conf, allow_lost=False).kept == ("count",)
