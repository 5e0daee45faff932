"""No SimpleQueue is waited on with a time: before Python 3.13, its ``get`` can wait for ever all the same.

It takes its lock, looks at the clock, and waits for what is left of the time, also if less than nothing is left: then
without end. A thread that loses the processor in between has the time to get there (Modules/_queuemodule.c).
"""

from __future__ import annotations

import re
from pathlib import Path

import tupletree

ROOT = Path(tupletree.__file__).parents[1]
DAEMONS = ("acker", "drpc_server", "nimbus", "supervisor", "worker")
QUEUES = re.compile(r"([\w.]+)(?:: [\w.\[\], |]+)? = (?:queue\.)?SimpleQueue\(\)")


def test_no_simple_queue_is_waited_on_with_a_time() -> None:
    files = [file for part in ("tupletree", *DAEMONS) for file in (ROOT / part).rglob("*.py")]
    queues = {(file, name) for file in files for name in QUEUES.findall(file.read_text(encoding="utf-8"))}
    assert len(queues) > 3, "the pattern finds those that there are"
    waits = [
        f"{file.relative_to(ROOT)}: {name}.get"
        for file, name in sorted(queues)
        if re.search(rf"{re.escape(name)}\.get\((?!\))", file.read_text(encoding="utf-8"))
    ]
    assert waits == []
