"""Ends with status 0 if the daemon of this container is ready: asks /readyz of whichever of the HTTP ports answers.

The port is the configured one: the environment says so if anybody changed it.
"""

import os
import sys
import urllib.error
import urllib.request

PORTS = {"TUPLETREE_NIMBUS_HTTP_PORT": 8080, "TUPLETREE_SUPERVISOR_HTTP_PORT": 8001, "TUPLETREE_ACKER_HTTP_PORT": 6641}


def verdict() -> str:
    """Empty if the daemon is ready, else why not."""
    for variable, port in PORTS.items():
        url = f"http://{os.environ.get('HEALTH_HOST', '127.0.0.1')}:{os.environ.get(variable, port)}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode("utf-8", "replace")
        except OSError:
            continue
    return "no daemon answers"


if __name__ == "__main__":
    reason = verdict()
    print(reason or "ready")
    sys.exit(1 if reason else 0)
