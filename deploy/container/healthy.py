"""Ends with status 0 if the daemon of this container is ready: asks /readyz of whichever of the HTTP ports answers.

The environment says so if anybody changed a port, or turned TLS on. The certificate is not looked at: it is this very
container that is asked.
"""

import os
import ssl
import sys
import urllib.error
import urllib.request

PORTS = {
    "TUPLETREE_NIMBUS_HTTP_PORT": 8080,
    "TUPLETREE_SUPERVISOR_HTTP_PORT": 8001,
    "TUPLETREE_ACKER_HTTP_PORT": 6641,
    "TUPLETREE_DRPC_HTTP_PORT": 3774,
}


def verdict() -> str:
    """Empty if the daemon is ready, else why not."""
    scheme = "https" if os.environ.get("TUPLETREE_TLS_CERT") else "http"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for variable, port in PORTS.items():
        url = f"{scheme}://{os.environ.get('HEALTH_HOST', '127.0.0.1')}:{os.environ.get(variable, port)}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2, context=context):
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
