cimport cython

from tupletree.tuples cimport Origin, Tuple
from tupletree.worker.core.batches cimport Rows
from tupletree.worker.core.collectors cimport TaskBoltCollector
from tupletree.worker.core.task cimport Task

cdef class BoltTask(Task):
    cdef public object bolt, trees
    cdef public TaskBoltCollector collector
    cdef public set unacked
    cdef list _gathered
    cdef Py_ssize_t _max_batch
    cdef set _failed_now
    cdef bint _is_basic, _has_tick
    cdef object _sampled
    cdef double _sampled_s
    cdef long long _sample_every, _sample_at, _give_up_at

    @cython.locals(
        columns=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict, sources=cython.uint[::1], at=Py_ssize_t, tup=Tuple,
        executed=cython.longlong, sample_at=cython.longlong, unacked=set,
    )
    cpdef run(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)
    @cython.locals(
        columns=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict, sources=cython.uint[::1], at=Py_ssize_t, tup=Tuple,
        executed=cython.longlong, sample_at=cython.longlong, collector=TaskBoltCollector,
    )
    cpdef _run_basic(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)
    @cython.locals(tuples=list)
    cpdef _run_batch(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)
    @cython.locals(
        columns=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict, sources=cython.uint[::1], at=Py_ssize_t, tuples=list,
        executed=cython.longlong,
    )
    cpdef list _tuples(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)
    @cython.locals(tup=Tuple, unacked=set)
    cpdef _keep_unacked(self, list tuples)
    cpdef acked(self, Tuple tup)
    @cython.locals(tup=Tuple)
    cpdef acked_many(self, tuples)
