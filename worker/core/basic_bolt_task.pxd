cimport cython

from tupletree.tuples cimport Origin, Tuple
from tupletree.worker.core.ack_updates cimport AckUpdates
from tupletree.worker.core.batches cimport Rows
from tupletree.worker.core.collectors cimport TaskBasicCollector
from tupletree.worker.core.task cimport Task

ctypedef unsigned long long u64

cdef class BasicBoltTask(Task):
    cdef public object bolt
    cdef public TaskBasicCollector collector
    cdef bint _has_tick
    cdef long long _sample_every, _until_sample

    cpdef _emit_yielded(self, returned)

    @cython.locals(
        collector=TaskBasicCollector, columns=list, roots=cython.ulonglong[::1], edges=cython.ulonglong[::1], pairs=dict,
        updates=AckUpdates, sample_at=cython.longlong, sampled_s=cython.double, failed=Py_ssize_t, at=Py_ssize_t, root=u64, edge=u64, tup=Tuple,
    )
    cpdef run(self, Rows rows, Py_ssize_t start, Py_ssize_t stop, Origin origin)
