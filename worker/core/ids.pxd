cimport cython

ctypedef unsigned long long u64

cdef u64 _WORD

@cython.final
cdef class Xoshiro:
    cdef u64 _a, _b, _c, _d

    @cython.locals(words=cython.ulonglong[::1], a=u64, b=u64, c=u64, d=u64, mixed=u64, shifted=u64, at=Py_ssize_t)
    cpdef fill(self, numbers)

@cython.final
cdef class RandomIds:
    cdef object _getrandbits
    cdef Py_ssize_t _at, _end
    cdef u64[::1] _drawn
    cdef Xoshiro _generator

    @cython.locals(at=Py_ssize_t)
    cpdef u64 draw(self) except? 0
