"""Bundles: the same bytes for the same contents, nothing written outside, and classes that travel with them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupletree import bundle
from tupletree.component import Bolt, Spout
from tupletree.errors import ConfigError, UsageError
from tupletree.topology import Topology, TopologyBuilder
from tupletree.tuples import Tuple
from tupletree.v1.topology_pb2 import ComponentSpec, TopologySpec

SPEC = TopologySpec(components=[ComponentSpec(id="a", object=b"\x00\x01", parallelism=1, tasks=1)])
WORKER = """
    import pickle, sys
    from tupletree import bundle
    sys.path.insert(0, sys.argv[1] + "/code")
    for component in bundle.load_spec(sys.argv[1]).components:
        print(component.id, pickle.loads(component.object).speak())
"""


def run_elsewhere(directory: Path, workplace: Path) -> dict[str, str]:
    """Unpickle the components of an unpacked bundle in a process that knows nothing of this one's modules."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WORKER), str(directory)],
        cwd=workplace,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


class Speaker(Spout):
    outputs = ["x"]

    def speak(self) -> str:
        return greeting()


class Listener(Bolt):
    def execute(self, tup: Tuple) -> None:
        pass

    def speak(self) -> str:
        return f"{type(self).__name__} {os.path.basename(__file__)}"


def greeting() -> str:
    return "by value"


def topology(spout: Spout, bolt: Bolt) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout")
    return builder.create_topology()


def write_archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = link
    return member


def test_what_is_packed_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/__init__.py").write_text("x = 1\n")
    (tmp_path / "lib/__pycache__").mkdir()
    (tmp_path / "lib/__pycache__/x.pyc").write_bytes(b"no")
    (tmp_path / "lib/tool.sh").write_text("#!/bin/sh\n")
    (tmp_path / "lib/tool.sh").chmod(0o755)
    (tmp_path / "single.py").write_text("y = 2\n")
    (tmp_path / "needs.txt").write_text("requests\n")
    code = [tmp_path / "lib", tmp_path / "single.py"]
    info = bundle.pack(SPEC, {"topology.workers": 2}, code, tmp_path / "needs.txt", tmp_path / "b.tar.gz")
    assert info == bundle.digest(tmp_path / "b.tar.gz")
    out = tmp_path / "out"
    bundle.unpack(tmp_path / "b.tar.gz", out)
    files = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    assert files == {
        "topology.pb",
        "conf.json",
        "manifest.json",
        "requirements.txt",
        "code/lib/__init__.py",
        "code/lib/tool.sh",
        "code/single.py",
    }
    assert bundle.load_spec(out) == SPEC
    assert bundle.load_conf(out) == {"topology.workers": 2}
    assert json.loads((out / "manifest.json").read_text())["format"] == 1
    assert os.access(out / "code/lib/tool.sh", os.X_OK)
    assert not os.access(out / "code/single.py", os.X_OK)


writable = st.characters(codec="utf-8", exclude_characters="\0")  # nimbus refuses the rest


@settings(max_examples=25, deadline=None)
@given(
    objects=st.lists(st.binary(max_size=200), max_size=4),
    conf=st.dictionaries(
        st.text(writable, max_size=5),
        st.one_of(st.integers(), st.text(writable), st.none(), st.lists(st.booleans())),
    ),
)
def test_any_spec_and_configuration_survive_and_pack_to_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, objects: list[bytes], conf: dict[str, object]
) -> None:
    directory = tmp_path_factory.mktemp("bundle")
    spec = TopologySpec(components=[ComponentSpec(id=str(n), object=data) for n, data in enumerate(objects)])
    first = bundle.pack(spec, conf, [], None, directory / "1.tar.gz")
    assert bundle.pack(spec, dict(reversed(conf.items())), [], None, directory / "2.tar.gz") == first
    bundle.unpack(directory / "1.tar.gz", directory / "out")
    assert bundle.load_spec(directory / "out") == spec
    assert bundle.load_conf(directory / "out") == conf


def test_the_bytes_do_not_depend_on_when_and_by_whom_a_file_was_written(tmp_path: Path) -> None:
    digests = []
    for stamp in (1, 2_000_000_000):
        (tmp_path / "m.py").write_text("x = 1\n")
        os.utime(tmp_path / "m.py", (stamp, stamp))
        digests.append(bundle.pack(SPEC, {}, [tmp_path / "m.py"], None, tmp_path / "b.tar.gz"))
    assert digests[0] == digests[1]


@pytest.mark.parametrize("name", ["/etc/passwd", "../evil", "code/../../evil", "code\\..\\evil"])
def test_names_that_lead_outside_are_refused(tmp_path: Path, name: str) -> None:
    write_archive(tmp_path / "b.tar.gz", (entry(name), b"evil"))
    with pytest.raises(UsageError, match="leads outside"):
        bundle.unpack(tmp_path / "b.tar.gz", tmp_path / "deep/out")
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "b.tar.gz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    write_archive(tmp_path / "b.tar.gz", (entry("code/x", kind, "/etc/passwd"), b""))
    with pytest.raises(UsageError, match="neither a file nor a directory"):
        bundle.unpack(tmp_path / "b.tar.gz", tmp_path / "out")


def test_a_name_given_twice_is_refused(tmp_path: Path) -> None:
    write_archive(tmp_path / "b.tar.gz", (entry("conf.json"), b"{}"), (entry("conf.json"), b"{}"))
    with pytest.raises(UsageError, match="occurs twice"):
        bundle.unpack(tmp_path / "b.tar.gz", tmp_path / "out")


def test_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    write_archive(tmp_path / "b.tar.gz", (entry("topology.pb"), b"0" * 5000))
    with pytest.raises(UsageError, match="more than 4999 bytes"):
        bundle.unpack(tmp_path / "b.tar.gz", tmp_path / "out", max_bytes=4999)
    bundle.unpack(tmp_path / "b.tar.gz", tmp_path / "again", max_bytes=5000)


def test_what_is_no_bundle_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UsageError, match="not a bundle"):
        bundle.unpack(tmp_path / "text", tmp_path / "out")
    write_archive(tmp_path / "empty.tar.gz", (entry("other"), b""))
    with pytest.raises(UsageError, match=r"no topology\.pb"):
        bundle.unpack(tmp_path / "empty.tar.gz", tmp_path / "out2")


def test_a_bundle_that_was_cut_is_refused(tmp_path: Path) -> None:
    bundle.pack(SPEC, {"k": "v" * 500}, [], None, tmp_path / "b.tar.gz")
    whole = (tmp_path / "b.tar.gz").read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(UsageError):
            bundle.unpack(tmp_path / "cut", tmp_path / f"cut-{length}")


def test_a_bundle_with_a_damaged_byte_is_refused_or_means_the_same(tmp_path: Path) -> None:
    bundle.pack(SPEC, {"k": "v" * 500}, [], None, tmp_path / "b.tar.gz")
    whole = (tmp_path / "b.tar.gz").read_bytes()
    for position in range(len(whole)):
        (tmp_path / "bad").write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        out = tmp_path / f"bad-{position}"
        try:
            bundle.unpack(tmp_path / "bad", out)
        except UsageError:
            continue
        assert bundle.load_spec(out) == SPEC


def test_a_spec_that_does_not_parse(tmp_path: Path) -> None:
    (tmp_path / "topology.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(UsageError, match=r"no readable topology\.pb"):
        bundle.load_spec(tmp_path)
    with pytest.raises(UsageError, match=r"no readable topology\.pb"):
        bundle.load_spec(tmp_path / "nowhere")


def test_paths_that_cannot_be_packed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "tupletree").mkdir()
    for name in ("a/m.py", "b/m.py"):
        (tmp_path / name).write_text("")
    out = tmp_path / "b.tar.gz"
    with pytest.raises(UsageError, match=r"no file or directory .*nowhere"):
        bundle.pack(SPEC, {}, [tmp_path / "nowhere"], None, out)
    with pytest.raises(UsageError, match="have the same name"):
        bundle.pack(SPEC, {}, [tmp_path / "a/m.py", tmp_path / "b/m.py"], None, out)
    with pytest.raises(UsageError, match="hide the tupletree package"):
        bundle.pack(SPEC, {}, [tmp_path / "tupletree"], None, out)
    with pytest.raises(UsageError, match="no requirements file"):
        bundle.pack(SPEC, {}, [], tmp_path / "nowhere.txt", out)
    with pytest.raises(ConfigError, match=r"my\.key"):
        bundle.pack(SPEC, {"my.key": object()}, [], None, out)


def test_classes_of_a_test_file_travel_by_value(tmp_path: Path) -> None:
    registered = cloudpickle.list_registry_pickle_by_value()  # by other tests
    bundle.pack(bundle.portable_spec(topology(Speaker(), Listener())), {}, [], None, tmp_path / "b.tar.gz")
    bundle.unpack(tmp_path / "b.tar.gz", tmp_path / "out")
    said = run_elsewhere(tmp_path / "out", tmp_path)
    assert said == {"bolt": "Listener test_bundle.py", "spout": "by value"}
    assert cloudpickle.list_registry_pickle_by_value() == registered


def test_named_code_is_imported_and_what_it_does_not_cover_travels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    (source / "shipped").mkdir(parents=True)
    (source / "shipped/__init__.py").write_text("NAME = 'shipped'\n")
    (source / "shipped/parts.py").write_text(
        "from tupletree.component import Spout\n"
        "class Part(Spout):\n"
        "    outputs = ['x']\n"
        "    def speak(self):\n"
        "        from shipped import NAME\n"
        "        return f'{NAME} {__file__}'\n"
    )
    (source / "carried.py").write_text(
        "from tupletree.component import Bolt\nclass Carried(Bolt):\n    def speak(self):\n        return 'carried'\n"
        "    def execute(self, tup):\n        pass\n"
    )
    monkeypatch.syspath_prepend(str(source))
    import carried  # type: ignore[import-not-found]
    from shipped.parts import Part  # type: ignore[import-not-found]

    try:
        code = [source / "shipped"]
        spec = bundle.portable_spec(topology(Part(), carried.Carried()), code)
        bundle.pack(spec, {}, code, None, tmp_path / "b.tar.gz")
    finally:
        for name in ("carried", "shipped", "shipped.parts"):
            sys.modules.pop(name, None)
    out = tmp_path / "out"
    bundle.unpack(tmp_path / "b.tar.gz", out)
    assert run_elsewhere(out, tmp_path) == {"bolt": "carried", "spout": f"shipped {out}/code/shipped/parts.py"}


def test_installed_and_standard_modules_are_not_local() -> None:
    assert bundle.is_local_module(sys.modules[__name__])
    for module in (json, pytest, cloudpickle, bundle, sys):
        assert not bundle.is_local_module(module)


def test_a_topology_is_read_without_unpacking(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("x = 1\n")
    bundle.pack(SPEC, {}, [tmp_path / "m.py"], None, tmp_path / "b.tar.gz")
    assert bundle.read_spec(tmp_path / "b.tar.gz") == SPEC


def bomb(kind: str) -> list[tuple[tarfile.TarInfo, bytes]]:
    """An archive that is small packed and large in the memory of whoever believes it."""
    if kind == "topology":
        return [(entry("topology.pb"), bytes(5000))]
    if kind == "header":
        member = entry("topology.pb")
        member.pax_headers = {"comment": "0" * (2 * 1024**2)}
        return [(member, b"")]
    return [(entry(f"code/{number}"), b"") for number in range(1001)]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("topology", r"its topology\.pb has more than 4999"), ("header", "a header of more than"), ("names", "too many")],
)
def test_what_would_fill_the_memory_of_its_reader_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, sentence: str
) -> None:
    monkeypatch.setattr(bundle, "_MAX_ENTRIES", 1000)
    write_archive(tmp_path / "b.tar.gz", *bomb(kind))
    with pytest.raises(UsageError, match=sentence):
        bundle.read_spec(tmp_path / "b.tar.gz", max_bytes=4999)


@pytest.mark.parametrize("contents", [b"hello", b""])
def test_what_is_no_bundle_has_no_topology(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "text").write_bytes(contents)
    with pytest.raises(UsageError, match="is not a"):
        bundle.read_spec(tmp_path / "text")
    write_archive(tmp_path / "b.tar.gz", (entry("topology.pb"), b"\xff" + contents))
    with pytest.raises(UsageError, match=r"no readable topology\.pb"):
        bundle.read_spec(tmp_path / "b.tar.gz")
