"""``tupletree doctor`` without a cluster: what is installed, the configuration, this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tupletree.cli.doctor_machine import extra_findings, package_finding, requirements
from tupletree.cli.main import main

NOWHERE = "nimbus.seeds=[127.0.0.1:1]"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def doctor(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit status, and the findings by subject."""
    status = main(["doctor", "--json", *map(str, argv)])
    result = json.loads(capsys.readouterr().out)
    findings: dict[str, list[dict[str, Any]]] = {}
    for finding in result["findings"]:
        findings.setdefault(finding["subject"], []).append(finding)
        assert (finding["advice"] == "") == (finding["level"] == "ok")
    levels = {finding["level"] for finding in result["findings"]}
    assert result["level"] == next(level for level in ("problem", "warning", "ok") if level in levels)
    assert status == (result["level"] == "problem")
    return status, findings


def test_what_is_installed_is_shown_and_a_nimbus_that_was_asked_for_is_a_problem(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, findings = doctor(capsys, "-c", NOWHERE)
    assert status == 1
    assert "click " in findings["packages"][0]["sentence"]
    assert "kafka" in findings["extras"][0]["sentence"] and "dev" not in findings["extras"][0]["sentence"]
    assert findings["nimbus"] == [
        {
            "subject": "nimbus",
            "level": "problem",
            "sentence": "nimbus at 127.0.0.1:1 cannot be reached: connection refused",
            "advice": "start a nimbus there, or correct the key nimbus.seeds or --nimbus",
        }
    ]
    assert "clock" not in findings and "ports" not in findings
    assert findings["configuration"][0]["sentence"].endswith("the environment or -c sets nimbus.seeds")


def test_all_mistakes_of_the_file_are_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "tupletree.yaml").write_text("topology.wrokers: 2\nnimbus.port: many\nnimbus.http.port: 80\n")
    status, findings = doctor(capsys)
    assert status == 1 and "nimbus" not in findings
    sentences = [finding["sentence"] for finding in findings["configuration"]]
    assert len(sentences) == 2
    assert (
        sentences[0]
        == "unknown configuration key 'topology.wrokers'; did you mean 'topology.workers'? (in tupletree.yaml)"
    )
    assert sentences[1].startswith("configuration key 'nimbus.port' takes a whole number from 0 to 65535")


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (("-c", "nimbus.prot=1"), "unknown configuration key 'nimbus.prot'"),
        (("--conf", "missing.yaml"), "there is no configuration file missing.yaml"),
    ],
)
def test_mistakes_of_options_are_named(
    capsys: pytest.CaptureFixture[str], option: tuple[str, str], sentence: str
) -> None:
    status, findings = doctor(capsys, *option)
    [finding] = findings["configuration"]
    assert status == 1 and finding["sentence"].startswith(sentence)


def test_a_file_that_is_configured_and_cannot_be_read_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    _, findings = doctor(capsys, "-c", NOWHERE, "-c", "security.token.file=gone", "-c", "tls.ca=away")
    sentences = {finding["sentence"] for finding in findings["configuration"][1:]}
    assert sentences == {
        "security.token.file is gone, which cannot be read",
        "tls.ca is away, which cannot be read",
    }


def test_plain_python_and_few_files_are_warnings_for_people(here: Path) -> None:
    command = f"ulimit -n 256; exec '{sys.executable}' -m tupletree doctor -c {NOWHERE}"
    environment = {**os.environ, "TUPLETREE_PURE": "1"}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok       tupletree      ")
    slow = next(index for index, line in enumerate(lines) if line.startswith("warning  hot path       plain Python"))
    assert lines[slow + 1].split("→ ")[1] == "unset TUPLETREE_PURE to run the compiled modules"
    assert any(line.startswith("warning  open files     256 open files per process") for line in lines)


def test_requirements_come_from_the_metadata_of_a_package() -> None:
    lines = [
        "click>=8.1",
        "tomli; python_version < '3.11'",
        'redis>=5; extra == "redis"',
        'confluent-kafka[avro]>=2.6; extra == "kafka"',
        'tupletree[kafka,redis]; extra == "all"',
        'pytest>=8; extra == "dev"',
    ]
    assert requirements(lines) == (
        {"click": "click>=8.1"},
        {"redis": {"redis": "redis>=5"}, "kafka": {"confluent-kafka": "confluent-kafka[avro]>=2.6"}},
    )


REQUIRED = {
    "click": "click>=8.1",
    "pyarrow": "pyarrow>=18",
    "pyspark": "pyspark<4.4,>=4.3",
    "starlette": "starlette<2,>=0.40",
}
FITTING = {"click": "8.1", "pyarrow": "18.0", "pyspark": "4.3.0", "starlette": "1.0"}


@pytest.mark.parametrize(
    ("changed", "level", "sentence", "advice"),
    [
        ({}, "ok", "click 8.1, pyarrow 18.0, pyspark 4.3.0, starlette 1.0", ""),
        (
            {"pyspark": ""},
            "warning",
            "not installed: pyspark; Spark cannot run, nor the ZooKeeper of `tupletree dev`",
            "pip install 'pyspark<4.4,>=4.3'",
        ),
        (
            {"pyarrow": ""},
            "warning",
            "not installed: pyarrow; Spark cannot run, nor sinks with typed columns, nor log searches by pattern",
            "pip install 'pyarrow>=18'",
        ),
        (
            {"click": "", "pyspark": ""},
            "problem",
            "not installed: click, pyspark",
            "pip install 'click>=8.1' 'pyspark<4.4,>=4.3'",
        ),
        (
            {"starlette": "2.0.1"},
            "warning",
            "out of range: starlette 2.0.1, required is starlette<2,>=0.40",
            "pip install 'starlette<2,>=0.40'",
        ),
        (
            {"click": "", "starlette": "0.39"},
            "problem",
            "not installed: click; out of range: starlette 0.39, required is starlette<2,>=0.40",
            "pip install 'click>=8.1' 'starlette<2,>=0.40'",
        ),
        ({"click": "8.2rc1"}, "ok", "click 8.2rc1, pyarrow 18.0, pyspark 4.3.0, starlette 1.0", ""),
        ({"click": "of my own"}, "ok", "click of my own, pyarrow 18.0, pyspark 4.3.0, starlette 1.0", ""),
    ],
)
def test_missing_packages_and_versions_out_of_range_are_named_with_the_requirement(
    changed: dict[str, str], level: str, sentence: str, advice: str
) -> None:
    pytest.importorskip("packaging")
    finding = package_finding({**FITTING, **changed}, REQUIRED)
    assert (finding.level, finding.sentence, finding.advice) == (level, sentence, advice)


def test_without_packaging_presence_alone_is_checked_and_the_finding_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packaging", None)
    finding = package_finding({**FITTING, "starlette": "9"}, REQUIRED)
    assert finding.level == "ok"
    assert finding.sentence.endswith("; their ranges were not checked, since packaging is not installed")
    assert package_finding({**FITTING, "pyspark": ""}, REQUIRED).advice == "pip install 'pyspark<4.4,>=4.3'"


def test_an_extra_with_a_version_out_of_its_range_is_a_warning() -> None:
    pytest.importorskip("packaging")
    extras = {"redis": {"redis": "redis>=5"}, "rabbitmq": {"pika": "pika>=1.3"}, "nats": {"nats-py": "nats-py>=2.6"}}
    versions = {"redis": {"redis": "4.6"}, "rabbitmq": {"pika": ""}, "nats": {"nats-py": "2.6"}}
    found = [(one.level, one.sentence, one.advice) for one in extra_findings(versions, extras)]
    assert found == [
        ("ok", "installed: nats, redis; not installed: rabbitmq (pip install 'tupletree[NAME]')", ""),
        ("warning", "redis: out of range: redis 4.6, required is redis>=5", "pip install 'redis>=5'"),
    ]
