"""The program that enters a control group as root, and then becomes the program of a user. See worker_groups.py.

    python -I -S enter.py <descriptor of the facts> <command> ...        standard input: cgroup.procs of the group

Who has root's cgroup.procs open can move any process of the machine into the group, and what is in the group ends with
the worker. So nothing that a user chooses has a say until the file is closed: this runs in the supervisor's
environment, and reads the user's from a file. It imports nothing of Tupletree.
"""

from __future__ import annotations

import json
import os
import signal
import sys


def main() -> None:
    """Enter the group, take the identity in the facts, and run the command in the environment in the facts."""
    with open(int(sys.argv[1]), encoding="ascii") as file:
        facts = json.load(file)
    os.write(0, b"0")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    os.umask(0o077)
    os.setgroups(facts["groups"])
    os.setregid(facts["gid"], facts["gid"])
    os.setreuid(facts["uid"], facts["uid"])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
        signal.signal(number, signal.SIG_DFL)
    command = sys.argv[2:]
    os.execve(command[0], command, facts["environment"])


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        print(f"the control group cannot be entered, or the program cannot be run: {error}", file=sys.stderr)
        sys.exit(125)
