cimport cython

ctypedef unsigned long long u64

@cython.final
cdef class RandomIds:
    cdef object _getrandbits
    cdef Py_ssize_t _at, _end
    cdef u64[::1] _drawn

    @cython.locals(at=Py_ssize_t)
    cpdef u64 draw(self) except? 0
