"""What an operator reads of a topology: the commands' output, and REST."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any
from urllib.parse import quote

from tests.integration.control.conftest import Console
from tupletree.testing import DevCluster, wait_until


def one_line(text: str) -> str:
    """A text without its line breaks and columns."""
    return " ".join(text.split())


def _constant(text: str) -> str:
    """A text without its figures, which go on."""
    return re.sub(r"\d[\d,]*", "N", text)


class Reader:
    """Reads through the command line and through REST."""

    def __init__(self, cluster: DevCluster, console: Console) -> None:
        self.cluster = cluster
        self.console = console
        port = next(one.http_port for one in cluster.processes if one.role == "nimbus")
        self._base = f"http://127.0.0.1:{port}/api/v1"

    def rest(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._base}/{path}", timeout=10) as reply:
            return json.load(reply)

    def page(self, name: str, kind: str = "topology") -> Any:
        """REST's page of a topology."""
        topology_id = next(one.record.id for one in self.cluster.client.list() if one.record.name == name)
        return self.rest(f"{kind}/{quote(topology_id)}")

    def page_as(self, name: str, **fields: Any) -> Any:
        """The same, once these fields are so: a page is up to two seconds old."""

        def found() -> Any:
            page = self.page(name)
            return page if {key: page[key] for key in fields} == fields else None

        return wait_until(found, what=f"REST shows {fields}")

    def verdict(self) -> Any:
        """What ``tupletree health`` says."""
        status, out, err = self.console.run("health", "--json")
        assert status in (0, 1), err
        found = json.loads(out)
        assert status == {"healthy": 0, "degraded": 1}[found["verdict"]]
        return found

    def reasons(self, name: str) -> list[dict[str, str]]:
        """Faults and notes of a topology, the worst first."""
        found = self.verdict()
        return [one for one in (*found["faults"], *found["notes"]) if one["subject"] == name]

    def reason(self, name: str, *kinds: str, timeout_s: float = 60) -> dict[str, str]:
        """The first reason of some kinds, once it is there; the text and REST say the same."""

        def found() -> dict[str, str] | None:
            return next((one for one in self.reasons(name) if one["kind"] in kinds), None)

        one = wait_until(found, timeout_s, what=f"health says {kinds} of {name}")
        sentence = _constant(one["sentence"])
        assert sentence in _constant(self.console.run("health")[1])

        def rest_says_it() -> bool:
            page = self.rest("cluster/health")
            return sentence in [_constant(other["sentence"]) for other in (*page["faults"], *page["notes"])]

        wait_until(rest_says_it, what=f"REST says {sentence}")
        return one

    def offered(self, reason: dict[str, str]) -> str:
        """What the command says that a reason offers."""
        program, *argv = reason["command"].split()
        assert program == "tupletree"
        return self.console(*argv)

    def component(self, name: str, component: str) -> dict[str, Any]:
        """A component's figures as ``describe --json`` has them."""
        found = self.console.json("describe", name)["components"]
        return next(one for one in found if one["component"] == component)
