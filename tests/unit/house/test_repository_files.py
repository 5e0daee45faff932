"""The files that GitHub and pre-commit read are valid, and agree with the project, as does what is generated."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
OF_SCHEMA = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-forms": FORMS,
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
}


def workflow(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in workflow(path)["jobs"].items():
            yield from ((f"{path.name}: {name}", step) for step in job.get("steps", ()))


def commands() -> list[str]:
    return [step["run"] for _, step in steps() if "run" in step]


def project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return loaded


@pytest.mark.parametrize("schema", OF_SCHEMA)
def test_each_file_follows_its_schema(schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, OF_SCHEMA[schema])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_run_targets_and_scripts_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = {target for command in commands() for target in re.findall(r"^make ([a-z-]+)", command, re.MULTILINE)}
    scripts = {script for command in commands() for script in re.findall(r"\.ci/[a-z-]+", command)}
    assert {"check", "test", "test-long"} <= made <= targets
    assert scripts == {script for script in scripts if (ROOT / script).exists()} != set()


def test_the_supported_versions_of_python_are_those_that_are_tested() -> None:
    tested = set(workflow(GITHUB / "workflows" / "check.yml")["jobs"]["test"]["strategy"]["matrix"]["python"])
    said = {line.rpartition(" ")[2] for line in project()["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert tested == said
    assert project()["requires-python"] == f">={min(said, key=lambda version: int(version.partition('.')[2]))}"
    chosen = (ROOT / "deploy" / "setup" / "python.sh").read_text()
    assert {version for version in said if f"python{version}" not in chosen} == set()


def test_an_untested_version_of_python_may_fail_and_is_no_classifier() -> None:
    job = workflow(GITHUB / "workflows" / "check.yml")["jobs"]["test"]
    untested = job["strategy"]["matrix"]["include"]
    assert [one["python"] for one in untested if one["untested"] is not True] == []
    assert job["continue-on-error"] == "${{ matrix.untested == true }}"
    assert [
        one["python"]
        for one in untested
        if f"Programming Language :: Python :: {one['python']}" in project()["classifiers"]
    ] == []


def test_the_long_tests_run_on_each_supported_version_and_the_wheel_and_other_packages_are_tested() -> None:
    jobs = workflow(GITHUB / "workflows" / "nightly.yml")["jobs"]
    supported = workflow(GITHUB / "workflows" / "check.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert jobs["long"]["strategy"]["matrix"]["python"] == supported
    made = re.findall(r"^make ([a-z-]+)", "\n".join(step.get("run", "") for step in jobs["packages"]["steps"]), re.M)
    assert made == ["setup", "test-oldest", "test-protobuf", "dist", "test-wheel"]


def test_a_release_has_what_make_dist_makes_and_waits_for_all_checks() -> None:
    jobs = workflow(GITHUB / "workflows" / "release.yml")["jobs"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert jobs["check"]["uses"] == "./.github/workflows/check.yml"
    checks = workflow(GITHUB / "workflows" / "check.yml")
    assert "workflow_call" in checks[True]  # YAML 1.1 reads the key "on" as true
    assert {"check", "test"} <= set(checks["jobs"])
    builds = {
        (step["run"], step.get("env", {}).get("TUPLETREE_BUILD")) for step in jobs["plain"]["steps"] if "run" in step
    }
    assert {("python -m build --sdist", None), ("python -m build --wheel", "plain")} <= builds
    assert jobs["plain"]["steps"][-1]["with"]["path"] == "dist/*"
    assert "cibuildwheel" in "".join(step.get("uses", "") for step in jobs["wheels"]["steps"])


def test_only_the_jobs_that_publish_may_write_anything() -> None:
    writing = set()
    for path in WORKFLOWS:
        assert workflow(path)["permissions"] == {"contents": "read"}
        writing |= {name for name, job in workflow(path)["jobs"].items() if "permissions" in job}
    assert writing <= {"publish"}


def test_no_expression_of_a_branch_or_title_is_pasted_into_a_shell() -> None:
    assert [command for command in commands() if "${{" in command] == []


def test_each_action_has_a_version() -> None:
    used = [(where, step["uses"]) for where, step in steps() if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@(v\d+(\.\d+)*|release/v\d+)", one[1])] == []


def test_the_hooks_run_programs_of_the_environment_and_scripts_of_the_project() -> None:
    [repository] = workflow(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system" and hook["name"] and hook["id"]
        program = hook["entry"].split()[0]
        assert program == "sh" or program.startswith(".venv/bin/")
        assert [one for one in hook["entry"].split() if one.startswith(".ci/") and not (ROOT / one).exists()] == []


def test_the_program_that_runs_the_hooks_is_installed_by_a_command_that_is_named() -> None:
    asked = " ".join(one for extra in project()["optional-dependencies"].values() for one in extra)
    assert "pre-commit" not in asked
    for name in (".pre-commit-config.yaml", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text()
        assert -1 < text.find("pip install pre-commit") < text.find("`pre-commit install`")


def test_the_lock_is_of_these_dependencies_and_names_no_private_index() -> None:
    text = (ROOT / "uv.lock").read_text()
    assert set(re.findall(r"https?://([^/\"]+)", text)) <= {"pypi.org", "files.pythonhosted.org"}
    [own] = [package for package in tomllib.loads(text)["package"] if package["name"] == "tupletree"]
    extras = project()["optional-dependencies"]
    asked = [*project()["dependencies"], *(one for name in extras for one in extras[name])]
    names = {re.split(r"[^A-Za-z0-9_.-]", one, maxsplit=1)[0].lower().replace("_", "-") for one in asked}
    locked = {one["name"] for one in own["metadata"]["requires-dist"]}
    assert locked - {"tupletree"} == names - {"tupletree"}, "run: make lock"  # an extra may name other extras of ours


def test_the_types_and_names_of_topology_keys_are_those_of_the_table() -> None:
    made = subprocess.run([sys.executable, ROOT / ".ci" / "topology-conf"], capture_output=True, check=True).stdout
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", "topology_conf.py", "-"],
        input=made,
        capture_output=True,
        check=True,
        cwd=ROOT,
    ).stdout
    kept = (ROOT / "tupletree" / "config" / "topology_conf.py").read_bytes()
    assert kept == formatted, "run: python .ci/topology-conf > tupletree/config/topology_conf.py; make format"
