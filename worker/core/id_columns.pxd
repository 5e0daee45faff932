cimport cython

ctypedef unsigned long long u64

@cython.final
cdef class IdColumns:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef object _firsts, _seconds
    cdef u64[::1] _first, _second

    @cython.locals(at=Py_ssize_t)
    cpdef append(self, u64 first, u64 second)
    cpdef bint add_at(self, Py_ssize_t at, u64 first, u64 second)
    cpdef clear(self)
