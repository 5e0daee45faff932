"""The facts that a health verdict is based on, as the leading nimbus knows them."""

from __future__ import annotations  # pure

from collections.abc import Sequence
from dataclasses import dataclass, field

from tupletree._health.errors import Complaint
from tupletree.v1 import nimbus_pb2, supervisor_pb2
from tupletree.v1 import topology_pb2 as pb


@dataclass(frozen=True, slots=True)
class AckerFacts:
    """A registered acker and its last answer. ``silence``: the reason why it does not answer; "" if it does."""

    id: str
    address: str
    silence: str = ""
    is_ready: bool = True
    reasons: Sequence[str] = ()
    is_draining: bool = False
    not_compiled: str = ""  # why its installation runs plain Python unasked


@dataclass(frozen=True, slots=True)
class SupervisorFacts:
    """A registered supervisor, and its slots if it answered."""

    id: str
    host: str
    address: str
    silence: str = ""
    slots: Sequence[supervisor_pb2.SlotSummary] = ()
    not_compiled: str = ""  # as of an acker; its workers run the same installation
    blacklisted: str = ""  # why it gets no new workers


@dataclass(frozen=True, slots=True)
class ComponentFacts:
    """The statuses reported by a component, and its metrics over the last LATELY_S."""

    id: str
    is_spout: bool = False
    statuses: Sequence[nimbus_pb2.TaskStatus] = ()
    failed: int = 0  # trees of a spout, tuples of a bolt
    timeouts: int = 0  # the part of ``failed`` that timed out
    acked: int = 0  # 0 if none failed: not asked for then
    capacity: float = 0.0  # of a bolt's busiest executor
    is_congested: bool = False
    stuck: int = 0  # tasks with tuples waiting for longer than stall_s() that executed none
    stuck_s: float = 0.0  # the longest time a task is stuck
    unacked: int = 0  # trees of a spout that failed since the last ack, if that ack is older than stall_s()
    unacked_s: float = 0.0
    unheard: int = 0  # failed trees that a spout dropped, as it does not override fail
    remark: str = ""  # about a bolt that acks nothing
    is_timing_out: bool = False  # trees of its topology timed out recently
    long_call: str = ""  # a call of user code that does not return, and its worker
    port: int = 0  # of that worker
    blocks: str = ""  # a sentence on executors found blocking and moved to their own threads, with advice


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """A topology: its workers, its components, and its errors of the last LATELY_S."""

    record: pb.TopologyRecord
    uptime_s: float
    workers_used: int
    workers_ready: int
    unscheduled: str = ""
    has_moved: bool = False  # reassigned after its first placement
    executors: int = 0  # 0: unknown
    ignored_keys: Sequence[str] = ()  # keys of its placement that the configured scheduler does not follow
    has_no_pool: bool = False  # it is to be isolated in the pool of its owner, who has none
    scaling_held: str = ""  # why its load calls for more executors that it does not get
    components: Sequence[ComponentFacts] = ()
    complaints: Sequence[Complaint] = field(default=())
