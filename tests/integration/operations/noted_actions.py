"""A notifier for nimbus that writes lines of JSON, and one that always fails."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tupletree.hooks import ActionNotifier, TopologyAction


class Lines(ActionNotifier):
    """Appends each action to ``actions.jsonl`` in the directory of nimbus."""

    def prepare(self, conf: Mapping[str, Any]) -> None:
        self._path = os.path.join(conf["local.dir"], "actions.jsonl")

    def notify(self, action: TopologyAction) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            print(json.dumps(action._asdict()), file=file)


class Broken(ActionNotifier):
    """Raises whenever it is told something."""

    def notify(self, action: TopologyAction) -> None:
        raise RuntimeError("the inventory is away")
