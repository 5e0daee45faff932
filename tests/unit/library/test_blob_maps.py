"""``topology.blobstore.map``: its forms, and what is said of wrong ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree import config
from tupletree._blobs import BLOB_MAP, MAX_BLOBS, BlobUse, key_fault, map_fault, uses_in, uses_of
from tupletree.errors import ConfigError

NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)


def test_the_form_is_storms() -> None:
    conf = {
        BLOB_MAP: {
            "words": None,
            "model": {"localname": "model.bin", "uncompress": False, "workerRestart": False},
            "geo": {"uncompress": True, "workerRestart": True},
        }
    }
    config.validate(conf)
    wanted = (BlobUse("geo", "geo", True, True), BlobUse("model", "model.bin"), BlobUse("words", "words"))
    assert uses_of(conf) == uses_in(json.dumps(conf)) == wanted
    assert uses_of({}) == uses_of({BLOB_MAP: {}}) == uses_in("") == ()


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("model", r"takes a mapping \(key: options\), not 'model'"),
        ({"a/b": {}}, r"the key of a blob has 1 to 200 letters, digits, '\.', '_' and '-', .*not 'a/b'"),
        ({"..": {}}, r"the key of a blob has 1 to 200 letters"),
        ({"model": "model.bin"}, r"blob 'model' takes options such as {localname: model}, not 'model\.bin'"),
        ({"model": {"local": "m"}}, r"has no option 'local'; its options are localname, uncompress, workerRestart"),
        ({"model": {"localname": "../m"}}, r"blob 'model': a localname has 1 to 200 letters.*, not '\.\./m'"),
        ({"model": {"localname": ""}}, r"blob 'model': a localname has 1 to 200 letters"),
        ({"model": {"localname": "launch.json"}}, r"the localname 'launch\.json' is that of a file of the worker"),
        ({"work.partial": {}}, r"the localname 'work\.partial' is that of a file of the worker; choose another one"),
        ({"model": {"localname": "own"}}, r"the localname 'own' is that of a file of the worker"),
        ({"model": {"uncompress": "yes"}}, r"blob 'model': uncompress is true or false, not 'yes'"),
        ({"model": {"workerRestart": 1}}, r"blob 'model': workerRestart is true or false, not 1"),
        ({"a": {"localname": "m"}, "b": {"localname": "m"}}, r"blobs 'a' and 'b' have the same localname 'm'"),
        ({f"b{n}": {} for n in range(MAX_BLOBS + 1)}, r"names 101 blobs; a topology can have at most 100"),
    ],
)
def test_a_wrong_map_is_refused_in_a_sentence(value: Any, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        config.validate({BLOB_MAP: value})


@pytest.mark.parametrize("conf_json", ["[]", "{", '{"topology.blobstore.map": {"a/b": {}}}', '{"a": 1}'])
def test_a_stored_configuration_that_is_wrong_names_no_blobs(conf_json: str) -> None:
    assert uses_in(conf_json) == ()


@given(st.dictionaries(NAMES, st.fixed_dictionaries({}, optional={"localname": NAMES, "uncompress": st.booleans()})))
def test_every_map_has_a_fault_or_uses_with_names_of_their_own(value: dict[str, dict[str, Any]]) -> None:
    if map_fault(value) is None:
        uses = uses_of({BLOB_MAP: value})
        assert [use.key for use in uses] == sorted(value)
        assert len({use.local_name for use in uses}) == len(uses)


@given(st.one_of(st.none(), st.integers(), st.text(), st.dictionaries(st.text(), st.integers())))
def test_nothing_is_too_odd_for_an_answer(value: Any) -> None:
    assert key_fault(value) is None or isinstance(key_fault(value), str)
    assert map_fault(value) is None or isinstance(map_fault(value), str)
