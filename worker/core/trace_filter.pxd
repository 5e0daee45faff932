cimport cython

from tupletree.tuples cimport Tuple
from tupletree.worker.core.bolt_task cimport BoltTask
from tupletree.worker.core.spout_task cimport SpoutTask
from tupletree.worker.core.tree_tracker cimport TreeTracker

ctypedef unsigned long long u64

@cython.final
cdef class Followed:
    cdef u64 _inverse, _low_bits, _mask, _most

    cpdef bint holds(self, u64 root) noexcept
    @cython.locals(at=Py_ssize_t, root=u64, low_bits=u64, inverse=u64, mask=u64, most=u64, found=list)
    cpdef list rows(self, u64[::1] roots, Py_ssize_t start, Py_ssize_t stop)
    cpdef list among(self, roots)

@cython.final
cdef class FollowedSpout(TreeTracker):
    cdef SpoutTask _task
    cdef Followed _followed
    cdef object _tracer
    cdef readonly object component_id

@cython.final
cdef class FollowedBolt(TreeTracker):
    cdef BoltTask _task
    cdef Followed _followed
    cdef object _tracer
    cdef readonly object component_id

    cdef _trace_ack(self, Tuple tup)
