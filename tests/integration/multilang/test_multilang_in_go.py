"""A bolt in Go: a compiled program that anchors, acks and fails, and that travels to a cluster as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tupletree import ReliableSpout, TopologyBuilder
from tupletree.multilang import ShellBolt
from tupletree.testing import DevCluster, FeederSpout, LocalCluster, wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("go") is None, reason="there is no go on this machine"),
]

PROGRAM = r"""
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type message map[string]any

var input = bufio.NewReaderSize(os.Stdin, 1<<20)

func read() message {
	var text strings.Builder
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			os.Exit(0)
		}
		if line == "end\n" {
			break
		}
		text.WriteString(line)
	}
	var found message
	if json.Unmarshal([]byte(text.String()), &found) != nil {
		return read() // task ids, which are a list
	}
	return found
}

func send(one message) {
	text, _ := json.Marshal(one)
	fmt.Printf("%s\nend\n", text)
}

func main() {
	hello, pid := read(), os.Getpid()
	os.WriteFile(filepath.Join(hello["pidDir"].(string), strconv.Itoa(pid)), nil, 0o644)
	send(message{"pid": pid})
	for {
		tup := read()
		if tup["stream"] == "__heartbeat" {
			send(message{"command": "sync"})
			continue
		}
		line := tup["tuple"].([]any)[0].(string)
		if line == "" {
			send(message{"command": "fail", "id": tup["id"]})
			continue
		}
		for _, word := range strings.Fields(line) {
			send(message{"command": "emit", "anchors": []any{tup["id"]}, "tuple": []any{word}})
		}
		send(message{"command": "ack", "id": tup["id"]})
	}
}
"""


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the compiled program."""
    place = tmp_path_factory.mktemp("go")
    (place / "split.go").write_text(PROGRAM)
    program = place / "resources" / "split"
    caches = {"GOCACHE": str(place / "cache"), "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    command = ["go", "build", "-o", str(program), str(place / "split.go")]
    subprocess.run(command, env={**os.environ, **caches}, check=True, capture_output=True, timeout=300)
    return program.parent


class Lines(ReliableSpout):
    outputs = ("line",)

    def read(self):  # type: ignore[no-untyped-def]
        yield from ([f"line {number}"] for number in range(100))


def test_a_program_in_go_splits_acks_and_fails(resources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(resources.parent))
    lines = FeederSpout(["line"])
    emitted: list[tuple[str, ...]] = []
    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("split", ShellBolt(["./split"], ["word"])).shuffle_grouping("lines")

    def note(component: str, stream: str, values: tuple[str, ...]) -> None:
        if component == "split":
            emitted.append(tuple(values))

    with LocalCluster() as cluster:
        cluster.submit("words", builder.create_topology(), observer=note)
        lines.feed(["to be"], 1)
        lines.feed([""], 2)
        lines.feed(["naïve"], 3)
        cluster.wait_until(lambda: (sorted(lines.acked), lines.failed) == ([1, 3], [2]), 30)
    assert emitted == [("to",), ("be",), ("naïve",)]


def test_a_program_in_go_travels_to_a_cluster_and_can_be_run_there(resources: Path) -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines())
    builder.set_bolt("split", ShellBolt(["./split"], ["word"]), 2).shuffle_grouping("lines")
    with DevCluster(slots=1, ackers=1) as cluster:
        cluster.client.submit("words", builder.create_topology(), {}, [resources])

        def acked() -> int:
            found = cluster.client.describe("words").components
            return sum(int(one.total.acked) for one in found if one.component_id == "lines")

        wait_until(lambda: acked() == 100, 60, what="all lines are acked")
        assert not cluster.client.describe("words").errors
