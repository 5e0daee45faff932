# What of _replay.py is C where it is compiled: docs/adr/0016.
cimport cython

cdef class Lane:
    cdef public object position
    cdef public bint is_ordered, has_ended
    cdef public long long finished, begun
    cdef bytearray _flags
    cdef object _positions

    @cython.locals(number=cython.longlong, size=cython.longlong)
    cpdef long long add(self, position) except -1
    @cython.locals(flags=bytearray, mask=cython.longlong, begun=cython.longlong)
    cpdef finish(self, long long number)
    cdef _fill(self)

@cython.final
cdef class Pending:
    cdef public object target, row, stream, reason
    cdef object _id
    cdef public long long number, attempts
    cdef public bint is_done
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
    cpdef bint done(self, Pending pending) except -1
    cpdef bint failed(self, Pending pending, reason, double now_s) except -1
    cpdef bint count_attempt(self, Pending pending, reason) except -1
    @cython.locals(pause_s=double, attempts=cython.longlong)
    cpdef wait(self, Pending pending, double now_s)
    @cython.locals(pending=Pending)
    cpdef Pending pop_due(self, double now_s)
    cpdef bint may_read(self, Py_ssize_t max_ahead) except -1
    cdef _set_due(self)
