"""The workers that clients of a state can ask themselves, and the ticket that they show there (docs/adr/0077)."""

from __future__ import annotations

from typing import Final

from tupletree._security.tickets import issue_ticket
from tupletree._security.tokens import Keyring
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from . import rpc_replies
from .cluster_view import ClusterView
from .state_queries import tasks_of_component

VALID_S: Final = 10.0
"""The time after which a client asks for the places again: well below that of a ticket."""
UNREADY_S: Final = 1.0


def located(
    view: ClusterView, record: pb.TopologyRecord, component: str, keyring: Keyring | None, subject: str
) -> rpc.LocateStateReply:
    """Return the places of a component's tasks; none unless all its workers have reported that they are ready.

    ``keyring``: signs the ticket for ``subject``. Raises NotFoundError if there is no such component.
    """
    tasks = tasks_of_component(record, component)
    reply = rpc.LocateStateReply(topology_id=record.id, tasks=len(tasks), valid_s=UNREADY_S)
    places = []
    for assigned in view.assignment(record.id).workers:
        worker = rpc_replies.worker(view.leader_state, record.id, assigned, view.now_s)
        indexes = [task - tasks.start for task in worker.tasks if task in tasks]
        if not indexes:
            continue
        if not (worker.ready and worker.worker_id and worker.http_port):
            return reply
        host, port = worker.host, worker.http_port
        places.append(rpc.StatePlace(host=host, http_port=port, worker_id=worker.worker_id, indexes=sorted(indexes)))
    if sorted(index for place in places for index in place.indexes) != list(range(len(tasks))):
        return reply
    reply.places.extend(places)
    reply.valid_s = VALID_S
    if keyring is not None:
        reply.ticket = issue_ticket(keyring, subject, record.id, component, view.now_unix_s)
    return reply
