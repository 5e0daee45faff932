"""Every ZooKeeper path that Tupletree uses.

The tree, below ``zookeeper.root`` (default ``/tupletree``). Values are protobuf JSON, so ``zkCli`` can read them;
a large assignment is packed (see ``forms.py``).
Every write by the leader is a transaction that also checks the version of ``leader/epoch`` (see ``leader.py``).

=========================================  ==========  ====================  =================  ====================
node                                       writer      reader                lifetime           bound
=========================================  ==========  ====================  =================  ====================
leader/epoch                               the leader  all daemons           forever            one, 300 bytes
leader/candidates/<id>-<sequence>          nimbuses    nimbuses              ephemeral          its address
counter                                    the leader  the leader            forever            one, 20 bytes
topologies/<topology>                      the leader  nimbuses, workers     until removed      600 KB when submitted
assignments/<topology>                     the leader  supervisors, workers  until removed      64 KiB of JSON; then
                                                                                                packed, about 250 KB
blobs/<key>                                the leader  nimbuses,             until deleted      2 KB
                                                       supervisors
supervisors/<supervisor>                   itself      nimbuses, clients     ephemeral          300 bytes
ackers/<acker>                             itself      nimbuses, clients     ephemeral          300 bytes
nimbuses/<nimbus>                          itself      nimbuses, supervisors ephemeral          300 bytes
workers/<topology>                         the leader  -                     until removed      empty
workers/<topology>/<supervisor>:<port>     supervisor  workers, nimbuses     until the process  300 bytes
                                                                             is gone
statistics/<topology>                      the leader  the next leader       until removed      300 bytes a component
                                                                                                and worker
errors/<topology>                          the leader  -                     until removed      empty
errors/<topology>/<component>              workers     nimbuses              until removed      empty
errors/<topology>/<component>/e<sequence>  workers     nimbuses              newest 10 kept     20 KiB
history/<topology>                         the leader  nimbuses, supervisors nimbus.topology.   32 KiB
                                                                             history.max kept
=========================================  ==========  ====================  =================  ====================

``workers/<topology>``, ``statistics/<topology>`` and ``errors/<topology>`` are created and deleted together with the
topology's record, in one transaction. They are never created otherwise, so that a late worker of a removed topology
leaves nothing behind. ``history/<topology>`` is created in the first transaction that deletes any of the topology.
"""

from __future__ import annotations

import functools
from typing import Literal, get_args
from urllib.parse import quote, unquote

from tupletree.errors import UsageError

PresenceKind = Literal["supervisor", "acker", "nimbus"]
PRESENCE_KINDS: tuple[PresenceKind, ...] = get_args(PresenceKind)

_PRESENCE_FOLDERS: dict[PresenceKind, str] = {"supervisor": "supervisors", "acker": "ackers", "nimbus": "nimbuses"}


def check_path(path: str) -> None:
    """Raise a UsageError for an invalid path, which ZooKeeper would refuse or kazoo could not encode."""
    names = path[1:].split("/") if path != "/" else []
    if not path.startswith("/"):
        why = "it does not begin with a slash"
    elif any(name in {"", ".", ".."} for name in names):
        why = "a name in it is empty, '.' or '..'"
    elif "\0" in path:
        why = "it holds a NUL"
    elif any("\ud800" <= character <= "\udfff" for character in path):
        why = "it holds a lone surrogate (half of a character)"
    else:
        return
    raise UsageError(f"{path!r} is not a valid ZooKeeper path: {why}")


def segment(text: str) -> str:
    """Return ``text`` as one path segment: slashes, spaces and the names ``.`` and ``..`` are escaped."""
    if text in {".", ".."}:
        return text.replace(".", "%2E")
    return quote(text, safe="@:+,=~$!'()")


def identity_of(node: str) -> str:
    """Return the unescaped last segment of a path."""
    return unquote(node.rpartition("/")[2])


def leader_epoch(root: str) -> str:
    return f"{root}/leader/epoch"


def leader_candidates(root: str) -> str:
    return f"{root}/leader/candidates"


def leader_candidate(root: str, node: str) -> str:
    return f"{root}/leader/candidates/{node}"


def counter(root: str) -> str:
    return f"{root}/counter"


def topologies(root: str) -> str:
    return f"{root}/topologies"


def topology(root: str, topology_id: str) -> str:
    return f"{root}/topologies/{segment(topology_id)}"


def assignments(root: str) -> str:
    return f"{root}/assignments"


def assignment(root: str, topology_id: str) -> str:
    return f"{root}/assignments/{segment(topology_id)}"


def blobs(root: str) -> str:
    return f"{root}/blobs"


def blob(root: str, key: str) -> str:
    return f"{root}/blobs/{segment(key)}"


def presences(root: str, kind: PresenceKind) -> str:
    return f"{root}/{_PRESENCE_FOLDERS[kind]}"


def presence(root: str, kind: PresenceKind, identity: str) -> str:
    return f"{root}/{_PRESENCE_FOLDERS[kind]}/{segment(identity)}"


def workers(root: str) -> str:
    return f"{root}/workers"


def workers_of(root: str, topology_id: str) -> str:
    return f"{root}/workers/{segment(topology_id)}"


def worker(root: str, topology_id: str, supervisor_id: str, port: int) -> str:
    return f"{root}/workers/{segment(topology_id)}/{segment(supervisor_id)}:{port}"


@functools.lru_cache(16 * 1024)
def worker_of(node: str) -> tuple[str, int]:
    """Return the supervisor id and the port encoded in the name of a child of ``workers_of``."""
    supervisor, _, port = node.rpartition(":")
    return unquote(supervisor), int(port)


def statistics(root: str) -> str:
    return f"{root}/statistics"


def statistics_of(root: str, topology_id: str) -> str:
    return f"{root}/statistics/{segment(topology_id)}"


def errors(root: str) -> str:
    return f"{root}/errors"


def errors_of(root: str, topology_id: str) -> str:
    return f"{root}/errors/{segment(topology_id)}"


def errors_of_component(root: str, topology_id: str, component_id: str) -> str:
    return f"{root}/errors/{segment(topology_id)}/{segment(component_id)}"


def history(root: str) -> str:
    return f"{root}/history"


def past_topology(root: str, topology_id: str) -> str:
    return f"{root}/history/{segment(topology_id)}"


def folders(root: str) -> tuple[str, ...]:
    """Return the nodes that must exist before the first leader writes."""
    return (
        leader_candidates(root),
        topologies(root),
        assignments(root),
        blobs(root),
        workers(root),
        statistics(root),
        errors(root),
        history(root),
        *(presences(root, kind) for kind in PRESENCE_KINDS),
    )
