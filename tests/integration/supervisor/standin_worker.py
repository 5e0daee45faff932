"""A worker process without a topology: it beats, logs, and misbehaves as its configuration says.

``standin.mode`` of the topology's configuration:

good        beats, is ready, ends on SIGTERM
crash       says why and exits with status 3, at once
mute        never beats
stubborn    ignores SIGTERM, and so does the child it starts
apart       starts a child that ignores SIGTERM in a process group of its own, as a ShellBolt does
hungry      starts a child, in a session of its own, that takes 400 MB at once when there is a file `eat` in log_dir
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import logging.handlers
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

CHILD = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('child', flush=True); time.sleep(600)"
)
EATER = """
import os, sys, time
parent = os.getppid()
while os.getppid() == parent and not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
held = b"x" * 400_000_000
while os.getppid() == parent:
    time.sleep(0.05)
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--launch", required=True)
    launch = json.loads(Path(parser.parse_args().launch).read_text())
    mode = launch["conf"].get("standin.mode", "good")
    if mode == "crash":
        print("the stand-in fails on purpose")
        return 3
    stop = threading.Event()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "stubborn" else lambda *_: stop.set())
    if mode in ("stubborn", "apart"):
        group = 0 if mode == "apart" else None
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.DEVNULL, process_group=group)
        Path(launch["log_dir"], "child.pid").write_text(str(child.pid))
    if mode == "hungry":
        eat = Path(launch["log_dir"], "eat")
        child = subprocess.Popen([sys.executable, "-c", EATER, str(eat)], start_new_session=True)
        Path(launch["log_dir"], "child.pid").write_text(str(child.pid))
    log = set_up_log(launch)
    log.info("started %s with %s", launch["worker_id"], sys.executable)
    print("printed by", launch["worker_id"], flush=True)
    beat(launch, mode, log, stop)
    return 0


def set_up_log(launch: dict[str, Any]) -> logging.Logger:
    conf = launch["conf"]
    handler = logging.handlers.RotatingFileHandler(
        Path(launch["log_dir"], "worker.log"),
        maxBytes=conf["worker.log.max.bytes"],
        backupCount=conf["worker.log.backups"],
    )
    log = logging.getLogger("standin")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return log


def beat(launch: dict[str, Any], mode: str, log: logging.Logger, stop: threading.Event) -> None:
    import grpc

    from tupletree._process_table import started
    from tupletree._rpc.channels import channel
    from tupletree.v1 import supervisor_pb2, supervisor_pb2_grpc

    owner = int(os.environ["STANDIN_OWNER"])
    request = supervisor_pb2.BeatRequest(
        worker_id=launch["worker_id"],
        topology_id=launch["topology_id"],
        port=launch["port"],
        pid=os.getpid(),
        ready=True,
        http_port=4242,
    )
    silence = Path(launch["log_dir"], "be-silent")
    stub = supervisor_pb2_grpc.SupervisorStub(channel(launch["supervisor_address"]))
    lines = itertools.count(1)
    while not stop.wait(0.1) and started(owner) is not None:
        for number in itertools.islice(lines, 20):
            log.info("line %06d", number)
        if mode == "mute" or silence.exists():
            continue
        try:
            if stub.Beat(request, timeout=2).stop:
                log.info("told to stop")
                return
        except grpc.RpcError:
            pass


if __name__ == "__main__":
    sys.exit(main())
