"""Blobs in this process: opened by local name, updated between tuples, and what components do with that."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from document_blocks import DOCS, run_python

from tupletree import BasicBolt, Spout, StatefulBolt, TopologyBuilder
from tupletree.backoff import Backoff
from tupletree.cli.main import main
from tupletree.errors import TopologyError, UsageError
from tupletree.testing import LocalCluster
from tupletree.topology import Topology
from tupletree.transactional import BatchBolt

MAP: dict[str, Any] = {"topology.blobstore.map": {"words": {"localname": "words.txt"}}}


class Numbers(Spout):
    """Emits numbers, and remembers of which version of the blob it was told."""

    outputs = ("number",)

    def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        self.count = 0
        self.words = Path(context.blob("words.txt")).read_text()
        context.register_status(lambda: {"words": self.words, "count": self.count})

    def next_tuple(self) -> None:
        if self.count < 1000:
            self.count += 1
            self.collector.emit([self.count], msg_id=self.count)

    def blob_updated(self, name: str, path: str) -> None:
        self.words = f"{name}: {Path(path).read_text()}"

    def fail(self, msg_id: Any) -> None:
        pass


class Look(BasicBolt):
    """Fails to load a version that says so."""

    def setup(self) -> None:
        self.words = Path(self.context.blob("words.txt")).read_text()
        self.context.register_status(lambda: {"words": self.words})

    def execute(self, tup: Any, collector: Any) -> None:
        pass

    def blob_updated(self, name: str, path: str) -> None:
        words = Path(path).read_text()
        if words == "broken":
            raise ValueError("these words are broken")
        self.words = words


class Keep(StatefulBolt):
    """Has no need to be told."""

    def execute(self, tup: Any) -> None:
        self.state["words"] = Path(self.context.blob("words.txt")).read_text()
        self.collector.ack(tup)


def topology(spout: Spout | None = None, bolt: Any = None, *, retries: bool = False) -> Topology:
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", spout or Numbers())
    if retries:
        numbers.set_retry(Backoff())
    builder.set_bolt("look", bolt or Look(), 2).shuffle_grouping(numbers)
    return builder.create_topology()


def words(cluster: LocalCluster) -> set[str]:
    return {str(status["words"]) for status in cluster.statuses("t").values() if "words" in status}


def wait_until_open(cluster: LocalCluster) -> None:
    """Wait until the spout and both tasks of the bolt have opened the first version: later ones are told to all."""
    cluster.wait_until(lambda: len(cluster.statuses("t")) == 3)
    assert words(cluster) == {"one"}


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("retries", [False, True])
def test_every_task_is_told_of_a_new_version(tmp_path: Path, retries: bool) -> None:
    with LocalCluster(blobs={"words": write(tmp_path / "1", "one")}) as cluster:
        cluster.submit("t", topology(retries=retries), MAP)
        wait_until_open(cluster)
        cluster.update_blob("words", write(tmp_path / "2", "two"))
        cluster.wait_until(lambda: words(cluster) == {"two", "words.txt: two"})
        cluster.update_blob("words", write(tmp_path / "2", "the same file with other words"))
        cluster.wait_until(lambda: "the same file with other words" in words(cluster))
        assert cluster.errors("t") == []


def test_a_component_that_fails_to_load_a_version_goes_on_and_the_error_is_reported(tmp_path: Path) -> None:
    with LocalCluster(blobs={"words": write(tmp_path / "1", "one")}) as cluster:
        cluster.submit("t", topology(), MAP)
        wait_until_open(cluster)
        cluster.update_blob("words", write(tmp_path / "2", "broken"))
        cluster.wait_until(lambda: len(cluster.errors("t")) == 2)
        assert [(name, str(error)) for name, error in cluster.errors("t")] == [("look", "these words are broken")] * 2
        assert words(cluster) == {"one", "words.txt: broken"}
        cluster.update_blob("words", write(tmp_path / "3", "three"))
        cluster.wait_until(lambda: words(cluster) == {"three", "words.txt: three"})
        cluster.wait_quiet()


def test_a_spout_that_is_not_open_finds_the_new_version_when_it_opens(tmp_path: Path) -> None:
    with LocalCluster(blobs={"words": write(tmp_path / "1", "one")}) as cluster:
        cluster.submit("t", topology(), MAP, inactive=True)
        cluster.wait_until(lambda: words(cluster) == {"one"})
        cluster.update_blob("words", write(tmp_path / "2", "two"))
        cluster.wait_until(lambda: words(cluster) == {"two"})
        cluster.activate("t")
        cluster.wait_until(lambda: ("numbers", "two") in {(k[0], s["words"]) for k, s in cluster.statuses("t").items()})


def test_a_bolt_that_is_not_told_opens_the_newest_version(tmp_path: Path) -> None:
    with LocalCluster(blobs={"words": write(tmp_path / "1", "one")}) as cluster:
        cluster.submit("t", topology(bolt=Keep()), MAP)
        cluster.wait_until(lambda: cluster.state("t", "look") == {"words": "one"})


@pytest.mark.parametrize("make", [lambda path: path, lambda path: path.parent / "folder"])
def test_an_archive_is_a_directory(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    archive = tmp_path / "words.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "from the archive")
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "a.txt", "from the archive")

    class Unpacked(Look):
        def setup(self) -> None:
            self.words = Path(self.context.blob("words"), "a.txt").read_text()
            self.context.register_status(lambda: {"words": self.words})

    class Silent(Numbers):
        def open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
            self.count = 1000

    with LocalCluster(blobs={"words": make(archive)}) as cluster:
        uses = {"topology.blobstore.map": {"words": {"uncompress": True}}}
        cluster.submit("t", topology(Silent(), Unpacked()), uses)
        cluster.wait_until(lambda: words(cluster) == {"from the archive"})


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    with LocalCluster() as cluster:
        unknown = r"^topology 't' names blob 'words' in topology.blobstore.map, which does not exist: give its file, as"
        with pytest.raises(UsageError, match=unknown):
            cluster.submit("t", topology(), MAP)
        with pytest.raises(UsageError, match=r"^blob 'words': there is no file .*none$"):
            cluster.update_blob("words", tmp_path / "none")
        with pytest.raises(UsageError, match=r"^the key of a blob has 1 to 200 letters"):
            cluster.update_blob("a b", tmp_path)

        class Wrong(Look):
            def setup(self) -> None:
                self.context.blob("nothing.txt")

        cluster.update_blob("words", write(tmp_path / "1", "one"))
        cluster.submit("t", topology(bolt=Wrong()), MAP)
        with pytest.raises(Exception, match=r"there is no blob with the local name 'nothing.txt'; .* has 'words.txt'"):
            cluster.wait_until(lambda: False)


def test_a_hook_that_would_never_be_called_is_refused_at_build_time() -> None:
    class Batch(BatchBolt):
        def blob_updated(self, name: str, path: str) -> None:
            pass

    class Wrong(Look):
        def blob_updated(self, name: str) -> None:  # type: ignore[override]
            pass

    from tupletree.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder

    builder = TransactionalTopologyBuilder("id", "spout", MemoryTransactionalSpout({0: [[1]]}, ["n"], 1))
    with pytest.raises(TopologyError, match=r"blob_updated.*each batch has an object of its own: open the blob in"):
        builder.set_bolt("batch", Batch()).shuffle_grouping("spout")
        builder.build_topology()
    with pytest.raises(TopologyError, match=r"blob_updated"):
        topology(bolt=Wrong())


def test_the_command_takes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "from tupletree import BasicBolt, TopologyBuilder, spout\n"
        "@spout(outputs=['n'])\n"
        "def numbers():\n"
        "    yield [1]\n"
        "class Look(BasicBolt):\n"
        "    outputs = ['words']\n"
        "    def execute(self, tup, collector):\n"
        "        collector.emit([open(self.context.blob('words')).read()])\n"
        "def topology():\n"
        "    builder = TopologyBuilder()\n"
        "    numbers_ = builder.set_spout('numbers', numbers)\n"
        "    builder.set_bolt('look', Look()).shuffle_grouping(numbers_)\n"
        "    return builder.create_topology(), {'topology.blobstore.map': {'words': {}}}\n"
    )
    write(tmp_path / "words", "one")
    assert main(["local", str(app), "--blob", f"words={tmp_path / 'words'}", "--json"]) == 0
    assert '{"component": "look", "stream": "default", "emitted": 1}' in capsys.readouterr().out
    assert main(["local", str(app)]) == 2
    assert "names blob 'words' in topology.blobstore.map, which does not exist" in capsys.readouterr().err
    assert main(["local", str(app), "--blob", "words"]) == 2
    assert "--blob takes KEY=FILE, such as model=model.bin, not 'words'" in capsys.readouterr().err


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_python(DOCS / "guides" / "blobs.md")
    seen: list[Any] = []
    with LocalCluster(blobs={"prices": "monday.csv"}) as cluster:
        observe = lambda component, stream, values: seen.append((component, *values))  # noqa: E731
        cluster.submit("shop", names["topology"], names["conf"], observer=observe)
        cluster.wait_until(lambda: ("price", "pear", 40) in seen)
