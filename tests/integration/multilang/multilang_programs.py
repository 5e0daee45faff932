"""Programs that speak the multilang protocol, without any library of ours: in Python and for Node."""

from __future__ import annotations

STORM_PY = """
import json, os, sys

def read():
    lines = []
    while True:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        if line == "end\\n":
            return json.loads("".join(lines))
        lines.append(line)

def send(message):
    sys.stdout.write(json.dumps(message) + "\\nend\\n")
    sys.stdout.flush()

hello = read()
open(os.path.join(hello["pidDir"], str(os.getpid())), "w").close()
send({"pid": os.getpid()})
conf, context = hello["conf"], hello["context"]
later = []

def receive():
    return later.pop(0) if later else read()

def task_ids():
    while True:
        message = read()
        if isinstance(message, list):
            return message
        later.append(message)

def is_heartbeat(tup):
    if tup["task"] == -1 and tup["stream"] == "__heartbeat":
        send({"command": "sync"})
        return True
    return False
"""

SPLIT_PY = """
from storm import *

kept = []
while True:
    tup = receive()
    if is_heartbeat(tup):
        continue
    if tup["stream"] == "__tick":
        send({"command": "log", "msg": "a tick", "level": 3})
        for id in [*kept, tup["id"]]:
            send({"command": "ack", "id": id})
        kept = []
        continue
    line = tup["tuple"][0]
    if line == "fail":
        send({"command": "fail", "id": tup["id"]})
    elif line == "keep":
        kept.append(tup["id"])
    elif line == "sleep":
        import time
        time.sleep(1)
        send({"command": "ack", "id": tup["id"]})
    elif line == "crash":
        sys.stderr.write("I have seen enough\\n")
        sys.exit(7)
    elif line == "hang":
        import time
        time.sleep(3600)
    elif line == "print":
        print("hello")
        sys.stdout.flush()
    elif line == "error":
        send({"command": "error", "msg": "no such word"})
        send({"command": "ack", "id": tup["id"]})
    elif line == "metric":
        send({"command": "metrics", "name": "wordCount", "params": 7})
        send({"command": "ack", "id": tup["id"]})
    elif line == "context":
        send({"command": "emit", "anchors": [tup["id"]], "tuple": [json.dumps([conf["own.key"], context])],
              "need_task_ids": False})
        send({"command": "ack", "id": tup["id"]})
    elif line == "twice":
        send({"command": "ack", "id": tup["id"]})
        send({"command": "emit", "anchors": [tup["id"]], "tuple": ["late"], "need_task_ids": False})
    else:
        for word in line.split():
            send({"command": "emit", "anchors": [tup["id"]], "tuple": [word], "need_task_ids": False})
        send({"command": "emit", "anchors": [tup["id"]], "stream": "lengths", "tuple": [len(line)]})
        for task in task_ids():
            send({"command": "emit", "anchors": [tup["id"]], "stream": "direct", "task": task, "tuple": [line]})
        send({"command": "ack", "id": tup["id"]})
"""

FLOOD_PY = """
from storm import *

while True:
    tup = receive()
    if not is_heartbeat(tup):
        emit = {"command": "emit", "tuple": ["word"], "anchors": [tup["id"]], "need_task_ids": False}
        many = (json.dumps(emit) + "\\nend\\n") * 5000
        sys.stdout.write(many + json.dumps({"command": "ack", "id": tup["id"]}) + "\\nend\\n" + many)
        sys.stdout.flush()
"""

NUMBERS_PY = """
from storm import *

count, failed = 0, []
while True:
    message = receive()
    command = message["command"]
    if command == "next":
        if failed:
            send({"command": "emit", "id": failed[0], "tuple": [failed.pop(0)]})
            task_ids()
        elif count < int(sys.argv[1]):
            count += 1
            send({"command": "emit", "id": count, "tuple": [count], "need_task_ids": False})
    elif command == "fail":
        failed.append(message["id"])
    elif command == "ack":
        send({"command": "log", "msg": "acked %d" % message["id"], "level": 2})
    elif command in ("activate", "deactivate"):
        send({"command": "log", "msg": command, "level": 1})
    send({"command": "sync"})
"""

UPPER_JS = """
let text = '', hello = null;
function send(message) { process.stdout.write(JSON.stringify(message) + '\\nend\\n'); }
process.stdin.on('data', (data) => {
  text += data;
  let end;
  while ((end = text.indexOf('\\nend\\n')) >= 0) {
    const message = JSON.parse(text.slice(0, end));
    text = text.slice(end + 5);
    if (!hello) { hello = message; send({ pid: process.pid }); continue; }
    if (Array.isArray(message)) continue;
    if (message.stream === '__heartbeat') { send({ command: 'sync' }); continue; }
    send({ command: 'emit', anchors: [message.id], tuple: [message.tuple[0].toUpperCase()] });
    send({ command: 'ack', id: message.id });
  }
});
process.stdin.on('end', () => process.exit(0));
"""

PYSTORM = """
from collections import Counter

from pystorm import Bolt

class WordCount(Bolt):
    outputs = ["word", "count"]

    def initialize(self, conf, context):
        self.counts = Counter()

    def process(self, tup):
        word = tup.values.word
        self.counts[word] += 1
        self.emit([word, self.counts[word]])

WordCount().run()
"""
