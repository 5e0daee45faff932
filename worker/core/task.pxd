from tupletree.tuples cimport Origin
from tupletree.worker.core.ack_updates cimport AckUpdates
from tupletree.worker.core.counts cimport Counters
from tupletree.worker.core.tree_tracker cimport TreeTracker

ctypedef unsigned long long u64

cdef class Task(TreeTracker):
    cdef public object component_id, task_id, context, _env
    cdef public Counters counters
    cdef public AckUpdates updates, ack_updates
    cdef public object participant, remake, ask_soon, inputs, set_up
    cdef public dict streams
    cdef public bint is_open, is_declared_blocking, must_yield, takes_batches, defers_acks, has_failed_tuples

    cpdef add_ack(self, u64 root, u64 value)
    cpdef processed(self, Origin origin, double latency_s)
