"""``nimbus``, ``supervisor``, ``acker``, ``drpc``: start a daemon. Its own ``__main__`` reads the arguments."""

from __future__ import annotations

from tupletree.cli.main import pass_through

nimbus = pass_through("nimbus", "tupletree.nimbus.__main__")
supervisor = pass_through("supervisor", "tupletree.supervisor.__main__")
acker = pass_through("acker", "tupletree.acker.__main__")
drpc = pass_through("drpc", "tupletree.drpc_server.__main__")
