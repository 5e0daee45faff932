# What of _replay.py is C where it is compiled: docs/adr/0016.
cimport cython

cdef class Lane:
    cdef public object position, positions
    cdef public bint is_ordered
    cdef public long long finished, begun
    cdef public set live

@cython.final
cdef class Pending:
    cdef public object target, row, stream, id, reason
    cdef public long long number, attempts
    cdef public double due_s
    cdef public Lane lane

    cpdef bint is_live(self)

cdef class Replay:
    cdef public object retry
    cdef public Lane lane
    cdef public double due_s
    cdef dict _queues
    cdef list _heads, _pauses_s
    cdef Py_ssize_t _count

    cpdef Pending begin(self, row, stream, id=*, position=*, Lane lane=*)
    @cython.locals(lane=Lane, number=cython.longlong, live=set)
    cpdef bint done(self, Pending pending) except -1
    cpdef bint failed(self, Pending pending, reason, double now_s) except -1
    cpdef bint count_attempt(self, Pending pending, reason) except -1
    @cython.locals(pause_s=double, attempts=cython.longlong)
    cpdef wait(self, Pending pending, double now_s)
    @cython.locals(pending=Pending)
    cpdef Pending pop_due(self, double now_s)
    cpdef bint may_read(self, Py_ssize_t max_ahead) except -1
    cdef _set_due(self)
