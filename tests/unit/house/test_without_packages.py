"""An installation without a package does without it, and says in one sentence what is missing when it is asked for."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tupletree._extras import PYARROW, PYSPARK, imported
from tupletree._extras import SERVER as SERVER_EXTRA
from tupletree.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]
SPARK = ("pyspark", "py4j", "pandas", "pyarrow")
SERVER = ("cryptography", "jwt")
PROGRAM = """
from tupletree.streams import StreamBuilder
from tupletree.connectors.files import FileSpout
builder = StreamBuilder()
lines = builder.source(FileSpout(__file__, are_complete=True), name="lines")
lines.flat_map(str.split).key_by(lambda word: word).count().print()
topology = builder.topology()
"""


def run_without(packages: tuple[str, ...], code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process for which ``packages`` are not installed."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({packages!r}))"
    command = [sys.executable, "-c", f"{blocked}\n{code}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


COMMAND_LINE = "from tupletree.cli.main import main; sys.exit(main(sys.argv[1:]))"
CLASS_PATH = "from tupletree._devcluster.java import zookeeper_class_path; zookeeper_class_path()"
UNVERIFIED = "from tupletree._security.tokens import unverified; unverified('x.y.z')"


@pytest.mark.parametrize("role", ["nimbus", "supervisor", "worker", "acker", "drpc_server"])
def test_daemons_need_neither_spark_nor_the_packages_of_secured_clusters(role: str) -> None:
    done = run_without((*SPARK, *SERVER), f"import tupletree.{role}.__main__")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_runs_without_spark(tmp_path: Path) -> None:
    program = tmp_path / "words.py"
    program.write_text(PROGRAM)
    done = run_without((*SPARK, *SERVER), COMMAND_LINE, "local", str(program))
    assert done.returncode == 0 and "builder.topology()" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("code", "arguments", "sentence"),
    [
        (CLASS_PATH, (), f"the embedded ZooKeeper comes with PySpark's jars: {PYSPARK}"),
        (COMMAND_LINE, ("submit", "{}/pipeline.py"), f"tupletree.spark needs the package pyspark: {PYSPARK}"),
        (COMMAND_LINE, ("local", "{}/table.py"), f"a sink with typed columns needs the package pyarrow: {PYARROW}"),
        (COMMAND_LINE, ("certs", "{}/certs"), f"'tupletree certs' needs the package cryptography: {SERVER_EXTRA}"),
        (UNVERIFIED, (), f"security.tokens needs the package jwt: {SERVER_EXTRA}"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_installs_it(
    code: str, arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "pipeline.py").write_text("from tupletree.spark import Pipeline\n")
    (tmp_path / "table.py").write_text("from tupletree.connectors.sqlite import SqliteSink\n")
    done = run_without((*SPARK, *SERVER), code, *(one.format(tmp_path) for one in arguments))
    assert done.returncode != 0 and sentence in done.stderr


TYPED_SINKS = """
import importlib
from tupletree.errors import UsageError
for name in ("delta", "file_sinks", "iceberg", "parquet", "postgres", "redis_hashes", "sqlite"):
    try:
        importlib.import_module(f"tupletree.connectors.{name}")
    except UsageError as error:
        print(error)
"""


def test_sinks_with_typed_columns_say_that_pyarrow_is_missing() -> None:
    done = run_without(SPARK, TYPED_SINKS)
    assert done.stdout.splitlines() == [f"a sink with typed columns needs the package pyarrow: {PYARROW}"] * 7


@pytest.mark.parametrize("command", [PYARROW, PYSPARK])
def test_the_command_that_installs_a_package_names_the_versions_that_are_declared(command: str) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert command in [f"pip install '{one}'" for one in declared]


def test_a_package_that_is_there_is_imported() -> None:
    assert imported("json", "pip install json", "this test").dumps([]) == "[]"
    with pytest.raises(UsageError, match=r"^this test needs the package nowhere: pip install nowhere$"):
        imported("nowhere.at_all", "pip install nowhere", "this test")


def test_the_command_that_installs_without_spark_names_all_other_requirements() -> None:
    text = (ROOT / "docs" / "guides" / "deployment.md").read_text().partition("\n## Without Spark\n")[2]
    [command] = re.findall(r"^    (pip install '(?:.*\\\n)*.*)$", text.partition("\n## ")[0], re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    everywhere = [one for one in project["dependencies"] if not one.startswith(("pyspark", "pandas", "psutil"))]
    assert shlex.split(command.replace("\\\n", " ")) == ["pip", "install", *everywhere]
    assert "    pip install --no-deps tupletree " in text
    [elsewhere] = [one.partition(";")[0] for one in project["dependencies"] if one.startswith("psutil")]
    assert f"`'{elsewhere}'`" in text
