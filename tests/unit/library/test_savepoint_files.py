"""Files of savepoints: what is written is read again, other programs' rows are taken, and odd files are refused."""

from __future__ import annotations

import builtins
import json
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree import StatefulBolt, TopologyBuilder, config, value
from tupletree._savepoints.export import writer_of
from tupletree._savepoints.files import Place, _write_new
from tupletree._savepoints.manifest import ENCODED, FILE, Manifest, Part, decoded
from tupletree._savepoints.rows import FOLDER, load_carried, read_rows, write_rows
from tupletree._wire.codec import decode_value, encode_value
from tupletree.client.savepoints import carried
from tupletree.errors import UsageError
from tupletree.testing import FeederSpout


@value
@dataclass
class Sale:
    shop: str
    cents: int


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(st.tuples(st.integers(0, 5), st.text() | st.integers() | st.binary(), VALUES), max_size=20)


@given(ROWS)
def test_rows_are_read_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("kept")
    written = [(task, encode_value(key), encode_value(value)) for task, key, value in rows]
    place = Place(f"file://{folder}")
    with place.writer("count.parquet") as out:
        out.write(written[:7])
        out.write(written[7:])
    assert out.entries == len(rows)
    part = Part("count.parquet", ENCODED)
    assert list(place.read_rows("count", part, "StatefulBolt")) == written
    assert write_rows(folder / "0.rows", written) == len(rows)
    assert list(read_rows(folder / "0.rows")) == written


def test_a_savepoint_is_on_disk_before_its_manifest_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/dev/fd/{descriptor}").resolve()))
    folder = tmp_path / "savepoint"
    place = Place(str(folder))
    place.create()
    with place.writer("a.parquet"):
        pass
    place.write_manifest(Manifest({}))
    assert synced == [tmp_path, folder / "a.parquet", folder, folder / FILE, folder]


def test_readable_columns_stand_beside_the_encoded_ones(tmp_path: Path) -> None:
    with Place(str(tmp_path)).writer("a.parquet") as out:
        out.write([(1, encode_value(("shop", 5)), encode_value(Sale("here", 99)))])
    [row] = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert json.loads(row["key_json"]) == {"$tuple": ["shop", 5]}
    assert json.loads(row["value_json"])["fields"] == ["here", 99]
    assert decode_value(row["value"]).cents == 99
    assert row["task"] == 1


def test_rows_of_other_programs_have_keys_and_values_of_parquets_own_types(tmp_path: Path) -> None:
    (tmp_path / "count").mkdir()
    keys = pa.array([{"word": "a", "year": 1}, {"word": "b", "year": 2}])
    parts = pa.map_(pa.string(), pa.float64())
    kind = pa.struct([("n", pa.int64()), ("parts", parts), ("older", pa.list_(parts))])
    values = pa.array([{"n": 1, "parts": [("x", 1.5)], "older": [[("y", 2.5)], None]}, None], kind)
    pq.write_table(
        pa.table({"value": values, "key": keys, "more": pa.array([1, 2])}), tmp_path / "count/part-0.parquet"
    )
    (tmp_path / "count/_SUCCESS").touch()
    (tmp_path / "count/.part-0.parquet.crc").touch()
    rows = list(Place(str(tmp_path)).read_rows("count", Part("count"), "StatefulBolt"))
    assert [(task, decode_value(key), decode_value(value)) for task, key, value in rows] == [
        (None, ("a", 1), {"n": 1, "parts": {"x": 1.5}, "older": [{"y": 2.5}, None]}),
        (None, ("b", 2), None),
    ]
    [(_, key, _), _] = Place(str(tmp_path)).read_rows("count", Part("count"), "KeyedProcess")
    assert decode_value(key) == ("$key", ("a", 1)), "where a KeyedProcess keeps the value of this key"


def test_a_key_that_another_program_has_written_twice_is_refused(tmp_path: Path) -> None:
    class Count(StatefulBolt):
        def execute(self, tup: Any) -> None: ...

    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["word"]))
    builder.set_bolt("count", Count()).fields_grouping("lines", ["word"])
    spec, conf = builder.create_topology().outline(), {**config.defaults(), "topology.state.provider": "sqlite"}
    (tmp_path / "count").mkdir()
    (tmp_path / FILE).write_text(json.dumps({"tupletree_savepoint": 1, "components": {"count": {"files": "count"}}}))
    for number, keys in enumerate([["apple", "pear"], ["plum"]]):
        pq.write_table(pa.table({"key": keys, "value": [1] * len(keys)}), tmp_path / f"count/part-{number}.parquet")
    with carried(str(tmp_path), spec, conf, allow_lost=False) as (folder, _):
        assert len(list(read_rows(folder / "0.rows"))) == 3
    pq.write_table(pa.table({"key": ["pear"], "value": [5]}), tmp_path / "count/part-2.parquet")
    fault = rf"^{tmp_path}: component 'count' has two rows with key .pear.: join them to one$"
    with pytest.raises(UsageError, match=fault), carried(str(tmp_path), spec, conf, allow_lost=False):
        pass


def test_odd_files_get_a_sentence(tmp_path: Path) -> None:
    def refusal(table: pa.Table | None, rows: str = "plain") -> str:
        if table is not None:
            pq.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(UsageError) as caught:
            list(Place(str(tmp_path)).read_rows("count", Part("a.parquet", rows), "StatefulBolt"))
        return str(caught.value)

    assert "there is no file a.parquet" in refusal(None)
    assert "component 'count', a.parquet has no column value; it has key" in refusal(pa.table({"key": ["a"]}))
    assert "a key must be a str, bytes, an int or a tuple of these" in refusal(pa.table({"key": [1.5], "value": [1]}))
    assert "has no column task" in refusal(pa.table({"key": [b"a"], "value": [b"a"]}), ENCODED)
    odd = pa.table({"task": [0], "key": ["a"], "value": [b"a"]})
    assert "the columns task, key and value are numbers, bytes and bytes" in refusal(odd, ENCODED)
    (tmp_path / "a.parquet").write_text("no")
    assert "a.parquet is not a Parquet file" in refusal(None)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not JSON"),
        ("[]", "is not the manifest of a savepoint"),
        ('{"components": {}}', "it has no number tupletree_savepoint"),
        (
            '{"tupletree_savepoint": 2, "components": {}}',
            "has format 2, and this version of Tupletree reads formats up",
        ),
        ('{"tupletree_savepoint": 1}', "components in savepoint.json is an object"),
        ('{"tupletree_savepoint": 1, "components": {"a": {}}}', "names its files below the savepoint, not ''"),
        ('{"tupletree_savepoint": 1, "components": {"a": {"files": "../x"}}}', "names its files below the savepoint"),
        ('{"tupletree_savepoint": 1, "components": {"a": {"files": "x", "rows": "odd"}}}', "not 'odd'"),
        ('{"tupletree_savepoint": 1, "components": {"a": {"files": "x", "tasks": -1}}}', "tasks are 0 or more"),
        ('{"tupletree_savepoint": 1, "components": {"a": {"files": "x", "fields": [1]}}}', "a list of lists of names"),
        ('{"tupletree_savepoint": 1, "components": {}, "checkpoint": 0}', "is 1 or more, not 0"),
        ('{"tupletree_savepoint": 1, "components": {}, "checkpoint": true}', "checkpoint in savepoint.json cannot be"),
    ],
)
def test_odd_manifests_get_a_sentence(text: str, fault: str) -> None:
    with pytest.raises(UsageError) as caught:
        decoded(text, "here")
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_manifest_is_read_as_it_was_written_and_unknown_fields_are_left_to_later_versions(tmp_path: Path) -> None:
    manifest = Manifest(
        {"count": Part("count.parquet", ENCODED, "bolt", "StatefulBolt", 2, 3, [["word"]], 9)},
        *("words-7-1", "words", "words-1-1", 1, 7, True, "ab", 1.5, "0.1", {"lines": [5]}),
    )
    assert decoded(manifest.encoded(), "here") == manifest
    later = {**json.loads(manifest.encoded()), "later": 1}
    assert decoded(json.dumps(later), "here") == manifest
    (tmp_path / FOLDER).mkdir()
    assert load_carried(str(tmp_path)) is None
    (tmp_path / FOLDER / FILE).write_text(manifest.encoded())
    assert load_carried(str(tmp_path)) == (manifest, tmp_path / FOLDER)


def test_a_place_without_a_savepoint_or_of_an_unknown_kind_gets_a_sentence(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "new"))
    assert not place.has_manifest()
    with pytest.raises(UsageError, match=r"^there is no savepoint at .*new: it has no savepoint.json$"):
        place.read_manifest()
    with pytest.raises(UsageError, match=r"^odd://x/y cannot be used for a savepoint: "):
        Place("odd://x/y")
    place.create()
    place.write_manifest(Manifest({}))
    assert place.read_manifest() == Manifest({})


@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_a_manifest_is_created_once_and_removed_by_its_attempt_alone(tmp_path: Path, address: str) -> None:
    place = Place(address.format(tmp_path / "new"))
    place.create()
    place.write_manifest(Manifest({}, id="words-7-1"))
    with pytest.raises(UsageError, match=r"^there is a savepoint at .*new already: name another directory with --to$"):
        place.write_manifest(Manifest({}, id="words-8-2"))
    with pytest.raises(FileExistsError):  # another one was created after the question
        _write_new(str(tmp_path / "new" / FILE), b"{}")
    place.remove([], "words-8-2")
    assert place.read_manifest().id == "words-7-1"
    place.remove(["none"], "words-7-1")
    assert not place.has_manifest()


def test_a_manifest_that_the_disk_does_not_take_leaves_none(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            _write_new(str(tmp_path / FILE), b"{}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / FILE).exists()


def test_without_pyarrow_a_savepoint_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *given: Any, **named: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *given, **named)

    import importlib

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(UsageError, match=r"^a savepoint needs the package pyarrow: pip install 'pyarrow>=18'$"):
        Place(str(tmp_path))
    assert writer_of("counts.csv") is not None, "which needs no PyArrow"


def test_entries_are_exported_by_the_ending_of_the_file(tmp_path: Path) -> None:
    rows = [(0, encode_value("a,\n"), encode_value({"n": 1})), (1, encode_value(("b", 2)), encode_value("text"))]
    written = {}
    for ending in ("parquet", "csv", "jsonl"):
        path = tmp_path / f"x.{ending}"
        assert writer_of(str(path))(path, [rows[:1], rows[1:]]) == 2
        written[ending] = path
    assert written["csv"].read_bytes().decode() == (
        'task,key,value\r\n0,"a,\n","{""n"": 1}"\r\n1,"{""$tuple"": [""b"", 2]}",text\r\n'
    )
    assert [json.loads(line) for line in written["jsonl"].read_text().splitlines()] == [
        {"task": 0, "key": "a,\n", "value": {"n": 1}},
        {"task": 1, "key": {"$tuple": ["b", 2]}, "value": "text"},
    ]
    assert [row["key_json"] for row in pq.read_table(written["parquet"]).to_pylist()] == [
        '"a,\\n"',
        '{"$tuple": ["b", 2]}',
    ]
    with pytest.raises(UsageError, match=r"^the name of the file says its format: .* not 'x.xls'$"):
        writer_of("x.xls")
