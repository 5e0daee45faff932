"""``tupletree import-streamparse``: the projects that it writes run and are submitted, with components as they were."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamparse", reason="streamparse is not installed")

from streamparse_projects import everything, quickstart

from tupletree.cli.main import main
from tupletree.testing import DevCluster, wait_until

DOCS = Path(__file__).parents[3] / "docs"
CHECKED = '''
import json
from pathlib import Path

from tupletree import BasicBolt
from wordcount import build

STEPS = {"dog": 10}


class Check(BasicBolt):
    """Keeps the last count of each word, and any that does not follow the one before."""

    outputs = ()

    def prepare(self, conf, context):
        self.seen, self.last, self.wrong = 0, {}, []
        context.register_status(self.status)

    def execute(self, tup, collector):
        word, count = tup.values
        if count != self.last.get(word, 0) + STEPS.get(word, 1):
            self.wrong.append([word, count])
        self.last[word] = count
        self.seen += 1

    def status(self):
        return {"seen": self.seen, "last": dict(self.last), "wrong": self.wrong[:9]}

    def cleanup(self):
        Path("seen.json").write_text(json.dumps(self.status()))


builder = build()
builder.set_bolt("check", Check()).global_grouping("count_bolt")
topology = builder
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return quickstart(tmp_path)


def files_of(directory: Path) -> dict[str, str]:
    return {str(one.relative_to(directory)): one.read_text() for one in directory.rglob("*") if one.is_file()}


def run(directory: Path, *command: str, status: int = 0) -> str:
    """Run a command of ours in a project, as a person would; return its output."""
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout if status == 0 else ended.stderr


def imported(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 0) -> dict[str, Any]:
    assert main(["import-streamparse", *map(str, arguments), "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_quickstart_is_imported_in_place_and_nothing_else_changes(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_of(project)
    found = imported(capsys, project)
    [one] = found["topologies"]
    assert (found["written"], one["remarks"], one["conf"]) == (["IMPORTED.md", "wordcount.py"], [], {})
    modules = ["--include", "src/bolts", "--include", "src/spouts"]
    packages = ["--requirements", "virtualenvs/wordcount.txt"]
    assert one["submit"] == ["tupletree", "submit", "wordcount.py", *modules, *packages]
    assert [remark["subject"] for remark in found["remarks"]] == ["config.json: serializer", "config.json: prod: log"]
    after = files_of(project)
    assert {name: after.pop(name) for name in found["written"]}.keys() == set(found["written"])
    assert after == before
    assert imported(capsys, project)["written"] == []
    run(project, "ruff", "check", "--no-cache", "--isolated", "wordcount.py")
    run(project, "ruff", "format", "--no-cache", "--isolated", "--check", "wordcount.py")


@pytest.mark.long
def test_the_quickstart_counts_its_words_in_a_local_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import-streamparse", str(project)]) == 0
    printed = capsys.readouterr().out
    [command] = re.findall(r"^  (tupletree local .*)$", printed, re.MULTILINE)
    (project / "checked.py").write_text(CHECKED)
    found = json.loads(run(project, *command.split(), "--seconds", "2", "--json").splitlines()[-1])
    assert (found["name"], found["errors"]) == ("wordcount", [])
    run(project, "tupletree", "local", "checked.py", "--seconds", "2", "--json")
    assert_right(json.loads((project / "seen.json").read_text()))


def assert_right(status: dict[str, Any]) -> None:
    """Check that the counts are those of words that take turns, a dog counting ten times."""
    counts = {word: count // (10 if word == "dog" else 1) for word, count in status["last"].items()}
    assert status["wrong"] == [] and sum(counts.values()) == status["seen"] > 0
    assert counts.keys() == {"dog", "cat", "zebra", "elephant"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2, ackers=1) as running:
        yield running


@pytest.mark.long
def test_the_quickstart_is_submitted_and_counts_each_word(
    cluster: DevCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = quickstart(tmp_path)
    elsewhere = tmp_path / "here"
    [one] = imported(capsys, project, "--to", elsewhere)["topologies"]
    (elsewhere / "checked.py").write_text(CHECKED)
    assert files_of(project / "src") == files_of(elsewhere / "src"), "the components are not edited"
    includes = one["submit"][3:7]
    assert includes == ["--include", "src/bolts", "--include", "src/spouts"]
    run(elsewhere, "tupletree", "submit", "checked.py", *includes, "--nimbus", cluster.client.seeds[0])

    def of(component: str) -> Any:
        found = cluster.client.describe("checked")
        return next((one for one in found.components if one.component_id == component), None)

    def emitted() -> int:
        spout = of("word_spout")
        return 0 if spout is None else sum(stream.emitted for stream in spout.total.streams)

    wait_until(lambda: emitted() > 1000, 60, what="words are emitted")
    cluster.client.deactivate("checked")

    def status() -> Any:
        check = of("check")
        return check.statuses[0].status if check is not None and check.statuses else {"seen": 0}

    wait_until(lambda: status()["seen"] == emitted(), 60, what="all words are counted")
    assert_right(status())
    assert not cluster.client.describe("checked").errors


@pytest.mark.long
def test_the_commands_of_the_documents_do_what_they_show(
    cluster: DevCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DOCS / "guides" / "coming-from.md").read_text().partition("### A whole project")[2]
    first, *commands = re.findall(r"^    \$ (.*)$", text.partition("### ")[0], re.MULTILINE)
    assert first == "sparse quickstart words"
    project = quickstart(tmp_path, "words")
    monkeypatch.chdir(tmp_path)
    shown = re.search(
        r"^    \$ tupletree (import-streamparse .*)\n((?:    .*\n|\n)+)", (DOCS / "cli.md").read_text(), re.M
    )
    assert shown is not None and main(shown[1].split()) == 0
    assert capsys.readouterr().out == "\n".join(line[4:] for line in shown[2].rstrip().split("\n")) + "\n"
    assert commands.pop(0) == f"tupletree {shown[1]}" and commands.pop(0) == "cd words"
    local, submit = commands
    run(project, *local.split())
    run(project, *submit.split(), "--nimbus", cluster.client.seeds[0])
    cluster.client.kill("wordcount", wait_secs=0)
    [snippet] = re.findall(r"^(    def build\(\):\n(?:    .*\n)+)", text, re.MULTILINE)
    assert "".join(f"{line[4:]}\n" for line in snippet.splitlines()) in (project / "wordcount.py").read_text()


@pytest.mark.long
def test_a_project_with_all_that_a_topology_can_have_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = everything(tmp_path)
    found = imported(capsys, project, "--environment", "prod", status=1)
    by_name = {one["name"]: one for one in found["topologies"]}
    broken = "ModuleNotFoundError: No module named 'missing_module' (line 2); install virtualenvs/broken.txt"
    assert by_name["broken"]["error"].startswith(broken)
    all_in = by_name["everything"]
    assert all_in["local"] == ["tupletree", "local", "everything_topology.py", "--name", "everything"]
    written = [name for name in found["written"] if name.endswith(".py")]
    run(project, "ruff", "check", "--no-cache", "--isolated", "--ignore", "I001", *written)
    told = json.loads(run(project, *all_in["local"], "--seconds", "15", "--json").splitlines()[-1])
    assert told["errors"] == []
    emitted = {(one["component"], one["stream"]): one["emitted"] for one in told["streams"]}
    assert emitted | {("sums", "default"): 1, ("batches", "default"): 1} == {
        ("the-numbers", "default"): 20,
        ("sort", "default"): 20,
        ("sort", "even"): 10,
        ("sort", "to one"): 20,
        ("told", "default"): 40,
        ("shout", "default"): 80,
        ("sums", "default"): 1,
        ("batches", "default"): 1,
    }


def test_what_could_not_be_taken_is_said_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = everything(tmp_path)
    found = imported(capsys, project, "-e", "prod", "--to", tmp_path / "here", status=1)
    by_name = {one["name"]: one for one in found["topologies"]}
    assert by_name["everything"]["conf"] == {
        "own.limit": 20,
        "redis.host": "localhost",
        "topology.acker.executors": 1,
        "topology.flush.interval.ms": 2,
        "topology.max.spout.pending": 100,
        "topology.workers": 2,
    }
    subjects = [remark["subject"] for remark in by_name["everything"]["remarks"]]
    assert subjects == [
        "sums",
        "batches: topology.workers",
        "configuration: topology.subprocess.timeout.secs",
        "configuration: topology.unheard.of",
        "configuration: virtualenv_flags",
        "configuration: topology.worker.childopts",
        "Second",
    ]
    left = [remark["subject"] for remark in by_name["json"]["remarks"] if remark["is_open"]]
    assert left == ["lines", "sort", "sink"]
    said = [remark["subject"] for remark in found["remarks"]]
    assert [one for one in said if not one.startswith("config.json")] == ["fabfile.py", "src"]
    text = (tmp_path / "here" / "IMPORTED.md").read_text()
    assert "* **lines**: the spout lines is Java (org.example.Lines with 'a', 1)" in text
    assert "`topologies/broken.py` could not be imported: ModuleNotFoundError" in text
    assert not (tmp_path / "here" / "src" / "java").exists()
    refusal = run(tmp_path / "here", *by_name["json"]["local"], status=2)
    assert refusal.startswith("tupletree: the spout lines is Java (org.example.Lines with 'a', 1); its outputs are")


def test_changed_files_are_overwritten_by_force_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(capsys, project)
    file = project / "wordcount.py"
    written = file.read_text()
    file.write_text(f"{written}# mine\n")
    (project / "IMPORTED.md").unlink()
    assert main(["import-streamparse", str(project)]) == 2
    refusal = f"wordcount.py in {project} would be overwritten, and nothing was written: --force overwrites"
    assert capsys.readouterr().err.startswith(f"tupletree: {refusal}")
    assert not (project / "IMPORTED.md").exists() and file.read_text().endswith("# mine\n")
    assert imported(capsys, project, "--force")["written"] == ["IMPORTED.md", "wordcount.py"]
    assert file.read_text() == written


@pytest.mark.parametrize(
    ("config", "arguments", "told"),
    [
        (None, [], "is no project of streamparse: it has no readable config.json"),
        ("{", [], "is not JSON"),
        ("[]", [], "must be an object, whose 'envs' is an object of environments"),
        ('{"envs": {"a": {}, "b": {}}}', [], "has several environments: choose one with --environment: a, b"),
        ('{"envs": {"a": {}}}', ["-e", "c"], "has no environment 'c'; it has a"),
        ('{"envs": {"a": 1}}', [], "the environment 'a' must be an object, and so must its 'options'"),
        ('{"envs": {"a": {"options": []}}}', [], "the environment 'a' must be an object, and so must its 'options'"),
        ('{"envs": {}}', [], "has no topology: no file *.py"),
    ],
)
def test_what_is_no_project_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str | None, arguments: list[str], told: str
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert main(["import-streamparse", str(tmp_path), *arguments]) == 2
    printed = capsys.readouterr().err
    assert told in printed and printed.count("\n") == 1


def test_without_streamparse_the_command_says_what_to_install(project: Path) -> None:
    hidden = "import sys; sys.modules['streamparse'] = None; from tupletree.cli.main import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", hidden, "import-streamparse", str(project)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.endswith("streamparse is not installed: pip install streamparse\n")
