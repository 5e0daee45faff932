cimport cython

from tupletree.tuples cimport Origin, Tuple
from tupletree.worker.core.batches cimport Rows
from tupletree.worker.core.counts cimport Counters
from tupletree.worker.core.ack_updates cimport TreeTracker, AckUpdates
from tupletree.worker.core.collectors cimport TaskBasicCollector, TaskBoltCollector

ctypedef unsigned long long u64

cdef class Task(TreeTracker):
    cdef public object component_id, task_id, context, _env
    cdef public Counters counters
    cdef public AckUpdates updates, ack_updates
    cdef public object participant, remake, ask_soon, inputs, set_up
    cdef public dict streams
    cdef public bint is_open, is_declared_blocking, must_yield, takes_batches, defers_acks, has_failed_tuples

    cpdef processed(self, Origin origin, double latency_s)

cdef class BasicBoltTask(Task):
    cdef public object bolt
    cdef public TaskBasicCollector collector
    cdef long long _sample_every, _until_sample

    @cython.locals(
        collector=TaskBasicCollector, columns=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict,
        updates=AckUpdates, sample_at=cython.longlong, sampled_s=cython.double, failed=Py_ssize_t, at=Py_ssize_t, root=u64, edge=u64, tup=Tuple,
    )
    cpdef run(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)

cdef class BoltTask(Task):
    cdef public object bolt, trees
    cdef public TaskBoltCollector collector
    cdef public set unacked
    cdef object _sampled
    cdef double _sampled_s
    cdef long long _sample_every, _sample_at, _give_up_at

    @cython.locals(
        columns=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict, at=Py_ssize_t, tup=Tuple,
        executed=cython.longlong, sample_at=cython.longlong, unacked=set,
    )
    cpdef run(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)
    @cython.locals(
        columns=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict, at=Py_ssize_t, tuples=list,
        executed=cython.longlong,
    )
    cpdef _run_batch(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)
    cpdef acked(self, Tuple tup)
    cpdef acked_many(self, tuples)
