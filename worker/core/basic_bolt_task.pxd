cimport cython

from tupletree.tuples cimport Origin, Tuple
from tupletree.worker.core.ack_updates cimport AckUpdates
from tupletree.worker.core.batches cimport Rows
from tupletree.worker.core.basic_collector cimport TaskBasicCollector
from tupletree.worker.core.task cimport Task

ctypedef unsigned long long u64

cdef class BasicBoltTask(Task):
    cdef public object bolt
    cdef public TaskBasicCollector collector
    cdef readonly long long ran
    cdef bint _has_tick
    cdef long long _sample_every, _until_sample, _ran_failed
    cdef double _sampled_s
    cdef BasicBoltRows _alone

    cpdef _emit_yielded(self, returned)
    cpdef _method_for(self, Origin origin)
    cpdef count_rows(self, Origin origin, double row_s)
    @cython.locals(
        collector=TaskBasicCollector, updates=AckUpdates, sample_at=cython.longlong, at=Py_ssize_t, root=u64, edge=u64, tup=Tuple,
    )
    cpdef Py_ssize_t run_rows(
        self, list columns, u64[::1] roots, u64[::1] edges, dict pairs, Py_ssize_t start, Py_ssize_t stop, Origin origin
    ) except -1

@cython.final
cdef class BasicBoltRows:
    cdef readonly BasicBoltTask current
    cdef Py_ssize_t _first
    cdef list _tasks

    @cython.locals(
        columns=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict, targets=cython.uint[::1],
        sources=cython.uint[::1], task=BasicBoltTask, one=BasicBoltTask, is_mixed=bint, has_sources=bint, is_new=bint, ran=list,
        started_s=cython.double, row_s=cython.double, at=Py_ssize_t, end=Py_ssize_t, done=Py_ssize_t,
    )
    cpdef run(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)
